#include <cerrno>
#include <cstdio>
#include <cstring>

#include <nlohmann/json.hpp>
#include <zlib.h>

#include "core/base/safetensors.h"

namespace unity {

SafetensorsWriter::SafetensorsWriter(std::filesystem::path path, const std::vector<TensorInfo>& tensors,
                                     const TensorMetadata& metadata)
    : path_(std::move(path)) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t end = 0;
  for (const TensorInfo& t : tensors) {
    UNITY_CHECK(!header.contains(t.name), "safetensors: tensor '{}' twice", t.name);
    std::uint64_t begin = end;
    end += static_cast<std::uint64_t>(t.bytes());
    header[t.name] = {{"dtype", std::string(to_string(t.dtype))}, {"shape", t.dims}, {"data_offsets", {begin, end}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the data begin at a multiple of 8
  std::uint64_t length = text.size();
  expected_ = sizeof length + length + end;
  file_ = std::make_unique<ReplacingFile>(path_);
  put(&length, sizeof length);
  put(text.data(), text.size());
}

SafetensorsWriter::~SafetensorsWriter() = default;

void SafetensorsWriter::put(const void* data, std::size_t size) {
  file_->write(data, size);
  crc_ = static_cast<std::uint32_t>(crc32_z(crc_, static_cast<const Bytef*>(data), size));
  written_ += size;
}

void SafetensorsWriter::append(std::span<const std::byte> bytes) {
  UNITY_CHECK(file_, "{}: written to after finish", path_.string());
  UNITY_CHECK(bytes.size() <= expected_ - written_, "{}: more data than announced", path_.string());
  put(bytes.data(), bytes.size());
}

void SafetensorsWriter::finish() {
  UNITY_CHECK(file_ && written_ == expected_, "{}: {} bytes written, {} announced", path_.string(), written_,
              expected_);
  file_->commit();
  file_.reset();
}

std::uint32_t crc32_of_file(const std::filesystem::path& path) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> in(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!in) throw_input_error("{}: cannot be read: {}", path.string(), std::strerror(errno));
  std::vector<unsigned char> piece(1 << 20);
  uLong crc = 0;
  while (std::size_t n = std::fread(piece.data(), 1, piece.size(), in.get())) crc = crc32_z(crc, piece.data(), n);
  if (std::ferror(in.get())) throw_input_error("{}: cannot be read: {}", path.string(), std::strerror(errno));
  return static_cast<std::uint32_t>(crc);
}

}  // namespace unity
