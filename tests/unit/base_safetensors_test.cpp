#include <cstring>
#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>
#include <unistd.h>

#include "core/base/safetensors.h"
#include "core/base/text.h"

using namespace unity;

namespace {

std::string place(const std::string& name) {
  return (std::filesystem::temp_directory_path() / fmt::format("unity-{}-{}.safetensors", getpid(), name)).string();
}

// A file of any header, and a length that may be a lie.
std::string made(const std::string& name, const std::string& header, const std::string& data,
                 std::uint64_t length = UINT64_MAX) {
  if (length == UINT64_MAX) length = header.size();
  std::string path = place(name), start(sizeof length, '\0');
  std::memcpy(start.data(), &length, sizeof length);
  std::ofstream(path, std::ios::binary) << start << header << data;
  return path;
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape, int begin, int end) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", name, dtype, shape, begin, end);
}

void refuses(const std::string& path, const std::string& why) {
  INFO(path);
  CHECK_THROWS_AS(SafetensorsFile(path), InputError);
  CHECK_THROWS_WITH(SafetensorsFile(path), Catch::Contains(path) && Catch::Contains(why));
}

}  // namespace

TEST_CASE("tensors of every written type come back bit for bit, with their metadata") {
  std::string path = place("round");
  std::vector<float> f{1.5f, -0.0f, 1e-40f, 3, 4, 5};
  std::vector<double> d{0.1};
  std::vector<std::int32_t> i{-7, 7};
  std::vector<std::int64_t> l{INT64_MIN};
  std::vector<std::uint64_t> u{UINT64_MAX};
  SafetensorsWriter writer(path,
                           {{"f", StoredType::f32, {2, 3}},
                            {"d", StoredType::f64, {}},
                            {"empty", StoredType::f32, {0, 4}},
                            {"i", StoredType::i32, {2}},
                            {"l", StoredType::i64, {1}},
                            {"u", StoredType::u64, {1}}},
                           {{"step", "12"}});
  writer.append(f), writer.append(d), writer.append(i), writer.append(l), writer.append(u);
  CHECK_FALSE(std::filesystem::exists(path));
  writer.finish();
  CHECK(writer.crc32() == crc32_of_file(path));
  CHECK(writer.bytes_written() == std::filesystem::file_size(path));

  SafetensorsFile file(path);
  CHECK(file.metadata() == TensorMetadata{{"step", "12"}});
  REQUIRE(file.tensors().size() == 6);
  CHECK(file.at("f").dims == Integers{2, 3});
  CHECK(file.at("f").offset % 8 == 0);
  CHECK(file.floats(file.at("f")) == f);
  CHECK(file.reals(file.at("d")) == d);
  CHECK(file.reals(file.at("empty")).empty());
  CHECK(file.integers(file.at("i")) == std::vector<std::int64_t>{-7, 7});
  CHECK(file.integers(file.at("l")) == l);
  std::uint64_t raw = 0;
  file.read(file.at("u"), &raw);
  CHECK(raw == UINT64_MAX);
  CHECK(file.find("g") == nullptr);
  CHECK_THROWS_WITH(file.at("g"), Catch::Contains("no tensor 'g' among 6"));
  CHECK_THROWS_WITH(file.integers(file.at("f")), Catch::Contains("found F32, expected I32, I64 or U64"));
  CHECK_THROWS_WITH(file.integers(file.at("u")), Catch::Contains("above 2^63"));
}

TEST_CASE("a checksum is that of zlib, and a file given up leaves the old one as it was") {
  std::string path = place("old");
  std::ofstream(path) << "123456789";
  CHECK(crc32_of_file(path) == 0xcbf43926);  // the check value of CRC-32
  { SafetensorsWriter writer(path, {{"x", StoredType::f32, {4}}}); }
  CHECK(read_file(path) == "123456789");
}

TEST_CASE("half precision is read as single: 1, -2, the smallest subnormal 2^-24, infinity; bfloat16 1 and -3") {
  std::string path = made("half", "{" + entry("h", "F16", "4", 0, 8) + "," + entry("b", "BF16", "2", 8, 12) + "}",
                          std::string("\x00\x3c\x00\xc0\x01\x00\x00\x7c\x80\x3f\x40\xc0", 12));
  SafetensorsFile file(path);
  CHECK(file.floats(file.at("h")) == std::vector<float>{1, -2, 0x1.0p-24f, INFINITY});
  CHECK(file.reals(file.at("b")) == std::vector<double>{1, -3});
}

TEST_CASE("files that are no safetensors files, or not whole ones, are refused") {
  std::string good = "{" + entry("x", "F32", "2", 0, 8) + "}";
  CHECK(SafetensorsFile(made("good", good, std::string(8, 'x'))).tensors().size() == 1);
  refuses("/nonexistent.safetensors", "cannot be read");
  refuses(made("cut", good, std::string(7, 'x')), "truncated");
  refuses(made("more", good, std::string(9, 'x')), "where the data end");
  refuses(made("long", good, "", 1'000'000), "found a length of 1000000");
  refuses(made("huge", good, "", UINT64_MAX - 1), "found a length of 18446744073709551614");
  refuses(made("words", "not JSON", ""), "expected a JSON object");
  refuses(made("half", good.substr(0, good.size() - 3), ""), "expected a JSON object");
  refuses(made("list", "[1]", ""), "found array, expected an object");
  refuses(made("meta", R"({"__metadata__":{"a":1}})", ""), "expected a text");
  std::string tiny = place("tiny");
  std::ofstream(tiny) << "abc";
  refuses(tiny, "found 3 bytes");
}

TEST_CASE("entries that contradict themselves or each other are refused") {
  std::string data(16, 'x');
  auto two = [&](const std::string& a, const std::string& b) { return "{" + a + "," + b + "}"; };
  std::string x = entry("x", "F32", "2", 0, 8);
  refuses(made("overlap", two(x, entry("y", "F32", "2", 4, 12)), data), "'y': found data from 4, expected from 8");
  refuses(made("same", two(x, entry("y", "F32", "2", 0, 8)), data), "they overlap");
  refuses(made("hole", two(x, entry("y", "F32", "1", 12, 16)), data), "a hole");
  refuses(made("twice", two(x, entry("x", "F32", "2", 8, 16)), data), "tensor 'x': found twice");
  refuses(made("type", "{" + entry("x", "F8", "2", 0, 8) + "}", data), "dtype: found \"F8\"");
  refuses(made("size", "{" + entry("x", "F32", "3", 0, 8) + "}", data), "expected 12 bytes");
  refuses(made("back", "{" + entry("x", "F32", "2", 8, 0) + "}", data), "data_offsets: found [8,0]");
  refuses(made("negative", "{" + entry("x", "F32", "-2", 0, 8) + "}", data), "expected a list of whole numbers");
  refuses(made("overflow", "{" + entry("x", "F32", "4294967296, 4294967296", 0, 8) + "}", data), "less than 2^63");
  refuses(made("none", R"({"x":{"dtype":"F32","shape":[2]}})", data), "data_offsets: found nothing");
  refuses(made("number", R"({"x":3})", data), "tensor 'x': found number, expected an object");
}

TEST_CASE("a file with any byte changed is read or refused, and what is read lies inside it") {
  std::string good = read_file(made(
      "mutate", "{" + entry("x", "F32", "2", 0, 8) + "," + entry("y", "I64", "", 8, 16) + "}", std::string(16, 'x')));
  std::string path = place("mutated");
  int refused = 0;
  for (std::size_t i = 0; i < good.size(); ++i)
    for (char c : {'\0', '9', '"', ',', '}', '-', '\xff'}) {
      std::string changed = good;
      changed[i] = c;
      std::ofstream(path, std::ios::binary) << changed;
      try {
        SafetensorsFile file(path);
        for (const TensorInfo& t : file.tensors()) {
          std::vector<std::byte> bytes(static_cast<std::size_t>(t.bytes()));
          file.read(t, bytes.data());
        }
      } catch (const InputError&) {
        ++refused;
      }
    }
  CHECK(refused > 500);
}
