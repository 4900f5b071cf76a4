// SPDX-License-Identifier: Apache-2.0
// Routing files of realistic size, generated into a folder that removes itself.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace moesaic::bench {

/// A new folder under the system's temporary one; removed with all that is in it.
class TemporaryFolder {
 public:
  /// @throws Error{device_failure} when none can be made.
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

/// The model's size that the files describe: DeepSeek-V3's.
inline constexpr std::int64_t kLayers = 61;
inline constexpr std::int64_t kLayerExperts = 256;
inline constexpr std::int64_t kTopK = 8;
inline constexpr const char* kPlanSpec = "zipf:1.0";

/// Rows per expert of one layer at one step; every step has another total.
std::vector<std::int64_t> layer_counts(std::int64_t step, std::int64_t layer);

/// A generated file, and what a reader must find in it.
struct PlanFile {
  std::string path, format;
  std::int64_t steps = 1, size_bytes = 0;
  std::vector<std::int64_t> rows;  ///< Of every record: all layers of step 0, of step 1, ...
};

/// SGLang's {"logical_count": [[...]]}: one matrix of layers by experts, numbers as floats, the
/// first three layers dense (all zero).
PlanFile write_sglang_like(const std::filesystem::path& folder);
/// moesaic.routing/1 with one record per step and layer. Written as it is generated: memory stays
/// small.
PlanFile write_steps(const std::filesystem::path& folder, std::int64_t steps);

}  // namespace moesaic::bench
