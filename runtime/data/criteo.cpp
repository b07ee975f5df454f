// Criteo's click logs: a line per row, of fields between tabs: the label (0 or 1), 13 whole numbers x, 26 categories as
// hexadecimal hashes; of both, empty ones are 0. Fields `dense`[13], log(1 + max(x, 0)); `sparse.0` to `sparse.25`,
// each [1], the hash modulo the bound of the model's input of that name; `label`[1], real. Lines are parsed when they
// are read.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include "runtime/data/file_bytes.h"
#include "runtime/data/loaders.h"

namespace unity {
namespace {

constexpr std::size_t kDense = 13, kSparse = 26, kColumns = 1 + kDense + kSparse;

std::vector<Field> fields_for(const std::vector<ModelInput>& inputs) {
  std::vector<Field> fields = {{"dense", {kDense}, DType::f64, 0}, {"label", {1}, DType::f64, 0}};
  for (std::size_t i = 0; i < kSparse; ++i) {
    Field field{fmt::format("sparse.{}", i), {1}, DType::i32, std::numeric_limits<std::int32_t>::max()};
    for (const ModelInput& input : inputs)
      if (input.name == field.name && input.bound > 0) field.bound = std::min(input.bound, field.bound);
    fields.push_back(field);
  }
  return fields;
}

class CriteoSource : public DataSource {
 public:
  CriteoSource(const std::string& path, const std::vector<ModelInput>& inputs)
      : DataSource(path, fields_for(inputs)), file_(path) {
    std::string_view text = file_.text();
    for (std::size_t at = 0; at < text.size();) {
      starts_.push_back(at);
      std::size_t end = text.find('\n', at);
      at = end == std::string_view::npos ? text.size() : end + 1;
    }
    if (starts_.empty()) throw_input_error("{}: found no rows, expected lines of {} fields", path, kColumns);
  }
  std::int64_t rows() const override { return static_cast<std::int64_t>(starts_.size()); }
  std::string where(std::int64_t row) const override { return fmt::format("{}:{}", name(), row + 1); }

 protected:
  void load(std::span<const std::int64_t> rows, std::map<std::string, HostTensor>& batch) const override {
    double* label = batch.at("label").reals.data();
    double* dense = batch.at("dense").reals.data();
    std::array<std::int32_t*, kSparse> sparse;
    std::array<std::uint64_t, kSparse> table;
    for (std::size_t i = 0; i < kSparse; ++i) {
      const Field& field = fields()[2 + i];
      sparse[i] = batch.at(field.name).indices.data();
      table[i] = static_cast<std::uint64_t>(field.bound);
    }
    for (std::int64_t row : rows) {
      std::array<std::string_view, kColumns> columns = split_line(row);
      if (columns[0].empty()) throw_input_error("{}: found no label, expected 0 or 1", where(row));
      *label = static_cast<double>(number<std::int64_t>(row, 0, columns[0], 10));
      if (*label != 0 && *label != 1) throw_input_error("{}: label is {}, expected 0 or 1", where(row), *label);
      ++label;
      for (std::size_t i = 1; i <= kDense; ++i)
        *dense++ = std::log1p(std::max(0.0, static_cast<double>(number<std::int64_t>(row, i, columns[i], 10))));
      for (std::size_t i = 0; i < kSparse; ++i)
        *sparse[i]++ = static_cast<std::int32_t>(
            number<std::uint64_t>(row, 1 + kDense + i, columns[1 + kDense + i], 16) % table[i]);
    }
  }

 private:
  std::array<std::string_view, kColumns> split_line(std::int64_t row) const {
    std::size_t start = starts_[static_cast<std::size_t>(row)];
    std::string_view line = file_.text().substr(start);
    line = line.substr(0, line.find('\n'));
    if (line.ends_with('\r')) line.remove_suffix(1);
    std::array<std::string_view, kColumns> columns;
    std::size_t count = 0;
    for (std::size_t at = 0; at <= line.size(); ++count) {
      std::size_t end = std::min(line.find('\t', at), line.size());
      if (count < kColumns) columns[count] = line.substr(at, end - at);
      at = end + 1;
    }
    if (count != kColumns) throw_input_error("{}: found {} fields, expected {}", where(row), count, kColumns);
    return columns;
  }

  template <class T>
  T number(std::int64_t row, std::size_t column, std::string_view text, int base) const {
    T value = 0;
    if (text.empty()) return value;
    auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (error != std::errc() || rest != text.data() + text.size())
      throw_input_error("{}: field {} is '{}', expected {}", where(row), column + 1, text.substr(0, 40),
                        base == 16 ? "a hexadecimal hash" : "a whole number");
    return value;
  }

  FileBytes file_;
  std::vector<std::size_t> starts_;  // of lines
};

}  // namespace

bool suits_criteo(const std::string& path) {
  if (!std::filesystem::is_regular_file(path)) return false;
  if (has_ending(path, ".tsv") || has_ending(path, ".tsv.gz")) return true;
  std::string start = first_bytes(path, 8192);
  return std::count(start.begin(), std::find(start.begin(), start.end(), '\n'), '\t') == kColumns - 1;
}

DataSplit open_criteo(const std::string& path, const std::vector<ModelInput>& inputs) {
  return {std::make_shared<CriteoSource>(path, inputs), nullptr};
}

}  // namespace unity
