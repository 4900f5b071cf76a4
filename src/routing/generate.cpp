// SPDX-License-Identifier: Apache-2.0
// Synthetic histograms. Every share goes through apportion(), so totals are exact.
#include <algorithm>
#include <numeric>
#include <utility>

#include "moesaic/routing.hpp"
#include "routing/apportion.hpp"
#include "routing/fail.hpp"
#include "routing/random.hpp"
#include "routing/spec.hpp"

namespace moesaic::routing {
namespace {

/// Real weights relative to the largest (1) as integers; 65536 of them still sum below 2^63.
constexpr double kWeightScale = 0x1p46;

std::int64_t to_weight(double relative) {
  return static_cast<std::int64_t>(std::floor(relative * kWeightScale + 0.5));
}

std::vector<std::int64_t> evenly(std::int64_t rows, std::int64_t experts) {
  return apportion(rows, std::vector<std::int64_t>(static_cast<std::size_t>(experts), 1));
}

std::vector<std::int64_t> zipf(std::int64_t rows, std::int64_t experts, double s) {
  std::vector<std::int64_t> weights(static_cast<std::size_t>(experts));
  for (std::size_t r = 0; r < weights.size(); ++r) {
    weights[r] = to_weight(portable_exp(-s * portable_log(static_cast<double>(r + 1))));
  }
  return apportion(rows, weights);
}

std::vector<std::int64_t> dirichlet(std::int64_t rows, std::int64_t experts, double alpha,
                                    Random& random) {
  std::vector<double> logs(static_cast<std::size_t>(experts));
  for (double& value : logs) value = random.log_gamma_draw(alpha);
  const double highest = *std::max_element(logs.begin(), logs.end());
  std::vector<std::int64_t> weights(logs.size());
  for (std::size_t i = 0; i < logs.size(); ++i)
    weights[i] = to_weight(portable_exp(logs[i] - highest));
  return apportion(rows, weights);
}

/// The hot experts first.
std::vector<std::int64_t> hotspot(std::int64_t rows, std::int64_t experts, double share,
                                  std::int64_t hot) {
  if (hot == experts)
    return evenly(rows, experts);  // every expert is hot: SHARE has nothing to leave out
  __extension__ using Wide = unsigned __int128;
  constexpr int kShareBits = 53;
  const auto share_fixed = static_cast<Wide>(share * 0x1p53);
  const Wide half = Wide{1} << (kShareBits - 1);
  const auto hot_rows =
      static_cast<std::int64_t>((static_cast<Wide>(rows) * share_fixed + half) >> kShareBits);
  std::vector<std::int64_t> counts = evenly(hot_rows, hot);
  const std::vector<std::int64_t> rest = evenly(rows - hot_rows, experts - hot);
  counts.insert(counts.end(), rest.begin(), rest.end());
  return counts;
}

std::vector<std::int64_t> permuted(const std::vector<std::int64_t>& counts, Random& random) {
  std::vector<std::int64_t> out = counts;
  for (std::size_t i = out.size(); i-- > 1;) std::swap(out[i], out[random.below(i + 1)]);
  return out;
}

void check_counts(std::string_view text, const Spec& spec, const GenerateOptions& options) {
  const auto experts = static_cast<std::int64_t>(spec.counts.size());
  const std::int64_t rows =
      std::accumulate(spec.counts.begin(), spec.counts.end(), std::int64_t{0});
  const std::string start = printable(text.substr(0, 24));
  if (options.experts && *options.experts != experts) {
    fail("SPEC '", start, "...' has ", experts, " counts, but experts is ", *options.experts);
  }
  if (options.rows && *options.rows != rows) {
    fail("SPEC '", start, "...' has ", rows, " rows, but rows is ", *options.rows);
  }
}

void check_sizes(std::string_view text, const Spec& spec, const GenerateOptions& options) {
  if (!options.rows) fail("SPEC '", printable(text), "' needs a number of rows: give --rows N");
  if (!options.experts)
    fail("SPEC '", printable(text), "' needs a number of experts: give --experts N");
  if (*options.rows < 0) fail("rows is ", *options.rows, ", expected 0 or more");
  if (*options.experts < 1 || *options.experts > kMaxExperts) {
    fail("experts is ", *options.experts, ", expected 1 to ", kMaxExperts);
  }
  if (spec.hot_experts > *options.experts) {
    fail("SPEC '", printable(text), "': count is ", spec.hot_experts, ", more than ",
         *options.experts, " experts");
  }
}

std::vector<std::int64_t> make(const Spec& spec, std::int64_t rows, std::int64_t experts,
                               Random& random) {
  switch (spec.kind) {
    case Spec::Kind::uniform:
      return evenly(rows, experts);
    case Spec::Kind::zipf:
      return permuted(zipf(rows, experts, spec.s), random);
    case Spec::Kind::dirichlet:
      return dirichlet(rows, experts, spec.alpha, random);
    case Spec::Kind::hotspot:
      return permuted(hotspot(rows, experts, spec.share, spec.hot_experts), random);
    case Spec::Kind::one_hot:
      return permuted(hotspot(rows, experts, 1, 1), random);
    case Spec::Kind::counts:
      break;
  }
  return spec.counts;
}

std::string describe(std::string_view text, const GenerateOptions& options, const Record& record) {
  const auto active =
      std::count_if(record.counts.begin(), record.counts.end(), [](auto c) { return c > 0; });
  const std::int64_t hottest = *std::max_element(record.counts.begin(), record.counts.end());
  const std::string asked = options.rows && options.experts
                                ? concat(" with ", *options.rows, " rows, ", *options.experts,
                                         " experts, seed ", options.seed)
                                : std::string();
  return concat("asked for ", printable(text, 60), asked, "; made ", record.rows(), " rows on ",
                active, " of ", record.counts.size(), " experts, the hottest with ", hottest);
}

}  // namespace

Record generate(std::string_view spec_text, const GenerateOptions& options) {
  const Spec spec = parse_spec(spec_text);
  Record record;
  if (spec.kind == Spec::Kind::counts) {
    check_counts(spec_text, spec, options);
    record.counts = spec.counts;
  } else {
    check_sizes(spec_text, spec, options);
    Random random(options.seed);
    record.counts = make(spec, *options.rows, *options.experts, random);
  }
  record.source = spec_text;
  record.aggregation = Aggregation::per_step;
  record.id_space = IdSpace::logical;
  record.label = describe(spec_text, options, record);
  return record;
}

}  // namespace moesaic::routing
