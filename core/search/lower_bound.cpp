#include "core/search/lower_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "core/search/necessary_work.h"

namespace unity {
namespace {

constexpr double kLeastWork = 1e4, kMostWork = 1e18, kStep = 1.02;  // of the tables of rates: FLOPs or bytes
constexpr double kShareStep = 1.04;                                 // of the shares that are tried
constexpr int kShares = 360;                                        // down to 1e-6

// The most work per second of any task that has at least a part of its own, of at most so much work; a task may do more
// than that part where this is faster.
class BestRates {
 public:
  // Seconds of a task of so much work, without its overhead.
  template <class Time>
  explicit BestRates(Time seconds) {
    for (double work = kLeastWork; work < kMostWork; work *= kStep) rates_.push_back(seconds(work));
    for (std::size_t k = rates_.size() - 1; k-- > 0;) rates_[k] = std::min(rates_[k], rates_[k + 1]);
    double work = kLeastWork, most = 0;
    for (double& rate : rates_) {
      most = std::max(most, work / rate);
      rate = most;
      work *= kStep;
    }
  }
  double of(double work) const {
    double place = std::ceil(std::log(std::max(work, kLeastWork) / kLeastWork) / std::log(kStep));
    return rates_[std::min(static_cast<std::size_t>(place), rates_.size() - 1)];
  }

 private:
  std::vector<double> rates_;
};

// A device, of those that are alike.
struct Kind {
  DeviceId device;
  double share = 1;  // units of compute that it may use; times are those of one
};

std::vector<Kind> kinds_of_devices(const Topology& t) {
  std::vector<double> logical(t.physical_devices.size(), 0);
  for (const Device& d : t.devices) ++logical[d.physical];
  std::vector<Kind> kinds;
  std::set<std::pair<std::size_t, double>> seen;
  for (std::size_t d = 0; d < t.device_count(); ++d) {
    const Device& device = t.devices[d];
    double share = std::max(1.0, t.physical_devices[device.physical].units / logical[device.physical]);
    if (seen.insert({device.spec, share}).second) kinds.push_back({DeviceId(static_cast<std::int64_t>(d)), share});
  }
  return kinds;
}

// Of tasks wherever they run fastest.
class BestTimes {
 public:
  explicit BestTimes(const CostModel& cost) : cost_(cost), kinds_(kinds_of_devices(cost.topology())) {}
  double operator()(double flops, double bytes) const {
    Task task;
    task.flops = flops, task.bytes = bytes;
    double seconds = std::numeric_limits<double>::infinity();
    for (const Kind& kind : kinds_)
      seconds = std::min(seconds, cost_.task_time(task, nullptr, kind.device).seconds() / kind.share);
    return seconds;
  }
  // Of a physical device, in devices of the best kind. With k logical devices busy each runs at min(share, units / k).
  double capacity(std::size_t physical) const {
    double most = 1;
    for (const Kind& kind : kinds_) most = std::max(most, kind.share);
    return std::max(1.0, cost_.topology().physical_devices[physical].units / most);
  }

 private:
  const CostModel& cost_;
  std::vector<Kind> kinds_;
};

struct BestDevice {
  explicit BestDevice(const CostModel& cost) : BestDevice(cost, BestTimes(cost)) {}

  double launch;
  BestRates flops, bytes;
  double devices = 0;  // that can be busy at once at this speed

 private:
  BestDevice(const CostModel& cost, const BestTimes& least)
      : launch(least(0, 0)),
        flops([&](double work) {
          // The roofline takes what has few FLOPs for its bytes as element-wise, which another peak limits.
          return std::min({least(work, 0), least(work, 0.501 * work), least(work, 2.001 * work)}) - launch;
        }),
        bytes([&](double work) { return least(0, work) - launch; }) {
    // Physical devices without a logical one do not compute.
    std::set<std::size_t> used;
    for (const Device& d : cost.topology().devices)
      if (used.insert(d.physical).second) devices += least.capacity(d.physical);
  }
};

// For each share, what the smallest part of an operator has of the largest part's share where its axes of these sizes
// are split unevenly; but for the last share. (No operator has more tasks at once than there are devices.)
std::vector<double> smallest_parts(const std::vector<std::int64_t>& uneven, int devices) {
  std::vector<std::pair<double, double>> splits = {{1, 1}};  // share of the largest part, smallest by largest
  for (std::int64_t size : uneven) {
    std::vector<std::pair<double, double>> more;
    std::int64_t last = -1;
    for (std::int64_t d = 1; d <= std::min<std::int64_t>(size, devices); ++d) {
      std::int64_t large = (size + d - 1) / d, small = size / d;
      if (large == last && small == large) continue;
      last = large;
      for (auto [share, ratio] : splits)
        if (share * static_cast<double>(large) / static_cast<double>(size) * devices > 0.99)
          more.emplace_back(share * static_cast<double>(large) / static_cast<double>(size),
                            ratio * static_cast<double>(small) / static_cast<double>(large));
    }
    splits = std::move(more);
  }
  // A share is reached from every larger one by even splits of other axes.
  std::sort(splits.rbegin(), splits.rend());
  std::vector<double> ratios;
  double share = 1, least = 1;
  auto next = splits.begin();
  for (int k = 0; k < kShares; ++k, share /= kShareStep) {
    for (; next != splits.end() && next->first >= share / kShareStep; ++next) least = std::min(least, next->second);
    ratios.push_back(least);
  }
  return ratios;
}

// The path through the model: of each node on it, the operand it comes through.
using Path = std::map<std::size_t, int>;

bool lies_on(const WorkStep& step, std::optional<int> operand) {
  return operand && (step.forward || std::find(step.toward.begin(), step.toward.end(), *operand) != step.toward.end());
}

class Bound {
 public:
  Bound(const Pcg& model, const CostModel& cost, const SearchOptions& options)
      : model_(model),
        devices_(static_cast<int>(cost.topology().device_count())),
        best_(cost),
        overlapping_(options.schedule.weights == WeightVersions::delayed),
        work_(necessary_work(model, options.optimizer, options.rules, devices_)) {}

  Picoseconds run() {
    Path path = longest_path();
    // By item, alternative, unit: path and area for each share.
    std::vector<std::vector<std::vector<Costs>>> costs;
    for (const WorkItem& item : work_) {
      auto at = path.find(item.node.index());
      std::optional<int> operand = at == path.end() ? std::nullopt : std::optional(at->second);
      costs.emplace_back();
      for (const auto& units : item.alternatives) {
        costs.back().emplace_back();
        for (const WorkUnit& unit : units) costs.back().back().push_back(costs_of(unit, operand));
      }
    }
    double most = 0;
    std::vector<double> weights = {0};
    if (!overlapping_) weights = {0, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.13, 0.17, 0.22, 0.3, 0.4, 0.5, 0.7, 1.0};
    for (double c : weights) {
      double seconds = 0;
      for (const auto& item : costs) {
        double cheapest = std::numeric_limits<double>::infinity();
        for (const auto& units : item) {
          double sum = 0;
          for (const Costs& unit : units) sum += least(unit, c);
          cheapest = std::min(cheapest, sum);
        }
        seconds += cheapest;
      }
      most = std::max(most, seconds);
    }
    // Tables and times are rounded.
    return {static_cast<std::int64_t>(most * (1 - 1e-4) * 1e12)};
  }

 private:
  struct Costs {
    std::vector<double> path, area;  // by share
  };

  double least(const Costs& unit, double c) const {
    double seconds = std::numeric_limits<double>::infinity();
    for (std::size_t k = 0; k < unit.path.size(); ++k)
      seconds = std::min(seconds, c * unit.path[k] + (1 - c) * unit.area[k] / best_.devices);
    return seconds;
  }

  double seconds(const WorkStep& step, double share, double of, double joined) const {
    return std::max(share * step.flops / best_.flops.of(of * step.flops * joined),
                    share * step.bytes / best_.bytes.of(of * std::max(step.bytes, step.task_bytes)));
  }

  // For a largest task of a share between two that are tried: the path has a task of the smaller one, at the rates of
  // the larger one.
  Costs costs_of(const WorkUnit& unit, std::optional<int> operand) {
    Costs costs;
    auto [known, fresh] = smallest_.try_emplace(unit.uneven);
    if (fresh) known->second = smallest_parts(unit.uneven, devices_);
    const std::vector<double>& smallest = known->second;
    double share = 1;
    for (int k = 0; k <= kShares; ++k, share /= kShareStep) {
      double path = 0, area = 0;
      for (const WorkStep& step : unit.steps) {
        area += seconds(step, 1, share, unit.joined);
        if (unit.joined == 1) area += best_.launch / share;
        if (!lies_on(step, operand)) continue;
        double part = k == kShares ? 0 : share / kShareStep * smallest[static_cast<std::size_t>(k)];
        path += seconds(step, part, share, unit.joined);
        if (unit.joined == 1) path += best_.launch;
      }
      costs.path.push_back(path);
      costs.area.push_back(area);
    }
    return costs;
  }

  // From leaves to the loss, and back: the one on which tasks of a D-th of their operators take longest.
  Path longest_path() const {
    std::map<std::size_t, const WorkItem*> items;
    for (const WorkItem& item : work_) items[item.node.index()] = &item;
    std::vector<double> longest(model_.size(), 0);
    std::vector<int> through(model_.size(), -1);
    for (std::size_t i = 0; i < model_.size(); ++i) {
      const Node& n = model_.nodes()[i];
      if (!n.is_compute()) continue;
      auto item = items.find(i);
      for (std::size_t k = 0; k < n.inputs.size(); ++k) {
        if (n.table->inputs[k].shape_only) continue;
        double here = longest[n.inputs[k].node.index()];
        if (item != items.end())
          for (const WorkUnit& unit : item->second->alternatives[0])
            for (const WorkStep& step : unit.steps)
              if (lies_on(step, static_cast<int>(k)))
                here += best_.launch + seconds(step, 1 / best_.devices, 1 / best_.devices, unit.joined);
        if (through[i] < 0 || here > longest[i]) longest[i] = here, through[i] = static_cast<int>(k);
      }
    }
    Path path;
    if (model_.outputs().empty()) return path;
    std::size_t at = model_.outputs()[0].node.index();
    while (through[at] >= 0) {
      path[at] = through[at];
      at = model_.nodes()[at].inputs[static_cast<std::size_t>(through[at])].node.index();
    }
    return path;
  }

  const Pcg& model_;
  int devices_;
  BestDevice best_;
  bool overlapping_;  // steps, of which none waits for the end of the one before: no path counts
  std::vector<WorkItem> work_;
  std::map<std::vector<std::int64_t>, std::vector<double>> smallest_;  // by sizes of axes
};

}  // namespace

std::optional<Picoseconds> lower_bound(const Pcg& model, const CostModel& cost, const SearchOptions& options) {
  const Topology& topology = cost.topology();
  if (std::any_of(topology.specs.begin(), topology.specs.end(),
                  [](const DeviceSpec& s) { return s.profile != nullptr; }))
    return std::nullopt;
  return Bound(model, cost, options).run();
}

}  // namespace unity
