#include "runtime/data/dataset.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "core/base/parallel.h"
#include "runtime/data/file_bytes.h"

namespace unity {
namespace {

// The fields of a line: their numbers, and the texts that are none.
struct Row {
  std::vector<double> numbers;
  std::vector<std::string_view> words;
};

void parse_row(std::string_view line, Row& row) {
  row.numbers.clear();
  row.words.clear();
  for (std::size_t begin = 0; begin <= line.size();) {
    std::size_t end = std::min(line.find(',', begin), line.size());
    std::string_view field = line.substr(begin, end - begin);
    while (!field.empty() && field.front() == ' ') field.remove_prefix(1);
    while (!field.empty() && (field.back() == ' ' || field.back() == '\r')) field.remove_suffix(1);
    double value = 0;
    auto [rest, error] = std::from_chars(field.data(), field.data() + field.size(), value);
    if (error != std::errc() || rest != field.data() + field.size() || field.empty())
      row.words.push_back(field);
    else
      row.numbers.push_back(value);
    begin = end + 1;
  }
}

std::string digits_path() {
  if (const char* folder = std::getenv("UNITY_DATA")) return std::string(folder) + "/digits.csv.gz";
  std::error_code error;
  std::filesystem::path executable = std::filesystem::read_symlink("/proc/self/exe", error);
  std::filesystem::path installed = executable.parent_path() / "../share/unity/data/digits.csv.gz";
  if (!error && std::filesystem::exists(installed)) return installed.string();
  return std::string(UNITY_DATA_FOLDER) + "/digits.csv.gz";
}

}  // namespace

Dataset load_csv(const std::string& path) {
  FileBytes file(path);
  std::string_view text = file.text();
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // UTF-8's mark, as spreadsheets write it
  Dataset data;
  data.name = path;
  Row fields;
  const std::vector<double>& row = fields.numbers;
  std::size_t columns = 0;
  int line_number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    ++line_number;
    if (line.empty() || line == "\r") continue;
    parse_row(line, fields);
    if (!fields.words.empty()) {
      if (line_number == 1 && row.empty()) continue;  // a header
      throw_input_error("{}:{}: found '{}', expected a number", path, line_number, fields.words[0].substr(0, 40));
    }
    if (columns == 0) columns = row.size();
    if (columns < 2)
      throw_input_error("{}:{}: found {} column, expected features and a label", path, line_number, columns);
    if (row.size() != columns)
      throw_input_error("{}:{}: found {} columns, expected {} as in the rows before", path, line_number, row.size(),
                        columns);
    for (double v : row)
      if (!std::isfinite(v)) throw_input_error("{}:{}: found {}, expected finite numbers", path, line_number, v);
    double label = row.back();
    if (label < 0 || label != std::floor(label) || label > 1e6)
      throw_input_error("{}:{}: label is {}, expected a class number 0, 1, 2, ..", path, line_number, label);
    data.labels.push_back(static_cast<std::int32_t>(label));
    data.lines.push_back(line_number);
    data.values.insert(data.values.end(), row.begin(), row.end() - 1);
    data.classes = std::max<std::int64_t>(data.classes, data.labels.back() + 1);
  }
  if (data.labels.empty()) throw_input_error("{}: found no rows of numbers", path);
  data.features = static_cast<std::int64_t>(columns) - 1;
  return data;
}

Dataset load_digits() {
  Dataset data = load_csv(digits_path());
  data.name = "digits";
  for (double& v : data.values) v /= 16;
  return data;
}

std::vector<std::int64_t> permutation(std::int64_t n, std::uint64_t key) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[random_below(RandomKey(key), i, i)]);  // Fisher and Yates
  return order;
}

std::map<std::string, HostTensor> synthetic_batch(const std::vector<ProgramLeaf>& inputs,
                                                  const std::map<std::string, std::int64_t>& index_bounds,
                                                  std::uint64_t seed, std::int64_t step) {
  std::map<std::string, HostTensor> batch;
  // Each element by itself, so that several threads draw the same as one.
  auto draw = [](auto& values, auto&& value) {
    constexpr std::size_t kPart = 1 << 14;
    parallel_for((values.size() + kPart - 1) / kPart, 0, [&](std::size_t part) {
      for (std::size_t i = part * kPart; i < std::min(values.size(), (part + 1) * kPart); ++i) values[i] = value(i);
    });
  };
  for (const ProgramLeaf& leaf : inputs) {
    RandomKey key = RandomKey(seed).with(hash_text(leaf.name)).with(static_cast<std::uint64_t>(step));
    const Dims& dims = ints_attribute(leaf.attributes, 0);
    auto bound = index_bounds.find(leaf.name);
    auto below = static_cast<std::uint64_t>(bound == index_bounds.end() ? 2 : bound->second);
    const bool indices = text_attribute(leaf.attributes, 1) == "i32";
    HostTensor& t = batch.emplace(leaf.name, indices ? index_tensor(dims) : real_tensor(dims)).first->second;
    if (indices)
      draw(t.indices, [&](std::size_t i) { return static_cast<std::int32_t>(random_below(key, i, below)); });
    else if (bound == index_bounds.end())
      draw(t.reals, [&](std::size_t i) { return random_normal(key, i); });
    else
      draw(t.reals, [&](std::size_t i) { return static_cast<double>(random_below(key, i, below)); });
  }
  return batch;
}

}  // namespace unity
