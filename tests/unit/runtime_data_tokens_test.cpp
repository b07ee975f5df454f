#include <catch2/catch.hpp>

#include "tests/support/data_files.h"

using namespace unity;
using namespace unity::test;

namespace {
const std::vector<ModelInput> kInputs = {{"tokens", {8, 3}, DType::i32, 0}, {"labels", {8, 3}, DType::i32, 0}};
using Indices = std::vector<std::int32_t>;
}  // namespace

TEST_CASE("a row of a token file is as long as the model's, and its labels are the tokens one further on") {
  DataFolder f;
  // 8 tokens: rows 0..2 and 3..5 with labels up to token 6; token 7 is left over. The first two bytes are not gzip's.
  std::string bytes = bytes_of<std::uint16_t>({0x8b1f, 1, 2, 3, 65535, 5, 6, 7});
  f.write("train.bin", bytes);
  f.write("val.bin", bytes_of<std::uint16_t>({9, 8, 7, 6}));
  DataSplit data = open_data(f.path.string(), kInputs);
  CHECK(data.training->rows() == 2);
  CHECK(data.training->fields() == std::vector<Field>{{"tokens", {3}, DType::i32, 0}, {"labels", {3}, DType::i32, 0}});
  auto batch = read_all(*data.training);
  CHECK(batch.at("tokens").dims == Dims{2, 3});
  CHECK(batch.at("tokens").indices == Indices{0x8b1f, 1, 2, 3, 65535, 5});
  CHECK(batch.at("labels").indices == Indices{1, 2, 3, 65535, 5, 6});
  CHECK(read_all(*data.test).at("labels").indices == Indices{8, 7, 6});
  data = open_data(f.file("train.bin"), kInputs);
  CHECK(data.training->rows() + data.test->rows() == 2);
}

TEST_CASE("tokens of 32 bits are told by the ending .u32.bin") {
  DataFolder f;
  std::string path = f.write("a.u32.bin", bytes_of<std::uint32_t>({100000, 2, 3, 4}));
  CHECK(read_all(*open_data(path, kInputs).test).at("tokens").indices == Indices{100000, 2, 3});
  f.write("a.u32.bin", bytes_of<std::uint32_t>({1, 2, 3, 1u << 31}));
  CHECK_THROWS_WITH(read_all(*open_data(path, kInputs).test),
                    Catch::Contains("a.u32.bin: row 0: token is 2147483648, expected below 2^31"));
}

TEST_CASE("token files that are too short, odd or without a model for them are refused") {
  DataFolder f;
  CHECK_THROWS_WITH(open_data(f.write("odd.bin", "abc"), kInputs),
                    Catch::Contains("found 3 bytes, expected a multiple"));
  CHECK_THROWS_WITH(open_data(f.write("short.bin", "abcdef"), kInputs),
                    Catch::Contains("found 3 tokens, expected at least 4"));
  CHECK_THROWS_WITH(open_data(f.write("empty.bin", ""), kInputs), Catch::Contains("found 0 tokens"));
  CHECK_THROWS_WITH(open_data(f.write("a.bin", "abcdefgh"), {{"x", {8, 3}, DType::f32, 0}}),
                    Catch::Contains("no input i32[batch, length]"));
}
