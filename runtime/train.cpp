#include "runtime/train.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "runtime/data/binding.h"
#include "runtime/initial_values.h"

namespace unity {
namespace {

void feed(Executor& executor, const std::map<std::string, HostTensor>& batch) {
  for (const auto& [name, value] : batch) executor.set_input(name, value);
}

std::optional<double> evaluate_accuracy(const Executor& trained, const Program& evaluation, const DataSource& test,
                                        const Binding& binding, const ExecutorOptions& options) {
  Executor executor(evaluation, options);
  for (const std::string& name : trained.weight_names()) executor.set_weight(name, trained.weight(name));
  std::vector<std::int64_t> order(static_cast<std::size_t>(test.rows()));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  Predictions total;
  for (std::int64_t begin = 0; begin < test.rows(); begin += binding.batch) {
    // The last batch is filled up with rows that do not count.
    std::map<std::string, HostTensor> batch = read_batch(binding, test, batch_rows(binding, order, begin));
    feed(executor, batch);
    executor.step();
    Predictions p = count_predictions(binding, batch, executor.output(1), std::min(binding.batch, test.rows() - begin));
    total.right += p.right, total.all += p.all;
  }
  if (total.all == 0) return std::nullopt;
  return static_cast<double>(total.right) / static_cast<double>(total.all);
}

}  // namespace

TrainResult train(const Program& training, const Program* evaluation, const TrainOptions& options) {
  Executor executor(training, options.executor);
  if (!options.weights_file.empty()) set_initial_values(executor, options.weights_file);
  TrainResult result;
  std::optional<DataSplit> data;
  Binding binding;
  std::int64_t per_epoch = 1, steps = options.steps > 0 ? options.steps : std::max<std::int64_t>(options.epochs, 1);
  if (options.data != "synthetic") {
    std::vector<ModelInput> inputs = model_inputs(executor.inputs(), options.index_bounds);
    std::int64_t classes =
        training.outputs.size() > 1 && !training.outputs[1].dims.empty() ? training.outputs[1].dims.back() : 0;
    data = open_data(options.data, inputs);
    binding = bind_inputs(inputs, *data->training, classes);
    bind_inputs(inputs, *data->test, classes);
    per_epoch = data->training->rows() / binding.batch;
    if (per_epoch == 0)
      throw_input_error("data {}: {} training rows are fewer than one batch of {}", options.data,
                        data->training->rows(), binding.batch);
    if (options.steps <= 0) steps = per_epoch * options.epochs;
  }
  std::vector<double> seconds;
  std::vector<std::int64_t> order;
  double epoch_sum = 0;
  for (std::int64_t step = 0; step < steps; ++step) {
    if (data) {
      if (step % per_epoch == 0)
        order = permutation(data->training->rows(),
                            combine(options.executor.seed, static_cast<Hash>(step / per_epoch) + 1));
      feed(executor,
           read_batch(binding, *data->training, batch_rows(binding, order, step % per_epoch * binding.batch)));
    } else {
      feed(executor, synthetic_batch(executor.inputs(), options.index_bounds, options.executor.seed, step));
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
    result.accuracy = evaluate_accuracy(executor, *evaluation, *data->test, binding, options.executor);
  return result;
}

}  // namespace unity
