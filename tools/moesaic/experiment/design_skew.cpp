// SPDX-License-Identifier: Apache-2.0
// skew: the histograms that people have, decode buckets among them, and pairs of a broad and a
// concentrated one at the same number of rows.
#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "experiment/design_parts.hpp"
#include "text.hpp"

namespace moesaic::cli::experiment {
namespace {

/// Effective experts as a share of all.
double breadth(const routing::Record& record) {
  return planner::measure_load(record.counts).effective_experts /
         static_cast<double>(record.counts.size());
}

std::string place(const routing::Record& record) {
  std::string text =
      format("%s layer=%lld step=%lld", record.source.c_str(), static_cast<long long>(record.layer),
             static_cast<long long>(record.step));
  if (record.rank >= 0) text += format(" rank=%lld", static_cast<long long>(record.rank));
  return text + format(" rows=%lld", static_cast<long long>(record.rows()));
}

Case replay(const routing::Record& record, const planner::LayerShape& shape,
            planner::Projection projection) {
  Case one;
  const std::int64_t rows = record.rows();
  const bool decode = rows <= kDecodeMeanRows * static_cast<std::int64_t>(record.counts.size());
  const std::string bucket = decode ? "decode" : "prefill";
  one.group = bucket;
  one.key = place(record);
  one.factors = {{"source", record.source},
                 {"layer", record.layer},
                 {"step", record.step},
                 {"bucket", bucket}};
  if (record.rank >= 0) one.factors.push_back({"rank", record.rank});
  one.shape = shape;
  one.projection = projection;
  one.record = record;
  one.padded = PaddedBatch::copied;
  return one;
}

/// The broadest and the most concentrated record at the median of the records' rows. A single
/// record stands against even rows.
std::vector<Case> pair_of(const std::vector<const routing::Record*>& records,
                          const planner::LayerShape& shape, planner::Projection projection) {
  std::vector<std::int64_t> totals;
  totals.reserve(records.size());
  for (const routing::Record* record : records) totals.push_back(record->rows());
  std::sort(totals.begin(), totals.end());
  const std::int64_t rows = totals[totals.size() / 2];
  const auto narrower = [](const routing::Record* a, const routing::Record* b) {
    return breadth(*a) < breadth(*b);
  };
  const auto [least, most] = std::minmax_element(records.begin(), records.end(), narrower);
  const auto experts = static_cast<std::int64_t>((*least)->counts.size());
  const bool alone = *least == *most;
  routing::Record broad = alone ? even_record(rows, experts) : routing::rescale(**most, rows);
  routing::Record concentrated = routing::rescale(**least, rows);
  std::vector<Case> pair;
  const std::string key = format("experts=%lld rows=%lld", static_cast<long long>(experts),
                                 static_cast<long long>(rows));
  for (const auto& [load, record] :
       {std::pair{"broad", &broad}, std::pair{"concentrated", &concentrated}}) {
    Case one = replay(*record, shape, projection);
    one.group = "pairs at the same rows";
    one.key = "pair " + key + " " + load;
    one.factors.push_back({"pair", key});
    one.factors.push_back({"load", std::string(load)});
    pair.push_back(std::move(one));
  }
  return pair;
}

/// A file that is given twice has the same places twice.
void make_keys_unique(std::vector<Case>& cases) {
  std::set<std::string> known;
  for (Case& one : cases) {
    const std::string key = one.key;
    for (int copy = 2; !known.insert(one.key).second; ++copy) {
      one.key = key + " #" + std::to_string(copy);
    }
  }
}

}  // namespace

Design make_skew(const std::vector<routing::Record>& records, const planner::LayerShape& shape,
                 planner::Projection projection, const DesignOptions& options) {
  const std::vector<Arm> arms = {Arm::grouped, Arm::padded_bmm, Arm::host_loop, Arm::torch};
  Start start =
      start_design({"skew",
                    "histograms of the input",
                    arms,
                    {Arm::grouped, Arm::padded_bmm, Arm::host_loop, Arm::dense, Arm::torch}},
                   options);
  Design& design = start.design;
  // A pair is of layers that could be one model's at one time: as many experts, rows of one octave.
  std::map<std::pair<std::int64_t, int>, std::vector<const routing::Record*>> alike;
  for (const routing::Record& record : records) {
    if (record.dense()) continue;
    design.cases.push_back(replay(record, shape, projection));
    const auto rows = static_cast<std::uint64_t>(record.rows());
    alike[{static_cast<std::int64_t>(record.counts.size()), static_cast<int>(std::bit_width(rows))}]
        .push_back(&record);
  }
  if (design.cases.empty()) refuse("input", "a record with rows", "none");
  for (const auto& [size, same] : alike) {
    for (Case& one : pair_of(same, shape, projection)) design.cases.push_back(std::move(one));
  }
  make_keys_unique(design.cases);
  for (std::size_t i = 0; i < design.cases.size(); ++i) {
    design.cases[i].arms = rotated(start.arms, static_cast<std::int64_t>(i));
  }
  return std::move(design);
}

}  // namespace moesaic::cli::experiment
