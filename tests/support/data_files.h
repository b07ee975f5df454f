// Files of data that a test makes for itself.
#pragma once

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <stdlib.h>

#include "runtime/data/source.h"

namespace unity::test {

// A temporary folder, with all that is in it removed at the end.
struct DataFolder {
  std::filesystem::path path;
  DataFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "unity-data-XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~DataFolder() {
    std::error_code error;
    std::filesystem::remove_all(path, error);
  }
  DataFolder(const DataFolder&) = delete;
  DataFolder& operator=(const DataFolder&) = delete;
  std::string file(const std::string& name) const { return (path / name).string(); }
  // Makes the folders on the way, too.
  std::string write(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories((path / name).parent_path());
    std::ofstream(path / name, std::ios::binary) << bytes;
    return file(name);
  }
};

// The memory of these numbers.
template <class T>
std::string bytes_of(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// A .npy file, as numpy.save writes it.
inline std::string npy(const std::string& descr, const std::string& shape, const std::string& data, int major = 1,
                       bool fortran = false) {
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}", descr, fortran ? "True" : "False", shape);
  std::size_t head = major == 1 ? 10 : 12;
  header.append(63 - (head + header.size()) % 64, ' ');
  header += '\n';
  std::string bytes = "\x93NUMPY";
  bytes += static_cast<char>(major);
  bytes += '\0';
  for (std::size_t i = 8; i < head; ++i) bytes += static_cast<char>(header.size() >> (8 * (i - 8)));
  return bytes + header + data;
}

// All rows of a source in their order.
inline std::map<std::string, HostTensor> read_all(const DataSource& source) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(source.rows()));
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int64_t>(i);
  return source.read(rows);
}

}  // namespace unity::test
