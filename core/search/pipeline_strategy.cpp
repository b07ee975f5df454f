// Strategy `pipeline`: consecutive operators on consecutive devices. Stages of one width with data parallelism inside:
// stages, parts for each device, micro-batches and order are what the options say; those left open are tried. Where
// neither stages nor parts are given, stages of widths and plans of their own as well (stage_search.h).

#include <algorithm>
#include <utility>

#include "core/rewrite/normalize.h"
#include "core/search/data_parallel.h"
#include "core/search/device_speeds.h"
#include "core/search/parallelism.h"
#include "core/search/pipeline_stages.h"
#include "core/search/stage_search.h"
#include "core/search/substitution.h"

namespace unity {
namespace {

constexpr int kImprovements = 160;

struct Choice {
  int stages, micro_batches, parts;
};

Result<Outcome> try_choice(const StrategyInput& input, const Choice& c) {
  int width = input.devices / c.stages;
  SearchRecorder& record = input.evaluator.record();
  State state = UNITY_TRY(record.timed(SearchLevel::substitution, [&] {
    return shard_batch({normalize(input.model), {}, {}}, width);
  }));
  Pcg pcg = UNITY_TRY(
      record.timed(SearchLevel::substitution, [&] { return with_micro_batches(state.pcg, c.micro_batches); }));
  auto operators = compute_operators(pcg);
  if (std::cmp_less(operators, static_cast<std::int64_t>(c.stages) * c.parts))
    return fail("{} stages of {} parts for a model of {} operators", c.stages, c.parts, operators);
  auto mappings = UNITY_TRY(record.timed(SearchLevel::mapping, [&] {
    std::vector<double> speeds =
        stage_speeds(device_speeds(pcg, input.evaluator.cost()), c.stages * c.parts, c.stages, width);
    return map_stages(pcg, balanced_stages(pcg, speeds), even_devices(c.stages * c.parts, c.stages, width));
  }));
  std::string what = fmt::format("{} stages{} of {} devices, {} micro-batches, {}", c.stages,
                                 c.parts > 1 ? fmt::format(" with {} parts each", c.parts) : "", width, c.micro_batches,
                                 to_string(input.options.schedule.order));
  Candidate candidate = UNITY_TRY(input.evaluator.evaluate(std::move(pcg), std::move(mappings)));
  return Outcome{std::move(candidate), std::move(state.steps), what};
}

}  // namespace

Result<Outcome> pipeline(const StrategyInput& input) {
  const SearchOptions& o = input.options;
  if (!is_allowed({"pipeline"}, o.parallelism))
    return fail("strategy pipeline: --parallelism does not allow pipelines");
  std::int64_t batch = input.model.shape(UNITY_TRY(batch_leaf(input.model))).dims[0].size;
  bool interleaved = o.schedule.order == PipelineOrder::interleaved;
  if (o.stages > 0 && input.devices % o.stages != 0)
    return fail("strategy pipeline: {} stages, expected a divisor of the {} devices", o.stages, input.devices);
  std::vector<int> stages;
  const bool data = is_allowed({"data"}, o.parallelism);
  if (o.stages > 0 && o.stages < input.devices && !data)
    return fail(
        "strategy pipeline: {} stages of {} devices are data-parallel inside, which --parallelism does not allow",
        o.stages, input.devices / o.stages);
  for (int s = data ? 1 : input.devices; s <= input.devices; ++s)
    if (o.stages == s || (o.stages == 0 && input.devices % s == 0 && (s > 1 || input.devices == 1)))
      stages.push_back(s);
  Result<Outcome> best =
      fail("strategy pipeline: a batch of {} samples has no micro-batches over {} devices", batch, input.devices);
  int tried = 0;
  for (int s : stages) {
    std::vector<int> micros;
    if (o.micro_batches > 0) micros = {o.micro_batches};
    for (int m : {s, 2 * s, 4 * s, 8 * s})
      if (o.micro_batches == 0 && batch % (static_cast<std::int64_t>(m) * (input.devices / s)) == 0)
        micros.push_back(m);
    for (int m : micros) {
      if (tried > 0 && (input.evaluator.stopping() || input.evaluator.scored() >= o.budget)) break;
      Result<Outcome> next = try_choice(input, {s, m, o.parts > 0 ? o.parts : interleaved ? 2 : 1});
      ++tried;
      if (!next.ok()) next = Error{"strategy pipeline: " + next.error().message};
      take_better(best, std::move(next), input);
    }
  }
  if (best.ok() && tried > 1) best->stopped_because += fmt::format(": the fastest of {}", tried);
  if (o.stages > 0 || o.parts > 0) return best;
  StageSearchOptions search{.layers = {12, 24},
                            .plans = 12,
                            .several = input.devices > 1,
                            .overlap = true,
                            .even = true,
                            .mixed = true,
                            .improvements = kImprovements,
                            .budget = std::max(1, input.options.budget)};
  if (best.ok() && input.evaluator.fits(best->candidate.score)) search.incumbent = best->candidate.score.iteration;
  if (Result<Outcome> own = search_stages(input, search); own.ok()) take_better(best, std::move(own), input);
  return best;
}

}  // namespace unity
