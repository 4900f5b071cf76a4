// SPDX-License-Identifier: Apache-2.0
// A rendezvous in a folder: one file per key, written aside and linked into place, so that whoever
// sees a file sees all of it.

#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include "core/message.hpp"
#include "moesaic/expert_parallel_group.hpp"

namespace moesaic {
namespace {

namespace fs = std::filesystem;
constexpr std::chrono::milliseconds kPause{5};

class FileRendezvous final : public Rendezvous {
 public:
  explicit FileRendezvous(const std::string& folder) : folder_(folder) {
    std::error_code error;
    fs::create_directories(folder_, error);
    if (!fs::is_directory(folder_) || access(folder_.c_str(), W_OK | X_OK) != 0) {
      core::refuse("folder", "a folder that can be written", "'" + folder + "'");
    }
  }

  void set(const std::string& key, const std::string& value) override {
    const fs::path path = path_of(key);
    const fs::path aside = path.string() + "." + std::to_string(getpid()) + ".part";
    {
      std::ofstream file(aside, std::ios::binary);
      file << value;
      if (!file.flush()) {
        throw Error(ErrorCode::device_failure, aside.string() + ": cannot be written");
      }
    }
    // A link, unlike a rename, fails where the name is taken: by another group, or another run.
    const int status = link(aside.c_str(), path.c_str());
    const int reason = errno;
    fs::remove(aside);
    if (status != 0) {
      throw Error(ErrorCode::invalid_argument,
                  path.string() + ": expected a key that nobody has set, got " +
                      std::strerror(reason) + "; every group needs a folder of its own");
    }
  }

  std::string get(const std::string& key, std::chrono::milliseconds timeout) override {
    const fs::path path = path_of(key);
    const auto end = std::chrono::steady_clock::now() + timeout;
    for (;;) {
      if (std::ifstream file(path, std::ios::binary); file) {
        std::ostringstream text;
        text << file.rdbuf();
        return text.str();
      }
      if (std::chrono::steady_clock::now() >= end) {
        throw Error(ErrorCode::device_failure, "rendezvous in " + folder_.string() +
                                                   ": nobody has set '" + key + "' within " +
                                                   std::to_string(timeout.count()) + " ms");
      }
      std::this_thread::sleep_for(kPause);
    }
  }

 private:
  [[nodiscard]] fs::path path_of(const std::string& key) const {
    std::string file = "key_";
    for (const char letter : key) {
      file += std::isalnum(static_cast<unsigned char>(letter)) != 0 ? letter : '_';
    }
    return folder_ / file;
  }

  fs::path folder_;
};

}  // namespace

std::shared_ptr<Rendezvous> file_rendezvous(const std::string& folder) {
  return std::make_shared<FileRendezvous>(folder);
}

}  // namespace moesaic
