// SPDX-License-Identifier: Apache-2.0
// verify: addresses past 2^31 elements. Huge strides over memory that is only reserved reach them
// with a few megabytes.
#include <sys/mman.h>

#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "arguments.hpp"
#include "compare.hpp"
#include "gemm_fixture.hpp"
#include "operands.hpp"
#include "verify.hpp"

namespace moesaic::cli {
namespace {

// 20 rows or 5 matrices reach past 2^31 elements.
constexpr std::int64_t kRowStride = std::int64_t{1} << 27;
constexpr std::int64_t kExpertStride = std::int64_t{1} << 29;

/// Memory for huge strides: on the CPU address space without memory behind it until it is touched,
/// on a GPU the memory itself.
class Reserved {
 public:
  Reserved(std::size_t bytes, const Site& site) : bytes_(bytes), site_(site) {
    if (!site.on_host()) {
      buffer_ = DeviceBuffer(bytes, site.device());
      return;
    }
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      throw Error(ErrorCode::device_failure, "address space could not be reserved");
    }
    mapped_ = static_cast<std::byte*>(memory);
  }
  ~Reserved() {
    if (mapped_ != nullptr) munmap(mapped_, bytes_);
  }
  Reserved(const Reserved&) = delete;
  Reserved& operator=(const Reserved&) = delete;
  [[nodiscard]] std::byte* data() const { return mapped_ != nullptr ? mapped_ : buffer_.data(); }
  void put(std::span<const std::byte> row, std::size_t at) {
    if (mapped_ != nullptr) {
      std::memcpy(mapped_ + at, row.data(), row.size());
    } else {
      buffer_.copy_from_host(row, at, site_.stream());
    }
  }
  void get(std::span<std::byte> row, std::size_t at) const {
    if (mapped_ != nullptr) {
      std::memcpy(row.data(), mapped_ + at, row.size());
    } else {
      buffer_.copy_to_host(row, at, site_.stream());
    }
  }

 private:
  std::size_t bytes_;
  const Site& site_;
  std::byte* mapped_ = nullptr;
  DeviceBuffer buffer_;
};

/// The view of `dense` with its outermost steps stretched; without data.
TensorView stretched(const TensorView& dense) {
  TensorView view = dense;
  view.data = nullptr;
  view.stride[0] = view.rank == 3 ? kExpertStride : kRowStride;
  return view;
}

std::size_t reserved_bytes(const TensorView& view) {
  return static_cast<std::size_t>(view.shape[0] * view.stride[0] * size_bytes(view.dtype));
}

/// A tensor spread out at the site.
struct Wide {
  Wide(const HostTensor& dense, const Site& site)
      : view(stretched(dense.view())), memory(reserved_bytes(view), site) {
    view.data = memory.data();
    view.device = site.device();
    for (std::int64_t row = 0; row < dense.rows(); ++row) memory.put(row_of(dense, row), at(row));
  }
  void bring_back(const HostTensor& dense) const {
    for (std::int64_t row = 0; row < dense.rows(); ++row) memory.get(row_of(dense, row), at(row));
  }

  TensorView view;
  Reserved memory;

 private:
  [[nodiscard]] static std::span<std::byte> row_of(const HostTensor& dense, std::int64_t row) {
    return {dense.row_data(row),
            static_cast<std::size_t>(dense.width() * size_bytes(dense.dtype()))};
  }
  [[nodiscard]] std::size_t at(std::int64_t row) const {
    const std::int64_t inner = view.rank == 3 ? view.shape[1] : 1;
    const std::int64_t within = view.rank == 3 ? row % inner * view.stride[1] : 0;
    return static_cast<std::size_t>((row / inner * view.stride[0] + within) *
                                    size_bytes(view.dtype));
  }
};

CaseOutcome stretched_case(const GroupedGemm& gemm, GemmFixture& fixture, const HostTensor& want,
                           const Site& site) {
  fixture.reset();
  const Wide a(fixture.a(), site), b(fixture.b(), site), d(fixture.d(), site);
  GroupedGemmArgs args = fixture.tensors().stage(site);
  args.a.qdata = a.view;
  args.b.qdata = b.view;
  args.d = d.view;
  const SiteWorkspace workspace(gemm.workspace_bytes(), site.stream());
  gemm.execute(args, workspace.get(), site.stream());
  synchronize(site.stream());
  d.bring_back(fixture.d());
  return {compare_exactly(fixture.output_name(), fixture.d(), want, fixture.offs()), {}};
}

/// Why what one case needs cannot be reserved here; empty when it can.
std::string why_not_reserved(const Site& site) {
  try {
    const Reserved probe(static_cast<std::size_t>(std::int64_t{3} * 5 * kExpertStride * 4), site);
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

void verify_wide_strides(Verifier& verifier) {
  verifier.group("wide_strides", "elements past 2^31 from the base, by rows and by experts");
  if (verifier.quick()) return;
  if (const std::string why = why_not_reserved(verifier.site()); !why.empty()) {
    verifier.skip("wide_strides: 32 GB cannot be reserved here: " + why);
    return;
  }
  const std::vector<std::int64_t> counts = {7, 0, 3, 1, 13};
  for (const Pass pass : {Pass::forward, Pass::dgrad, Pass::wgrad}) {
    for (const Format format : {Format::bf16, Format::f32}) {
      const std::string start = std::string(name(pass)) + ":" + std::string(dtype_word(format));
      if (!verifier.wants(pass, format) || !verifier.selected(start)) continue;
      GroupedGemmProblem problem;
      problem.pass = pass;
      problem.format = format;
      problem.d_dtype = format == Format::bf16 ? DType::bf16 : DType::f32;
      problem.num_experts = static_cast<int>(counts.size());
      problem.max_rows = 24;
      problem.n = 24;
      problem.k = 40;
      GemmFixture fixture(problem, end_offsets(counts), Contents::integers, verifier.seed());
      const HostTensor want = fixture.expected();
      for (const Verifier::Choice& choice : verifier.choices(problem)) {
        verifier.run(start + ":" + choice.implementation, [&] {
          problem.strategy = choice.strategy;
          return stretched_case(GroupedGemm::plan(problem, verifier.device(),
                                                  {.implementation = choice.implementation}),
                                fixture, want, verifier.site());
        });
      }
    }
  }
}

}  // namespace moesaic::cli
