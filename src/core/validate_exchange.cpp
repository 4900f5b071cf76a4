// SPDX-License-Identifier: Apache-2.0
// See validate_exchange.hpp.

#include "core/validate_exchange.hpp"

#include <string>
#include <string_view>
#include <vector>

#include "core/field_checks.hpp"
#include "core/message.hpp"
#include "core/validate.hpp"
#include "core/workspace_header.hpp"
#include "math/row_route.hpp"

namespace moesaic::core {
namespace {

constexpr std::int64_t kMaxTopk = 256;
constexpr int kMaxBlocks = 65'535;
constexpr double kMaxTimeoutSeconds = 86'400;

/// "f32 [16, 8] on cpu"
std::string dense_text(DType dtype, std::initializer_list<std::int64_t> shape, Device device) {
  std::string text(name(dtype));
  const char* before = " [";
  for (const std::int64_t extent : shape) {
    text.append(before).append(std::to_string(extent));
    before = ", ";
  }
  return text + "], dense, on " + to_string(device);
}

/// The arguments of all ranks of one call.
class Checker {
 public:
  Checker(const detail::ExpertParallelImpl& exchange, std::size_t entries)
      : exchange_(exchange), device_(exchange.group().device()) {
    const std::size_t wanted = exchange.group().local_ranks().size();
    if (entries != wanted) {
      refuse("ranks", "one entry for each of the " + std::to_string(wanted) + " local ranks",
             std::to_string(entries));
    }
  }

  /// The arguments named from now on are those of entry `index`.
  void enter(std::size_t index) { prefix_ = "ranks[" + std::to_string(index) + "]."; }

  /// The tokens of this rank: the first extent of `view`.
  std::int64_t tokens(std::string_view field, const ConstTensorView& view, int rank) {
    const std::int64_t most = exchange_.problem().max_tokens;
    if (view.rank != rank || view.shape[0] < 0 || view.shape[0] > most) {
      refuse(prefix_ + std::string(field),
             "rank " + std::to_string(rank) + " with 0 to max_tokens = " + std::to_string(most) +
                 " tokens",
             describe(view));
    }
    return view.shape[0];
  }

  /// [rows, d] of the rows' type.
  void rows(std::string_view field, const ConstTensorView& view, std::int64_t count, bool written) {
    check_matrix(prefix_ + std::string(field), view,
                 {row_dtype(), device_, 0, count, exchange_.problem().d, written});
    note(field, view, written);
  }

  /// [M, d], with one row stride on all ranks.
  void symmetric(std::string_view field, const ConstTensorView& view, bool written) {
    rows(field, view, exchange_.max_rows(), written);
    if (exchange_.max_rows() < 2) {
      return;
    }
    if (symmetric_stride_ < 0) {
      symmetric_stride_ = view.stride[0];
    } else if (view.stride[0] != symmetric_stride_) {
      refuse(prefix_ + std::string(field),
             "the row stride of the first rank's, " + std::to_string(symmetric_stride_),
             std::to_string(view.stride[0]));
    }
  }

  /// [tokens, topk, d] of the rows' type.
  void gathered(std::string_view field, const ConstTensorView& view, std::int64_t count,
                bool written) {
    const ExpertParallelProblem& problem = exchange_.problem();
    if (count > 0) {
      check_matrix(prefix_ + std::string(field), view,
                   {row_dtype(), device_, count, problem.topk, problem.d, written});
    } else if (view.rank != 3 || view.shape[1] != problem.topk || view.shape[2] != problem.d ||
               view.shape[0] != 0 || view.dtype != row_dtype() || view.device != device_) {
      refuse(prefix_ + std::string(field),
             dense_text(row_dtype(), {count, problem.topk, problem.d}, device_), describe(view));
    }
    note(field, view, written);
  }

  /// [tokens, topk], dense.
  void per_route(std::string_view field, const ConstTensorView& view, std::int64_t count,
                 DType dtype, bool written) {
    const std::int64_t topk = exchange_.problem().topk;
    const bool fits = view.rank == 2 && view.dtype == dtype && view.device == device_ &&
                      view.shape[0] == count && view.shape[1] == topk &&
                      (count < 2 || view.stride[0] == topk) &&
                      (count == 0 || topk == 1 || view.stride[1] == 1);
    if (!fits) {
      refuse(prefix_ + std::string(field), dense_text(dtype, {count, topk}, device_),
             describe(view));
    }
    address(field, view, count);
    note(field, view, written);
  }

  /// int32 [count], dense.
  void vector(std::string_view field, const ConstTensorView& view, std::int64_t count) {
    const bool fits = view.rank == 1 && view.dtype == DType::i32 && view.device == device_ &&
                      view.shape[0] == count && (count < 2 || view.stride[0] == 1);
    if (!fits) {
      refuse(prefix_ + std::string(field), dense_text(DType::i32, {count}, device_),
             describe(view));
    }
    address(field, view, count);
    note(field, view, true);
  }

  void workspace(const Workspace& workspace) {
    try {
      check_workspace(workspace, exchange_.workspace_bytes(), device_);
    } catch (const Error& error) {
      throw Error(error.code(), prefix_ + error.what());
    }
    TensorView bytes{workspace.bytes.data(), DType::e8m0, device_, 1, {}, {1, 0, 0}};
    bytes.shape[0] = static_cast<std::int64_t>(exchange_.workspace_bytes());
    note("workspace", bytes, true);
  }

  /// Nothing written may be anything else.
  void check_apart() const {
    for (std::size_t i = 0; i < written_.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        check_no_overlap(written_[i].name, written_[i].view, written_[j].name, written_[j].view);
      }
      for (const Named& read : read_) {
        check_no_overlap(written_[i].name, written_[i].view, read.name, read.view);
      }
    }
  }

 private:
  struct Named {
    std::string name;
    ConstTensorView view;
  };

  [[nodiscard]] DType row_dtype() const { return operand_dtype(exchange_.problem().format); }

  void address(std::string_view field, const ConstTensorView& view, std::int64_t count) {
    if (count == 0) {
      return;
    }
    if (view.data == nullptr || reinterpret_cast<std::uintptr_t>(view.data) % 4 != 0) {
      refuse(prefix_ + std::string(field), "a 4-byte aligned address",
             view.data == nullptr ? "a null pointer" : "a misaligned one");
    }
  }

  void note(std::string_view field, const ConstTensorView& view, bool written) {
    (written ? written_ : read_).push_back({prefix_ + std::string(field), view});
  }

  const detail::ExpertParallelImpl& exchange_;
  Device device_;
  std::string prefix_;
  std::int64_t symmetric_stride_ = -1;
  std::vector<Named> written_, read_;
};

/// Checks each entry with `one`, then all of them against one another.
template <class Args, class One>
void check_ranks(const detail::ExpertParallelImpl& exchange, std::span<const Args> ranks,
                 const One& one) {
  Checker check(exchange, ranks.size());
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    check.enter(i);
    one(check, ranks[i]);
  }
  check.check_apart();
}

void check_maps(Checker& check, const ConstTensorView& ranks, const ConstTensorView& rows,
                std::int64_t tokens, std::string_view side) {
  check.per_route(std::string(side) + "_ranks", ranks, tokens, DType::i32, false);
  check.per_route(std::string(side) + "_rows", rows, tokens, DType::i32, false);
}

}  // namespace

void check_problem(const ExpertParallelProblem& problem, int num_ranks) {
  check_format(problem.format, operand_dtype(problem.format), "format");
  check_range("num_experts", problem.num_experts, 1, kMaxExperts);
  if (problem.num_experts % num_ranks != 0) {
    refuse("num_experts", "a multiple of the " + std::to_string(num_ranks) + " ranks",
           std::to_string(problem.num_experts));
  }
  check_range("topk", problem.topk, 1, kMaxTopk);
  check_range("max_tokens", problem.max_tokens, 0, kMaxRows / problem.topk);
  check_width("d", problem.d);
  check_constant("dispatch", problem.dispatch);
  if (problem.capacity_factor_millionths <= 0) {
    refuse("capacity_factor_millionths", "a positive factor",
           std::to_string(problem.capacity_factor_millionths));
  }
  if (rank_capacity_rows(problem) > kMaxRows) {
    refuse("capacity_factor_millionths", "a buffer of at most 2^31 - 1 rows",
           std::to_string(problem.capacity_factor_millionths) + ", which makes " +
               std::to_string(rank_capacity_rows(problem)));
  }
}

void check_options(const NvshmemGroupOptions& options) {
  check_range("num_ranks", options.num_ranks, 1, kMaxRanks);
  check_range("rank", options.rank, 0, options.num_ranks - 1);
  if (options.device.kind != DeviceKind::cuda || options.device.index < 0) {
    refuse("device", "a CUDA device", to_string(options.device));
  }
  if (options.rendezvous == nullptr) {
    refuse("rendezvous", "one that all ranks of the group share", "none");
  }
  if (options.heap_bytes == 0) {
    refuse("heap_bytes", "a positive number", "0");
  }
  // Also refuses NaN.
  if (!(options.timeout_seconds > 0 && options.timeout_seconds <= kMaxTimeoutSeconds)) {
    refuse("timeout_seconds", "a positive number, at most 86400",
           std::to_string(options.timeout_seconds));
  }
}

std::int64_t rank_capacity_rows(const ExpertParallelProblem& problem) {
  return math::rank_capacity(problem.capacity_factor_millionths, problem.max_tokens, problem.topk);
}

void check_args(const detail::ExpertParallelImpl& exchange, std::span<const RouteMapsArgs> ranks) {
  check_ranks(exchange, ranks, [&](Checker& check, const RouteMapsArgs& args) {
    const std::int64_t tokens = check.tokens("expert_ids", args.expert_ids, 2);
    check.per_route("expert_ids", args.expert_ids, tokens, DType::i32, false);
    check.per_route("dst_ranks", args.dst_ranks, tokens, DType::i32, true);
    check.per_route("dst_rows", args.dst_rows, tokens, DType::i32, true);
    check.vector("offs", args.offs, exchange.local_experts());
    if (args.kept.rank != 0) {
      check.vector("kept", args.kept, exchange.local_experts());
    }
    if (args.src_ranks.rank != 0 || args.src_routes.rank != 0) {
      check.vector("src_ranks", args.src_ranks, exchange.max_rows());
      check.vector("src_routes", args.src_routes, exchange.max_rows());
    }
    check.workspace(args.workspace);
  });
}

void check_args(const detail::ExpertParallelImpl& exchange,
                std::span<const DispatchPutArgs> ranks) {
  check_ranks(exchange, ranks, [&](Checker& check, const DispatchPutArgs& args) {
    const std::int64_t tokens = check.tokens("input", args.input, 2);
    check.rows("input", args.input, tokens, false);
    check.symmetric("out", args.out, true);
    check_maps(check, args.dst_ranks, args.dst_rows, tokens, "dst");
    if (args.probs.rank != 0) {
      check.per_route("probs", args.probs, tokens, DType::f32, false);
    }
    check.workspace(args.workspace);
  });
}

void check_args(const detail::ExpertParallelImpl& exchange, std::span<const CombineGetArgs> ranks) {
  check_ranks(exchange, ranks, [&](Checker& check, const CombineGetArgs& args) {
    const std::int64_t tokens = check.tokens("out", args.out, 2);
    check.symmetric("expert_out", args.expert_out, false);
    check.rows("out", args.out, tokens, true);
    check_maps(check, args.src_ranks, args.src_rows, tokens, "src");
    if (args.probs.rank != 0) {
      check.per_route("probs", args.probs, tokens, DType::f32, false);
    }
    if (args.gathered.rank != 0) {
      check.gathered("gathered", args.gathered, tokens, true);
    }
    check.workspace(args.workspace);
  });
}

void check_args(const detail::ExpertParallelImpl& exchange, std::span<const GatherGetArgs> ranks) {
  check_ranks(exchange, ranks, [&](Checker& check, const GatherGetArgs& args) {
    const std::int64_t tokens = check.tokens("gathered", args.gathered, 3);
    check.symmetric("expert_out", args.expert_out, false);
    check.gathered("gathered", args.gathered, tokens, true);
    check_maps(check, args.src_ranks, args.src_rows, tokens, "src");
    check.workspace(args.workspace);
  });
}

void check_args(const detail::ExpertParallelImpl& exchange, std::span<const ProbsGradArgs> ranks) {
  check_ranks(exchange, ranks, [&](Checker& check, const ProbsGradArgs& args) {
    const std::int64_t tokens = check.tokens("dout", args.dout, 2);
    check.gathered("gathered", args.gathered, tokens, false);
    check.rows("dout", args.dout, tokens, false);
    check_maps(check, args.src_ranks, args.src_rows, tokens, "src");
    check.per_route("dprobs", args.dprobs, tokens, DType::f32, true);
  });
}

void check_nblocks(int nblocks) { check_range("nblocks", nblocks, 0, kMaxBlocks); }

}  // namespace moesaic::core
