#include "core/search/data_parallel.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "core/rewrite/axis_classes.h"
#include "core/rewrite/normalize.h"
#include "core/search/device_speeds.h"

namespace unity {
namespace {

constexpr std::int64_t kMostParts = 1024;  // of a batch
constexpr double kGood = 1.01;             // the fewest parts are taken with which the time is within this of the best
constexpr int kRounds = 3;

// Of the part that is ready last, for a batch of one second on a device of speed 1.
double longest_share(const std::vector<int>& counts, int parts, const std::vector<double>& speeds) {
  double longest = 0;
  for (std::size_t d = 0; d < counts.size(); ++d) longest = std::max(longest, counts[d] / speeds[d] / parts);
  return longest;
}

std::vector<int> best_shares(std::int64_t batch, const std::vector<double>& speeds) {
  std::vector<std::pair<double, std::vector<int>>> found;  // by number of parts, ascending
  double best = std::numeric_limits<double>::infinity();
  for (std::int64_t parts = 2; parts <= std::min(batch, kMostParts); ++parts) {
    if (batch % parts != 0) continue;
    std::vector<int> counts = shares(static_cast<int>(parts), speeds);
    double time = longest_share(counts, static_cast<int>(parts), speeds);
    best = std::min(best, time);
    found.emplace_back(time, std::move(counts));
  }
  for (auto& [time, counts] : found)
    if (time <= kGood * best) return std::move(counts);
  return {};
}

// Parts that are next to one another on each device.
std::vector<int> places_of(const std::vector<int>& counts) {
  std::vector<int> places;
  for (std::size_t d = 0; d < counts.size(); ++d)
    places.insert(places.end(), static_cast<std::size_t>(counts[d]), static_cast<int>(d));
  return places;
}

// "3 to 4 of 64 parts on each A100, 1 on each V100"
std::string in_words(const std::vector<int>& counts, int parts, const Topology& topology) {
  std::map<std::size_t, std::pair<int, int>> by_kind;
  for (std::size_t d = 0; d < counts.size(); ++d) {
    auto [it, fresh] = by_kind.try_emplace(topology.devices[d].spec, counts[d], counts[d]);
    it->second = {std::min(it->second.first, counts[d]), std::max(it->second.second, counts[d])};
  }
  std::string text;
  for (const auto& [kind, range] : by_kind) {
    std::string many =
        range.first == range.second ? std::to_string(range.first) : fmt::format("{} to {}", range.first, range.second);
    text += text.empty() ? fmt::format("{} of {} parts", many, parts) : ", " + many;
    text += " on each " + topology.specs[kind].name;
  }
  return text;
}

// Replaces the speeds by what devices with these shares do per second of their tasks in the program.
void measure(std::vector<double>& speeds, const std::vector<int>& counts, const Program& program,
             const CostModel& cost) {
  std::vector<double> busy(speeds.size(), 0);
  for (const Task& t : program.tasks)
    if (t.kind != TaskKind::communicate)
      busy[t.device.index()] +=
          cost.task_time(t, t.kind == TaskKind::compute ? &program.ops[static_cast<std::size_t>(t.op)] : nullptr,
                         t.device)
              .seconds();
  std::vector<double> was = speeds;
  double before = 0, after = 0;
  for (std::size_t d = 0; d < speeds.size(); ++d) {
    if (counts[d] == 0 || busy[d] <= 0) continue;
    speeds[d] = counts[d] / busy[d];
    before += was[d], after += speeds[d];
  }
  for (std::size_t d = 0; d < speeds.size(); ++d)  // on the scale of the others
    if ((counts[d] == 0 || busy[d] <= 0) && before > 0) speeds[d] = was[d] * after / before;
}

}  // namespace

std::vector<int> shares(int parts, const std::vector<double>& speeds) {
  std::vector<int> counts(speeds.size(), 0);
  for (int p = 0; p < parts; ++p) {
    std::size_t next = 0;  // that has done one more part the soonest
    for (std::size_t d = 1; d < speeds.size(); ++d)
      if ((counts[d] + 1) / speeds[d] < (counts[next] + 1) / speeds[next]) next = d;
    ++counts[next];
  }
  return counts;
}

std::vector<MachineMapping> share_out(const Pcg& pcg, const std::vector<int>& places) {
  std::map<int, int> counts;
  for (int device : places) ++counts[device];
  int most = std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) {
               return a.second < b.second;
             })->first;
  std::vector<MachineMapping> mappings = natural_mappings(pcg);
  for (std::size_t i = 0; i < pcg.size(); ++i) {
    if (pcg.nodes()[i].is_parallelization()) continue;
    TaskGrid grid = node_grid(pcg, NodeId(static_cast<std::int64_t>(i)));
    if (grid.empty()) mappings[i].start = most;
    if (task_count(grid) == static_cast<int>(places.size())) mappings[i].places = places;
  }
  return mappings;
}

std::optional<std::vector<int>> shared_places(const std::vector<MachineMapping>& mappings) {
  for (const MachineMapping& m : mappings)
    if (std::set<int>(m.places.begin(), m.places.end()).size() < m.places.size()) return m.places;
  return std::nullopt;
}

Result<Outcome> unequal_data_parallel(const StrategyInput& input) {
  const CostModel& cost = input.evaluator.cost();
  const Topology& topology = cost.topology();
  SearchRecorder& record = input.evaluator.record();
  State whole{normalize(input.model), {}, {}};
  std::vector<double> speeds = device_speeds(whole.pcg, cost);
  bool alike = std::all_of(speeds.begin(), speeds.end(), [&](double s) { return s == speeds[0]; });
  if (alike || input.devices != static_cast<int>(topology.device_count())) return fail("all devices are alike");
  std::int64_t batch = whole.pcg.shape(UNITY_TRY(batch_leaf(whole.pcg))).dims[0].size;
  Result<Outcome> best = fail("a batch of {} samples has no unequal parts for {} devices", batch, input.devices);
  auto plan_of = [&](const std::vector<int>& counts, const std::vector<int>& places) -> Result<Outcome> {
    auto parts = static_cast<int>(places.size());
    State state = UNITY_TRY(record.timed(SearchLevel::substitution, [&] { return shard_batch(whole, parts); }));
    std::vector<MachineMapping> mappings = share_out(state.pcg, places);
    Program program = UNITY_TRY(record.timed(SearchLevel::lowering, [&] {
      return lower(state.pcg, mappings, topology, {true, input.options.optimizer, input.options.schedule});
    }));
    measure(speeds, counts, program, cost);
    Candidate candidate = UNITY_TRY(input.evaluator.evaluate(state.pcg, std::move(mappings)));
    return Outcome{std::move(candidate), std::move(state.steps), in_words(counts, parts, topology), {}};
  };
  std::set<std::vector<int>> tried;
  for (int round = 0; round < kRounds && !input.evaluator.stopping(); ++round) {
    std::vector<int> counts = best_shares(batch, speeds), places = places_of(counts);
    if (places.empty() || std::set<int>(counts.begin(), counts.end()).size() == 1) break;
    if (!tried.insert(counts).second) break;
    Result<Outcome> next = plan_of(counts, places);
    if (!next.ok() && best.ok()) break;  // as when the search is stopped
    take_better(best, std::move(next), input);
  }
  return best;
}

Result<ValueRef> batch_leaf(const Pcg& pcg) {
  for (std::size_t i = 0; i < pcg.size(); ++i)
    if (pcg.nodes()[i].op->name() == "input" && !pcg.nodes()[i].outputs[0].dims.empty())
      return ValueRef{NodeId(static_cast<std::int64_t>(i)), 0};
  return fail("the model has no input with a batch dimension");
}

Result<State> shard_batch(const State& state, int degree) {
  if (degree == 1) return state;
  ValueRef leaf = UNITY_TRY(batch_leaf(state.pcg));
  std::int64_t batch = state.pcg.shape(leaf).dims[0].size;
  if (batch % degree != 0)
    return fail("batch of {} samples is not divisible by {} devices; choose --global-batch as a multiple of {}", batch,
                degree, degree);
  std::vector<AxisClass> classes = axis_classes(state.pcg);
  auto found = class_of_dimension(state.pcg, classes, leaf, 0);
  if (!found) return fail("no operator can be split along the batch");
  return apply_move(state, {Move::Kind::shard_class, static_cast<int>(*found), 0, degree});
}

bool take_better(Result<Outcome>& best, Result<Outcome> other, const StrategyInput& input, std::int64_t candidates) {
  Evaluator& evaluator = input.evaluator;
  if (other.ok() && input.one_of_several)
    evaluator.found_beside(other->candidate.score);
  else if (other.ok())
    evaluator.found(other->candidate.score, candidates);
  bool better = other.ok();
  if (better && best.ok()) {
    bool fits = evaluator.fits(other->candidate.score), fitted = evaluator.fits(best->candidate.score);
    better = fits != fitted ? fits : other->candidate.score.iteration < best->candidate.score.iteration;
  }
  if (better || !best.ok()) best = std::move(other);
  return better;
}

}  // namespace unity
