// SPDX-License-Identifier: Apache-2.0
// Expert-row histograms: readers of the dumps that people have, generators of synthetic routing,
// and the two operations on one histogram (rescale, expert-parallel share). No GPU, no planner
// figures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moesaic::routing {

/// Most experts that a reader or a generator accepts in one layer.
inline constexpr std::int64_t kMaxExperts = 65536;

/// What an expert index means: an expert of the model, or a slot that a placement fills with one.
enum class IdSpace : std::uint8_t { logical, physical, unstated };
/// Whether counts belong to one forward pass or are summed over many (an average when read as one).
enum class Aggregation : std::uint8_t { per_step, summed, unstated };
/// What the numbers of a source are.
enum class Form : std::uint8_t { counts, offsets, ids, weights, generated };

/// The words used in files and on the command line: "logical", "per_step", "counts", …
[[nodiscard]] std::string_view to_string(IdSpace value) noexcept;
[[nodiscard]] std::string_view to_string(Aggregation value) noexcept;
[[nodiscard]] std::string_view to_string(Form value) noexcept;
/// Reads "counts", "offsets", "ids" or "weights"; nothing for any other word.
[[nodiscard]] std::optional<Form> parse_form(std::string_view word) noexcept;

/// Rows per expert of one layer at one step.
struct Record {
  std::string source;  ///< File name as given, or the SPEC.
  std::int64_t layer = 0;
  std::int64_t step = 0;
  std::int64_t rank = -1;    ///< Source or expert-parallel rank; -1: the whole layer.
  std::int64_t tokens = -1;  ///< Tokens routed; -1: the source does not say.
  std::int64_t top_k = 0;    ///< Experts per token; 0: the source does not say.
  Aggregation aggregation = Aggregation::unstated;
  IdSpace id_space = IdSpace::unstated;
  std::vector<std::int64_t> counts;  ///< [E], each >= 0; their sum fits std::int64_t.
  std::int64_t invalid_slots = 0;    ///< Padding slots (id < 0) beside `counts`, never inside.
  std::string label;                 ///< The source's note, "rescaled …", what a generator made.

  /// Sum of `counts`.
  [[nodiscard]] std::int64_t rows() const noexcept;
  /// True when no expert has a row, as in the dense layers of a dump.
  [[nodiscard]] bool dense() const noexcept;
};

/// What the caller knows beforehand, and which records it wants.
struct ReadOptions {
  std::optional<std::int64_t>
      num_experts;                    ///< Needed for id files; elsewhere checked against the file.
  std::optional<std::int64_t> layer;  ///< Only records of this layer reach the sink.
  std::optional<std::int64_t> step;   ///< Only records of this step reach the sink.
  std::optional<Form> form;           ///< Settles files that can be read in two ways.
};

/// What one source turned out to be.
struct SourceSummary {
  std::string source;
  std::string
      format;  ///< "moesaic.routing/1 JSON", "SGLang logical_count JSON", "top-k ids .npy", …
  Form form = Form::counts;
  Aggregation aggregation = Aggregation::unstated;
  IdSpace id_space = IdSpace::unstated;
  std::int64_t records = 0;           ///< Records that reached the sink.
  std::int64_t layers = 0;            ///< Distinct layers in the source, filtered ones included.
  std::int64_t experts = 0;           ///< Largest number of experts of any record.
  std::int64_t top_k = 0;             ///< 0: not stated.
  std::vector<std::string> warnings;  ///< One sentence each, beginning with the source's name.
};

/// Receives records in the order of the source, one at a time.
using RecordSink = std::function<void(Record&&)>;

/// Reads one file, or standard input for "-", and hands every record to `sink`.
/// The format follows from the content (gzip, a BOM and CRLF are accepted); of a JSON
/// record that went on, a few words stay in memory, never its counts.
/// @throws Error{invalid_argument}, message beginning with the file's name. Damage near the end of
/// a file is found after earlier records went out: whoever prints must hold its output until the
/// return.
SourceSummary read_file(const std::string& path, const ReadOptions& options,
                        const RecordSink& sink);

/// The same over bytes in memory; `name` stands for the file's name (its extension is a hint only).
SourceSummary read_bytes(std::span<const std::byte> bytes, const std::string& name,
                         const ReadOptions& options, const RecordSink& sink);

/// Expands shell patterns (sorted), and leaves "-", names of existing files, SPECs and plain names
/// alone.
/// @throws Error{invalid_argument} for a pattern that matches nothing, naming it.
[[nodiscard]] std::vector<std::string> expand_inputs(const std::vector<std::string>& inputs);

/// True for a known SPEC name, alone or followed by ':', and for any `word:…` that has no '/' or
/// '.' before the colon (so that a misspelt SPEC is reported as one). Ask for an existing file
/// first.
[[nodiscard]] bool looks_like_spec(std::string_view text) noexcept;

/// Size and seed of a synthetic histogram.
struct GenerateOptions {
  std::optional<std::int64_t> rows;     ///< >= 0. Needed by every SPEC but `counts`.
  std::optional<std::int64_t> experts;  ///< 1 to kMaxExperts. Needed by every SPEC but `counts`.
  std::uint64_t seed = 0;
};

/// Makes the histogram that a SPEC names; the total is exact.
///
///   uniform                 as even as integers allow (differs by at most one row)
///   zipf:S                  the r-th hottest expert gets a share proportional to r^-S, S >= 0
///   dirichlet:ALPHA         shares drawn from a symmetric Dirichlet distribution, ALPHA > 0
///   hotspot:SHARE[,COUNT]   SHARE of the rows evenly on COUNT experts (1), the rest evenly on the
///   others one-hot                 all rows on one expert counts:17,17,16         exactly these;
///   rows and experts are absent or agree
///
/// Parameters may be named (`zipf:s=1.2`, `dirichlet:alpha=0.3`, `hotspot:share=0.9,count=2`). The
/// seed chooses which experts are hot (zipf, hotspot, one-hot) and the draw (dirichlet). The same
/// SPEC, sizes and seed give the same counts with every compiler and standard library. `label` says
/// what was asked and what was made.
/// @throws Error{invalid_argument} naming the unknown SPEC or key, or the value out of range.
[[nodiscard]] Record generate(std::string_view spec, const GenerateOptions& options);

/// Scales a histogram to `rows` rows in all by largest remainder (ties: lowest expert), in exact
/// integer arithmetic. The label says "rescaled"; an all-zero record stays all-zero.
/// @throws Error{invalid_argument} if rows < 0.
[[nodiscard]] Record rescale(const Record& record, std::int64_t rows);

/// Throws unless `experts + redundant` divides evenly over `ep` ranks; the message lists the ep
/// sizes and the numbers of redundant experts that work.
/// @throws Error{invalid_argument}
void require_even_share(std::int64_t experts, std::int64_t redundant, std::int64_t ep);

/// The contiguous share of the experts that rank `rank` of `ep` owns: counts [E / ep], rank set.
/// @throws Error{invalid_argument} if ep does not divide the experts or rank is outside 0 to ep
/// - 1.
[[nodiscard]] Record rank_share(const Record& record, std::int64_t ep, std::int64_t rank);

}  // namespace moesaic::routing
