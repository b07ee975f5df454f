#include <algorithm>
#include <set>

#include <catch2/catch.hpp>

#include "runtime/data/dataset.h"
#include "tests/support/data_files.h"

using namespace unity;
using namespace unity::test;

TEST_CASE("digits: 1,797 rows of 64 pixels in 0..1, split 1,437 to 360 with the same rows every time") {
  Dataset digits = load_digits();
  CHECK(digits.rows() == 1797);
  CHECK(digits.features == 64);
  CHECK(digits.classes == 10);
  CHECK(*std::max_element(digits.values.begin(), digits.values.end()) == 1.0);
  DataSplit a = open_data("digits", {}), b = open_data("digits", {});
  CHECK(a.test->rows() == 360);
  CHECK(a.training->rows() == 1437);
  CHECK(read_all(*a.test) == read_all(*b.test));
  CHECK(read_all(*split(a.training, 2).test) != read_all(*split(a.training, 1).test));
}

TEST_CASE("a permutation holds every number once") {
  std::vector<std::int64_t> p = permutation(100, 3);
  CHECK(std::set<std::int64_t>(p.begin(), p.end()).size() == 100);
  CHECK(p != permutation(100, 4));
}

TEST_CASE("CSV files are read with or without a header, and refused with file and line") {
  DataFolder f;
  Dataset data = load_csv(f.write("ok.csv", "a,b,class\n0.5,1,2\n-3,1e2,0\n"));
  CHECK(data.rows() == 2);
  CHECK(data.classes == 3);
  CHECK(data.values == std::vector<double>{0.5, 1, -3, 100});
  CHECK(load_csv(f.write("mark.csv",
                         "\xef\xbb\xbf"
                         "1,2,0\n3,4,1\n"))
            .values == std::vector<double>{1, 2, 3, 4});
  CHECK_THROWS_WITH(load_csv(f.write("word.csv", "1,2,0\n1,x,0\n")),
                    Catch::Contains("word.csv:2: found 'x', expected a number"));
  CHECK_THROWS_WITH(load_csv(f.write("long.csv", "1,2,0\n1," + std::string(10'000, 'x') + ",0\n")),
                    Catch::EndsWith("found '" + std::string(40, 'x') + "', expected a number"));
  CHECK_THROWS_WITH(load_csv(f.write("label.csv", "1,2,0\n1,2,0.5\n")), Catch::Contains("label.csv:2: label is 0.5"));
  CHECK_THROWS_WITH(load_csv(f.write("first.csv", "1,y,0\n1,2,0\n")), Catch::Contains("first.csv:1: found 'y'"));
  CHECK_THROWS_WITH(load_csv(f.write("short.csv", "1,2,0\n\n1,0\n")),
                    Catch::Contains("short.csv:3: found 2 columns, expected 3"));
  CHECK_THROWS_WITH(load_csv(f.write("nan.csv", "1,nan,0\n")),
                    Catch::Contains("nan.csv:1: found nan, expected finite"));
  CHECK_THROWS_WITH(load_csv(f.write("negative.csv", "1,2,-1\n")), Catch::Contains("label is -1"));
  CHECK_THROWS_WITH(load_csv(f.write("empty.csv", "")), Catch::Contains("found no rows"));
  CHECK_THROWS_WITH(load_csv("/nonexistent.csv"), Catch::Contains("cannot be read"));
}

TEST_CASE("a CSV file is a source of features and labels, and says where a row stands") {
  DataFolder f;
  DataSplit data = open_data(f.write("ok.csv", "a,b,class\n1,2,0\n\n3,4,2\n5,6,1\n"), {});
  CHECK(data.training->fields() == std::vector<Field>{{"features", {2}, DType::f64, 0}, {"labels", {}, DType::i32, 3}});
  CHECK(data.training->rows() == 2);  // a fifth of 3 rows, rounded up, is for the test
  CHECK(data.test->rows() == 1);
  std::set<std::string> places = {data.training->where(0), data.training->where(1), data.test->where(0)};
  CHECK(places == std::set<std::string>{f.file("ok.csv:2"), f.file("ok.csv:4"), f.file("ok.csv:5")});
  std::vector<std::int64_t> beyond = {2};
  CHECK_THROWS_WITH(data.training->read(beyond), Catch::Contains("found row 2, expected rows from 0 to below 2"));
}

TEST_CASE("what is no data is refused with what could be") {
  DataFolder f;
  CHECK_THROWS_WITH(open_data(f.file("absent"), {}), Catch::Contains("no such data file or folder"));
  CHECK_THROWS_WITH(open_data(f.path.string(), {}), Catch::Contains("found an empty folder, expected one of"));
  CHECK_THROWS_WITH(open_data(f.write("a.png", std::string("\x89PNG\0\0", 6)), {}),
                    Catch::Contains("found no data known here"));
  CHECK_THROWS_WITH(open_data(f.write("cut.csv.gz", "\x1f\x8b\x08"), {}), Catch::Contains("damaged or cut off"));
}
