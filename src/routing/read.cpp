// SPDX-License-Identifier: Apache-2.0
// Opens a source, finds its format by content, and runs the reader.
#include <cstring>
#include <utility>

#include "moesaic/routing.hpp"
#include "routing/readers.hpp"
#include "routing/spec.hpp"

namespace moesaic::routing {
namespace {

/// The first line, if it ends within the lookahead.
std::string_view first_line(std::string_view head) {
  const std::size_t end = head.find('\n');
  return end == std::string_view::npos ? head : head.substr(0, end);
}

bool is_pickle(std::string_view head) {
  constexpr char kProto = '\x80';  // PROTO opcode, then a protocol of 2 to 5
  return head.size() >= 2 && head[0] == kProto && head[1] >= 2 && head[1] <= 5;
}

// Eight length bytes, then '{'. The upper four are zero below 4 GiB, which no JSON text can begin
// with.
bool is_safetensors(std::string_view head, const std::string& name) {
  if (name.ends_with(".safetensors")) return true;
  return head.size() >= 9 && head[8] == '{' && head.substr(4, 4) == std::string_view("\0\0\0\0", 4);
}

bool is_csv(std::string_view head, const std::string& name) {
  if (name.ends_with(".csv") || name.ends_with(".csv.gz")) return true;
  const std::string_view line = first_line(head);
  for (const char c : line) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x7f || (byte < 0x20 && c != '\r' && c != '\t')) return false;
  }
  // Other separators are no CSV that is read, but its reader can say which one it found.
  return line.find_first_of(",;\t") != std::string_view::npos;
}

bool is_hook_log(std::string_view text, const std::string& name) {
  const std::string_view line = first_line(text);
  if (name.ends_with(".jsonl")) return true;
  return line.size() < Input::kChunkBytes / 2 && is_hook_log_line(line);
}

[[noreturn]] void refuse_unknown(std::string_view head, const Collector& collector) {
  collector.refuse("no known routing format: it begins with '", printable(head, 16),
                   "'; expected JSON, JSON lines, .npy, .npz, CSV or .safetensors, "
                   "plain or gzip");
}

void read_text(Input& input, Collector& collector) {
  const std::string& name = input.name();
  const std::string_view head = input.lookahead();
  const std::size_t start = head.find_first_not_of(" \t\r\n");
  const char first = start == std::string_view::npos ? ' ' : head[start];
  if (first == '{' && is_hook_log(head.substr(start), name)) {
    read_hook_log(input, collector);
  } else if (first == '{' || first == '[') {
    read_json(input, collector);
  } else if (is_csv(head, name)) {
    read_csv(input, collector);
  } else if (first == ' ') {
    collector.refuse("is empty but for white space");
  } else {
    refuse_unknown(head, collector);
  }
}

void read_any(Input& input, Collector& collector) {
  const std::string& name = input.name();
  std::string_view head = input.lookahead();
  const bool torch_name = name.ends_with(".pt") || name.ends_with(".pth") || name.ends_with(".pkl");
  if (head.empty()) collector.refuse("is empty");
  if (is_pickle(head) || (torch_name && head.starts_with("PK"))) refuse_pickle(collector);
  if (head.starts_with("\x93NUMPY")) return read_npy(input, collector);
  if (head.starts_with("PK\x03\x04") || head.starts_with("PK\x05\x06"))
    return read_npz(input, collector);
  if (head.starts_with("\x1f\x8b")) collector.refuse("is gzip within gzip; unpack it once");
  if (head.starts_with("\xff\xfe") || head.starts_with("\xfe\xff")) {
    collector.refuse("is UTF-16 text, expected UTF-8");
  }
  if (is_safetensors(head, name)) return read_safetensors(input, collector);
  input.skip_bom();
  read_text(input, collector);
}

SourceSummary read_source(std::unique_ptr<ByteSource> source, const std::string& name,
                          const ReadOptions& options, const RecordSink& sink) {
  Collector collector(name, options, sink);
  Input input(open_maybe_gzip(std::move(source), name), name);
  read_any(input, collector);
  return collector.finish();
}

}  // namespace

void refuse_pickle(const Collector& collector) {
  collector.refuse(
      "is a pickle, which runs code when it is opened, and is not read; convert it where torch is: "
      "python3 -c "
      "\"import torch,json; d=torch.load('in.pt',weights_only=True); "
      "json.dump({'logical_count':d['logical_count'].tolist()},open('out.json','w'))\"");
}

SourceSummary read_file(const std::string& path, const ReadOptions& options,
                        const RecordSink& sink) {
  const bool bare_word = path.find_first_of("./") == std::string::npos;
  const std::string hint = bare_word ? concat(" (nor is it a SPEC: ", kKnownSpecs, ")") : "";
  return read_source(open_file(path, hint), path, options, sink);
}

SourceSummary read_bytes(std::span<const std::byte> bytes, const std::string& name,
                         const ReadOptions& options, const RecordSink& sink) {
  const std::span chars(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return read_source(open_memory(chars), name, options, sink);
}

}  // namespace moesaic::routing
