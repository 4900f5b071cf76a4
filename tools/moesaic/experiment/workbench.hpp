// SPDX-License-Identifier: Apache-2.0
// Operands of cases where they run. They are kept while the next case can use them, and on a device
// nothing is carried over that can be made there: copies of rows, poison, the padded batch. The
// host keeps what was drawn, which the check reads, and of results and copies the rows looked at.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "experiment/design.hpp"
#include "experiment/held_operands.hpp"
#include "staging.hpp"

namespace moesaic::cli::experiment {

/// A packed matrix of BF16 where products run, and on the host; on the CPU the two are one. On a
/// device the host's rows have content only where something was drawn, copied or fetched.
class StagedMatrix {
 public:
  /// Room for rows x width; what is there stays when the size is the same.
  void resize(std::int64_t rows, std::int64_t width, const Site& site);
  [[nodiscard]] HostTensor& host() { return host_; }
  [[nodiscard]] double host_bytes() const { return static_cast<double>(host_.size_bytes()); }
  /// Rows that were drawn on the host, to the site.
  void upload_rows(std::int64_t begin, std::int64_t end, const Site& site);
  /// At the site rows [begin, end) of `source`, which has this width, to row `to` on.
  void copy_rows(const StagedMatrix& source, std::int64_t begin, std::int64_t end, std::int64_t to,
                 const Site& site);
  /// Zero into all rows at the site.
  void clear(const Site& site) { mirror_.clear(host_, site); }
  /// One row of `source` on the host, or zeros for a negative one, to row `to` on the host.
  void copy_host_row(StagedMatrix& source, std::int64_t row, std::int64_t to);

  /// kPoison into all rows at the site, then what of it is left in the first rows up to
  /// offs.back().
  void poison(const Site& site) { mirror_.poison(host_, site); }
  [[nodiscard]] CheckResult find_unwritten(const std::string& name,
                                           std::span<const std::int32_t> offs, const Site& site);
  /// Those rows to the host, counted in rows of `width`, once all work at the site is done.
  void fetch_rows(std::int64_t width, std::span<const std::int64_t> rows, const Site& site);

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
  Workbench(const DeviceInfo& device, std::uint64_t seed, CpuMemory memory = CpuMemory::shared)
      : device_(device), seed_(seed), site_(device.device, memory) {}

  /// Makes x [rows, k], w [E n, k], room for y [rows, n] and the offsets of this case.
  void prepare(const Case& one);
  /// Makes the padded batch [E, C, k] of the prepared case, zeros behind every expert's rows.
  void prepare_batch(const Case& one, std::int64_t capacity);
  /// Sees to it that the host has these rows of x, or of the batch, made from what was drawn.
  void show_x_rows(std::span<const std::int64_t> rows);
  void show_batch_rows(std::span<const std::int64_t> rows);

  [[nodiscard]] const DeviceInfo& device() const { return device_; }
  [[nodiscard]] const Site& site() const { return site_; }
  [[nodiscard]] std::uint64_t seed() const { return seed_; }
  [[nodiscard]] const std::vector<std::int32_t>& offs() const { return offs_; }
  [[nodiscard]] ConstTensorView site_offs() const { return site_offs_; }
  /// Bytes of the host that are in use; the next case's operands take their place.
  [[nodiscard]] double held_bytes() const;
  StagedMatrix x, w, y, batch_x, batch_y;

 private:
  DeviceInfo device_;
  std::uint64_t seed_;
  Site site_;
  std::vector<std::int32_t> offs_;
  OffsetsMirror offs_there_;
  ConstTensorView site_offs_{};
  HeldOperands held_;
  std::int64_t drawn_x_rows_ = 0, capacity_ = 0;
};

/// Bytes of the host that a case's operands take when products run at `site`.
double operand_bytes(const Case& one, const Site& site);

}  // namespace moesaic::cli::experiment
