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

/// Rows [begin, end) of `source` from row `target_row` of `target` on, both of one width.
void copy_rows(const HostTensor& source, std::int64_t begin, std::int64_t end, HostTensor& target,
               std::int64_t target_row) {
  if (begin == end) return;
  std::memcpy(target.row_data(target_row), source.row_data(begin),
              static_cast<std::size_t>((end - begin) * source.width() * kElementBytes));
}

void fill_rows(HostTensor& x, const Case& one, std::uint64_t seed) {
  if (one.expert_rows == ExpertRows::own) {
    fill_normal(x, kActivationScale, seed, OperandStream::x);
    return;
  }
  const std::int64_t rows = one.record.counts.front();
  HostTensor first(DType::bf16, {rows, x.width()});
  fill_normal(first, kActivationScale, seed, OperandStream::x);
  for (std::int64_t e = 0; e < one.experts(); ++e) copy_rows(first, 0, rows, x, e * rows);
}

}  // namespace

void StagedMatrix::resize(std::int64_t rows, std::int64_t width) {
  if (rows == rows_ && width == width_) return;
  host_ = HostTensor();  // before the new one is allocated
  host_ = HostTensor(DType::bf16, {rows, width});
  rows_ = rows;
  width_ = width;
}

void StagedMatrix::upload(const Site& site) { there_ = mirror_.upload(host_, site); }
void StagedMatrix::download(const Site& site) {
  synchronize(site.stream());
  mirror_.download(host_, site);
}

TensorView StagedMatrix::host_view(std::initializer_list<std::int64_t> shape) const {
  return packed(host_.view(), shape);
}
TensorView StagedMatrix::site_view(std::initializer_list<std::int64_t> shape) const {
  return packed(there_, shape);
}

void Workbench::prepare(const Case& one) {
  const planner::ProductShape size = one.product();
  const std::int64_t rows = one.record.rows(), experts = one.experts();
  offs_ = end_offsets(one.record.counts);
  site_offs_ = offs_there_.upload(offs_, site_);
  const bool same_width = size.k == k_;
  if (!same_width || experts * size.n != experts_ * n_) {
    w.resize(experts * size.n, size.k);
    fill_normal(w.host(), kWeightScale, seed_, OperandStream::weights);
    w.upload(site_);
  }
  // Rows of own experts do not depend on who has them; repeated ones do.
  const bool repeats = one.expert_rows == ExpertRows::repeated;
  if (!same_width || rows != rows_ || one.expert_rows != expert_rows_ ||
      (repeats && experts != experts_)) {
    x.resize(rows, size.k);
    fill_rows(x.host(), one, seed_);
    x.upload(site_);
  }
  y.resize(rows, size.n);
  rows_ = rows;
  experts_ = experts;
  n_ = size.n;
  k_ = size.k;
  expert_rows_ = one.expert_rows;
}

void Workbench::prepare_batch(const Case& one, std::int64_t capacity) {
  batch_x.resize(one.experts() * capacity, k_);
  batch_y.resize(one.experts() * capacity, n_);
  HostTensor& batch = batch_x.host();
  std::memset(batch.bytes().data(), 0, batch.size_bytes());
  for (std::int64_t e = 0, begin = 0; e < one.experts(); ++e) {
    const std::int64_t count = one.record.counts[static_cast<std::size_t>(e)];
    copy_rows(x.host(), begin, begin + std::min(count, capacity), batch, e * capacity);
    begin += count;
  }
  batch_x.upload(site_);
}

double operand_bytes(const Case& one) {
  const planner::ProductShape size = one.product();
  const auto n = static_cast<double>(size.n), k = static_cast<double>(size.k);
  double rows = static_cast<double>(one.record.rows());
  const bool batch = one.padded == PaddedBatch::prefilled &&
                     std::find(one.arms.begin(), one.arms.end(), Arm::padded_bmm) != one.arms.end();
  if (batch) rows += Capacity{}.factor() * rows + static_cast<double>(one.experts());
  return kElementBytes * (rows * (n + k) + static_cast<double>(one.experts()) * n * k);
}

}  // namespace moesaic::cli::experiment
