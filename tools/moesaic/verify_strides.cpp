// SPDX-License-Identifier: Apache-2.0
// verify: addresses past 2^31 elements. Huge strides over memory that is only reserved reach them
// with a few megabytes.
#include <sys/mman.h>

#include <cstring>
#include <limits>
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

/// Address space without memory behind it until it is touched.
class Reserved {
 public:
  explicit Reserved(std::size_t bytes)
      : bytes_(bytes),
        data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  ~Reserved() {
    if (ok()) munmap(data_, bytes_);
  }
  Reserved(const Reserved&) = delete;
  Reserved& operator=(const Reserved&) = delete;
  [[nodiscard]] bool ok() const { return data_ != MAP_FAILED; }
  [[nodiscard]] void* data() const { return data_; }

 private:
  std::size_t bytes_;
  void* data_;
};

/// The view of `dense` with its outermost steps stretched.
TensorView stretched(const TensorView& dense, void* data) {
  TensorView view = dense;
  view.data = data;
  view.stride[0] = view.rank == 3 ? kExpertStride : kRowStride;
  return view;
}

std::size_t reserved_bytes(const TensorView& view) {
  return static_cast<std::size_t>(view.shape[0] * view.stride[0] * size_bytes(view.dtype));
}

/// Copies rows between a tensor and its stretched view.
void copy_rows(const HostTensor& dense, const TensorView& wide, bool to_wide) {
  const std::int64_t element = size_bytes(dense.dtype());
  const std::int64_t inner = wide.rank == 3 ? wide.shape[1] : 1;
  for (std::int64_t row = 0; row < dense.rows(); ++row) {
    const std::int64_t at =
        row / inner * wide.stride[0] + (wide.rank == 3 ? row % inner * wide.stride[1] : 0);
    std::byte* far = static_cast<std::byte*>(wide.data) + at * element;
    std::byte* near = dense.row_data(row);
    const auto bytes = static_cast<std::size_t>(dense.width() * element);
    if (to_wide) {
      std::memcpy(far, near, bytes);
    } else {
      std::memcpy(near, far, bytes);
    }
  }
}

CaseOutcome stretched_case(const GroupedGemm& gemm, GemmFixture& fixture, const HostTensor& want) {
  fixture.reset();
  GroupedGemmArgs args = fixture.args();
  const auto wide_of = [](const HostTensor& tensor) { return stretched(tensor.view(), nullptr); };
  TensorView a = wide_of(fixture.a()), b = wide_of(fixture.b()), d = wide_of(fixture.d());
  const Reserved a_memory(reserved_bytes(a)), b_memory(reserved_bytes(b)),
      d_memory(reserved_bytes(d));
  if (!a_memory.ok() || !b_memory.ok() || !d_memory.ok()) {
    return {{}, "address space could not be reserved"};
  }
  a.data = a_memory.data();
  b.data = b_memory.data();
  d.data = d_memory.data();
  copy_rows(fixture.a(), a, true);
  copy_rows(fixture.b(), b, true);
  copy_rows(fixture.d(), d, true);
  args.a.qdata = a;
  args.b.qdata = b;
  args.d = d;
  execute_once(gemm, args);
  copy_rows(fixture.d(), d, false);
  return {compare_exactly(fixture.output_name(), fixture.d(), want, fixture.offs()), {}};
}

/// Whether this machine lets a process reserve what one case needs.
bool can_reserve() { return Reserved(static_cast<std::size_t>(3 * 5 * kExpertStride * 4)).ok(); }

}  // namespace

void verify_wide_strides(Verifier& verifier) {
  verifier.group("wide_strides", "elements past 2^31 from the base, by rows and by experts");
  if (verifier.quick()) return;
  if (!can_reserve()) {
    verifier.skip("wide_strides: 32 GB of address space cannot be reserved here");
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
                                fixture, want);
        });
      }
    }
  }
}

}  // namespace moesaic::cli
