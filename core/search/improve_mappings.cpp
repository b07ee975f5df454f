#include "core/search/improve_mappings.h"

#include <algorithm>
#include <optional>
#include <span>

#include "core/search/operator_orders.h"

namespace unity {
namespace {

constexpr std::size_t kReordered = 512;  // graphs, the fastest,
constexpr std::size_t kMostOrders = 12;  // in so many orders each

class Improvement {
 public:
  Improvement(Evaluator& evaluator, std::int64_t most) : evaluator_(evaluator), limit_(evaluator.scored() + most) {}

  using Neighbours = Result<std::vector<std::vector<MachineMapping>>>;
  Neighbours neighbours(const Found& f, bool pairs) const {
    return evaluator_.mapping_search().neighbours(f.candidate.pcg, f.candidate.mappings, pairs);
  }
  static std::vector<Ordered> other_orders(const Found& f) {
    std::vector<Ordered> orders = operator_orders(f.candidate.pcg, kMostOrders);
    orders.erase(orders.begin());
    return orders;
  }

  // Takes the fastest of the neighbours. False: none is faster, or there are too many.
  bool map_otherwise(Found& f, bool pairs) { return take_fastest_of(f, neighbours(f, pairs)); }
  bool take_fastest_of(Found& f, Neighbours neighbours) {
    if (!neighbours.ok()) return false;
    return take_fastest(f, neighbours->size(), [&](std::size_t i) {
      return evaluator_.evaluate(f.candidate.pcg, std::move((*neighbours)[i]));
    });
  }
  bool take_fastest_of(Found& f, std::vector<Ordered> orders) {
    return take_fastest(f, orders.size(), [&](std::size_t i) {
      std::vector<MachineMapping> mappings;
      for (NodeId was : orders[i].was) mappings.push_back(f.candidate.mappings[was.index()]);
      return evaluator_.evaluate(std::move(orders[i].pcg), std::move(mappings));
    });
  }

 private:
  template <class Evaluate>
  bool take_fastest(Found& f, std::size_t count, const Evaluate& evaluate) {
    std::vector<std::optional<Candidate>> candidates(count);
    if (evaluator_.scored() + static_cast<std::int64_t>(count) > limit_) return false;
    parallel_for(count, evaluator_.threads(), [&](std::size_t i) {
      auto candidate = evaluate(i);
      if (candidate.ok()) candidates[i] = std::move(*candidate);
    });
    bool better = false;
    for (std::optional<Candidate>& c : candidates)
      if (c) {
        evaluator_.found(c->score);
        if (evaluator_.fits(c->score) &&
            (!evaluator_.fits(f.candidate.score) || c->score.iteration < f.candidate.score.iteration))
          f.candidate = std::move(*c), better = true;
      }
    return better;
  }

  Evaluator& evaluator_;
  std::int64_t limit_;
};

// use(found[i], prepare(found[i])), one after the other; what `prepare` gives is worked out for several at once before.
template <class Prepare, class Use>
void prepare_and_use(std::span<Found> found, Threads& threads, const Prepare& prepare, const Use& use) {
  constexpr std::size_t kAtOnce = 16;
  using Prepared = decltype(prepare(found[0]));
  for (std::size_t first = 0; first < found.size(); first += kAtOnce) {
    std::vector<std::optional<Prepared>> prepared(std::min(kAtOnce, found.size() - first));
    parallel_for(prepared.size(), threads, [&](std::size_t i) { prepared[i].emplace(prepare(found[first + i])); });
    for (std::size_t i = 0; i < prepared.size(); ++i) use(found[first + i], std::move(*prepared[i]));
  }
}

void sort_by_time(std::vector<Found>& found) {
  std::stable_sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    return a.candidate.score.iteration < b.candidate.score.iteration;
  });
}

}  // namespace

void improve_mappings(std::vector<Found>& found, Evaluator& evaluator, std::int64_t most) {
  Improvement improvement(evaluator, most);
  using Neighbours = Improvement::Neighbours;
  for (bool pairs : {false, true})
    prepare_and_use(
        found, evaluator.threads(), [&](const Found& f) { return improvement.neighbours(f, pairs); },
        [&](Found& f, Neighbours neighbours) {
          for (bool better = improvement.take_fastest_of(f, std::move(neighbours)); better;
               better = improvement.map_otherwise(f, pairs))
            while (pairs && improvement.map_otherwise(f, false)) continue;
        });
  sort_by_time(found);
  prepare_and_use(std::span(found).first(std::min(found.size(), kReordered)), evaluator.threads(),
                  Improvement::other_orders, [&](Found& f, std::vector<Ordered> orders) {
                    if (improvement.take_fastest_of(f, std::move(orders)))
                      while (improvement.map_otherwise(f, false)) continue;
                  });
  sort_by_time(found);
}

}  // namespace unity
