// SPDX-License-Identifier: Apache-2.0
// A chunked byte stream with a name: file, standard input, memory or gzip over any of them.
// Knows nothing of routing formats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <streambuf>
#include <string>
#include <string_view>
#include <vector>

namespace moesaic::routing {

/// Where bytes come from. Every error that it throws begins with the source's name.
class ByteSource {
 public:
  ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;
  virtual ~ByteSource() = default;

  /// Up to `to.size()` bytes; 0 only at the end.
  virtual std::size_t read(std::span<char> to) = 0;
  /// Bytes in all, where that is known beforehand.
  [[nodiscard]] virtual std::optional<std::int64_t> size_bytes() const { return std::nullopt; }
};

/// A file, or standard input for "-". Refuses directories and what cannot be opened; `missing_hint`
/// ends the message where there is no such file.
[[nodiscard]] std::unique_ptr<ByteSource> open_file(const std::string& path,
                                                    std::string_view missing_hint);
/// Bytes that outlive the source.
[[nodiscard]] std::unique_ptr<ByteSource> open_memory(std::span<const char> bytes);
/// Raw deflate data (a ZIP member), to be inflated to at most `max_bytes`.
[[nodiscard]] std::unique_ptr<ByteSource> open_deflate(std::unique_ptr<ByteSource> inner,
                                                       std::string name, std::int64_t max_bytes);
/// Inflates if `inner` begins with the gzip magic (whatever the file is called), else passes it on.
[[nodiscard]] std::unique_ptr<ByteSource> open_maybe_gzip(std::unique_ptr<ByteSource> inner,
                                                          const std::string& name);

/// The reading end: a streambuf whose underflow refills one chunk.
class Input : public std::streambuf {
 public:
  static constexpr std::size_t kChunkBytes = std::size_t{1} << 16;
  /// Longest stretch that a text reader may swallow without progress(): bounds its token buffer.
  static constexpr std::int64_t kMaxTokenBytes = std::int64_t{1} << 24;

  Input(std::unique_ptr<ByteSource> source, std::string name);

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// The first chunk; valid before anything is consumed.
  [[nodiscard]] std::string_view lookahead() const;
  /// Bytes consumed so far.
  [[nodiscard]] std::int64_t offset() const noexcept { return chunk_start_ + (gptr() - eback()); }
  /// True when every byte has been consumed.
  [[nodiscard]] bool at_end();
  /// Bytes not yet consumed, where the size is known.
  [[nodiscard]] std::optional<std::int64_t> remaining_bytes() const;

  void skip_bom();
  void skip(std::int64_t count, std::string_view what);
  /// Fills `to` or throws: truncated inside `what`.
  void read_exact(std::span<char> to, std::string_view what);
  /// One line without its LF or CRLF; false at the end. Refuses lines of more than kMaxTokenBytes.
  [[nodiscard]] bool read_line(std::string& line);
  /// Tells the token bound that a token has ended here.
  void progress() noexcept { progress_offset_ = offset(); }

 protected:
  int_type underflow() override;

 private:
  std::unique_ptr<ByteSource> source_;
  std::string name_;
  std::vector<char> chunk_;
  std::int64_t chunk_start_ = 0;
  std::int64_t progress_offset_ = 0;
};

}  // namespace moesaic::routing
