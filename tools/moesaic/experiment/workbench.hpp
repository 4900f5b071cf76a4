// SPDX-License-Identifier: Apache-2.0
// Operands of cases where they run. They are kept while the next case has the same ones, since
// drawing them takes longer than most cases do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiment/design.hpp"
#include "staging.hpp"

namespace moesaic::cli::experiment {

/// A packed matrix on the host and where products run.
class StagedMatrix {
 public:
  /// Room for rows x width in BF16; what is there stays when the size is the same.
  void resize(std::int64_t rows, std::int64_t width);
  [[nodiscard]] HostTensor& host() { return host_; }
  /// Copies the host's content to the site.
  void upload(const Site& site);
  /// Copies the site's content to the host, once all work there is done.
  void download(const Site& site);
  /// The first elements as a packed tensor of this shape, on the host and at the site.
  [[nodiscard]] TensorView host_view(std::initializer_list<std::int64_t> shape) const;
  [[nodiscard]] TensorView site_view(std::initializer_list<std::int64_t> shape) const;

 private:
  std::int64_t rows_ = 0, width_ = 0;
  HostTensor host_;
  Mirror mirror_;
  TensorView there_{};
};

class Workbench {
 public:
  Workbench(const DeviceInfo& device, std::uint64_t seed)
      : device_(device), seed_(seed), site_(device.device) {}

  /// Makes x [rows, k], w [E n, k], room for y [rows, n] and the offsets of this case.
  void prepare(const Case& one);
  /// Makes the padded batch [E, C, k] of the prepared case, zeros behind every expert's rows.
  void prepare_batch(const Case& one, std::int64_t capacity);

  [[nodiscard]] const DeviceInfo& device() const { return device_; }
  [[nodiscard]] const Site& site() const { return site_; }
  [[nodiscard]] std::uint64_t seed() const { return seed_; }
  [[nodiscard]] const std::vector<std::int32_t>& offs() const { return offs_; }
  [[nodiscard]] ConstTensorView site_offs() const { return site_offs_; }
  StagedMatrix x, w, y, batch_x, batch_y;

 private:
  DeviceInfo device_;
  std::uint64_t seed_;
  Site site_;
  std::vector<std::int32_t> offs_;
  OffsetsMirror offs_there_;
  ConstTensorView site_offs_{};
  std::int64_t rows_ = -1, experts_ = 0, n_ = 0, k_ = 0;
  ExpertRows expert_rows_ = ExpertRows::own;
};

/// Host bytes that a case's operands take.
double operand_bytes(const Case& one);

}  // namespace moesaic::cli::experiment
