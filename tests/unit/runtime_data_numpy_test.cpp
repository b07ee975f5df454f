#include <limits>

#include <catch2/catch.hpp>
#include <zlib.h>

#include "runtime/data/npy_array.h"
#include "tests/support/data_files.h"

using namespace unity;
using namespace unity::test;

namespace {

std::vector<double> row(const NpyArray& array, std::int64_t r) {
  std::vector<double> values(static_cast<std::size_t>(array.row_elements()));
  array.read_reals(r, values.data());
  return values;
}

NpyArray parse(const std::string& file) {
  auto bytes = std::make_shared<std::string>(file);
  return parse_npy("a.npy", {reinterpret_cast<const std::uint8_t*>(bytes->data()), bytes->size()}, bytes);
}

void put(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(i < 8 ? value >> (8 * i) : 0);
}

struct Member {
  std::string name, content;
  bool deflated = false;
};

std::string deflate_raw(const std::string& text) {
  std::string out(text.size() + 100, '\0');
  z_stream z{};
  REQUIRE(deflateInit2(&z, 9, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY) == Z_OK);
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&z, Z_FINISH) == Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

// With `wide`, sizes and offsets stand in the 64-bit fields alone.
std::string zip(const std::vector<Member>& members, bool wide = false) {
  std::string out, directory;
  for (const auto& [name, content, deflated] : members) {
    std::string packed = deflated ? deflate_raw(content) : content;
    auto sum = crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size()));
    std::uint64_t offset = out.size();
    std::string common;
    put(common, 45, 2), put(common, 0, 2), put(common, deflated ? 8 : 0, 2), put(common, 0, 4), put(common, sum, 4);
    put(common, wide ? 0xffffffff : packed.size(), 4), put(common, wide ? 0xffffffff : content.size(), 4);
    put(common, name.size(), 2);
    put(out, 0x04034b50, 4);
    out += common;
    put(out, 0, 2);
    out += name + packed;
    std::string extra;
    if (wide) put(extra, 1, 2), put(extra, 24, 2), put(extra, content.size(), 8), put(extra, packed.size(), 8);
    if (wide) put(extra, offset, 8);
    put(directory, 0x02014b50, 4), put(directory, 45, 2);
    directory += common;
    put(directory, extra.size(), 2), put(directory, 0, 2 + 2 + 2 + 4), put(directory, wide ? 0xffffffff : offset, 4);
    directory += name + extra;
  }
  std::uint64_t start = out.size();
  out += directory;
  if (wide) {
    std::uint64_t end64 = out.size();
    put(out, 0x06064b50, 4), put(out, 44, 8), put(out, 45, 2), put(out, 45, 2), put(out, 0, 8);
    put(out, members.size(), 8), put(out, members.size(), 8), put(out, directory.size(), 8), put(out, start, 8);
    put(out, 0x07064b50, 4), put(out, 0, 4), put(out, end64, 8), put(out, 1, 4);
  }
  put(out, 0x06054b50, 4), put(out, 0, 4), put(out, wide ? 0xffff : members.size(), 2);
  put(out, wide ? 0xffff : members.size(), 2), put(out, directory.size(), 4), put(out, wide ? 0xffffffff : start, 4);
  put(out, 0, 2);
  return out;
}

std::vector<Member> two_arrays(bool deflated) {
  return {{"x.npy", npy("<f4", "(3, 2)", bytes_of<float>({1, 2, 3, 4, 5, 6})), deflated},
          {"y.npy", npy("<i8", "(3,)", bytes_of<std::int64_t>({0, 4, 1})), deflated}};
}

}  // namespace

TEST_CASE("npy arrays of every version and type are read") {
  for (int major : {1, 2, 3})
    CHECK(row(parse(npy("<f4", "(2, 2)", bytes_of<float>({1, 2, 3, 4.5}), major)), 1) == std::vector<double>{3, 4.5});
  CHECK(row(parse(npy("<f8", "(1, 2)", bytes_of<double>({0.1, -2}))), 0) == std::vector<double>{0.1, -2});
  CHECK(row(parse(npy("<i4", "(2,)", bytes_of<std::int32_t>({7, -8}))), 1) == std::vector<double>{-8});
  CHECK(row(parse(npy("<i8", "(2,)", bytes_of<std::int64_t>({7, -8}))), 1) == std::vector<double>{-8});
  CHECK(row(parse(npy("|u1", "(1, 2)", bytes_of<std::uint8_t>({255, 1}))), 0) == std::vector<double>{255, 1});
  CHECK(row(parse(npy("|b1", "(1, 2)", bytes_of<std::uint8_t>({0, 1}))), 0) == std::vector<double>{0, 1});
  CHECK(parse(npy("<i4", "(3,)", bytes_of<std::int32_t>({3, 9, 1}))).bound() == 10);
}

TEST_CASE("an npy array in Fortran's order is read as the same array in C's") {
  // a[i][j][k] = 100 i + 10 j + k of shape (2, 2, 3): the first index runs fastest in the file.
  std::vector<float> values;
  for (int k = 0; k < 3; ++k)
    for (int j = 0; j < 2; ++j)
      for (int i = 0; i < 2; ++i) values.push_back(static_cast<float>(100 * i + 10 * j + k));
  NpyArray a = parse(npy("<f4", "(2, 2, 3)", bytes_of(values), 1, true));
  CHECK(row(a, 0) == std::vector<double>{0, 1, 2, 10, 11, 12});
  CHECK(row(a, 1) == std::vector<double>{100, 101, 102, 110, 111, 112});
}

TEST_CASE("damaged npy files are refused") {
  std::string good = npy("<f4", "(2, 2)", bytes_of<float>({1, 2, 3, 4}));
  CHECK_THROWS_WITH(parse("not numpy"), Catch::Contains("found no npy magic"));
  CHECK_THROWS_WITH(parse(good.substr(0, 8)), Catch::Contains("cut off in the npy header"));
  CHECK_THROWS_WITH(parse(good.substr(0, 40)), Catch::Contains("npy header is 118 bytes long, found 30"));
  CHECK_THROWS_WITH(parse(good.substr(0, good.size() - 1)), Catch::Contains("found 15 bytes of data, expected 16"));
  CHECK_THROWS_WITH(parse(npy("<f4", "(2, 2)", "", 9)), Catch::Contains("npy version is 9"));
  CHECK_THROWS_WITH(parse(npy(">f4", "(2, 2)", "")), Catch::Contains("a.npy: dtype is '>f4', expected <f4"));
  CHECK_THROWS_WITH(parse(npy("<f4", "()", "1234")), Catch::Contains("single number"));
  CHECK_THROWS_WITH(parse(npy("<f4", "(0, 3)", "")), Catch::Contains("shape is (0, 3)"));
  CHECK_THROWS_WITH(parse(npy("<f4", "(-1, 3)", "")), Catch::Contains("npy header is"));
  CHECK_THROWS_WITH(parse(npy("<f8", "(4611686018427387904, 9)", "")), Catch::Contains("that memory can hold"));
  CHECK_THROWS_WITH(parse(npy("<f8', 'more': '", "(1,)", "12345678")), Catch::Contains("expected descr"));
}

TEST_CASE("x.npy takes its labels from y.npy beside it, and refuses NaN with the row") {
  DataFolder f;
  std::string path = f.write("x_train.npy", npy("|u1", "(3, 1, 2)", bytes_of<std::uint8_t>({0, 1, 2, 3, 4, 255})));
  CHECK_THROWS_WITH(open_data(path, {}), Catch::Contains("x_train.npy: found no labels, expected them in") &&
                                             Catch::Contains("y_train.npy"));
  f.write("y_train.npy", npy("<i8", "(3,)", bytes_of<std::int64_t>({2, 0, 1})));
  DataSplit data = open_data(path, {});
  CHECK(data.training->fields() ==
        std::vector<Field>{{"features", {1, 2}, DType::f64, 0}, {"labels", {}, DType::i32, 3}});
  auto batch = read_all(*data.test);
  std::int32_t label = batch.at("labels").indices[0];
  double first = label == 2 ? 0 : label == 0 ? 2 : 4;
  CHECK(batch.at("features").reals[0] == first);
  f.write("y_train.npy", npy("<i8", "(2,)", bytes_of<std::int64_t>({2, 0})));
  CHECK_THROWS_WITH(open_data(path, {}), Catch::Contains("found 2 rows, expected 3"));
  f.write("y_train.npy", npy("<i8", "(3,)", bytes_of<std::int64_t>({1, std::int64_t{1} << 40, 1})));
  data = open_data(path, {});
  CHECK_THROWS_WITH((read_all(*data.training), read_all(*data.test)),
                    Catch::Contains("row 1: found a number beyond 32 bits"));
  path = f.write("x.npy", npy("<f4", "(1, 1)", bytes_of<float>({std::numeric_limits<float>::quiet_NaN()})));
  f.write("y.npy", npy("<i4", "(1,)", bytes_of<std::int32_t>({0})));
  CHECK_THROWS_WITH(read_all(*open_data(path, {}).test), Catch::Contains("x.npy: row 0: found nan"));
}

TEST_CASE("the arrays of an npz archive are fields, stored, deflated and with 64-bit sizes") {
  DataFolder f;
  for (bool deflated : {false, true})
    for (bool wide : {false, true}) {
      DataSplit data = open_data(f.write("a.npz", zip(two_arrays(deflated), wide)), {});
      CHECK(data.training->fields() == std::vector<Field>{{"x", {2}, DType::f64, 0}, {"y", {}, DType::i32, 5}});
      auto test = read_all(*data.test);
      std::int32_t y = test.at("y").indices[0];
      double x = y == 0 ? 1 : y == 4 ? 3 : 5;
      CHECK(test.at("x").reals == std::vector<double>{x, x + 1});
    }
}

TEST_CASE("arrays that the model has no input for are left alone when all inputs are there") {
  DataFolder f;
  std::vector<Member> members = two_arrays(true);
  members.push_back({"other.npy", npy("<f4", "(1,)", bytes_of<float>({1})), false});
  members.push_back({"notes.txt", "text", false});
  std::string path = f.write("a.npz", zip(members));
  std::vector<ModelInput> inputs = {{"x", {1, 2}, DType::f32, 0}, {"y", {1}, DType::i32, 5}};
  CHECK(open_data(path, inputs).training->fields().size() == 2);
  CHECK_THROWS_WITH(open_data(path, {}), Catch::Contains("a.npz:other: found 1 rows, expected 3 as in"));
  // Before them, and of a type that is not read.
  members.insert(members.begin(), {"half.npy", npy("<f2", "(1,)", std::string(2, '\0')), false});
  CHECK(open_data(f.write("b.npz", zip(members)), inputs).training->fields().size() == 2);
}

TEST_CASE("damaged npz archives are refused") {
  DataFolder f;
  std::string good = zip(two_arrays(false)), packed = zip(two_arrays(true));
  auto refused = [&](const std::string& bytes) {
    try {
      open_data(f.write("a.npz", bytes), {});
    } catch (const InputError& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  CHECK_THAT(refused(""), Catch::Contains("found no zip directory"));
  CHECK_THAT(refused(good.substr(0, good.size() - 30)), Catch::Contains("found no zip directory"));
  CHECK_THAT(refused(good.substr(100)), Catch::Contains("zip directory"));
  CHECK_THAT(refused(zip({})), Catch::Contains("found no arrays"));
  std::string changed = good;
  changed[150] = 'x';  // among the data of x
  CHECK_THAT(refused(changed), Catch::Contains("another checksum"));
  changed = packed;
  changed[40] = static_cast<char>(changed[40] ^ 0x55);
  CHECK_THAT(refused(changed), Catch::Contains("member x.npy is damaged"));
  CHECK_THAT(refused(zip({{"x.npy", "nothing", true}})), Catch::Contains("a.npz:x: found no npy magic"));
  CHECK_THAT(refused(zip({two_arrays(false)[0], two_arrays(false)[0]})), Catch::Contains("found array x twice"));
  std::size_t directory = good.find("PK\x01\x02");
  changed = good;
  changed[directory + 10] = 12;
  CHECK_THAT(refused(changed), Catch::Contains("packed by method 12"));
  // Whatever byte is damaged, the file is refused or read, but never crashes.
  for (std::size_t i = 0; i < packed.size(); ++i) {
    changed = packed;
    changed[i] = static_cast<char>(changed[i] ^ 0xff);
    refused(changed);
    refused(packed.substr(0, i));
  }
}
