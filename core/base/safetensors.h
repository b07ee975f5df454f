// Safetensors files: named dense tensors. Layout: the header's length (8 bytes, little-endian), the header (a JSON
// object: per tensor dtype, shape and data_offsets; `__metadata__`, a map of strings), then the data, row-major and
// little-endian. The form is that of huggingface/safetensors 0.4: the data of all tensors fill the file without holes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/integers.h"
#include "core/base/replacing_file.h"

namespace unity {

// Element types that are read; all but f16 and bf16 are also written.
enum class StoredType : std::uint8_t { f16, bf16, f32, f64, i32, i64, u64 };
std::string_view to_string(StoredType type);  // as in the header: "F32"
std::int64_t bytes_of(StoredType type);

struct TensorInfo {
  std::string name;
  StoredType dtype = StoredType::f32;
  Integers dims;             // empty: a scalar
  std::uint64_t offset = 0;  // in the file; the writer sets it
  std::int64_t elements() const;
  std::int64_t bytes() const { return elements() * bytes_of(dtype); }
};

using TensorMetadata = std::map<std::string, std::string>;

// A file opened for reading: the header is read and checked at once, the data of each tensor when asked for.
class SafetensorsFile {
 public:
  // InputError (file, subject, found, expected) when the file cannot be read, is shorter than its header or its data
  // say, or has a header that is not as above: other JSON, an unknown dtype, a size that overflows, data that overlap,
  // leave holes or are not as long as the shape says.
  explicit SafetensorsFile(std::filesystem::path path);
  ~SafetensorsFile();
  SafetensorsFile(SafetensorsFile&& other) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }  // in the order of their data
  const TensorMetadata& metadata() const { return metadata_; }
  const TensorInfo* find(std::string_view name) const;  // null when there is none
  const TensorInfo& at(std::string_view name) const;    // InputError when there is none

  // The tensor's bytes as stored; `to` has room for info.bytes(). InputError when they cannot be read.
  void read(const TensorInfo& info, void* to) const;
  // Converted. Exact: reals from f16, bf16, f32, f64 and i32; integers from i32, i64 and u64 below 2^63. InputError
  // for other types and values.
  std::vector<double> reals(const TensorInfo& info) const;
  std::vector<float> floats(const TensorInfo& info) const;  // f64 is rounded
  std::vector<std::int64_t> integers(const TensorInfo& info) const;

 private:
  void parse_header(std::uint64_t file_bytes);
  template <class T>
  std::vector<T> convert(const TensorInfo& info) const;

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::vector<TensorInfo> tensors_;
  std::map<std::string, std::size_t, std::less<>> index_;
  TensorMetadata metadata_;
};

// Writes a file tensor by tensor, beside the path; finish() makes it durable (fsync) and renames. Without finish() the
// path stays as it was. InputError when writing fails.
class SafetensorsWriter {
 public:
  // `tensors` in the order in which their data will be appended; names differ.
  SafetensorsWriter(std::filesystem::path path, const std::vector<TensorInfo>& tensors,
                    const TensorMetadata& metadata = {});
  ~SafetensorsWriter();

  // The next bytes of the data; in pieces of any size.
  void append(std::span<const std::byte> bytes);
  template <class T>
  void append(const std::vector<T>& values) {
    append(std::as_bytes(std::span<const T>(values)));
  }
  void finish();

  std::uint64_t bytes_written() const { return written_; }
  std::uint32_t crc32() const { return crc_; }  // of the file so far, header included

 private:
  void put(const void* data, std::size_t size);

  std::filesystem::path path_;
  std::unique_ptr<ReplacingFile> file_;       // none after the end
  std::uint64_t written_ = 0, expected_ = 0;  // bytes of the whole file
  std::uint32_t crc_ = 0;
};

// CRC-32 (as in zlib and gzip) of a whole file. InputError when it cannot be read.
std::uint32_t crc32_of_file(const std::filesystem::path& path);

}  // namespace unity
