#include <cmath>

#include <catch2/catch.hpp>

#include "tests/support/data_files.h"

using namespace unity;
using namespace unity::test;

namespace {

std::string line(const std::string& label, const std::string& whole, const std::string& category) {
  std::string out = label;
  for (int i = 0; i < 13; ++i) out += "\t" + whole;
  for (int i = 0; i < 26; ++i) out += "\t" + category;
  return out + "\n";
}

}  // namespace

TEST_CASE("a click log gives logarithms, hashes modulo the tables' rows and a label; empty fields are 0") {
  DataFolder f;
  std::string text = line("1", "9", "ff") + line("0", "-3", "") + line("1", "", "68fd1e64");
  std::string path = f.write("train.txt", text);  // told by its 40 fields
  DataSplit data = open_data(path, {{"sparse.1", {4, 1}, DType::i32, 100}});
  std::map<std::string, std::map<std::string, HostTensor>> rows;
  for (const auto& part : {data.training, data.test})
    for (std::int64_t r = 0; r < part->rows(); ++r) rows[part->where(r)] = part->read(std::vector<std::int64_t>{r});
  auto& first = rows.at(path + ":1");
  CHECK(first.size() == 28);
  CHECK(first.at("label").dims == Dims{1, 1});
  CHECK(first.at("label").reals[0] == 1);
  CHECK(first.at("dense").dims == Dims{1, 13});
  CHECK(first.at("dense").reals[12] == Approx(std::log(10)));
  CHECK(first.at("sparse.0").indices[0] == 255);
  CHECK(first.at("sparse.1").indices[0] == 55);
  auto& second = rows.at(path + ":2");
  CHECK(second.at("dense").reals[0] == 0);
  CHECK(second.at("sparse.25").indices[0] == 0);
  CHECK(rows.at(path + ":3").at("dense").reals[0] == 0);
  CHECK(rows.at(path + ":3").at("sparse.1").indices[0] == 0x68fd1e64 % 100);
}

TEST_CASE("lines of a click log that do not fit are refused with file and line") {
  DataFolder f;
  auto read = [&](const std::string& text) {
    DataSplit data = open_data(f.write("a.tsv", text), {});
    read_all(*data.training), read_all(*data.test);
  };
  CHECK_NOTHROW(read(line("1", "1", "a") + line("0", "2", "b")));
  CHECK_THROWS_WITH(read(line("1", "1", "a") + "1\t2\n"), Catch::Contains("a.tsv:2: found 2 fields, expected 40"));
  CHECK_THROWS_WITH(read(line("2", "1", "a")), Catch::Contains("a.tsv:1: label is 2, expected 0 or 1"));
  CHECK_THROWS_WITH(read(line("", "1", "a")), Catch::Contains("a.tsv:1: found no label, expected 0 or 1"));
  CHECK_THROWS_WITH(read(line("1", "x", "a")), Catch::Contains("a.tsv:1: field 2 is 'x', expected a whole number"));
  CHECK_THROWS_WITH(read(line("1", "1", "zz")), Catch::Contains("field 15 is 'zz', expected a hexadecimal hash"));
  CHECK_THROWS_WITH(read(""), Catch::Contains("found no rows"));
}
