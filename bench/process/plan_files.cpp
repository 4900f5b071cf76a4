// SPDX-License-Identifier: Apache-2.0
// See plan_files.hpp.

#include "process/plan_files.hpp"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <numeric>
#include <system_error>

#include "moesaic/error.hpp"
#include "moesaic/routing.hpp"

namespace moesaic::bench {
namespace {

constexpr std::int64_t kTokens = 4096;
constexpr std::int64_t kDenseLayers = 3;

std::int64_t tokens_of(std::int64_t step) { return kTokens + step; }

std::int64_t sum(const std::vector<std::int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

void write_counts(std::ofstream& file, const std::vector<std::int64_t>& counts,
                  const char* suffix) {
  file << '[';
  for (std::size_t expert = 0; expert < counts.size(); ++expert) {
    file << (expert > 0 ? ", " : "") << counts[expert] << suffix;
  }
  file << ']';
}

PlanFile finish(std::ofstream& file, PlanFile made) {
  file.close();
  if (!file) {
    throw Error(ErrorCode::device_failure, made.path + ": cannot be written");
  }
  made.size_bytes = static_cast<std::int64_t>(std::filesystem::file_size(made.path));
  return made;
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "moesaic_bench_XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    throw Error(ErrorCode::device_failure, name + ": cannot be made");
  }
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::vector<std::int64_t> layer_counts(std::int64_t step, std::int64_t layer) {
  const auto seed = static_cast<std::uint64_t>(step * kLayers + layer);
  return routing::generate(kPlanSpec, {tokens_of(step) * kTopK, kLayerExperts, seed}).counts;
}

PlanFile write_sglang_like(const std::filesystem::path& folder) {
  PlanFile made{(folder / "logical_count.json").string(), "SGLang logical_count JSON", 1, 0, {}};
  std::ofstream file(made.path);
  file << "{\"logical_count\": [";
  for (std::int64_t layer = 0; layer < kLayers; ++layer) {
    const std::vector<std::int64_t> counts =
        layer < kDenseLayers ? std::vector<std::int64_t>(kLayerExperts, 0) : layer_counts(0, layer);
    file << (layer > 0 ? ", " : "");
    write_counts(file, counts, ".0");
    made.rows.push_back(sum(counts));
  }
  file << "]}";
  return finish(file, std::move(made));
}

PlanFile write_steps(const std::filesystem::path& folder, std::int64_t steps) {
  PlanFile made{(folder / "steps.json").string(), "moesaic.routing/1 JSON", steps, 0, {}};
  std::ofstream file(made.path);
  file << "{\"schema\": \"moesaic.routing/1\", \"num_experts\": " << kLayerExperts
       << ", \"top_k\": " << kTopK
       << ", \"id_space\": \"logical\", \"aggregation\": \"per_step\", \"records\": [";
  for (std::int64_t step = 0; step < steps; ++step) {
    for (std::int64_t layer = 0; layer < kLayers; ++layer) {
      const std::vector<std::int64_t> counts = layer_counts(step, layer);
      file << (made.rows.empty() ? "\n" : ",\n") << "{\"layer\": " << layer
           << ", \"step\": " << step << ", \"rank\": 0, \"tokens\": " << tokens_of(step)
           << ", \"counts\": ";
      write_counts(file, counts, "");
      file << '}';
      made.rows.push_back(sum(counts));
    }
  }
  file << "\n]}\n";
  return finish(file, std::move(made));
}

}  // namespace moesaic::bench
