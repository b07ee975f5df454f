#include <catch2/catch.hpp>
#include <zlib.h>

#include "runtime/data/file_bytes.h"
#include "tests/support/data_files.h"

using namespace unity;
using namespace unity::test;

namespace {

// Magic and sizes, big-endian.
std::string idx(const std::vector<std::uint32_t>& dims, const std::string& data) {
  std::string out = {0, 0, 8, static_cast<char>(dims.size())};
  for (std::uint32_t n : dims)
    for (int shift : {24, 16, 8, 0}) out += static_cast<char>(n >> shift);
  return out + data;
}

void write_train(const DataFolder& f) {
  f.write("train-images-idx3-ubyte", idx({2, 1, 2}, {0, '\xff', 51, 102}));
  f.write("train-labels-idx1-ubyte", idx({2}, {7, 3}));
}

}  // namespace

TEST_CASE("an IDX folder gives images in 0..1, with test rows of their own where there are t10k files") {
  DataFolder f;
  write_train(f);
  CHECK(open_data(f.path.string(), {}).test->rows() == 1);  // a fifth of 2 rows, rounded up
  f.write("t10k-images-idx3-ubyte", idx({1, 1, 2}, {0, 0}));
  f.write("t10k-labels-idx1-ubyte", idx({1}, {9}));
  DataSplit data = open_data(f.path.string(), {});
  CHECK(data.training->fields() == std::vector<Field>{{"image", {1, 2}, DType::f64, 0}, {"labels", {}, DType::i32, 8}});
  auto batch = read_all(*data.training);
  CHECK(batch.at("image").reals == std::vector<double>{0, 1, 0.2, 0.4});
  CHECK(batch.at("labels").indices == std::vector<std::int32_t>{7, 3});
  CHECK(read_all(*data.test).at("labels").indices == std::vector<std::int32_t>{9});
}

TEST_CASE("packed IDX files are unpacked") {
  DataFolder f;
  write_train(f);
  for (std::string name : {"train-images-idx3-ubyte", "train-labels-idx1-ubyte"}) {
    std::string content = name.find("images") != std::string::npos ? idx({2, 1, 1}, "ab") : idx({2}, {1, 1});
    gzFile file = gzopen(f.file(name + ".gz").c_str(), "wb");
    gzwrite(file, content.data(), static_cast<unsigned>(content.size()));
    gzclose(file);
    std::filesystem::remove(f.path / name);
  }
  CHECK(read_all(*open_data(f.path.string(), {}).test).at("labels").indices == std::vector<std::int32_t>{1});
}

TEST_CASE("a packed file that unpacks to too much is refused") {
  DataFolder f;
  std::string content(1 << 20, '\0');
  gzFile file = gzopen(f.file("zeros.gz").c_str(), "wb");
  gzwrite(file, content.data(), static_cast<unsigned>(content.size()));
  gzclose(file);
  CHECK(unpack_gzip(f.file("zeros.gz"), 1 << 20) == content);
  CHECK_THROWS_WITH(unpack_gzip(f.file("zeros.gz"), (1 << 20) - 1),
                    Catch::Contains("zeros.gz: unpacks to more than 1.049 MB, expected less"));
}

TEST_CASE("damaged IDX files are refused") {
  DataFolder f;
  std::string folder = f.path.string();
  f.write("train-images-idx3-ubyte", idx({2, 1, 2}, "abcd"));
  CHECK_THROWS_WITH(open_data(folder, {}), Catch::Contains("found no labels, expected train-labels-idx1-ubyte"));
  f.write("train-labels-idx1-ubyte", idx({3}, "abc"));
  CHECK_THROWS_WITH(open_data(folder, {}), Catch::Contains("found 3 labels, expected 2 as in"));
  f.write("train-images-idx3-ubyte", idx({2, 1, 2}, "abc"));
  CHECK_THROWS_WITH(open_data(folder, {}), Catch::Contains("found 3 bytes of data, expected 2 x 1 x 2"));
  f.write("train-images-idx3-ubyte", idx({0xffffffff, 0xffffffff, 0xffffffff}, "abc"));
  CHECK_THROWS_WITH(open_data(folder, {}), Catch::Contains("found 3 bytes of data"));
  f.write("train-images-idx3-ubyte", idx({2, 2}, "abcdefgh"));
  CHECK_THROWS_WITH(open_data(folder, {}), Catch::Contains("IDX magic is 0x00000802, expected 0x00000803"));
  f.write("train-images-idx3-ubyte", "abc");
  CHECK_THROWS_WITH(open_data(folder, {}), Catch::Contains("found 3 bytes, expected a header of 16"));
}
