// Files of plans and of what becomes of them: plans, traces, experiments, results, flows.
#include "core/base/text.h"
#include "core/graph/text.h"
#include "core/models/models.h"
#include "core/plan/plan.h"
#include "core/report/comparison.h"
#include "core/report/experiment.h"
#include "core/report/figures.h"
#include "core/report/html_report.h"
#include "core/report/results.h"
#include "core/trace/trace_json.h"
#include "simulator/network/playground.h"
#include "tests/fuzz/target.h"
#include "tests/support/checksum.h"
#include "tests/support/stub_cost_model.h"
#include "tests/support/well_formed.h"

namespace unity::fuzz {
namespace {

void run_plan(std::string_view input) {
  static const Topology topology = test::uniform_topology(2);
  accepted([&] {
    Plan plan = plan_from_json(std::string(input), "plan.json");
    std::string text = plan_to_json(plan);
    require_equal(plan_to_json(plan_from_json(text, "plan.json")), text, "a plan that is written, read and written");
    plan.topology_hash = topology.hash();
    plan.devices = 2;
    (void)check_plan(plan, topology);
  });
}

std::vector<std::string> plan_seeds() {
  Plan plan;
  plan.model = {"mlp", {{"batch", 4}}};
  plan.topology = "uniform";
  plan.devices = 2;
  plan.global_batch = 4;
  plan.pcg = parse_pcg(
      "pcg p { x = input([4, 3]) w = weight([3, 2]) y = combine(0, 2, matmul(partition(0, 2, x), replicate(2, w))) "
      "return y }");
  for (const Node& node : plan.pcg.nodes())
    plan.mappings.push_back({0, node.is_compute() ? std::vector{1} : std::vector<int>{}});
  plan.derivation = {{"shard", "y", 2, 1000}};
  plan.search = {"unity", "no candidate was left", 12, 0.5, {900}};
  plan.search.log.best_so_far = {{1, {2000}}, {5, {1000}}};
  plan.search.log.seconds.best_so_far = {0.1, 0.2};
  plan.prediction = {{1000}, {4096}, {128}};
  std::string with_log = plan_to_json(plan);
  plan.search.log = {};
  plan.schedule.remat = {"blocks"};
  plan.schedule.order = PipelineOrder::one_f_one_b;
  plan.mappings.back().places = {0, 1};
  // Nearly every change would end at the checksum.
  return {files::without_checksum(with_log), files::without_checksum(plan_to_json(plan)), with_log};
}

void run_trace(std::string_view input) {
  accepted([&] {
    Trace trace = trace_from_json(std::string(input), "trace.json");
    std::string text = trace_to_json(trace);
    require_equal(trace_to_json(trace_from_json(text, "trace.json")), text,
                  "a trace that is written, read and written");
  });
}

std::vector<std::string> trace_seeds() {
  Trace trace;
  trace.source = "simulated";
  trace.program = 77;
  trace.iteration = {3000};
  trace.spans = {{TaskId(0), DeviceId(0), 0, {0}, {1000}}, {TaskId(1), DeviceId(1), 1, {1000}, {3000}}};
  trace.memory = {{DeviceId(0), 1, {0}, {64}}};
  trace.links = {{LinkId(0), "a to b", {1e9}, {64}}};
  trace.link_use = {{LinkId(0), {1000}, 500}};
  return {trace_to_json(trace), R"({"format":"unity-trace","version":1,"source":"s","program":"4d","iteration_ps":1,)"
                                R"("spans":[[0,0,0,0,1]],"memory":[[0,0,1]]})"};
}

void run_experiment(std::string_view input) {
  std::string path = scratch_file("experiment.yaml", input);
  accepted([&] {
    report::Experiment e = report::load_experiment(path);
    require(!e.grid.empty(), "accepted an experiment without points");
    for (const report::GridPoint& point : e.grid) require(!point.key().empty(), "a point has no name");
  });
}

void run_results(std::string_view input) {
  accepted([&] {
    report::Results results = report::results_from_json(std::string(input), "results.json");
    (void)report::to_csv(report::result_columns(), results.rows);
    for (const report::ResultRow& row : results.rows)
      for (const auto& [column, text] : row.cells) (void)row.number(column);
    report::Comparison same = report::compare(results, results);
    require(same.regressions() == 0, "results are worse than themselves");
    report::ResultsReport report{"results.json", {}, results, {}, {}};
    std::string page = report::html_page(
        results.experiment, {report::results_section(report), report::comparison_section(same, "before", "now")});
    std::string why = markup::why_not_well_formed(page);
    require(why.empty(), "a page that is not well-formed: {}", why);
  });
}

void run_flows(std::string_view input) {
  static const Topology topology = test::uniform_topology(3);
  accepted([&] {
    std::vector<PlaygroundFlow> flows = flows_from_json(std::string(input), "flows.json");
    if (flows.size() > 64) return;
    for (Picoseconds end : simulate_flows(flows, topology, "flows.json"))
      require(end.count >= 0, "a flow ends before time");
  });
}

}  // namespace

const std::vector<Target>& targets() {
  static const std::vector<Target> list = {
      {"plan", "written, read and written again it is the same", run_plan, plan_seeds, 4096, "plan"},
      {"trace", "written, read and written again it is the same", run_trace, trace_seeds, 1024, "trace"},
      {"experiment", "there are points and each has a name", run_experiment,
       [] {
         std::vector<std::string> seeds;
         for (std::string& text : tree_files("experiments", ".yaml"))
           if (text.find("unity-experiment") != std::string::npos && text.size() < 3000)
             seeds.push_back(std::move(text));
         return seeds;
       },
       3000, "experiment"},
      {"results", "rows are written as CSV", run_results,
       [] {
         return std::vector<std::string>{
             R"({"format":"unity-results","version":1,"experiment":"e.yaml","rows":[{"model":"mlp","devices":4,)"
             R"("iteration_seconds":0.5,"error":null,"plan":"p.json"}]})"};
       },
       1024, "json"},
      {"flows", "no flow ends before time", run_flows,
       [] {
         return std::vector<std::string>{
             R"({"flows":[{"id":"a","src":"d0","dst":"d1","bytes":1000},{"src":1,"dst":2,"bytes":"3 MB",)"
             R"("start_s":"5 us","after":["a"]}]})"};
       },
       1024, "json"},
  };
  return list;
}

}  // namespace unity::fuzz
