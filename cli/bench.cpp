// unity bench: the figures of this project on this machine. Those of `simulator` and `rules` are medians over runs that
// fill half a second, in processor time of this process, so that what else runs on the machine counts little.
#include "cli/bench.h"

#include <algorithm>
#include <ctime>
#include <memory>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/search_options.h"
#include "cli/table.h"
#include "core/base/text.h"

namespace unity::cli {
namespace {

struct Options {
  std::string what, models = "bert-large,candle-uno,dlrm,inception-v3,mlp,resnext-50,xdl";
  SearchBench search{.models = {}, .nodes = {2, 32}};
  bool large = false, json = false;
  std::vector<const CLI::Option*> of_simulator, of_search;
};

void print_figures(const std::vector<BenchFigure>& figures, bool json) {
  if (json) {
    nlohmann::ordered_json out;
    for (const BenchFigure& f : figures) out[f.key] = f.value;
    fmt::print("{}\n", out.dump(2));
    return;
  }
  Table table({"figure", "value"});
  for (const BenchFigure& f : figures)
    table.add({f.key, f.unit == "s" ? to_string(from_seconds(f.value)) : grouped(static_cast<std::int64_t>(f.value))});
  table.print();
}

void bench(const Options& o) {
  auto refuse = [&](const std::vector<const CLI::Option*>& options, const std::string& what) {
    for (const CLI::Option* option : options)
      if (o.what != what && option->count() > 0)
        throw_input_error("bench {}: found {}, which is for bench {}", o.what, option->get_name(), what);
  };
  refuse(o.of_simulator, "simulator");
  refuse(o.of_search, "search");
  if (o.what == "simulator") return print_figures(bench_simulator(o.large), o.json);
  if (o.what == "rules") return print_figures(bench_rules(), o.json);
  SearchBench search = o.search;
  search.models = split_list("--models", o.models);
  std::vector<SearchFigures> searches = bench_search(search);
  if (o.json)
    print_figures(search_figures(searches), true);
  else
    print_searches(searches);
}

}  // namespace

double median_seconds(const std::function<void()>& run) {
  constexpr std::size_t kRuns = 5;
  constexpr double kSeconds = 0.5, kLong = 10;
  auto timed = [&] {
    std::clock_t begin = std::clock();
    run();
    return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  };
  if (double first = timed(); first > kLong) return first;
  std::vector<double> seconds;
  for (double sum = 0; sum < kSeconds || seconds.size() < kRuns; sum += seconds.back()) seconds.push_back(timed());
  auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

void add_bench(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command = add_command(app, "bench", "Measure Unity's own speed on this machine",
                                  "  unity bench simulator\n"
                                  "  unity bench rules\n"
                                  "  unity bench search --models bert-large,mlp --nodes 2\n"
                                  "  unity bench simulator --json");
  command
      ->add_option("WHAT", o->what,
                   "simulator: events and transfers per second, and BERT-Large on 192 GPUs; rules: proofs, "
                   "enumeration, matching; search: time of the search by model, machine and level")
      ->required()
      ->check(CLI::IsMember({"simulator", "rules", "search"}));
  o->of_simulator = {
      command->add_flag("--large", o->large, "simulator: BERT-Large on 4,096 GPUs, too: takes minutes and 16 GB")};
  o->of_search = {
      command->add_option("--models", o->models, "search: names or files, comma-separated")->capture_default_str(),
      at_least_one(command->add_option("--nodes", o->search.nodes, "search: nodes of Summit, comma-separated")
                       ->delimiter(',')
                       ->capture_default_str()),
      at_least_one(
          command->add_option("--budget", o->search.budget, "search: candidates of each")->capture_default_str()),
      at_least_one(command->add_option("--jobs", o->search.jobs, "search: threads (default: one for each core)")),
      command->add_option("--time-limit", o->search.time_limit, "search: seconds of each (default: none)")};
  add_json(*command, o->json);
  command->callback([o] { bench(*o); });
}

}  // namespace unity::cli
