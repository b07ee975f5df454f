#include <catch2/catch.hpp>

#include "core/base/text.h"
#include "core/base/units.h"

using namespace unity;

TEST_CASE("sizes, times and rates parse with their unit and print in the nearest one") {
  CHECK(parse_bytes("16 GB")->count == 16'000'000'000);
  CHECK(parse_bytes("1.5 KiB")->count == 1536);
  CHECK(parse_time("1.25us")->count == 1'250'000);
  CHECK(parse_bandwidth("100 Gbit/s")->rate == 12.5e9);
  CHECK(to_string(Bytes{3'252'224}) == "3.252 MB");
  CHECK(to_string(Picoseconds{1'250'000}) == "1.25 us");
}

TEST_CASE("at least so many bytes are said, in four digits") {
  CHECK(at_least(Bytes{1'490'000'001}) == "1.491 GB");
  CHECK(at_least(Bytes{1'490'000'000}) == "1.49 GB");
  CHECK(at_least(Bytes{999'950'000'001}) == "1 TB");
  CHECK(at_least(Bytes{3}) == "3 B");
  std::int64_t count = 1;
  for (int i = 0; i < 60; ++i, count = count * 2 + i % 3) {
    const Bytes read = parse_bytes(at_least(Bytes{count})).value();
    CHECK(read.count >= count);
    CHECK(static_cast<double>(read.count) <= 1.001 * static_cast<double>(count));
  }
}

TEST_CASE("a quantity without a unit is refused, naming the units") {
  CHECK(parse_bytes("16").error().message.find("expected one of B, kB") != std::string::npos);
  CHECK_FALSE(parse_time("5 GB").ok());
  CHECK_FALSE(parse_bandwidth("fast").ok());
  CHECK(parse_bytes("1e300 B").error().message == "size: found '1e300 B', which is out of range");
  CHECK(parse_bandwidth("1e300 TB/s").error().message == "bandwidth: found '1e300 TB/s', which is out of range");
  CHECK(parse_compute_rate("-1e300 PFLOPS").error().message.ends_with("which is out of range"));
  CHECK_FALSE(parse_time("1e9 s").ok());  // 2^61 ps are 2.3e6 s
}

TEST_CASE("a misspelt name gets the nearest known one") {
  CHECK(nearest_name("bert-larg", {"bert-tiny", "bert-large", "mlp"}) == "bert-large");
  CHECK(nearest_name("zebra", {"bert-tiny", "mlp"}).empty());
}
