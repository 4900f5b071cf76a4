// SPDX-License-Identifier: Apache-2.0
// Bodies of the ZIP directory reader; every field is checked against the bytes that are there.
#include "routing/zip.hpp"

#include <zlib.h>

#include <algorithm>
#include <cstdio>

#include "routing/fail.hpp"

namespace moesaic::routing {
namespace {

constexpr std::uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50;
constexpr std::uint32_t kEnd64 = 0x06064b50, kEnd64Locator = 0x07064b50;
constexpr std::uint32_t kSeeZip64 = 0xffffffff;
constexpr std::int64_t kEndBytes = 22, kLocatorBytes = 20, kEnd64Bytes = 56;
constexpr std::int64_t kCentralBytes = 46, kLocalBytes = 30;
constexpr std::int64_t kMaxMembers = 4096;

/// Little-endian fields of a byte range, with every access checked.
class Fields {
 public:
  Fields(std::span<const char> bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(bytes_.size()); }
  [[nodiscard]] std::uint64_t at(std::int64_t offset, int width) const {
    need(offset, width);
    std::uint64_t value = 0;
    for (int i = width; i-- > 0;) {
      value = value << 8 | static_cast<unsigned char>(bytes_[static_cast<std::size_t>(offset + i)]);
    }
    return value;
  }
  [[nodiscard]] std::uint32_t u32(std::int64_t offset) const {
    return static_cast<std::uint32_t>(at(offset, 4));
  }
  [[nodiscard]] std::int64_t u16(std::int64_t offset) const {
    return static_cast<std::int64_t>(at(offset, 2));
  }
  /// A 64-bit size or offset, which must lie within what int64 and the file can hold.
  [[nodiscard]] std::int64_t u64(std::int64_t offset) const {
    const std::uint64_t value = at(offset, 8);
    if (value > INT64_MAX) damaged();
    return static_cast<std::int64_t>(value);
  }
  [[nodiscard]] std::string text(std::int64_t offset, std::int64_t count) const {
    need(offset, count);
    return std::string(bytes_.data() + offset, static_cast<std::size_t>(count));
  }
  void need(std::int64_t offset, std::int64_t count) const {
    if (offset < 0 || count < 0 || offset > size() || count > size() - offset) damaged();
  }
  [[noreturn]] void damaged() const { fail(name_, ": damaged or truncated ZIP archive"); }

 private:
  std::span<const char> bytes_;
  const std::string& name_;
};

std::int64_t find_end(const Fields& fields) {
  constexpr std::int64_t kMaxComment = 65535;
  const std::int64_t last = fields.size() - kEndBytes;
  for (std::int64_t at = last; at >= 0 && at >= last - kMaxComment; --at) {
    if (fields.u32(at) == kEnd) return at;
  }
  fields.damaged();
}

/// Sizes of 0xffffffff stand in the zip64 extra field instead, in this order.
void apply_zip64(const Fields& fields, std::int64_t extra, std::int64_t extra_bytes,
                 ZipMember& member) {
  const std::int64_t stop = extra + extra_bytes;
  while (extra + 4 <= stop) {
    const std::int64_t tag = fields.u16(extra);
    const std::int64_t size = fields.u16(extra + 2);
    extra += 4;
    if (tag == 1) {
      for (std::int64_t* field :
           {&member.size_bytes, &member.packed_bytes, &member.header_offset}) {
        if (*field != kSeeZip64) continue;
        *field = fields.u64(extra);
        extra += 8;
      }
      return;
    }
    extra += size;
  }
}

std::unique_ptr<ByteSource> unpack(std::span<const char> packed, const ZipMember& member,
                                   const std::string& name) {
  constexpr int kStored = 0, kDeflated = 8;
  if (member.method == kStored) return open_memory(packed);
  if (member.method == kDeflated) return open_deflate(open_memory(packed), name, member.size_bytes);
  fail(name, ": ZIP method ", member.method, ", expected stored or deflated");
}

std::string hex(std::uint32_t crc) {
  char text[9];
  std::snprintf(text, sizeof text, "%08x", static_cast<unsigned>(crc));
  return text;
}

/// Reads `source` to its end and compares what it holds with the directory.
void check_member(ByteSource& source, const ZipMember& member, const std::string& name) {
  std::vector<char> chunk(Input::kChunkBytes);
  std::int64_t size = 0;
  uLong crc = crc32(0, nullptr, 0);
  while (const std::size_t count = source.read(chunk)) {
    crc = crc32(crc, reinterpret_cast<const Bytef*>(chunk.data()), static_cast<uInt>(count));
    size += static_cast<std::int64_t>(count);
  }
  if (size != member.size_bytes) {
    fail(name, ": damaged: ", size, " bytes, expected ", member.size_bytes,
         " as the ZIP's directory states");
  }
  const auto found = static_cast<std::uint32_t>(crc);
  if (found != member.crc) {
    fail(name, ": damaged: its CRC-32 is ", hex(found), ", expected ", hex(member.crc),
         " as the ZIP's directory states");
  }
}

}  // namespace

std::vector<ZipMember> read_zip_directory(std::span<const char> zip, const std::string& name) {
  const Fields fields(zip, name);
  const std::int64_t end = find_end(fields);
  std::int64_t count = fields.u16(end + 10);
  std::int64_t at = fields.u32(end + 16);
  if (end >= kLocatorBytes && fields.u32(end - kLocatorBytes) == kEnd64Locator) {
    const std::int64_t end64 = fields.u64(end - kLocatorBytes + 8);
    fields.need(end64, kEnd64Bytes);
    if (fields.u32(end64) != kEnd64) fields.damaged();
    count = fields.u64(end64 + 32);
    at = fields.u64(end64 + 48);
  }
  if (count > kMaxMembers)
    fail(name, ": ZIP with ", count, " members, expected at most ", kMaxMembers);
  std::vector<ZipMember> members;
  for (std::int64_t i = 0; i < count; ++i) {
    fields.need(at, kCentralBytes);
    if (fields.u32(at) != kCentral) fields.damaged();
    ZipMember member;
    member.method = static_cast<int>(fields.u16(at + 10));
    member.crc = fields.u32(at + 16);
    member.packed_bytes = fields.u32(at + 20);
    member.size_bytes = fields.u32(at + 24);
    const std::int64_t name_bytes = fields.u16(at + 28), extra_bytes = fields.u16(at + 30);
    member.header_offset = fields.u32(at + 42);
    member.name = fields.text(at + kCentralBytes, name_bytes);
    apply_zip64(fields, at + kCentralBytes + name_bytes, extra_bytes, member);
    at += kCentralBytes + name_bytes + extra_bytes + fields.u16(at + 32);
    members.push_back(std::move(member));
  }
  return members;
}

std::unique_ptr<ByteSource> open_zip_member(std::span<const char> zip, const ZipMember& member,
                                            const std::string& name) {
  const Fields fields(zip, name);
  const std::int64_t header = member.header_offset;
  fields.need(header, kLocalBytes);
  if (fields.u32(header) != kLocal) fields.damaged();
  const std::int64_t start =
      header + kLocalBytes + fields.u16(header + 26) + fields.u16(header + 28);
  fields.need(start, member.packed_bytes);
  const auto packed =
      zip.subspan(static_cast<std::size_t>(start), static_cast<std::size_t>(member.packed_bytes));
  check_member(*unpack(packed, member, name), member, name);
  return unpack(packed, member, name);
}

}  // namespace moesaic::routing
