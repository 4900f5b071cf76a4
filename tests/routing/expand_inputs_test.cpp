// SPDX-License-Identifier: Apache-2.0
// Patterns, files whose names look like something else, SPECs.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "routing_test_util.hpp"

namespace moesaic::routing::testing {
namespace {

TEST(ExpandInputs, PatternsAreSortedAndOthersLeftAlone) {
  const auto dir = std::filesystem::temp_directory_path() /
                   ("moesaic_expand_test_" + std::to_string(::getpid()));
  std::filesystem::create_directories(dir);
  for (const char* name : {"b.json", "a.json", "[x].json"}) std::ofstream(dir / name) << "{}";
  const std::string base = dir.string();
  const auto out =
      expand_inputs({base + "/?.json", "-", "counts:1,2", base + "/[x].json", "missing.json"});
  EXPECT_EQ(out, (std::vector<std::string>{base + "/a.json", base + "/b.json", "-", "counts:1,2",
                                           base + "/[x].json", "missing.json"}));
  const std::string pattern = base + "/*.npy";
  const std::string message = refusal_of([&] { (void)expand_inputs({pattern}); });
  EXPECT_TRUE(says(message, pattern));
  EXPECT_TRUE(says(message, "no file matches"));
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace moesaic::routing::testing
