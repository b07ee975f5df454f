// unity run: trains under a plan.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/checks.h"
#include "cli/commands.h"
#include "cli/fitting_plan.h"
#include "cli/interruption.h"
#include "cli/lowered.h"
#include "cli/processes.h"
#include "cli/progress.h"
#include "core/base/does_not_fit.h"
#include "core/trace/trace_json.h"
#include "runtime/train.h"

namespace unity::cli {
namespace {

struct Options {
  PlanSource source;
  ProcessOptions processes;
  std::string backend = "cpu", data, precision = "f32", trace;
  std::int64_t steps = 0, epochs = 0;
  int threads = 0;
  std::string weights, gradients, schedule, checkpoint, early_stop_on = "accuracy";
  std::int64_t checkpoint_every = 0, checkpoint_keep = 3, evaluate_every = 0, patience = 0, check_replicas = 0;
  bool compare_one_device = false, json = false, resume = false, in_order = false;
  SessionLog::Clock::time_point began;
};

TrainResult train_under(const Plan& plan, const Topology& topology, const Options& o, const std::string& title,
                        bool trace, Processes* processes, const std::atomic<bool>* stop) {
  Precision precision = parse_precision(o.precision, "--precision");
  Program training = lower_plan(plan, topology, true, precision),
          evaluation = lower_plan(plan, topology, false, precision);
  TrainOptions t;
  t.executor = {o.backend, precision, o.source.settings.search.seed, o.threads, true, processes};
  t.data = o.data;
  t.steps = o.steps;
  t.epochs = o.epochs > 0 ? o.epochs : 1;
  if (o.steps <= 0 && o.epochs <= 0 && o.data == "synthetic") t.steps = 10;
  t.index_bounds = input_bounds(plan.model);
  t.in_order = o.in_order;
  t.weights_file = o.weights.empty() ? model_info(plan.model.name).weights_file : o.weights;
  t.gradients_file = o.gradients;
  if (!o.schedule.empty()) t.schedule = parse_schedule(o.schedule);
  t.checkpoint = {o.checkpoint, o.checkpoint_every, o.checkpoint_keep, o.resume};
  t.began = o.began;
  t.evaluate_every = o.evaluate_every;
  t.patience = o.patience;
  t.watch_loss = o.early_stop_on == "loss";
  t.trace = trace;
  t.check_replicas_every = o.check_replicas;
  t.stop = stop;
  if (!processes || processes->rank() == 0)
    t.warn = [](const std::string& what) { fmt::print(stderr, "unity: warning: {}\n", what); };
  Progress bar(title);
  t.progress = [&](std::int64_t done, std::int64_t total, double loss) {
    bar.update(done, total, fmt::format("loss {:.4f}", loss));
  };
  return train(training, &evaluation, t);
}

// The same model on one device of the same machine, from the same seed.
class OneDevice {
 public:
  // An error where one device is too small, before anything is trained.
  OneDevice(const Plan& plan, const Options& o)
      : topology_(load_topology(plan.topology, {plan.nodes, 1})), plan_(plan), options_(o) {
    plan_.pcg = build_model(plan.model);
    plan_.mappings.assign(plan_.pcg.size(), {});
    plan_.schedule = {};
    options_.checkpoint.clear();
    options_.gradients.clear();
    try {
      lower_plan(plan_, topology_, true, parse_precision(o.precision, "--precision"));
    } catch (const DoesNotFit& error) {
      throw_input_error("--compare-one-device: {}", error.what());
    }
  }
  TrainResult train() const { return train_under(plan_, topology_, options_, "one device", false, nullptr, nullptr); }

 private:
  Topology topology_;
  Plan plan_;
  Options options_;
};

// What was asked for and is not there has a reason.
void warn_of_unwritten(const Options& o, const TrainResult& result) {
  for (const auto& [file, is_there] :
       {std::pair<const std::string&, bool>(o.trace, result.trace.has_value()), {o.gradients, !result.losses.empty()}})
    if (!file.empty() && !is_there)
      fmt::print(stderr, "unity: warning: {}: not written, as {}\n", file,
                 result.interrupted ? "training was interrupted" : "no steps were left to do");
}

void warn_of_divergence(const TrainResult& result) {
  const auto first =
      std::find_if(result.losses.begin(), result.losses.end(), [](double l) { return !std::isfinite(l); });
  if (first == result.losses.end()) return;
  fmt::print(stderr,
             "unity: warning: step {}: the loss is {}; a lower learning rate may keep training from diverging\n",
             result.first_step + (first - result.losses.begin()) + 1, std::isnan(*first) ? "not a number" : "infinite");
}

// Infinite where only one of the two is a number.
double relative_difference(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double difference = std::abs(a - b) / std::abs(b);
  return std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference;
}

double samples_per_second(const Plan& plan, const TrainResult& result) {
  return result.iteration_seconds > 0 ? static_cast<double>(plan.global_batch) / result.iteration_seconds : 0;
}

// None of evaluations that all gave NaN.
bool has_best(const TrainResult& result) { return result.best && result.best->value; }

void print_json(const Plan& plan, const Options& o, const TrainResult& result, double worst) {
  using nlohmann::ordered_json;
  ordered_json metrics = ordered_json::object(), evaluations = ordered_json::array();
  if (result.accuracy) metrics["test_accuracy"] = *result.accuracy;
  if (!result.evaluations.empty()) metrics["test_loss"] = result.evaluations.back().loss;
  if (o.compare_one_device) metrics["largest_relative_loss_difference"] = worst;
  for (const Evaluation& e : result.evaluations)
    evaluations.push_back({{"epoch", e.epoch},
                           {"step", e.step},
                           {"test_accuracy", e.accuracy ? ordered_json(*e.accuracy) : ordered_json()},
                           {"test_loss", e.loss}});
  ordered_json memory = ordered_json::array();
  for (Bytes b : result.memory) memory.push_back(b.count);
  ordered_json effective;
  if (const auto& e = result.effective)
    effective = {{"ratio", e->ratio()},
                 {"sessions", e->sessions},
                 {"steps", e->steps},
                 {"lost_steps", e->lost_steps},
                 {"seconds", e->seconds},
                 {"step_seconds", e->step_seconds},
                 {"lost_seconds", e->lost_seconds},
                 {"checkpoint_seconds", e->checkpoint_seconds}};
  ordered_json out = {{"model", plan.model.name},
                      {"topology", plan.topology},
                      {"devices", plan.devices},
                      {"strategy", plan.search.strategy},
                      {"data", o.data},
                      {"optimizer", to_text(plan.optimizer)},
                      {"first_step", result.first_step},
                      {"losses", result.losses},
                      {"learning_rates", result.rates},
                      {"epoch_losses", result.epoch_losses},
                      {"evaluations", evaluations},
                      {"best_epoch", has_best(result) ? ordered_json(result.best->epoch) : ordered_json()},
                      {"stopped_early", result.stopped_early},
                      {"interrupted", result.interrupted},
                      {"iteration_seconds", result.iteration_seconds},
                      {"feed_seconds", result.feed_seconds},
                      {"samples_per_second", samples_per_second(plan, result)},
                      {"memory_bytes", memory},
                      {"effective_time", effective},
                      {"final_metrics", metrics}};
  fmt::print("{}\n", out.dump(2));
}

void print_table(const Plan& plan, const Options& o, const TrainResult& result) {
  constexpr double kMuch = 0.05;  // of an iteration
  fmt::print("{} on {} ({} devices, strategy {}), data {}, batch {}, {}\n", plan.model.name, plan.topology,
             plan.devices, plan.search.strategy, o.data, plan.global_batch, to_text(plan.optimizer));
  if (result.first_step > 0) fmt::print("resumed after step {}\n", result.first_step);
  bool epochs = result.first_step == 0 && result.epoch_losses.size() > 1 && o.data != "synthetic";
  const std::vector<double>& shown = epochs ? result.epoch_losses : result.losses;
  std::size_t before = static_cast<std::size_t>(result.first_step);
  auto is_shown = [](std::size_t i, std::size_t of) { return of <= 40 || i % (of / 20) == 0 || i + 1 == of; };
  for (std::size_t i = 0; i < shown.size(); ++i)
    if (is_shown(i, shown.size()))
      fmt::print("  {} {:>4}  loss {:.6f}\n", epochs ? "epoch" : "step", before + i + 1, shown[i]);
  for (std::size_t i = 0; i < result.evaluations.size() && result.evaluations.size() > 1; ++i) {
    const Evaluation& e = result.evaluations[i];
    if (is_shown(i, result.evaluations.size()))
      fmt::print("  after epoch {:>4}  test loss {:.6f}{}\n", e.epoch, e.loss,
                 e.accuracy ? fmt::format("  test accuracy {:.2f}%", 100 * *e.accuracy) : "");
  }
  if (result.stopped_early) fmt::print("stopped early, after {} steps\n", before + result.losses.size());
  if (has_best(result) && result.evaluations.size() > 1) fmt::print("best epoch: {}\n", result.best->epoch);
  if (result.interrupted) fmt::print("interrupted, after {} steps\n", before + result.losses.size());
  if (result.losses.empty() && !result.interrupted) fmt::print("no steps were left to do\n");
  if (!result.losses.empty())
    fmt::print(
        "median iteration: {}, {:.0f} samples/s{}\n", to_string(from_seconds(result.iteration_seconds)),
        samples_per_second(plan, result),
        result.feed_seconds > kMuch * result.iteration_seconds
            ? fmt::format("; it waits {} for its batch, not counted", to_string(from_seconds(result.feed_seconds)))
            : "");
  if (!result.memory.empty())
    fmt::print("memory of the fullest device: {}\n",
               to_string(*std::max_element(result.memory.begin(), result.memory.end())));
  if (result.accuracy) fmt::print("test accuracy: {:.2f}%\n", 100 * *result.accuracy);
  if (!o.checkpoint.empty()) fmt::print("checkpoint of step {} in {}\n", before + result.losses.size(), o.checkpoint);
  if (const auto& e = result.effective)
    fmt::print(
        "effective time: {:.1f}% of {:.1f} s in {} session{}; checkpoints {:.1f}%, {} steps done again {:.1f}%\n",
        100 * e->ratio(), e->seconds, e->sessions, e->sessions == 1 ? "" : "s",
        100 * e->checkpoint_seconds / e->seconds, e->lost_steps, 100 * e->lost_seconds / e->seconds);
}

void run(const Options& o, Processes& processes) {
  parse_precision(o.precision, "--precision");
  o.processes.require_backend(o.backend);
  if (o.early_stop_on != "accuracy" && o.early_stop_on != "loss")
    throw_input_error("--early-stop-on: found '{}', expected accuracy or loss", o.early_stop_on);
  if (o.backend == "cuda" && o.threads > 0)
    throw_input_error("--threads: found {} with --backend cuda, expected none: they are of CPU devices", o.threads);
  if (!o.schedule.empty()) parse_schedule(o.schedule);
  require_writable(o.trace);
  require_writable(o.gradients);
  Topology topology;
  Plan plan = o.source.load_to_train(topology, parse_precision(o.precision, "--precision"));
  warn_of_places(processes, topology);
  if (processes.rank() == 0) warn_of_no_effect(o.source.settings.schedule, plan, topology);
  Options with_data = o;
  if (o.data.empty()) {
    std::vector<std::string> suits = model_info(plan.model.name).datasets;
    with_data.data = std::find(suits.begin(), suits.end(), "digits") != suits.end() ? "digits" : "synthetic";
  } else {  // the same data in other words are not other data, which a resumed run would begin anew
    const std::filesystem::path path = std::filesystem::path(o.data).lexically_normal();
    const bool of_name = is_built_in_data(path.string());  // './digits' is a file, or a folder
    with_data.data = (of_name && o.data != path ? std::filesystem::absolute(path) : path).string();
  }
  if (o.evaluate_every > 0 && with_data.data == "synthetic")
    throw_input_error("--evaluate-every: data synthetic have no test rows");
  if (o.epochs > 0 && with_data.data == "synthetic")
    throw_input_error("--epochs: data synthetic have no end, expected --steps, or other data");
  if (o.in_order && with_data.data == "synthetic") throw_input_error("--in-order: data synthetic have no rows");
  std::optional<OneDevice> alone;
  if (o.compare_one_device && processes.rank() == 0) alone.emplace(plan, with_data);
  TrainResult result;
  try {
    // Of several processes some would go on, and wait for the others.
    std::optional<Interruption> interruption;
    if (processes.size() == 1) interruption.emplace("stopping behind this step");
    result =
        train_under(plan, topology, with_data, processes.rank() == 0 ? fmt::format("training {}", plan.model.name) : "",
                    !o.trace.empty(), &processes, interruption ? &interruption->requested() : nullptr);
  } catch (const DoesNotFit& error) {
    if (processes.size() > 1) throw;  // the others wait to hear of it
    // A search counts in f32.
    const std::int64_t limit = o.precision == "f64" ? error.limit() / 2 : error.limit();
    throw_input_error("{}; {}", error.what(), fitting_plan(plan, o.source, topology, {limit}));
  }
  if (processes.rank() != 0) return;
  if (!o.trace.empty() && result.trace) save_trace(*result.trace, o.trace);
  warn_of_unwritten(o, result);
  warn_of_divergence(result);
  double worst = 0;
  if (result.interrupted) with_data.compare_one_device = false;
  if (with_data.compare_one_device) {
    TrainResult one = alone->train();
    for (std::size_t i = 0; i < std::min(result.losses.size(), one.losses.size()); ++i)
      worst = std::max(worst, relative_difference(result.losses[i], one.losses[i]));
  }
  if (o.json) return print_json(plan, with_data, result, worst);
  print_table(plan, with_data, result);
  if (with_data.compare_one_device)
    fmt::print(
        "largest relative difference of a loss to one-device training{}: {:.2e} over {} steps\n",
        plan.schedule.weights == WeightVersions::delayed ? " (with the newest weights, as this plan has not)" : "",
        worst, result.losses.size());
  if (result.trace) fmt::print("trace of the last step written to {}\n", o.trace);
}

}  // namespace

void add_run(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command = add_command(
      app, "run", "Train under a plan, or a model under a strategy (data parallelism by default)",
      "  unity run plan.json --data digits --epochs 20 --compare-one-device\n"
      "  unity run mlp-tiny --topology laptop --devices 2 --steps 100 --json\n"
      "  unity run mlp-tiny --epochs 20 --schedule 'cosine warmup=50' --checkpoint ckpt --checkpoint-every 100\n"
      "  unity run mlp-tiny --epochs 30 --checkpoint ckpt --resume\n"
      "  mpirun -np 4 unity run plan.json --comm mpi --log-folder logs");
  o->source.add(*command, "A plan file, or a model", true, false);
  command->add_option("--backend", o->backend, "cpu or cuda")->capture_default_str();
  o->processes.add(*command);
  command->add_option("--data", o->data,
                      "synthetic, digits, a file or a folder (docs/formats.md; default: what suits the model)");
  auto* steps = at_least_one(command->add_option("--steps", o->steps, "Iterations"));
  at_least_one(command->add_option("--epochs", o->epochs, "Passes over the data, which synthetic ones have not"))
      ->excludes(steps);
  command->add_flag("--in-order", o->in_order,
                    "Take the rows as they come, all for training unless the data have test rows of their own");
  command->add_option("--precision", o->precision, "f32, f64; on cuda also tf32, bf16")->capture_default_str();
  at_least_one(command->add_option("--threads", o->threads,
                                   "Threads per device, up to 1024 (default: a fair share of the cores)"));
  command->add_option("--schedule", o->schedule,
                      "Learning rate over time, as in 'cosine warmup=100 min=1e-5' (constant, step, cosine, linear, "
                      "polynomial); an order of micro-batches is taken as --pipeline-schedule");
  auto* checkpoint = command->add_option("--checkpoint", o->checkpoint, "Folder to save checkpoints in");
  at_least_one(command->add_option("--checkpoint-every", o->checkpoint_every,
                                   "Save after every N steps, too (default: at the end only)"))
      ->needs(checkpoint);
  at_least_one(command->add_option("--checkpoint-keep", o->checkpoint_keep, "Checkpoints to keep"))
      ->capture_default_str()
      ->needs(checkpoint);
  auto* resume = command->add_flag("--resume", o->resume, "Go on from the newest checkpoint")->needs(checkpoint);
  command->add_option("--weights", o->weights, "Initial values by name, a safetensors file")->excludes(resume);
  output_file(command->add_option("--save-gradients", o->gradients,
                                  "Write the gradients of the first step to a safetensors file"));
  at_least_one(command->add_option("--evaluate-every", o->evaluate_every,
                                   "Evaluate on the test rows after every N epochs (default: at the end only)"));
  auto* stop = at_least_one(
      command->add_option("--early-stop", o->patience, "Stop after so many evaluations in a row without a better one"));
  command->add_option("--early-stop-on", o->early_stop_on, "accuracy or loss, on the test rows")
      ->capture_default_str()
      ->needs(stop);
  command
      ->add_flag("--compare-one-device", o->compare_one_device, "Train on one device, too, and report the difference")
      ->excludes(resume);
  at_least_one(command->add_option("--check-replicas-every", o->check_replicas,
                                   "Compare all copies of the weights after every N steps (default: at checkpoints and "
                                   "at the end)"));
  output_file(command->add_option("--trace", o->trace, "Write the measured trace of the last step to a file"));
  add_json(*command, o->json);
  command->callback([o] {
    o->began = SessionLog::Clock::now();
    // As search and compare call it.
    std::vector<std::string> orders = pipeline_orders();
    if (std::find(orders.begin(), orders.end(), o->schedule) != orders.end())
      o->source.settings.schedule.order = std::exchange(o->schedule, "");
    with_processes(o->processes, [&](Processes& processes) { run(*o, processes); });
  });
}

}  // namespace unity::cli
