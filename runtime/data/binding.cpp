#include "runtime/data/binding.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/text.h"

namespace unity {
namespace {

std::int64_t per_row(const ModelInput& input) {
  return std::accumulate(input.dims.begin() + 1, input.dims.end(), std::int64_t{1}, std::multiplies<>());
}

bool is_label_name(const std::string& name) { return name == "labels" || name == "label" || name == "y"; }

class Binder {
 public:
  Binder(const std::vector<ModelInput>& inputs, const DataSource& source, std::int64_t classes)
      : inputs_(inputs), source_(source), classes_(classes), field_of_(inputs.size(), nullptr) {}

  Binding bind() {
    if (inputs_.empty()) refuse(": it has none");
    for (const ModelInput& input : inputs_)
      if (input.dims.empty() || input.dims[0] != inputs_[0].dims[0])
        refuse(fmt::format(": input {} has no batch as its first dimension", input.name));
    by_name();
    const Field* label = label_field();
    features(label);
    if (label) give(label, input_for(*label, DType::i32), input_for(*label, DType::f32));
    return result(label);
  }

 private:
  void by_name() {
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      for (const Field& field : source_.fields()) {
        if (field.name != inputs_[i].name) continue;
        if (element_count(field.dims) != per_row(inputs_[i]))
          refuse(fmt::format(": input {} takes {} elements per row", field.name, per_row(inputs_[i])));
        field_of_[i] = &field;
      }
  }

  bool used(const Field& field) const {
    return std::find(field_of_.begin(), field_of_.end(), &field) != field_of_.end();
  }

  // The field left over that `suits`, when there is exactly one.
  template <class Suits>
  const Field* only_field(Suits suits) const {
    const Field* found = nullptr;
    for (const Field& field : source_.fields()) {
      if (used(field) || !suits(field)) continue;
      if (found) return nullptr;
      found = &field;
    }
    return found;
  }

  const Field* label_field() const {
    const Field* named = only_field([](const Field& f) { return is_label_name(f.name); });
    return named ? named : only_field([](const Field& f) { return f.dtype == DType::i32; });
  }

  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  // The input left over of this type with as many elements per row, when there is exactly one.
  std::size_t input_for(const Field& field, DType type) const {
    std::size_t found = kNone;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (field_of_[i] || inputs_[i].dtype != type || per_row(inputs_[i]) != element_count(field.dims)) continue;
      if (found != kNone) return kNone;
      found = i;
    }
    return found;
  }

  void give(const Field* field, std::size_t input, std::size_t otherwise = kNone) {
    if (input == kNone) input = otherwise;
    if (input != kNone) field_of_[input] = field;
  }

  void features(const Field* label) {
    const Field* field = only_field([&](const Field& f) { return f.dtype != DType::i32 && &f != label; });
    if (field) give(field, input_for(*field, DType::f32));
  }

  Binding result(const Field* label) const {
    Binding binding;
    binding.batch = inputs_[0].dims[0];
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (!field_of_[i]) refuse(fmt::format(": nothing for input {}", inputs_[i].name));
      BoundInput bound{inputs_[i], *field_of_[i]};
      bool indices = bound.input.dtype == DType::i32;
      bool labels = indices && (field_of_[i] == label || is_label_name(bound.field.name));
      if (labels) binding.labels = bound.input.name;
      if (labels && classes_ > 0)
        bound.input.bound = bound.input.bound > 0 ? std::min(bound.input.bound, classes_) : classes_;
      if (indices && bound.input.bound > 0 && bound.field.bound > bound.input.bound)
        throw_input_error("data {}: {} up to {}, expected below {}", source_.name(), bound.field.name,
                          bound.field.bound - 1,
                          labels ? fmt::format("the model's {} classes", bound.input.bound)
                                 : fmt::format("the {} of the model's input {}", bound.input.bound, bound.input.name));
      binding.inputs.push_back(std::move(bound));
    }
    return binding;
  }

  [[noreturn]] void refuse(const std::string& reason) const {
    std::vector<std::string> fields, inputs;
    for (const Field& f : source_.fields()) fields.push_back(to_string(f));
    for (const ModelInput& i : inputs_) inputs.push_back(i.name + " " + to_string(Shape{i.dims, i.dtype}));
    throw_input_error("data {}: {} per row do not suit the model's inputs ({}){}", source_.name(), join(fields),
                      join(inputs), reason);
  }

  const std::vector<ModelInput>& inputs_;
  const DataSource& source_;
  std::int64_t classes_;
  std::vector<const Field*> field_of_;  // per input
};

std::int32_t index_from(double value, const std::string& place, const std::string& field) {
  if (value != std::floor(value) || std::abs(value) > std::numeric_limits<std::int32_t>::max())
    throw_input_error("{}: {} is {}, expected a whole number of 32 bits", place, field, value);
  return static_cast<std::int32_t>(value);
}

HostTensor value_for(const BoundInput& bound, HostTensor value, const DataSource& source,
                     std::span<const std::int64_t> rows) {
  std::int64_t width = std::max<std::int64_t>(per_row(bound.input), 1);
  auto place = [&](std::size_t element) { return source.where(rows[element / static_cast<std::size_t>(width)]); };
  value.dims = bound.input.dims;
  if (bound.input.dtype != DType::i32) {
    if (value.dtype != DType::i32) return value;
    HostTensor real = real_tensor(value.dims);
    std::copy(value.indices.begin(), value.indices.end(), real.reals.begin());
    return real;
  }
  if (value.dtype != DType::i32) {
    HostTensor whole = index_tensor(value.dims);
    for (std::size_t i = 0; i < value.reals.size(); ++i)
      whole.indices[i] = index_from(value.reals[i], place(i), bound.field.name);
    value = std::move(whole);
  }
  std::int64_t limit = bound.input.bound > 0 ? bound.input.bound : std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = 0; i < value.indices.size(); ++i)
    if (value.indices[i] < 0 || value.indices[i] >= limit)
      throw_input_error("{}: {} is {}, expected from 0 to {} for the model's input {}", place(i), bound.field.name,
                        value.indices[i], limit - 1, bound.input.name);
  return value;
}

}  // namespace

Binding bind_inputs(const std::vector<ModelInput>& inputs, const DataSource& source, std::int64_t classes) {
  return Binder(inputs, source, classes).bind();
}

std::map<std::string, HostTensor> read_batch(const Binding& binding, const DataSource& source,
                                             std::span<const std::int64_t> rows) {
  UNITY_CHECK(static_cast<std::int64_t>(rows.size()) == binding.batch, "{} rows for a batch of {}", rows.size(),
              binding.batch);
  std::map<std::string, HostTensor> fields = source.read(rows), batch;
  for (const BoundInput& bound : binding.inputs)
    batch.emplace(bound.input.name, value_for(bound, std::move(fields.at(bound.field.name)), source, rows));
  return batch;
}

std::vector<std::int64_t> batch_rows(const Binding& binding, std::span<const std::int64_t> order, std::int64_t begin) {
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < binding.batch; ++i)
    rows.push_back(order[static_cast<std::size_t>(begin + i) % order.size()]);
  return rows;
}

Predictions count_predictions(const Binding& binding, const std::map<std::string, HostTensor>& batch,
                              const HostTensor& logits, std::int64_t rows) {
  Predictions counted;
  auto labels = batch.find(binding.labels);
  if (labels == batch.end() || logits.dims.empty() || logits.dtype == DType::i32) return counted;
  std::int64_t classes = logits.dims.back(), all = labels->second.elements();
  if (classes <= 0 || logits.elements() != all * classes) return counted;
  counted.all = all / binding.batch * rows;
  for (std::int64_t i = 0; i < counted.all; ++i) {
    auto first = logits.reals.begin() + i * classes;
    if (std::any_of(first, first + classes, [](double x) { return std::isnan(x); })) continue;  // says nothing
    counted.right +=
        std::max_element(first, first + classes) - first == labels->second.indices[static_cast<std::size_t>(i)];
  }
  return counted;
}

}  // namespace unity
