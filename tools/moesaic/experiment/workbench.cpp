// SPDX-License-Identifier: Apache-2.0
// Operands of cases where they run.
#include "experiment/workbench.hpp"

#include <algorithm>
#include <cstring>

#include "operands.hpp"

namespace moesaic::cli::experiment {
namespace {

constexpr std::int64_t kElementBytes = 2;

TensorView packed(TensorView view, std::initializer_list<std::int64_t> shape) {
  view.rank = static_cast<int>(shape.size());
  view.shape = view.stride = {};
  std::copy(shape.begin(), shape.end(), view.shape.begin());
  std::int64_t stride = 1;
  for (auto i = static_cast<std::size_t>(view.rank); i-- > 0;) {
    view.stride[i] = stride;
    stride *= view.shape[i];
  }
  return view;
}

}  // namespace

void StagedMatrix::resize(std::int64_t rows, std::int64_t width, const Site& site) {
  if (rows == rows_ && width == width_) return;
  host_ = HostTensor();  // before the new one is allocated
  host_ = HostTensor(DType::bf16, {rows, width});
  there_ = mirror_.reserve(host_, site);
  rows_ = rows;
  width_ = width;
}

void StagedMatrix::upload_rows(std::int64_t begin, std::int64_t end, const Site& site) {
  mirror_.upload(host_, host_.row_range(begin, end), site);
}

void StagedMatrix::copy_rows(const StagedMatrix& source, std::int64_t begin, std::int64_t end,
                             std::int64_t to, const Site& site) {
  if (begin == end) return;
  const ByteRange range = source.host_.row_range(begin, end);
  if (site.on_host()) {
    std::memcpy(host_.row_data(to), source.host_.row_data(begin), range.size_bytes);
  } else {
    mirror_.copy_from(source.mirror_, range, host_.row_range(to, to).offset_bytes, site);
  }
}

void StagedMatrix::copy_host_row(StagedMatrix& source, std::int64_t row, std::int64_t to) {
  const auto bytes = static_cast<std::size_t>(width_ * kElementBytes);
  if (row < 0) {
    std::memset(host_.row_data(to), 0, bytes);
  } else {
    std::memmove(host_.row_data(to), source.host_.row_data(row), bytes);
  }
}

CheckResult StagedMatrix::find_unwritten(const std::string& name,
                                         std::span<const std::int32_t> offs, const Site& site) {
  return cli::find_unwritten(name, host_, mirror_, offs, site);
}

void StagedMatrix::fetch_rows(std::int64_t width, std::span<const std::int64_t> rows,
                              const Site& site) {
  synchronize(site.stream());
  download_rows(host_, mirror_, width, rows, site);
}

TensorView StagedMatrix::host_view(std::initializer_list<std::int64_t> shape) const {
  return packed(host_.view(), shape);
}
TensorView StagedMatrix::site_view(std::initializer_list<std::int64_t> shape) const {
  return packed(there_, shape);
}

void Workbench::prepare(const Case& one) {
  const planner::ProductShape size = one.product();
  const std::int64_t rows = one.record.rows();
  offs_ = end_offsets(one.record.counts);
  site_offs_ = offs_there_.upload(offs_, site_);
  const RowsToDraw missing = held_.take(one);
  if (missing.w > 0) {
    w.resize(missing.w, size.k, site_);
    fill_normal(w.host(), kWeightScale, seed_, OperandStream::weights);
    w.upload_rows(0, missing.w, site_);
  }
  if (missing.x > 0) {
    x.resize(rows, size.k, site_);
    fill_normal(x.host(), kActivationScale, seed_, OperandStream::x, missing.x);
    x.upload_rows(0, missing.x, site_);
    for (std::int64_t row = missing.x; row < rows; row += missing.x) {
      x.copy_rows(x, 0, missing.x, row, site_);
    }
  }
  drawn_x_rows_ = drawn_x_rows(one);
  y.resize(rows, size.n, site_);
}

void Workbench::prepare_batch(const Case& one, std::int64_t capacity) {
  const planner::ProductShape size = one.product();
  capacity_ = capacity;
  batch_x.resize(one.experts() * capacity, size.k, site_);
  batch_y.resize(one.experts() * capacity, size.n, site_);
  batch_x.clear(site_);
  std::int64_t begin = 0;
  for (std::size_t e = 0; e < offs_.size(); ++e) {
    const std::int64_t end = offs_[e];
    batch_x.copy_rows(x, begin, std::min(end, begin + capacity),
                      static_cast<std::int64_t>(e) * capacity, site_);
    begin = end;
  }
}

void Workbench::show_x_rows(std::span<const std::int64_t> rows) {
  if (site_.on_host()) return;
  for (const std::int64_t row : rows) {
    if (row >= drawn_x_rows_) x.copy_host_row(x, row % drawn_x_rows_, row);
  }
}

void Workbench::show_batch_rows(std::span<const std::int64_t> rows) {
  if (site_.on_host()) return;
  for (const std::int64_t row : rows) {
    const auto expert = static_cast<std::size_t>(row / capacity_);
    const std::int64_t begin = expert == 0 ? 0 : offs_[expert - 1];
    const std::int64_t source = begin + row % capacity_;
    batch_x.copy_host_row(x, source < offs_[expert] ? source % drawn_x_rows_ : -1, row);
  }
}

double Workbench::held_bytes() const {
  double bytes = 0;
  for (const StagedMatrix* matrix : {&x, &w}) bytes += matrix->host_bytes();
  if (!site_.on_host()) return bytes;
  for (const StagedMatrix* matrix : {&y, &batch_x, &batch_y}) bytes += matrix->host_bytes();
  return bytes;
}

double operand_bytes(const Case& one, const Site& site) {
  const planner::ProductShape size = one.product();
  const auto n = static_cast<double>(size.n), k = static_cast<double>(size.k);
  const double weights = static_cast<double>(one.experts()) * n * k;
  // On a device the host has content in what was drawn alone; what has none takes no memory.
  if (!site.on_host()) {
    return kElementBytes * (static_cast<double>(drawn_x_rows(one)) * k + weights);
  }
  double rows = static_cast<double>(one.record.rows());
  const bool batch = one.padded == PaddedBatch::prefilled &&
                     std::find(one.arms.begin(), one.arms.end(), Arm::padded_bmm) != one.arms.end();
  if (batch) rows += Capacity{}.factor() * rows + static_cast<double>(one.experts());
  return kElementBytes * (rows * (n + k) + weights);
}

}  // namespace moesaic::cli::experiment
