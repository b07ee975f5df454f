#include "runtime/train.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <limits>
#include <numeric>
#include <set>

#include "core/base/does_not_fit.h"
#include "core/plan/memory_plan.h"
#include "runtime/agreement.h"
#include "runtime/checkpoint/folder.h"
#include "runtime/data/binding.h"
#include "runtime/feeder.h"
#include "runtime/held_types.h"
#include "runtime/weight_files.h"

namespace unity {
namespace {

std::vector<std::int64_t> in_order(std::int64_t rows) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(rows));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  return order;
}

// The forward pass on the test rows, with the weights as they are.
class Tester {
 public:
  Tester(const Program& evaluation, const DataSource& test, const Binding& binding, const ExecutorOptions& options)
      : executor_(evaluation, options),
        test_(test),
        binding_(binding),
        order_(in_order(test.rows())),
        agreement_(options.processes) {
    logits_ = evaluation.outputs.size() > 1;
    for (const ProgramLeaf& leaf : executor_.inputs()) inputs_.insert(leaf.name);
  }

  std::vector<Bytes> memory() const { return executor_.memory(); }

  Evaluation run(const Executor& trained) {
    for (const StateTensor& s : executor_.state()) executor_.set_state(s.name, trained.state(s.name));
    double loss = 0;  // of all rows
    Predictions total;
    auto loss_of = [&](const std::map<std::string, HostTensor>& batch) {
      for (const auto& [name, value] : batch)
        if (inputs_.contains(name)) executor_.set_input(name, value);
      return executor_.step().loss;
    };
    for (std::int64_t begin = 0; begin < test_.rows(); begin += binding_.batch) {
      // The last batch is filled up with its last row, which counts once.
      std::map<std::string, HostTensor> batch = read_batch(binding_, test_, rows_from(begin));
      if (!compared_) agreement_.add(batch);
      loss += loss_of(batch) * static_cast<double>(binding_.batch);
      const std::int64_t count = std::min(binding_.batch, test_.rows() - begin);
      if (logits_) {
        Predictions p = count_predictions(binding_, batch, executor_.output(1), count);
        total.right += p.right, total.all += p.all;
      }
      if (count == binding_.batch) continue;
      // What a row adds to the mean it adds beside any others: a batch of nothing else says how much.
      const std::vector<std::int64_t> same(static_cast<std::size_t>(binding_.batch), order_.back());
      loss -= loss_of(read_batch(binding_, test_, same)) * static_cast<double>(binding_.batch - count);
    }
    if (!std::exchange(compared_, true)) agreement_.require_equal_batches("the test rows");
    Evaluation e;
    e.loss = loss / static_cast<double>(test_.rows());
    if (total.all > 0) e.accuracy = static_cast<double>(total.right) / static_cast<double>(total.all);
    return e;
  }

 private:
  std::vector<std::int64_t> rows_from(std::int64_t begin) const {
    std::vector<std::int64_t> rows(static_cast<std::size_t>(binding_.batch), order_.back());
    std::copy_n(order_.begin() + begin, std::min(binding_.batch, test_.rows() - begin), rows.begin());
    return rows;
  }

  Executor executor_;
  const DataSource& test_;
  const Binding& binding_;  // of the training, which may read inputs that the evaluation does not
  std::set<std::string> inputs_;
  std::vector<std::int64_t> order_;
  Agreement agreement_;
  bool compared_ = false;  // among the processes
  bool logits_ = false;
};

// Bytes of a Program's buffers on each device.
std::vector<Bytes> buffers_of(const Program& program, const ExecutorOptions& options) {
  const std::vector<DType> types = held_types(program, options.precision);
  std::vector<Bytes> bytes;
  for (const Buffer& b : program.buffers)
    bytes.push_back({b.box.elements() * size_of(types[static_cast<std::size_t>(b.tensor)])});
  return plan_memory(program, bytes, {.share = options.share_memory}).arenas;
}

// The error of an evaluation that has no room beside the training, which takes `taken`. The backend's own limit, and
// what it says of one, is of the evaluation's buffers alone.
DoesNotFit beside_training(const DoesNotFit& error, const Program& training, const Program& evaluation,
                           const ExecutorOptions& options, const std::vector<Bytes>& taken) {
  const std::vector<Bytes> ours = buffers_of(training, options), more = buffers_of(evaluation, options);
  std::int64_t limit = std::numeric_limits<std::int64_t>::max();
  for (std::size_t d = 0; d < ours.size(); ++d) limit = std::min(limit, ours[d].count + error.limit() - more[d].count);
  const std::string what = error.what();
  return DoesNotFit(
      fmt::format("the evaluation on the test rows, beside {} of training: {}; expected {}a smaller batch, or more "
                  "devices",
                  to_string(*std::max_element(taken.begin(), taken.end())), what.substr(0, what.find("; ")),
                  limit > 0 ? fmt::format("a plan whose training needs at most {}, ", to_string(Bytes{limit})) : ""),
      std::max<std::int64_t>(limit, 0));
}

// By contents, where they are known of both: files move, and change.
bool same_data(const TrainingPosition& position, const std::string& data, Hash contents) {
  if (position.contents != 0 && contents != 0) return position.contents == contents;
  std::error_code error;
  return position.data == data || (!is_built_in_data(position.data) && !is_built_in_data(data) &&
                                   std::filesystem::equivalent(position.data, data, error));
}

// A batch of another size, or other data, than those of the checkpoint: go on at the first batch not begun, or anew.
void adapt(TrainingPosition& position, const TrainOptions& options, Hash contents, std::int64_t batch,
           std::int64_t per_epoch) {
  if (!same_data(position, options.data, contents)) {
    if (options.warn)
      options.warn(
          fmt::format("{} {} other data than those of the checkpoint{}: their first epoch begins, behind step {}",
                      options.data, position.data == options.data ? "holds" : "are",
                      position.data == options.data ? "" : ", " + position.data, position.step));
    position.epoch = position.batches = 0, position.epoch_loss_sum = 0, position.best = {};
  }
  if (position.batches > 0 && position.batch != batch) {
    const auto before = static_cast<double>(position.batches);
    position.batches = (position.batches * position.batch + batch - 1) / batch;
    position.epoch_loss_sum *= static_cast<double>(position.batches) / before;  // of as many batches as count now
  }
  if (position.batches >= per_epoch) ++position.epoch, position.batches = 0, position.epoch_loss_sum = 0;
  position.data = options.data, position.contents = contents, position.batch = batch;
}

// That the model tells apart: where its second output has so many numbers for each label. 0: none.
std::int64_t classes_of(const Program& training, const std::vector<ModelInput>& inputs) {
  if (training.outputs.size() < 2 || training.outputs[1].dims.empty()) return 0;
  const Dims& dims = training.outputs[1].dims;
  const std::int64_t labels = element_count(dims) / dims.back();
  const bool any = std::any_of(inputs.begin(), inputs.end(), [&](const ModelInput& input) {
    return input.dtype == DType::i32 &&
           std::accumulate(input.dims.begin(), input.dims.end(), std::int64_t{1}, std::multiplies<>()) == labels;
  });
  return any && dims.size() > 1 ? dims.back() : 0;
}

double seconds_since(SessionLog::Clock::time_point start) {
  return std::chrono::duration<double>(SessionLog::Clock::now() - start).count();
}

double median(std::vector<double> seconds) {
  if (seconds.empty()) return 0;
  if (seconds.size() > 1) seconds.erase(seconds.begin());
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2), seconds.end());
  return seconds[seconds.size() / 2];
}

// The checkpoint to go on from, if any. A new run does not mix its checkpoints with those of another.
std::optional<Checkpoint> start_from(const CheckpointOptions& options) {
  if (options.folder.empty()) return std::nullopt;
  if (options.resume) return Checkpoint::newest(options.folder);
  std::vector<SavedStep> steps = saved_steps(options.folder);
  if (!steps.empty())
    throw_input_error("{}: holds a checkpoint of step {}, expected another folder, or to resume",
                      options.folder.string(), steps.back().step);
  return std::nullopt;
}

}  // namespace

TrainResult train(const Program& training, const Program* evaluation, const TrainOptions& options) {
  const auto began = options.began.value_or(SessionLog::Clock::now());
  std::optional<Checkpoint> from = start_from(options.checkpoint);
  TrainingPosition at;
  at.data = options.data, at.seed = options.executor.seed;
  if (from) at = from->position();
  Agreement agreement(options.executor.processes);
  agreement.require_equal_options(options);
  agreement.require_equal(
      "the checkpoint to go on from",
      from ? fmt::format("step {} with contents {:016x}", at.step, hash_of(from->index())) : "none");
  at.model = training.name, at.optimizer = to_text(training.optimizer);
  ExecutorOptions how = options.executor;
  how.seed = at.seed;
  if (!options.gradients_file.empty()) how.share_memory = false;  // gradients outlive their use
  Executor executor(training, how);
  Processes& processes = executor.processes();
  if (from) {
    from->restore(executor);
  } else if (!options.weights_file.empty()) {
    agreement.require_equal_file("the initial values", options.weights_file);
    set_initial_values(executor, training, options.weights_file);
  }
  TrainResult result;
  result.memory = executor.memory();
  result.first_step = at.step;
  std::optional<DataSplit> data;
  Hash contents = 0;
  Binding binding;
  std::int64_t per_epoch = 1, steps = options.steps > 0 ? options.steps : std::max<std::int64_t>(options.epochs, 1);
  if (options.data != "synthetic") {
    std::vector<ModelInput> inputs = model_inputs(executor.inputs(), options.index_bounds);
    const std::int64_t classes = classes_of(training, inputs);
    data = open_data(options.data, inputs, options.in_order);
    binding = bind_inputs(inputs, *data->training, classes);
    if (data->test) bind_inputs(inputs, *data->test, classes);
    per_epoch = data->training->rows() / binding.batch;
    if (per_epoch == 0)
      throw_input_error("data {}: {} training rows are fewer than one batch of {}", options.data,
                        data->training->rows(), binding.batch);
    contents = contents_of(*data->training);
    agreement.require_equal(
        "the data", fmt::format("{} rows to train on and {} to test on, contents {:016x}", data->training->rows(),
                                data->test ? data->test->rows() : 0, contents));
  }
  adapt(at, options, contents, binding.batch, per_epoch);
  if (data && options.steps <= 0) steps = at.step + per_epoch * (options.epochs - at.epoch) - at.batches;
  bool tested = data && data->test && evaluation;
  if ((options.patience > 0 || options.evaluate_every > 0) && !tested)
    throw_input_error("{}: data {} have no test rows{}", options.patience > 0 ? "early stopping" : "--evaluate-every",
                      options.data,
                      options.patience > 0 ? " to watch"
                      : options.in_order   ? " with --in-order"
                                           : "");
  // Before the first step: what does not fit beside the training ends here, and not after an epoch.
  std::optional<Tester> tester;
  if (tested) {
    try {
      tester.emplace(*evaluation, *data->test, binding, how);
    } catch (const DoesNotFit& error) {
      throw beside_training(error, training, *evaluation, how, result.memory);
    }
    const std::vector<Bytes> more = tester->memory();
    for (std::size_t d = 0; d < more.size(); ++d) result.memory[d] += more[d];
  }
  std::optional<SessionLog> session;
  if (!options.checkpoint.folder.empty() && processes.rank() == 0) {
    require_checkpoint_folder(options.checkpoint.folder);
    session.emplace(options.checkpoint.folder, began, at.step);
    std::vector<SavedStep> saved = saved_steps(options.checkpoint.folder);
    if (!saved.empty() && (!from || saved.back().step != from->position().step))
      throw_input_error("{}: another run saved step {} while this one began; start it again",
                        options.checkpoint.folder.string(), saved.back().step);
  }
  std::int64_t evaluate_every =
      options.patience > 0 ? std::max<std::int64_t>(options.evaluate_every, 1) : options.evaluate_every;
  RateSchedule schedule = options.schedule;
  if (schedule.steps == 0) schedule.steps = steps;

  auto evaluate = [&] {
    Evaluation e = tester->run(executor);
    e.epoch = at.epoch, e.step = at.step;
    bool loss = options.watch_loss || !e.accuracy;
    at.best.watch(loss ? "loss" : "accuracy");
    at.best.see(loss ? e.loss : *e.accuracy, e.epoch, !loss);
    result.evaluations.push_back(e);
  };
  double step_seconds = 0, checkpoint_seconds = 0;
  auto save = [&] {
    auto start = SessionLog::Clock::now();
    if (data) agreement.require_equal_batches(fmt::format("the rows up to step {}", at.step));
    save_checkpoint(executor, at, options.checkpoint);
    checkpoint_seconds += seconds_since(start);
    if (session) session->note(at.step, step_seconds, checkpoint_seconds, true);
  };
  // What the processes were fed so far, or their numbers would be of different trainings.
  auto compare = [&] {
    if (data) agreement.require_equal_batches(fmt::format("the rows up to step {}", at.step));
    executor.check_replicas();
  };
  // In the order of training, from where it stands on.
  struct Place {
    std::int64_t step = 0, epoch = 0, batches = 0;
  };
  auto next = [&, place = Place{at.step, at.epoch, at.batches}, order = std::vector<std::int64_t>()]() mutable {
    if (!data) return synthetic_batch(executor.inputs(), options.index_bounds, at.seed, place.step++);
    if (order.empty() || place.batches == 0)
      order = options.in_order
                  ? in_order(data->training->rows())
                  : permutation(data->training->rows(), combine(at.seed, static_cast<Hash>(place.epoch) + 1));
    auto batch = read_batch(binding, *data->training, batch_rows(binding, order, place.batches * binding.batch));
    if (++place.batches == per_epoch) ++place.epoch, place.batches = 0;
    return batch;
  };
  Feeder feeder(executor, next);
  std::vector<double> seconds, feeding;
  std::int64_t saved = from ? at.step : -1;
  while (at.step < steps && !(result.stopped_early = at.best.give_up(options.patience)) &&
         !(result.interrupted = options.stop && *options.stop)) {
    auto begun = SessionLog::Clock::now();
    const Feeder::Batch batch = feeder.feed(at.step + 1 < steps);
    feeding.push_back(seconds_since(begun));
    if (data) {
      agreement.add(batch);
      if (seconds.empty()) agreement.require_equal_batches("the rows of the first batch");
    }
    double rate = learning_rate(schedule, training.optimizer.learning_rate, at.step);
    executor.set_learning_rate_factor(rate / training.optimizer.learning_rate);
    auto start = SessionLog::Clock::now();
    // Where training may stop early, each epoch may be the last one.
    const bool last = at.step + 1 == steps || (options.patience > 0 && at.batches + 1 == per_epoch);
    StepResult r = executor.step(options.trace && last);
    seconds.push_back(seconds_since(start));
    if (result.losses.empty() && !options.gradients_file.empty())
      save_gradients(executor, training, options.gradients_file);
    result.losses.push_back(r.loss);
    result.rates.push_back(rate);
    if (r.trace) result.trace = std::move(r.trace);
    ++at.step, ++at.batches;
    at.epoch_loss_sum += r.loss;
    if (at.batches == per_epoch) {
      result.epoch_losses.push_back(at.epoch_loss_sum / static_cast<double>(per_epoch));
      ++at.epoch, at.batches = 0, at.epoch_loss_sum = 0;
      if (tested && evaluate_every > 0 && at.epoch % evaluate_every == 0) evaluate();
    }
    if (options.progress) options.progress(at.step, steps, r.loss);
    if (options.check_replicas_every > 0 && at.step % options.check_replicas_every == 0) compare();
    step_seconds += seconds_since(begun);
    if (session) session->note(at.step, step_seconds, checkpoint_seconds);
    if (options.checkpoint.every > 0 && at.step % options.checkpoint.every == 0 && !options.checkpoint.folder.empty())
      save(), saved = at.step;
  }
  compare();
  if (!options.checkpoint.folder.empty() && saved != at.step) save();
  result.iteration_seconds = median(std::move(seconds));
  result.feed_seconds = median(std::move(feeding));
  if (tested && !result.interrupted && (result.evaluations.empty() || result.evaluations.back().step != at.step)) {
    auto start = SessionLog::Clock::now();
    evaluate();
    step_seconds += seconds_since(start);
  }
  if (!result.evaluations.empty()) result.accuracy = result.evaluations.back().accuracy, result.best = at.best;
  if (session) {
    session->note(at.step, step_seconds, checkpoint_seconds, true);
    result.effective = effective_time(read_sessions(options.checkpoint.folder));
  }
  return result;
}

}  // namespace unity
