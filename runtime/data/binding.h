// Which field of a data source feeds which input of a model.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/source.h"

namespace unity {

// An input and the field it takes. A field of whole numbers may feed a real input, and a real one, where its values are
// whole, an input of indices.
struct BoundInput {
  ModelInput input;
  Field field;
};

struct Binding {
  std::vector<BoundInput> inputs;  // one for each of the model
  std::string labels;              // the input of indices that takes the labels; empty when there is none
  std::int64_t batch = 0;
};

// By exact name first. Of what is left then, the one real field goes to the one real input with as many elements per
// row, and the label field (called labels, label or y, else the one left that is i32) to the one input, preferably of
// indices, with as many. Labels must be below `classes`, 0: unknown. InputError when an input goes without a field,
// with what each side has, or when a field is known to have indices beyond an input's bound.
Binding bind_inputs(const std::vector<ModelInput>& inputs, const DataSource& source, std::int64_t classes = 0);

// A value for every input of the model. InputError with the row's place where an index is negative or not below the
// bound, or a number is not whole where the model takes indices.
std::map<std::string, HostTensor> read_batch(const Binding& binding, const DataSource& source,
                                             std::span<const std::int64_t> rows);

// The rows of `order` from `begin` on, as many as a batch, from its start again after its end.
std::vector<std::int64_t> batch_rows(const Binding& binding, std::span<const std::int64_t> order, std::int64_t begin);

// Predictions made by the largest logit, among the first `rows` rows of a batch, and those that are the label; logits
// with NaN predict none of the classes. None are made when there are no labels or the logits are not [labels ..,
// classes].
struct Predictions {
  std::int64_t right = 0, all = 0;
};
Predictions count_predictions(const Binding& binding, const std::map<std::string, HostTensor>& batch,
                              const HostTensor& logits, std::int64_t rows);

}  // namespace unity
