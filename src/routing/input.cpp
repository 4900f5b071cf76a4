// SPDX-License-Identifier: Apache-2.0
// Bodies of the byte sources and of Input; the only file of the layer that calls zlib's inflate.
#include "routing/input.hpp"

#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "routing/fail.hpp"

namespace moesaic::routing {
namespace {

class FileSource final : public ByteSource {
 public:
  FileSource(const std::string& path, std::string_view missing_hint) : name_(path) {
    if (path == "-") {
      file_ = stdin;
      return;
    }
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) {
      fail(path, ": cannot be opened: ", std::strerror(errno), missing_hint);
    }
    if (S_ISDIR(status.st_mode)) fail(path, ": is a directory, expected a file");
    if (S_ISREG(status.st_mode)) size_bytes_ = status.st_size;
    file_ = std::fopen(path.c_str(), "rb");
    if (file_ == nullptr) fail(path, ": cannot be opened: ", std::strerror(errno));
  }
  ~FileSource() override {
    if (file_ != nullptr && file_ != stdin) std::fclose(file_);
  }

  std::size_t read(std::span<char> to) override {
    const std::size_t count = std::fread(to.data(), 1, to.size(), file_);
    if (count == 0 && std::ferror(file_) != 0)
      fail(name_, ": cannot be read: ", std::strerror(errno));
    return count;
  }
  [[nodiscard]] std::optional<std::int64_t> size_bytes() const override { return size_bytes_; }

 private:
  std::string name_;
  std::FILE* file_ = nullptr;
  std::optional<std::int64_t> size_bytes_;
};

class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::span<const char> bytes)
      : bytes_(bytes), size_bytes_(static_cast<std::int64_t>(bytes.size())) {}

  std::size_t read(std::span<char> to) override {
    const std::size_t count = std::min(to.size(), bytes_.size());
    std::copy_n(bytes_.begin(), count, to.begin());
    bytes_ = bytes_.subspan(count);
    return count;
  }
  [[nodiscard]] std::optional<std::int64_t> size_bytes() const override { return size_bytes_; }

 private:
  std::span<const char> bytes_;
  std::int64_t size_bytes_;
};

/// Puts bytes that were read for a look back in front of their source.
class PrefixedSource final : public ByteSource {
 public:
  PrefixedSource(std::string prefix, std::unique_ptr<ByteSource> rest)
      : prefix_(std::move(prefix)), rest_(std::move(rest)) {}

  std::size_t read(std::span<char> to) override {
    if (used_ == prefix_.size()) return rest_->read(to);
    const std::size_t count = std::min(to.size(), prefix_.size() - used_);
    std::copy_n(prefix_.begin() + static_cast<std::ptrdiff_t>(used_), count, to.begin());
    used_ += count;
    return count;
  }
  [[nodiscard]] std::optional<std::int64_t> size_bytes() const override {
    return rest_->size_bytes();
  }

 private:
  std::string prefix_;
  std::size_t used_ = 0;
  std::unique_ptr<ByteSource> rest_;
};

enum class Wrapping { gzip, raw };

class InflateSource final : public ByteSource {
 public:
  InflateSource(std::unique_ptr<ByteSource> inner, std::string name, Wrapping wrapping,
                std::optional<std::int64_t> max_bytes)
      : inner_(std::move(inner)), name_(std::move(name)), wrapping_(wrapping), left_(max_bytes) {
    constexpr int kGzipWindow = 15 + 16, kRawWindow = -15;  // zlib's encoding of the wrapping
    const int window = wrapping == Wrapping::gzip ? kGzipWindow : kRawWindow;
    if (inflateInit2(&stream_, window) != Z_OK) fail(name_, ": zlib could not be started");
  }
  ~InflateSource() override { inflateEnd(&stream_); }

  std::size_t read(std::span<char> to) override {
    to = to.first(std::min(to.size(), buffer_.size()));
    stream_.next_out = reinterpret_cast<Bytef*>(to.data());
    stream_.avail_out = static_cast<uInt>(to.size());
    while (stream_.avail_out == to.size() && !done_) step();
    const std::size_t count = to.size() - stream_.avail_out;
    if (left_) {
      *left_ -= static_cast<std::int64_t>(count);
      if (*left_ < 0) fail(name_, ": inflates to more bytes than its directory entry states");
    }
    return count;
  }

 private:
  void step() {
    if (stream_.avail_in == 0) refill();
    if (stream_.avail_in == 0) {
      if (between_members_) {
        done_ = true;
        return;
      }
      fail(name_, ": truncated: the compressed data ends early");
    }
    between_members_ = false;
    const int status = inflate(&stream_, Z_NO_FLUSH);
    if (status == Z_STREAM_END) {
      end_of_member();
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      fail(name_, ": damaged compressed data",
           stream_.msg != nullptr ? concat(" (", stream_.msg, ")") : std::string());
    }
  }
  // A gzip file may hold several members one after another (`cat a.gz b.gz`).
  void end_of_member() {
    if (wrapping_ == Wrapping::raw) {
      done_ = true;
      return;
    }
    inflateReset(&stream_);
    between_members_ = true;
  }
  void refill() {
    const std::size_t count = inner_->read(buffer_);
    stream_.next_in = reinterpret_cast<Bytef*>(buffer_.data());
    stream_.avail_in = static_cast<uInt>(count);
  }

  std::unique_ptr<ByteSource> inner_;
  std::string name_;
  Wrapping wrapping_;
  std::optional<std::int64_t> left_;
  z_stream stream_{};
  std::array<char, Input::kChunkBytes> buffer_{};
  bool between_members_ = false;
  bool done_ = false;
};

}  // namespace

std::unique_ptr<ByteSource> open_file(const std::string& path, std::string_view missing_hint) {
  return std::make_unique<FileSource>(path, missing_hint);
}

std::unique_ptr<ByteSource> open_memory(std::span<const char> bytes) {
  return std::make_unique<MemorySource>(bytes);
}

std::unique_ptr<ByteSource> open_deflate(std::unique_ptr<ByteSource> inner, std::string name,
                                         std::int64_t max_bytes) {
  return std::make_unique<InflateSource>(std::move(inner), std::move(name), Wrapping::raw,
                                         max_bytes);
}

std::unique_ptr<ByteSource> open_maybe_gzip(std::unique_ptr<ByteSource> inner,
                                            const std::string& name) {
  std::string magic(2, '\0');
  std::size_t have = 0;
  while (have < magic.size()) {
    const std::size_t count = inner->read(std::span(magic).subspan(have));
    if (count == 0) break;
    have += count;
  }
  magic.resize(have);
  const bool gzip = magic == "\x1f\x8b";
  auto whole = std::make_unique<PrefixedSource>(std::move(magic), std::move(inner));
  if (!gzip) return whole;
  return std::make_unique<InflateSource>(std::move(whole), name, Wrapping::gzip, std::nullopt);
}

Input::Input(std::unique_ptr<ByteSource> source, std::string name)
    : source_(std::move(source)), name_(std::move(name)), chunk_(kChunkBytes) {
  std::size_t have = 0;
  while (have < chunk_.size()) {
    const std::size_t count = source_->read(std::span(chunk_).subspan(have));
    if (count == 0) break;
    have += count;
  }
  setg(chunk_.data(), chunk_.data(), chunk_.data() + have);
}

std::string_view Input::lookahead() const {
  return {gptr(), static_cast<std::size_t>(egptr() - gptr())};
}

Input::int_type Input::underflow() {
  if (gptr() < egptr()) return traits_type::to_int_type(*gptr());
  if (offset() - progress_offset_ > kMaxTokenBytes) {
    fail(name_, ": byte ", progress_offset_, ": a single item of more than ", kMaxTokenBytes,
         " bytes");
  }
  chunk_start_ = offset();
  const std::size_t count = source_->read(chunk_);
  setg(chunk_.data(), chunk_.data(), chunk_.data() + count);
  return count == 0 ? traits_type::eof() : traits_type::to_int_type(*gptr());
}

bool Input::at_end() { return traits_type::eq_int_type(sgetc(), traits_type::eof()); }

std::optional<std::int64_t> Input::remaining_bytes() const {
  const auto size = source_->size_bytes();
  if (!size) return std::nullopt;
  return *size - offset();
}

void Input::skip_bom() {
  if (lookahead().starts_with("\xEF\xBB\xBF")) gbump(3);
}

void Input::skip(std::int64_t count, std::string_view what) {
  std::array<char, 4096> sink;
  while (count > 0) {
    const auto part = std::min<std::int64_t>(count, static_cast<std::int64_t>(sink.size()));
    read_exact(std::span(sink).first(static_cast<std::size_t>(part)), what);
    count -= part;
  }
}

void Input::read_exact(std::span<char> to, std::string_view what) {
  progress();
  std::size_t have = 0;
  while (have < to.size()) {
    if (at_end()) {
      fail(name_, ": truncated: ends at byte ", offset(), " inside ", what, ", ", to.size() - have,
           " bytes too early");
    }
    const auto count = std::min(to.size() - have, static_cast<std::size_t>(egptr() - gptr()));
    std::copy_n(gptr(), count, to.begin() + static_cast<std::ptrdiff_t>(have));
    gbump(static_cast<int>(count));
    have += count;
    progress();
  }
}

bool Input::read_line(std::string& line) {
  line.clear();
  if (at_end()) return false;
  progress();
  while (!at_end()) {
    char* const newline = std::find(gptr(), egptr(), '\n');
    line.append(gptr(), newline);
    const bool found = newline != egptr();
    gbump(static_cast<int>(newline - gptr()) + (found ? 1 : 0));
    if (found) break;
  }
  progress();
  if (!line.empty() && line.back() == '\r') line.pop_back();
  return true;
}

std::string printable(std::string_view text, std::size_t max_chars) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (const char c : text.substr(0, max_chars)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      out += c;
    } else {
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  if (text.size() > max_chars) out += "...";
  return out;
}

}  // namespace moesaic::routing
