// Searches, as commands give them, do what they did: every candidate counted, every reason, every plan. A constant or
// comparison that changes in core/search changes one of these.
#include <sstream>

#include <catch2/catch.hpp>

#include "core/base/text.h"
#include "core/models/models.h"
#include "core/report/search_settings.h"
#include "core/search/explain.h"
#include "core/search/lower_bound.h"
#include "core/search/search.h"
#include "core/search/work_estimate.h"
#include "simulator/cost_model.h"
#include "tests/support/records.h"

using namespace unity;
using namespace unity::test;

namespace {

struct Wanted {
  report::ModelChoice model;
  std::string topology, strategy = "unity";
  TopologyOptions machine;
  report::SearchSettings settings;
};

void set(Wanted& wanted, const std::string& name, const std::string& value) {
  if (name == "nodes") return void(wanted.machine.nodes = std::stoi(value));
  if (name == "devices") return void(wanted.machine.devices = std::stoi(value));
  if (name == "strategy") return void(wanted.strategy = value);
  if (name == "batch-per-gpu") return void(wanted.model.batch_per_gpu = std::stoll(value));
  if (name == "layers") return void(wanted.model.layers = std::stoll(value));
  if (name == "seq-len") return void(wanted.model.seq_len = std::stoll(value));
  std::vector<report::SettingField> fields = report::setting_fields(wanted.settings);
  for (report::SettingField& field : report::setting_fields(wanted.settings.schedule)) fields.push_back(field);
  for (report::SettingField& field : fields) {
    if (field.name != name) continue;
    std::visit(
        [&](auto* to) {
          using Value = std::remove_pointer_t<decltype(to)>;
          if constexpr (std::is_same_v<Value, std::string>)
            *to = value;
          else if constexpr (std::is_same_v<Value, double>)
            *to = std::stod(value);
          else if constexpr (std::is_integral_v<Value> && !std::is_same_v<Value, bool>)
            *to = static_cast<Value>(std::stoll(value));
          else
            FAIL(name << " is not set by a value");
        },
        field.value);
    return;
  }
  FAIL("no setting " << name);
}

// "bert-tiny summit --devices 4 --no-blocks --alpha 1.1"
Wanted parse(const std::string& command) {
  std::istringstream in(command);
  Wanted wanted;
  in >> wanted.model.model >> wanted.topology;
  for (std::string word; in >> word;) {
    std::string name = word.substr(2);
    if (name == "pareto") {
      wanted.settings.search.pareto = true;
    } else if (name.starts_with("no-")) {
      for (report::SettingField& field : report::setting_fields(wanted.settings))
        if (field.name == name) *std::get<bool*>(field.value) = false;
    } else {
      std::string value;
      in >> value;
      set(wanted, name, value);
    }
  }
  return wanted;
}

std::string text_of(const Plan& plan) {
  const SearchLog& log = plan.search.log;
  std::string text = fmt::format("iteration {} ps, memory {}, communicated {}, bound {} ps, {} candidates, {}\n",
                                 plan.prediction.iteration.count, plan.prediction.peak_memory.count,
                                 plan.prediction.communicated.count, plan.search.lower_bound.count,
                                 plan.search.candidates, plan.search.stopped_because);
  text += "left out:";
  for (std::size_t r = 0; r < kLeftOutReasons; ++r)
    if (log.left_out[r]) text += fmt::format(" {} {}", log.left_out[r], to_string(static_cast<LeftOut>(r)));
  text += fmt::format("; parts {} + {}\nbest so far:", log.parts_solved, log.parts_reused);
  for (const BestSoFar& b : log.best_so_far) text += fmt::format(" {}:{}", b.candidates, b.iteration.count);
  Hash mappings = 0;
  for (const MachineMapping& m : plan.mappings) {
    mappings = combine(mappings, static_cast<Hash>(m.start));
    for (int s : m.strides) mappings = combine(mappings, static_cast<Hash>(s));
  }
  Hash steps = 0;
  for (const DerivationStep& s : plan.derivation)
    steps = combine(combine(steps, hash_text(s.rule + s.where)), static_cast<Hash>(s.degree));
  return text + fmt::format("\ngraph {:016x}, mappings {:016x}, derivation {:016x} of {}; {}\n",
                            canonical_hash(plan.pcg), mappings, steps, plan.derivation.size(), in_words(plan.schedule));
}

std::string record_of(const std::string& command, std::string (*text_of_plan)(const Plan&)) {
  Wanted wanted = parse(command);
  Topology topology = load_topology(wanted.topology, wanted.machine);
  ModelSpec spec = wanted.model.spec(static_cast<int>(topology.device_count()));
  SearchOptions options = wanted.settings.options(wanted.strategy, wanted.model.model);
  SimulatedCostModel cost(std::move(topology));
  auto plans = find_plans(spec, build_model(spec), cost, options);
  if (!plans.ok()) return plans.error().message + "\n";
  std::string text;
  for (const Plan& plan : *plans) text += text_of_plan(plan);
  return text;
}

void check(std::initializer_list<const char*> commands) {
  Records records("searches.txt");
  for (const char* command : commands) records.check(command, record_of(command, text_of));
}

}  // namespace

TEST_CASE("simple strategies give the plans on record") {
  check({
      "mlp-tiny summit --devices 4 --strategy data-parallel",
      "bert-tiny mixed-gpus --strategy data-parallel",
      "bert-tiny summit --nodes 2 --strategy expert",
      "dlrm summit --nodes 1 --strategy expert",
      "xdl dgx-h100 --nodes 1 --strategy expert",
      "candle-uno summit --nodes 1 --strategy expert",
      "bert-tiny summit --devices 4 --strategy deepspeed-zero",
      "bert-large summit --nodes 1 --strategy deepspeed-zero --memory-limit 9GB",
      "bert-tiny summit --devices 4 --strategy random --seed 7",
      "mlp-tiny summit --devices 6 --strategy random --seed 3",
      "mlp-tiny summit --devices 4 --strategy random --memory-limit 1kB",
  });
}

TEST_CASE("Monte Carlo and exhaustive searches go the way on record") {
  check({
      "mlp-tiny summit --devices 4 --strategy flexflow --budget 60",
      "bert-tiny summit --devices 6 --strategy flexflow --budget 40 --seed 5",
      "mlp-tiny summit --devices 2 --strategy exhaustive",
  });
}

TEST_CASE("pipelines are searched as on record") {
  check({
      "bert-tiny summit --devices 4 --strategy pipeline",
      "bert-tiny summit --devices 4 --strategy pipeline --schedule 1f1b",
      "bert-tiny summit --devices 4 --strategy pipeline --schedule interleaved",
      "bert-tiny summit --devices 4 --strategy pipeline --stages 2 --micro-batches 4",
      "bert-tiny summit --devices 6 --strategy pipeline --weight-versions 2bw",
      "mlp summit --nodes 1 --strategy pipeline --no-overlap",
      "bert-tiny mixed-gpus --strategy pipeline",
      "bert-tiny summit --devices 4 --strategy alpa-like",
      "mlp-tiny mixed-gpus --strategy alpa-like",
      "bert-tiny summit --devices 6 --strategy megatron-grid",
      "bert-tiny summit --devices 4 --strategy megatron-grid --schedule 1f1b",
      "mlp-tiny summit --nodes 12 --strategy alpa-like",
      "mlp-tiny summit --nodes 8 --strategy megatron-grid",
  });
}

TEST_CASE("joint searches go the way on record") {
  check({
      "mlp-tiny summit --devices 2",
      "mlp-tiny summit --devices 6",
      "mlp-tiny mixed-gpus",
      "mlp-mnist dgx-h100 --nodes 1",
      "bert-tiny summit --devices 4",
      "bert-tiny summit --nodes 2",
      "bert-tiny dgx-v100 --nodes 1",
      "bert-tiny torus-2d --devices 4",
      "mlp summit --nodes 1",
      "xdl summit --nodes 1",
      "bert-tiny laptop",
      "bert-tiny h200-shared",
      "dlrm summit --nodes 1",
      "candle-uno summit --nodes 1",
      "xdl summit --nodes 4",
      "inception-v3 summit --devices 2",
      "mlp-tiny summit --nodes 16",
      "mlp summit --nodes 12",
      "bert-tiny summit --devices 4 --strategy algebra-then-parallel",
  });
}

TEST_CASE("joint searches without one of their means go the way on record") {
  check({
      "bert-tiny summit --devices 4 --no-seeds",
      "mlp-tiny summit --nodes 16 --no-seeds",
      "mlp-tiny summit --devices 4 --no-splitting",
      "bert-tiny summit --devices 4 --no-algebra --no-seeds",
      "mlp-tiny summit --devices 4 --no-dp",
      "mlp-tiny summit --devices 6 --no-blocks --no-cache",
      "mlp-tiny summit --devices 6 --no-buckets --no-overlap",
      "bert-tiny summit --devices 4 --parallelism data,model",
      "mlp-tiny summit --devices 4 --alpha 1.2 --budget 100",
      "bert-tiny summit --devices 4 --bucket 1MB --optimizer adam",
  });
}

TEST_CASE("memory is saved as on record") {
  check({
      "mlp-tiny summit --devices 4 --pareto",
      "bert-tiny summit --devices 4 --memory-limit 1600kB",
      "mlp-tiny summit --devices 4 --memory-limit 500kB",
      "mlp-tiny summit --devices 4 --memory-limit 200kB",
      "bert-tiny summit --devices 4 --strategy pipeline --memory-limit 3MB",
      "bert-tiny summit --devices 4 --strategy pipeline --memory-limit 2MB",
      "bert-tiny summit --devices 4 --strategy pipeline --memory-limit 1600kB",
      "bert-tiny summit --devices 4 --strategy pipeline --memory-limit 1300kB",
      "bert-tiny summit --devices 4 --strategy expert --remat blocks --offload optimizer",
  });
}

TEST_CASE("plans are explained as on record") {
  Records records("explanations.txt");
  for (const char* command : {
           "bert-tiny summit --devices 4 --strategy expert",
           "bert-tiny summit --devices 4 --strategy pipeline",
           "bert-tiny mixed-gpus --strategy data-parallel",
           "bert-tiny summit --devices 4 --strategy deepspeed-zero",
           "dlrm summit --nodes 1 --strategy expert",
           "inception-v3 summit --devices 2 --strategy data-parallel",
           "mlp-tiny summit --devices 6",
       })
    records.check(command, record_of(command, [](const Plan& plan) {
                    Plan same_time = plan;
                    same_time.search.seconds = 0;
                    return explain_plan(same_time);
                  }));
}

TEST_CASE("models have the certificates, the paths and the work on record, on every kind of machine") {
  Records records("certificates.txt");
  for (const std::string& model : model_names()) {
    std::string text;
    for (const char* topology : {"summit", "dgx-h100", "mixed-gpus", "laptop", "h200-shared"}) {
      SimulatedCostModel cost(load_topology(topology));
      ModelSpec spec = report::ModelChoice{.model = model}.spec(static_cast<int>(cost.topology().device_count()));
      Pcg pcg = build_model(spec);
      text += fmt::format("{}: path {} ps, work {:.0f} ps, no plan below", topology, path_time(pcg, cost).count,
                          1e12 * work_seconds(pcg, cost.topology().specs[0]));
      for (const char* optimizer : {"sgd", "adam"}) {
        SearchOptions options;
        options.optimizer.name = optimizer;
        auto bound = lower_bound(pcg, cost, options);
        text += bound ? fmt::format(" {} ps with {}", bound->count, optimizer) : " nothing";
      }
      text += '\n';
    }
    records.check(model, text);
  }
}
