// unity run: trains under a plan.
#include <algorithm>
#include <cmath>
#include <memory>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/lowered.h"
#include "cli/progress.h"
#include "core/trace/trace_json.h"
#include "runtime/train.h"

namespace unity::cli {
namespace {

struct Options {
  PlanSource source;
  std::string backend = "cpu", comm = "threads", data, precision = "f32", trace;
  std::int64_t steps = 0, epochs = 0;
  int threads = 0;
  bool compare_one_device = false, json = false;
};

TrainResult train_under(const Plan& plan, const Topology& topology, const Options& o, const std::string& title,
                        bool trace) {
  Program training = lower_plan(plan, topology, true), evaluation = lower_plan(plan, topology, false);
  TrainOptions t;
  t.executor = {o.backend, o.precision == "f64" ? Precision::f64 : Precision::f32, o.source.settings.search.seed,
                o.threads};
  t.data = o.data;
  t.steps = o.steps;
  t.epochs = o.epochs > 0 ? o.epochs : 1;
  if (o.steps <= 0 && o.epochs <= 0 && o.data == "synthetic") t.steps = 10;
  t.index_bounds = input_bounds(plan.pcg);
  t.weights_file = model_info(plan.model.name).weights_file;
  t.trace = trace;
  Progress bar(title);
  t.progress = [&](std::int64_t done, std::int64_t total, double loss) {
    bar.update(done, total, fmt::format("loss {:.4f}", loss));
  };
  return train(training, &evaluation, t);
}

// The same model on one device of the same machine, from the same seed.
TrainResult train_on_one_device(const Plan& plan, const Options& o) {
  Topology one = load_topology(plan.topology, {plan.nodes, 1});
  Plan serial = plan;
  serial.pcg = build_model(plan.model);
  serial.mappings.assign(serial.pcg.size(), {});
  return train_under(serial, one, o, "one device", false);
}

void run(const Options& o) {
  if (o.comm != "threads") throw_input_error("--comm {}: not in this build, expected threads", o.comm);
  if (o.precision != "f32" && o.precision != "f64")
    throw_input_error("--precision: found '{}', expected f32 or f64", o.precision);
  require_writable(o.trace);
  Topology topology;
  Plan plan = o.source.load(topology);
  Options with_data = o;
  if (o.data.empty()) {
    std::vector<std::string> suits = model_info(plan.model.name).datasets;
    with_data.data = std::find(suits.begin(), suits.end(), "digits") != suits.end() ? "digits" : "synthetic";
  }
  TrainResult result =
      train_under(plan, topology, with_data, fmt::format("training {}", plan.model.name), !o.trace.empty());
  if (!o.trace.empty() && result.trace) save_trace(*result.trace, o.trace);
  double worst = 0;
  if (o.compare_one_device) {
    TrainResult one = train_on_one_device(plan, with_data);
    for (std::size_t i = 0; i < result.losses.size(); ++i)
      worst = std::max(worst, std::abs(result.losses[i] - one.losses[i]) / std::abs(one.losses[i]));
  }
  if (o.json) {
    nlohmann::ordered_json metrics = nlohmann::ordered_json::object();
    if (result.accuracy) metrics["test_accuracy"] = *result.accuracy;
    if (o.compare_one_device) metrics["largest_relative_loss_difference"] = worst;
    nlohmann::ordered_json out = {{"model", plan.model.name},
                                  {"topology", plan.topology},
                                  {"devices", plan.devices},
                                  {"strategy", plan.search.strategy},
                                  {"data", with_data.data},
                                  {"losses", result.losses},
                                  {"epoch_losses", result.epoch_losses},
                                  {"iteration_seconds", result.iteration_seconds},
                                  {"final_metrics", metrics}};
    fmt::print("{}\n", out.dump(2));
    return;
  }
  fmt::print("{} on {} ({} devices, strategy {}), data {}, batch {}\n", plan.model.name, plan.topology, plan.devices,
             plan.search.strategy, with_data.data, plan.global_batch);
  bool epochs = result.epoch_losses.size() > 1 && with_data.data != "synthetic";
  const std::vector<double>& shown = epochs ? result.epoch_losses : result.losses;
  for (std::size_t i = 0; i < shown.size(); ++i)
    if (shown.size() <= 40 || i % (shown.size() / 20) == 0 || i + 1 == shown.size())
      fmt::print("  {} {:>4}  loss {:.6f}\n", epochs ? "epoch" : "step", i + 1, shown[i]);
  fmt::print("median iteration: {}\n", to_string(from_seconds(result.iteration_seconds)));
  if (result.accuracy) fmt::print("test accuracy: {:.2f}%\n", 100 * *result.accuracy);
  if (o.compare_one_device)
    fmt::print("largest relative difference of a loss to one-device training: {:.2e} over {} steps\n", worst,
               result.losses.size());
  if (!o.trace.empty()) fmt::print("trace of the last step written to {}\n", o.trace);
}

}  // namespace

void add_run(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command =
      add_command(app, "run", "Train under a plan, or a model under a strategy (data parallelism by default)",
                  "  unity run plan.json --data digits --epochs 20 --compare-one-device\n"
                  "  unity run mlp-tiny --topology laptop --devices 2 --steps 100 --json");
  o->source.add(*command, "A plan file, or a model", true);
  command->add_option("--backend", o->backend, "cpu or cuda")->capture_default_str();
  command->add_option("--comm", o->comm, "threads, mpi or nccl")->capture_default_str();
  command->add_option("--data", o->data,
                      "synthetic, digits, a file or a folder (docs/formats.md; default: what suits the model)");
  auto* steps = at_least_one(command->add_option("--steps", o->steps, "Iterations"));
  at_least_one(command->add_option("--epochs", o->epochs, "Passes over the data"))->excludes(steps);
  command->add_option("--precision", o->precision, "f32 or f64")->capture_default_str();
  at_least_one(command->add_option("--threads", o->threads, "Threads per device (default: a fair share of the cores)"));
  command->add_flag("--compare-one-device", o->compare_one_device,
                    "Train on one device, too, and report the difference");
  command->add_option("--trace", o->trace, "Write the measured trace of the last step to a file");
  add_json(*command, o->json);
  command->callback([o] { run(*o); });
}

}  // namespace unity::cli
