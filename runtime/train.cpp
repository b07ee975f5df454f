#include "runtime/train.h"

#include <algorithm>
#include <chrono>

#include "runtime/initial_values.h"

namespace unity {
namespace {

// Which input takes the features and which the labels.
struct Binding {
  std::string features, labels;
  Dims dims;
  std::int64_t batch = 0;
};

Binding bind(const Executor& executor, const Dataset& data) {
  Binding b;
  std::string found;
  for (const ProgramLeaf& leaf : executor.inputs()) {
    const Dims& dims = ints_attribute(leaf.attributes, 0);
    bool indices = text_attribute(leaf.attributes, 1) == "i32";
    found += fmt::format("{}{} {}", found.empty() ? "" : ", ", leaf.name,
                         to_string(Shape{dims, indices ? DType::i32 : DType::f32}));
    if (dims.empty()) continue;
    if (indices && dims.size() == 1) b.labels = leaf.name;
    if (!indices && element_count(dims) / dims[0] == data.features)
      b.features = leaf.name, b.dims = dims, b.batch = dims[0];
  }
  if (b.features.empty() || b.labels.empty() || executor.inputs().size() != 2)
    throw_input_error("data {}: {} features and a label per row do not suit the model's inputs ({})", data.name,
                      data.features, found);
  return b;
}

void feed(Executor& executor, const Binding& b, const Dataset& data, const std::vector<std::int64_t>& order,
          std::int64_t begin) {
  HostTensor x = real_tensor(b.dims), y = index_tensor({b.batch});
  for (std::int64_t i = 0; i < b.batch; ++i) {
    std::int64_t row = order[static_cast<std::size_t>((begin + i) % static_cast<std::int64_t>(order.size()))];
    std::copy_n(data.values.begin() + row * data.features, data.features, x.reals.begin() + i * data.features);
    y.indices[static_cast<std::size_t>(i)] = data.labels[static_cast<std::size_t>(row)];
  }
  executor.set_input(b.features, x);
  executor.set_input(b.labels, y);
}

double evaluate_accuracy(const Executor& trained, const Program& evaluation, const Dataset& test,
                         const ExecutorOptions& options) {
  Executor executor(evaluation, options);
  for (const std::string& name : trained.weight_names()) executor.set_weight(name, trained.weight(name));
  Binding b = bind(executor, test);
  std::vector<std::int64_t> order(static_cast<std::size_t>(test.rows()));
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(i);
  std::int64_t right = 0;
  for (std::int64_t begin = 0; begin < test.rows(); begin += b.batch) {
    feed(executor, b, test, order, begin);  // the last batch is filled up with rows that do not count
    executor.step();
    HostTensor logits = executor.output(1);
    std::int64_t classes = logits.dims.back();
    for (std::int64_t i = 0; i < std::min(b.batch, test.rows() - begin); ++i) {
      auto first = logits.reals.begin() + i * classes;
      right += std::max_element(first, first + classes) - first == test.labels[static_cast<std::size_t>(begin + i)];
    }
  }
  return static_cast<double>(right) / static_cast<double>(test.rows());
}

}  // namespace

TrainResult train(const Program& training, const Program* evaluation, const TrainOptions& options) {
  Executor executor(training, options.executor);
  if (!options.weights_file.empty()) set_initial_values(executor, options.weights_file);
  TrainResult result;
  std::optional<Split> data;
  Binding binding;
  std::int64_t per_epoch = 1, steps = options.steps > 0 ? options.steps : std::max<std::int64_t>(options.epochs, 1);
  if (options.data != "synthetic") {
    data = split(load_dataset(options.data));
    binding = bind(executor, data->training);
    std::int64_t classes =
        training.outputs.size() > 1 && !training.outputs[1].dims.empty() ? training.outputs[1].dims.back() : 0;
    std::int64_t found = std::max(data->training.classes, data->test.classes);
    if (classes > 0 && found > classes)
      throw_input_error("data {}: labels up to {}, expected below the model's {} classes", options.data, found - 1,
                        classes);
    per_epoch = data->training.rows() / binding.batch;
    if (per_epoch == 0)
      throw_input_error("data {}: {} training rows are fewer than one batch of {}", options.data, data->training.rows(),
                        binding.batch);
    if (options.steps <= 0) steps = per_epoch * options.epochs;
  }
  std::vector<double> seconds;
  std::vector<std::int64_t> order;
  double epoch_sum = 0;
  for (std::int64_t step = 0; step < steps; ++step) {
    if (data) {
      if (step % per_epoch == 0)
        order =
            permutation(data->training.rows(), combine(options.executor.seed, static_cast<Hash>(step / per_epoch) + 1));
      feed(executor, binding, data->training, order, step % per_epoch * binding.batch);
    } else {
      for (const auto& [name, value] :
           synthetic_batch(executor.inputs(), options.index_bounds, options.executor.seed, step))
        executor.set_input(name, value);
    }
    auto start = std::chrono::steady_clock::now();
    StepResult r = executor.step(options.trace && step + 1 == steps);
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    result.losses.push_back(r.loss);
    if (r.trace) result.trace = std::move(r.trace);
    epoch_sum += r.loss;
    if ((step + 1) % per_epoch == 0)
      result.epoch_losses.push_back(epoch_sum / static_cast<double>(per_epoch)), epoch_sum = 0;
    if (options.progress) options.progress(step + 1, steps, r.loss);
  }
  if (seconds.size() > 1) seconds.erase(seconds.begin());
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2), seconds.end());
  result.iteration_seconds = seconds[seconds.size() / 2];
  if (data && evaluation && evaluation->outputs.size() > 1)
    result.accuracy = evaluate_accuracy(executor, *evaluation, data->test, options.executor);
  return result;
}

}  // namespace unity
