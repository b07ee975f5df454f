// NumPy files. `x.npy` with its labels in `y.npy` beside it: fields `features` and `labels`; `.npz`: a field for each
// array. Mapped: real rows are looked at, and NaN refused, when they are read.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "runtime/data/file_bytes.h"
#include "runtime/data/loaders.h"
#include "runtime/data/npy_array.h"
#include "runtime/data/zip.h"

namespace unity {
namespace {

namespace fs = std::filesystem;

struct FieldArray {
  Field field;
  NpyArray array;
};

class ArraySource : public DataSource {
 public:
  ArraySource(std::string name, std::vector<FieldArray> arrays)
      : DataSource(std::move(name), fields_of(arrays)), arrays_(std::move(arrays)) {
    std::set<std::string> names;
    for (const FieldArray& a : arrays_)
      if (!names.insert(a.field.name).second)
        throw_input_error("{}: found array {} twice, expected once", this->name(), a.field.name);
    for (const FieldArray& a : arrays_)
      if (a.array.rows() != arrays_[0].array.rows())
        throw_input_error("{}: found {} rows, expected {} as in {}", a.array.name, a.array.rows(),
                          arrays_[0].array.rows(), arrays_[0].array.name);
  }
  std::int64_t rows() const override { return arrays_[0].array.rows(); }

 protected:
  void load(std::span<const std::int64_t> rows, std::map<std::string, HostTensor>& batch) const override {
    for (const auto& [field, array] : arrays_) {
      HostTensor& t = batch.at(field.name);
      std::int64_t size = array.row_elements();
      for (std::size_t i = 0; i < rows.size(); ++i) {
        std::int64_t first = static_cast<std::int64_t>(i) * size;
        if (field.dtype == DType::i32) {
          if (!array.read_indices(rows[i], t.indices.data() + first))
            throw_input_error("{}: row {}: found a number beyond 32 bits", array.name, rows[i]);
          continue;
        }
        double* out = t.reals.data() + first;
        array.read_reals(rows[i], out);
        for (std::int64_t k = 0; k < size; ++k)
          if (!std::isfinite(out[k]))
            throw_input_error("{}: row {}: found {}, expected finite numbers", array.name, rows[i], out[k]);
      }
    }
  }

 private:
  static std::vector<Field> fields_of(const std::vector<FieldArray>& arrays) {
    std::vector<Field> fields;
    for (const FieldArray& a : arrays) fields.push_back(a.field);
    return fields;
  }
  std::vector<FieldArray> arrays_;
};

FieldArray field_array(std::string name, NpyArray array) {
  Field field{std::move(name), array.row_dims(), array.real() ? DType::f64 : DType::i32,
              array.real() ? 0 : array.bound()};
  return {std::move(field), std::move(array)};
}

NpyArray map_npy(const std::string& path) {
  auto file = std::make_shared<FileBytes>(path);
  return parse_npy(path, file->bytes(), file);
}

// x.npy, x_train.npy, train_x.npy: the same with y; features.npy: labels.npy; else NAME_labels.npy.
std::string labels_path(const fs::path& features) {
  std::string stem = features.stem().string();
  auto beside = [&](const std::string& name) { return (features.parent_path() / (name + ".npy")).string(); };
  auto letter = [](char x) { return x == 'x' ? "y" : "Y"; };
  if (stem == "features") return beside("labels");
  bool first = stem[0] == 'x' || stem[0] == 'X', last = stem.back() == 'x' || stem.back() == 'X';
  if (first && (stem.size() == 1 || stem[1] == '_')) return beside(letter(stem[0]) + stem.substr(1));
  if (last && stem[stem.size() - 2] == '_') return beside(stem.substr(0, stem.size() - 1) + letter(stem.back()));
  return beside(stem + "_labels");
}

}  // namespace

bool suits_npy(const std::string& path) { return has_ending(path, ".npy") && fs::is_regular_file(path); }

DataSplit open_npy(const std::string& path, const std::vector<ModelInput>&) {
  NpyArray features = map_npy(path);
  std::string beside = labels_path(path);
  if (!fs::is_regular_file(beside)) throw_input_error("{}: found no labels, expected them in {}", path, beside);
  std::vector<FieldArray> arrays;
  arrays.push_back(field_array("features", std::move(features)));
  arrays[0].field.dtype = DType::f64;  // of whole numbers, too: pixels
  arrays[0].field.bound = 0;
  arrays.push_back(field_array("labels", map_npy(beside)));
  return {std::make_shared<ArraySource>(path, std::move(arrays)), nullptr};
}

bool suits_npz(const std::string& path) { return has_ending(path, ".npz") && fs::is_regular_file(path); }

// Where the model's inputs are among the arrays, others are left alone.
DataSplit open_npz(const std::string& path, const std::vector<ModelInput>& inputs) {
  auto file = std::make_shared<FileBytes>(path);
  const std::vector<ZipMember> members = zip_members(path, file->bytes());
  const bool all = !inputs.empty() && std::all_of(inputs.begin(), inputs.end(), [&](const ModelInput& i) {
    return std::any_of(members.begin(), members.end(), [&](const ZipMember& m) { return m.name == i.name + ".npy"; });
  });
  std::vector<FieldArray> named, others;
  for (const ZipMember& member : members) {
    if (!has_ending(member.name, ".npy")) continue;
    std::string name = member.name.substr(0, member.name.size() - 4);
    bool wanted = std::any_of(inputs.begin(), inputs.end(), [&](const ModelInput& i) { return i.name == name; });
    if (!wanted && all) continue;
    std::shared_ptr<std::vector<std::uint8_t>> storage;
    std::span<const std::uint8_t> content = unpack_member(path, member, storage);
    std::shared_ptr<const void> owner = file;
    if (storage) owner = storage;
    (wanted ? named : others).push_back(field_array(name, parse_npy(path + ":" + name, content, std::move(owner))));
  }
  for (FieldArray& a : others) named.push_back(std::move(a));
  if (named.empty()) throw_input_error("{}: found no arrays, expected one for each input of the model", path);
  return {std::make_shared<ArraySource>(path, std::move(named)), nullptr};
}

}  // namespace unity
