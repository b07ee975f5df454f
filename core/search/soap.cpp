// Strategy `flexflow`: Markov chain Monte Carlo over the SOAP space (Jia et al., 2019, section 6): each operator has a
// configuration of its own, a degree for each of its axes; a proposal changes one operator; a slower graph is accepted
// with probability exp(-beta * slowdown). No algebra. Devices are placed by the mapping search, which finds what random
// placement would.

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "core/rewrite/derive.h"
#include "core/rewrite/normalize.h"
#include "core/rewrite/relayout.h"
#include "core/search/data_parallel.h"

namespace unity {
namespace {

constexpr double kBeta = 20;  // of a relative slowdown: one of 5% is accepted with probability 1/e

class Soap {
 public:
  explicit Soap(const StrategyInput& input)
      : in_(input), serial_(normalize(input.model)), random_(input.options.seed), degrees_(serial_.size()) {
    for (std::size_t i = 0; i < serial_.size(); ++i)
      if (serial_.nodes()[i].is_compute() && !splits(i).empty()) operators_.push_back(i);
  }

  Result<Outcome> run() {
    if (operators_.empty()) return fail("strategy flexflow: no operator can be split");
    start_with_data_parallelism();
    Outcome current = UNITY_TRY(evaluate());
    Outcome best = current;
    in_.evaluator.found(best.candidate.score);
    // As FlexFlow: until the budget is spent, or half of what was spent has brought nothing; not before each operator
    // is likely to have been asked.
    const auto at_first = std::max<std::int64_t>(100, 4 * std::ssize(operators_));
    std::int64_t at_best = 0, proposals = 0;
    auto spent = [&] { return in_.evaluator.scored(); };
    std::string why = fmt::format("budget of {} candidates", in_.options.budget);
    while (spent() < in_.options.budget && !in_.evaluator.stopping()) {
      if (++proposals > at_first && proposals > 2 * at_best) {
        why = "half of the search has brought nothing";
        break;
      }
      std::size_t i = operators_[random_() % operators_.size()];
      std::vector<int> before = degrees_[i];
      degrees_[i] = propose(i);
      if (degrees_[i] == before) continue;
      auto next = evaluate();
      if (next.ok()) in_.evaluator.found(next->candidate.score);
      if (!next.ok() || !accepts(current.candidate, next->candidate)) {
        if (next.ok()) in_.evaluator.record().left_out(LeftOut::rejected);
        degrees_[i] = before;
        continue;
      }
      current = std::move(*next);
      bool fits = in_.evaluator.fits(current.candidate.score), fitted = in_.evaluator.fits(best.candidate.score);
      bool faster = current.candidate.score.iteration < best.candidate.score.iteration;
      if (fits != fitted ? !fits : !faster) continue;
      best = current;
      at_best = proposals;
    }
    best.stopped_because = fmt::format("{}; {} proposals", why, proposals);
    return best;
  }

 private:
  // Axes of a node that can be split.
  std::vector<int> splits(std::size_t i) const {
    const AxisTable& table = *serial_.nodes()[i].table;
    std::vector<int> axes;
    for (int a = 0; a < static_cast<int>(table.axes.size()); ++a)
      if (can_split(table, a) && table.axes[static_cast<std::size_t>(a)].size > 1) axes.push_back(a);
    return axes;
  }

  void start_with_data_parallelism() {
    for (std::size_t i = 0; i < serial_.size(); ++i)
      if (serial_.nodes()[i].is_compute()) degrees_[i].assign(serial_.nodes()[i].table->axes.size(), 1);
    auto sharded = shard_batch({serial_, {}, {}}, in_.devices);
    if (!sharded.ok()) return;
    std::map<std::pair<std::string, std::string>, Sharding> by_name;
    for (std::size_t i = 0; i < sharded->pcg.size(); ++i) {
      const Node& n = sharded->pcg.nodes()[i];
      if (n.is_compute())
        by_name[{n.op->name(), n.name}] = node_sharding(sharded->pcg, NodeId(static_cast<std::int64_t>(i)));
    }
    for (std::size_t i : operators_) {
      const Node& n = serial_.nodes()[i];
      if (auto found = by_name.find({n.op->name(), n.name}); found != by_name.end())
        degrees_[i] = found->second.degrees;
    }
  }

  // Some number of devices, each of its prime factors along some axis.
  std::vector<int> propose(std::size_t i) {
    const AxisTable& table = *serial_.nodes()[i].table;
    std::vector<int> axes = splits(i), degrees(table.axes.size(), 1);
    int rest = in_.devices;
    for (int p = 2; rest > 1; ++p)
      for (; rest % p == 0; rest /= p) {
        auto a = static_cast<std::size_t>(axes[random_() % axes.size()]);
        bool idle = random_() % 8 == 0;
        if (!idle && table.axes[a].size % (degrees[a] * p) == 0) degrees[a] *= p;
      }
    return degrees;
  }

  Result<Outcome> evaluate() {
    Layouts layouts(serial_.size());
    for (std::size_t i : operators_) {
      const Node& n = serial_.nodes()[i];
      Sharding sharding;
      sharding.degrees = degrees_[i];
      sharding.micro.assign(degrees_[i].size(), 1);
      OperandShapes shapes;
      for (std::size_t k = 0; k < n.inputs.size(); ++k)
        shapes.push_back(required_input_shape(*n.table, sharding, k, false));
      layouts[i] = {std::move(shapes)};
    }
    Result<Relaid> relaid =
        in_.evaluator.record().timed(SearchLevel::substitution, [&] { return relayout(serial_, layouts); });
    if (!relaid.ok()) {
      in_.evaluator.record().left_out(LeftOut::refused);
      return relaid.error();
    }
    Candidate candidate = UNITY_TRY(in_.evaluator.evaluate(std::move(relaid->pcg)));
    std::vector<DerivationStep> steps;
    for (std::size_t i : operators_) {
      const Node& n = serial_.nodes()[i];
      for (std::size_t a = 0; a < degrees_[i].size(); ++a)
        if (degrees_[i][a] > 1) steps.push_back({shard_rule_name(n, static_cast<int>(a)), n.name, degrees_[i][a], 0});
    }
    return Outcome{std::move(candidate), std::move(steps), {}};
  }

  bool accepts(const Candidate& was, const Candidate& is) {
    auto before = static_cast<double>(was.score.iteration.count), after = static_cast<double>(is.score.iteration.count);
    double chance = std::exp(kBeta * (1 - after / before));
    return std::uniform_real_distribution<double>()(random_) < chance;
  }

  const StrategyInput& in_;
  Pcg serial_;
  std::mt19937_64 random_;
  std::vector<std::vector<int>> degrees_;  // by node, by axis
  std::vector<std::size_t> operators_;     // that can be split
};

}  // namespace

Result<Outcome> flexflow(const StrategyInput& input) { return Soap(input).run(); }

}  // namespace unity
