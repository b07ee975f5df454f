#include "runtime/data/source.h"

#include <algorithm>
#include <filesystem>

#include "core/base/text.h"
#include "runtime/data/dataset.h"
#include "runtime/data/loaders.h"

namespace unity {
namespace {

struct Loader {
  const char* takes;
  bool (*suits)(const std::string& path);
  DataSplit (*open)(const std::string& path, const std::vector<ModelInput>& inputs);
};

const Loader kLoaders[] = {
#define UNITY_DATA_LOADER(format, takes) {takes, suits_##format, open_##format},
#include "runtime/data/loaders.def"
#undef UNITY_DATA_LOADER
};

DataSplit open_path(const std::string& path, const std::vector<ModelInput>& inputs) {
  if (!std::filesystem::exists(path))
    throw_input_error("{}: there is no such data file or folder (known data sets: digits, synthetic)", path);
  for (const Loader& loader : kLoaders)
    if (loader.suits(path)) return loader.open(path, inputs);
  bool empty = std::filesystem::is_directory(path) && std::filesystem::is_empty(path);
  std::vector<std::string> takes;
  for (const Loader& loader : kLoaders) takes.push_back(loader.takes);
  throw_input_error("{}: found {}, expected one of: {}", path, empty ? "an empty folder" : "no data known here",
                    join(takes));
}

}  // namespace

std::string to_string(const Field& field) {
  std::string type = field.dtype == DType::i32 ? "i32" : "real";
  if (field.bound > 0) type += fmt::format(" below {}", field.bound);
  return fmt::format("{} {} ({})", field.dims.empty() ? "1" : fmt::format("{}", fmt::join(field.dims, "x")), field.name,
                     type);
}

Hash contents_of(const DataSource& source) {
  constexpr std::int64_t kRows = 16;
  const std::int64_t rows = source.rows();
  Hash h = combine(hash_text("data"), static_cast<Hash>(rows));
  for (const Field& field : source.fields()) h = combine(h, hash_text(to_string(field)));
  for (std::int64_t i = 0; i < std::min(rows, kRows); ++i) {
    const std::int64_t row = i * rows / std::min(rows, kRows);
    try {
      for (const auto& [name, tensor] : source.read({&row, 1})) {
        h = combine(h, hash_bytes(std::as_bytes(std::span(tensor.reals))));
        h = combine(h, hash_bytes(std::as_bytes(std::span(tensor.indices))));
      }
    } catch (const InputError&) {  // whoever trains on the row says what is wrong with it
      h = combine(h, static_cast<Hash>(row));
    }
  }
  return h;
}

std::string DataSource::where(std::int64_t row) const { return fmt::format("{}: row {}", name_, row); }

std::map<std::string, HostTensor> DataSource::read(std::span<const std::int64_t> rows) const {
  for (std::int64_t row : rows)
    if (row < 0 || row >= this->rows())
      throw_input_error("data {}: found row {}, expected rows from 0 to below {}", name_, row, this->rows());
  std::map<std::string, HostTensor> batch;
  for (const Field& field : fields_) {
    Dims dims = field.dims;
    dims.insert(dims.begin(), static_cast<std::int64_t>(rows.size()));
    batch.emplace(field.name, field.dtype == DType::i32 ? index_tensor(dims) : real_tensor(dims));
  }
  load(rows, batch);
  return batch;
}

std::string RowSubset::where(std::int64_t row) const { return source_->where(rows_[static_cast<std::size_t>(row)]); }

void RowSubset::load(std::span<const std::int64_t> rows, std::map<std::string, HostTensor>& batch) const {
  std::vector<std::int64_t> of_source;
  for (std::int64_t row : rows) of_source.push_back(rows_[static_cast<std::size_t>(row)]);
  source_->load(of_source, batch);
}

std::vector<ModelInput> model_inputs(const std::vector<ProgramLeaf>& inputs,
                                     const std::map<std::string, std::int64_t>& index_bounds) {
  std::vector<ModelInput> of_model;
  for (const ProgramLeaf& leaf : inputs) {
    bool indices = text_attribute(leaf.attributes, 1) == "i32";
    auto bound = index_bounds.find(leaf.name);
    of_model.push_back({leaf.name, ints_attribute(leaf.attributes, 0), indices ? DType::i32 : DType::f32,
                        indices && bound != index_bounds.end() ? bound->second : 0});
  }
  return of_model;
}

DataSplit split(std::shared_ptr<const DataSource> source, std::uint64_t seed) {
  std::vector<std::int64_t> rows = permutation(source->rows(), seed);
  auto test = rows.begin() + static_cast<std::ptrdiff_t>((rows.size() + 4) / 5);
  return {std::make_shared<RowSubset>(source, std::vector<std::int64_t>(test, rows.end())),
          std::make_shared<RowSubset>(source, std::vector<std::int64_t>(rows.begin(), test))};
}

bool has_ending(const std::string& path, std::string_view ending) {
  return path.size() >= ending.size() &&
         std::equal(ending.begin(), ending.end(), path.end() - static_cast<std::ptrdiff_t>(ending.size()),
                    [](char a, char b) { return a == std::tolower(static_cast<unsigned char>(b)); });
}

DataSplit open_data(const std::string& text, const std::vector<ModelInput>& inputs, bool whole) {
  DataSplit data;
  try {
    data = text == "digits" ? open_digits() : open_path(text, inputs);
  } catch (const std::filesystem::filesystem_error& e) {
    throw_input_error("{}: cannot be read ({})", e.path1().empty() ? text : e.path1().string(), e.code().message());
  }
  return data.test || whole ? data : split(data.training);
}

}  // namespace unity
