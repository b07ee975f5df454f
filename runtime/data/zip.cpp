#include "runtime/data/zip.h"

#include <algorithm>

#include <zlib.h>

#include "core/base/error.h"

namespace unity {
namespace {

// Signatures and sizes of records (PKWARE APPNOTE 6.3, sections 4.3.7, 4.3.12, 4.3.14 to 4.3.16).
constexpr std::uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50;
constexpr std::size_t kLocalSize = 30, kCentralSize = 46, kEndSize = 22, kLocator64Size = 20, kEnd64Size = 56;
constexpr std::uint64_t kIn64 = 0xffffffff;  // the value stands in the 64-bit field
// Deflate's best case: 258 bytes for 2 bits, so what claims to be more is damaged.
constexpr std::uint64_t kLargestRatio = 1032;

class Archive {
 public:
  Archive(const std::string& path, std::span<const std::uint8_t> bytes) : path_(path), bytes_(bytes) {}

  // Little-endian, of 2, 4 or 8 bytes.
  std::uint64_t number(std::uint64_t at, std::size_t size) const {
    std::span<const std::uint8_t> part = range(at, size);
    std::uint64_t value = 0;
    for (std::size_t i = size; i-- > 0;) value = value << 8 | part[i];
    return value;
  }
  std::span<const std::uint8_t> range(std::uint64_t at, std::uint64_t size) const {
    if (at > bytes_.size() || size > bytes_.size() - at)
      throw_input_error("{}: the zip directory points to byte {}, expected below {}", path_, at + size, bytes_.size());
    return bytes_.subspan(at, size);
  }

  // Where the end record stands: last, but for a comment of up to 64 KiB.
  std::uint64_t end_record() const {
    std::uint64_t size = bytes_.size(), lowest = size > kEndSize + 0xffff ? size - kEndSize - 0xffff : 0;
    for (std::uint64_t at = size < kEndSize ? 0 : size - kEndSize + 1; at-- > lowest;)
      if (number(at, 4) == kEnd) return at;
    throw_input_error("{}: found no zip directory, expected one at the end; the file is damaged or cut off", path_);
  }

  ZipMember member(std::uint64_t at) const {
    if (number(at, 4) != kCentral) throw_input_error("{}: the zip directory is damaged at byte {}", path_, at);
    ZipMember m;
    std::span<const std::uint8_t> name = range(at + kCentralSize, number(at + 28, 2));
    m.name.assign(name.begin(), name.end());
    if (number(at + 8, 2) & 1) throw_input_error("{}: member {} is encrypted, expected plain", path_, m.name);
    m.method = static_cast<int>(number(at + 10, 2));
    m.checksum = static_cast<std::uint32_t>(number(at + 16, 4));
    std::uint64_t packed = number(at + 20, 4), header = number(at + 42, 4);
    m.size = number(at + 24, 4);
    read_64(at, m.size, packed, header);
    if (number(header, 4) != kLocal) throw_input_error("{}: member {} has no header", path_, m.name);
    m.packed = range(header + kLocalSize + number(header + 26, 2) + number(header + 28, 2), packed);
    return m;
  }

  std::uint64_t next(std::uint64_t at) const {
    return at + kCentralSize + number(at + 28, 2) + number(at + 30, 2) + number(at + 32, 2);
  }

 private:
  // Those of the three that are kIn64 stand, in this order, in the extra field numbered 1.
  void read_64(std::uint64_t central, std::uint64_t& size, std::uint64_t& packed, std::uint64_t& header) const {
    std::uint64_t at = central + kCentralSize + number(central + 28, 2), end = at + number(central + 30, 2);
    while (at + 4 <= end) {
      std::uint64_t id = number(at, 2), field_end = at + 4 + number(at + 2, 2);
      at += 4;
      for (std::uint64_t* value : {&size, &packed, &header}) {
        if (id != 1 || *value != kIn64 || at + 8 > field_end) continue;
        *value = number(at, 8);
        at += 8;
      }
      at = field_end;
    }
  }

  const std::string& path_;
  std::span<const std::uint8_t> bytes_;
};

}  // namespace

std::vector<ZipMember> zip_members(const std::string& path, std::span<const std::uint8_t> archive) {
  Archive zip(path, archive);
  std::uint64_t end = zip.end_record(), count = zip.number(end + 10, 2), at = zip.number(end + 16, 4);
  if ((count == 0xffff || at == kIn64) && end >= kLocator64Size) {
    std::uint64_t end64 = zip.number(end - kLocator64Size + 8, 8);
    zip.range(end64, kEnd64Size);
    if (zip.number(end64, 4) == kEnd64) count = zip.number(end64 + 32, 8), at = zip.number(end64 + 48, 8);
  }
  std::vector<ZipMember> members;
  for (std::uint64_t i = 0; i < count; ++i, at = zip.next(at)) members.push_back(zip.member(at));
  return members;
}

std::span<const std::uint8_t> unpack_member(const std::string& path, const ZipMember& member,
                                            std::shared_ptr<std::vector<std::uint8_t>>& storage) {
  auto damaged = [&](const char* found) {
    throw_input_error("{}: member {} is damaged: found {}, expected {} bytes with checksum {:08x}", path, member.name,
                      found, member.size, member.checksum);
  };
  std::span<const std::uint8_t> content = member.packed;
  if (member.method == 8) {
    if (member.size / kLargestRatio > member.packed.size()) damaged("too few packed bytes");
    storage = std::make_shared<std::vector<std::uint8_t>>(member.size);
    z_stream z{};
    UNITY_CHECK(inflateInit2(&z, -MAX_WBITS) == Z_OK, "zlib cannot start");
    std::uint64_t in = 0, out = 0;
    int state = Z_OK;
    while (state == Z_OK) {  // in portions, as zlib counts in 32 bits
      z.next_in = const_cast<Bytef*>(member.packed.data() + in);
      z.next_out = storage->data() + out;
      uInt given = z.avail_in = static_cast<uInt>(std::min<std::uint64_t>(member.packed.size() - in, 1u << 30));
      uInt room = z.avail_out = static_cast<uInt>(std::min<std::uint64_t>(member.size - out, 1u << 30));
      state = inflate(&z, Z_NO_FLUSH);
      in += given - z.avail_in, out += room - z.avail_out;
    }
    inflateEnd(&z);
    if (state != Z_STREAM_END || out != member.size) damaged("a broken stream");
    content = *storage;
  } else if (member.method != 0) {
    throw_input_error("{}: member {} is packed by method {}, expected stored (0) or deflated (8)", path, member.name,
                      member.method);
  }
  if (content.size() != member.size) damaged("another size");
  uLong sum = crc32(0, nullptr, 0);
  for (std::size_t at = 0; at < content.size(); at += 1u << 30)
    sum = crc32(sum, content.data() + at, static_cast<uInt>(std::min<std::size_t>(content.size() - at, 1u << 30)));
  if (sum != member.checksum) damaged("another checksum");
  return content;
}

}  // namespace unity
