// SPDX-License-Identifier: Apache-2.0
// What the routing tests share: readers over text in memory, and small writers of the binary
// formats.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "moesaic/error.hpp"
#include "moesaic/routing.hpp"

namespace moesaic::routing::testing {

using Counts = std::vector<std::int64_t>;

struct ReadResult {
  std::vector<Record> records;
  SourceSummary summary;
};

inline ReadResult read_text(std::string_view text, const std::string& name,
                            const ReadOptions& options = {}) {
  ReadResult result;
  result.summary =
      read_bytes(std::as_bytes(std::span(text.data(), text.size())), name, options,
                 [&](Record&& record) { result.records.push_back(std::move(record)); });
  return result;
}

inline ReadOptions with_experts(std::int64_t experts) {
  ReadOptions options;
  options.num_experts = experts;
  return options;
}

inline ReadOptions with_form(Form form) {
  ReadOptions options;
  options.form = form;
  return options;
}

/// The message of the Error{invalid_argument} that `call` throws; "" if it throws nothing.
template <class Call>
std::string refusal_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "";
}

inline std::string refusal(std::string_view text, const std::string& name,
                           const ReadOptions& options = {}) {
  const std::string message = refusal_of([&] { (void)read_text(text, name, options); });
  EXPECT_TRUE(message.starts_with(name)) << "not refused in the file's name: '" << message << "'";
  return message;
}

inline ::testing::AssertionResult says(const std::string& text, std::string_view words) {
  if (text.find(words) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "'" << words << "' is not in '" << text << "'";
}

/// The one warning that contains `words`, or "" where there is none.
inline std::string warning(const ReadResult& result, std::string_view words) {
  for (const std::string& text : result.summary.warnings) {
    if (text.find(words) != std::string::npos) return text;
  }
  return "";
}

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

inline std::string little_endian(std::uint64_t value, int width) {
  std::string out;
  for (int i = 0; i < width; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
  return out;
}

/// An .npy file; `descr` as in "<i4", `shape` as in "(3, 1, 2)".
inline std::string make_npy(const std::string& descr, const std::string& shape,
                            const std::string& data, bool fortran = false, int version = 1) {
  std::string header = "{'descr': '" + descr +
                       "', 'fortran_order': " + (fortran ? "True" : "False") +
                       ", 'shape': " + shape + ", }";
  header += std::string(64 - (10 + header.size()) % 64, ' ');
  header.back() = '\n';
  return "\x93NUMPY" + std::string{static_cast<char>(version), '\0'} +
         little_endian(header.size(), version == 1 ? 2 : 4) + header + data;
}

template <class T>
std::string make_npy(const std::string& descr, const std::string& shape,
                     const std::vector<T>& values) {
  return make_npy(descr, shape, bytes_of(values));
}

/// zlib in one call: gzip (window 31) or raw deflate (window -15).
inline std::string deflated(const std::string& text, int window) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

inline std::string gzipped(const std::string& text) { return deflated(text, 15 + 16); }

/// A ZIP of `members`, stored or deflated.
inline std::string make_zip(const std::vector<std::pair<std::string, std::string>>& members,
                            bool deflate_them) {
  std::string body, directory;
  for (const auto& [name, data] : members) {
    const std::string packed = deflate_them ? deflated(data, -15) : data;
    const uLong crc =
        crc32(0, reinterpret_cast<const Bytef*>(data.data()), static_cast<uInt>(data.size()));
    const std::string sizes = little_endian(crc, 4) + little_endian(packed.size(), 4) +
                              little_endian(data.size(), 4) + little_endian(name.size(), 2);
    const std::string method = little_endian(deflate_them ? 8 : 0, 2) + little_endian(0, 4);
    const std::size_t offset = body.size();
    body += "PK\x03\x04" + little_endian(20, 2) + little_endian(0, 2) + method + sizes +
            little_endian(0, 2) + name + packed;
    directory += "PK\x01\x02" + little_endian(20, 2) + little_endian(20, 2) + little_endian(0, 2) +
                 method + sizes + std::string(12, '\0') + little_endian(offset, 4) + name;
  }
  return body + directory + "PK\x05\x06" + little_endian(0, 4) + little_endian(members.size(), 2) +
         little_endian(members.size(), 2) + little_endian(directory.size(), 4) +
         little_endian(body.size(), 4) + little_endian(0, 2);
}

/// A safetensors file from its JSON header and its data.
inline std::string make_safetensors(const std::string& header, const std::string& data) {
  return little_endian(header.size(), 8) + header + data;
}

}  // namespace moesaic::routing::testing
