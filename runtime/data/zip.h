// Zip archives, as far as .npz files use them: stored and deflated members, with 64-bit sizes where they are large.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace unity {

struct ZipMember {
  std::string name;
  int method = 0;  // 0 stored, 8 deflated
  std::uint32_t checksum = 0;
  std::uint64_t size = 0;                // unpacked
  std::span<const std::uint8_t> packed;  // in the archive
};

// The members that the central directory lists. InputError "path: ..." when there is none, or it points outside the
// archive.
std::vector<ZipMember> zip_members(const std::string& path, std::span<const std::uint8_t> archive);

// Its content: in the archive itself when stored, else unpacked into `storage`. InputError when the content is damaged,
// or its method another.
std::span<const std::uint8_t> unpack_member(const std::string& path, const ZipMember& member,
                                            std::shared_ptr<std::vector<std::uint8_t>>& storage);

}  // namespace unity
