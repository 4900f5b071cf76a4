// SPDX-License-Identifier: Apache-2.0
// ZIP archives of .npy members: Megatron's expert-load dump (mcore_ep_load_dump_v1), or one id
// array.
#include <algorithm>
#include <optional>
#include <vector>

#include "routing/npy_header.hpp"
#include "routing/readers.hpp"
#include "routing/zip.hpp"

namespace moesaic::routing {
namespace {

constexpr std::string_view kDumpVersion = "mcore_ep_load_dump_v1";
constexpr std::size_t kMaxArchiveBytes = std::size_t{1} << 30;

std::vector<char> read_all(Input& input) {
  std::vector<char> bytes;
  while (!input.at_end()) {
    const std::size_t old = bytes.size();
    if (old > kMaxArchiveBytes)
      fail(input.name(), ": ZIP archive of more than ", kMaxArchiveBytes, " bytes");
    const auto count =
        std::min<std::size_t>(static_cast<std::size_t>(input.in_avail()), Input::kChunkBytes);
    bytes.resize(old + count);
    input.read_exact(std::span(bytes).last(count), "the ZIP archive");
  }
  return bytes;
}

class Archive {
 public:
  Archive(std::span<const char> bytes, const std::string& name)
      : bytes_(bytes), name_(name), members_(read_zip_directory(bytes, name)) {}

  [[nodiscard]] const std::vector<ZipMember>& members() const { return members_; }
  [[nodiscard]] const ZipMember* find(std::string_view member) const {
    for (const ZipMember& candidate : members_) {
      if (candidate.name == member) return &candidate;
    }
    return nullptr;
  }
  [[nodiscard]] Input open(const ZipMember& member) const {
    return Input(open_zip_member(bytes_, member, name_ + ": " + printable(member.name)),
                 name_ + ": " + printable(member.name));
  }
  /// A small integer member as a flat list; nothing where there is no such member.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> integers(std::string_view member) const {
    constexpr std::int64_t kMaxElements = 1 << 20;
    const ZipMember* found = find(member);
    if (found == nullptr) return std::nullopt;
    Input input = open(*found);
    const NpyHeader header = read_npy_header(input);
    if (header.elements() > kMaxElements)
      fail(input.name(), ": shape ", header.shape_text(), " is too large");
    NpyIntegers reader(input, header, member);
    std::vector<std::int64_t> values(static_cast<std::size_t>(header.elements()));
    reader.read(values);
    return values;
  }
  /// A member that holds one string ('U', UTF-32, or 'S').
  [[nodiscard]] std::string text(const ZipMember& member) const {
    constexpr std::int64_t kMaxBytes = 4096;
    Input input = open(member);
    const NpyHeader header = read_npy_header(input);
    const std::int64_t bytes = header.elements() * header.item_bytes;
    if ((header.kind != 'U' && header.kind != 'S') || bytes > kMaxBytes) {
      fail(input.name(), ": dtype '", printable(header.dtype), "', expected a short string");
    }
    std::string raw(static_cast<std::size_t>(bytes), '\0');
    input.read_exact(raw, "a string");
    std::erase(raw, '\0');  // the version is ASCII: UTF-32 leaves one byte of four
    return raw;
  }

 private:
  std::span<const char> bytes_;
  const std::string& name_;
  std::vector<ZipMember> members_;
};

struct Megatron {
  std::vector<std::int64_t> layer_numbers, forward_counts;
  std::int64_t rank = -1;
};

Megatron read_megatron_header(const Archive& archive, const NpyHeader& loads,
                              const Collector& collector) {
  const ZipMember* version = archive.find("dump_version.npy");
  const std::string found = version == nullptr ? "" : archive.text(*version);
  if (found != kDumpVersion) {
    collector.refuse("dump_version is \"", printable(found), "\", expected \"", kDumpVersion, "\"");
  }
  if (loads.shape.size() != 3 || loads.fortran_order) {
    collector.refuse("loads has shape ", loads.shape_text(),
                     loads.fortran_order ? " in Fortran order" : "",
                     ", expected [layers, forwards, physical experts] in C order");
  }
  const auto layers = static_cast<std::size_t>(loads.shape[0]);
  Megatron out;
  const auto numbers = archive.integers("layer_numbers.npy");
  const auto forwards = archive.integers("forward_counts.npy");
  if (!forwards)
    collector.refuse("has no forward_counts: which forwards of loads are padding is not known");
  for (const auto* list : {&numbers, &forwards}) {
    if (*list && (*list)->size() != layers) {
      collector.refuse(list == &numbers ? "layer_numbers" : "forward_counts", " has ",
                       (*list)->size(), " entries, expected ", layers, " layers");
    }
  }
  out.forward_counts = *forwards;
  for (const std::int64_t count : out.forward_counts) {
    if (count < 0 || count > loads.shape[1]) {
      collector.refuse("forward_counts holds ", count, ", expected 0 to ", loads.shape[1]);
    }
  }
  if (numbers) out.layer_numbers = *numbers;
  const auto rank = archive.integers("ep_rank.npy");
  if (rank && rank->size() == 1) out.rank = std::max<std::int64_t>(rank->front(), -1);
  return out;
}

void read_megatron(const Archive& archive, const ZipMember& member, Collector& collector) {
  collector.begin("Megatron expert-load dump .npz", Form::counts);
  collector.describe(Aggregation::per_step, IdSpace::physical, 0);
  Input input = archive.open(member);
  const NpyHeader loads = read_npy_header(input);
  const Megatron megatron = read_megatron_header(archive, loads, collector);
  const std::int64_t layers = loads.shape[0], forwards = loads.shape[1], experts = loads.shape[2];
  if (experts < 1 || experts > kMaxExperts) {
    collector.refuse("loads has shape ", loads.shape_text(), ", expected 1 to ", kMaxExperts,
                     " experts");
  }
  NpyIntegers integers(input, loads, "loads");
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const auto index = static_cast<std::size_t>(layer);
    for (std::int64_t forward = 0; forward < forwards; ++forward) {
      Record record;
      record.layer = megatron.layer_numbers.empty() ? layer : megatron.layer_numbers[index];
      record.step = forward;
      record.rank = megatron.rank;
      record.aggregation = Aggregation::per_step;
      record.id_space = IdSpace::physical;
      record.counts.resize(static_cast<std::size_t>(experts));
      integers.read(record.counts);
      if (forward < megatron.forward_counts[index]) collector.emit(std::move(record));
    }
  }
}

}  // namespace

void read_npz(Input& input, Collector& collector) {
  const std::vector<char> bytes = read_all(input);
  const Archive archive(bytes, collector.source());
  std::string names;
  const ZipMember* array = nullptr;
  for (const ZipMember& member : archive.members()) {
    if (member.name.ends_with("data.pkl")) refuse_pickle(collector);
    if (names.size() < 200) names += concat(names.empty() ? "" : ", ", printable(member.name));
    if (member.name.ends_with(".npy")) array = &member;
  }
  if (const ZipMember* loads = archive.find("loads.npy")) {
    read_megatron(archive, *loads, collector);
    return;
  }
  if (archive.members().size() != 1 || array == nullptr) {
    collector.refuse("a ZIP with the members ", names.empty() ? "(none)" : names,
                     "; expected Megatron's loads.npy and dump_version.npy, or one array of ids");
  }
  Input member = archive.open(*array);
  read_npy(member, collector);
}

}  // namespace moesaic::routing
