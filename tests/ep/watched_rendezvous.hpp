// SPDX-License-Identifier: Apache-2.0
// A rendezvous whose waits end at once when a rank has failed, instead of with the time-out.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "moesaic/error.hpp"
#include "moesaic/expert_parallel_group.hpp"

namespace moesaic::ep_tests {

/// A file that the first rank to fail makes, and scripts/run_ranks.sh for one that ends without a
/// word.
class FailureNote {
 public:
  explicit FailureNote(const std::string& folder) : path_(folder + "/failed") {}

  /// What the first failure said; later ones are lost.
  void leave(const std::string& text) const {
    if (!text_of().empty()) return;
    const std::string aside = path_ + ".part";
    std::ofstream(aside) << text;
    std::error_code taken;
    std::filesystem::rename(aside, path_, taken);
  }
  /// Empty while nobody has failed.
  [[nodiscard]] std::string text_of() const {
    std::ostringstream text;
    if (std::ifstream file(path_); file) text << file.rdbuf();
    return text.str();
  }

 private:
  std::string path_;
};

class WatchedRendezvous final : public Rendezvous {
 public:
  WatchedRendezvous(std::shared_ptr<Rendezvous> inner, FailureNote note)
      : inner_(std::move(inner)), note_(std::move(note)) {}

  void set(const std::string& key, const std::string& value) override { inner_->set(key, value); }

  std::string get(const std::string& key, std::chrono::milliseconds timeout) override {
    constexpr std::chrono::milliseconds kLook{100};
    for (std::chrono::milliseconds left = timeout;; left -= kLook) {
      try {
        return inner_->get(key, std::min(left, kLook));
      } catch (const Error& error) {
        if (const std::string failure = note_.text_of(); !failure.empty()) {
          throw Error(error.code(), "nobody sets '" + key + "' any more: " + failure);
        }
        if (left <= kLook) throw;
      }
    }
  }

 private:
  std::shared_ptr<Rendezvous> inner_;
  FailureNote note_;
};

}  // namespace moesaic::ep_tests
