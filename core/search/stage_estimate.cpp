#include "core/search/stage_estimate.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

namespace unity {
namespace {

constexpr double kHidden = 0.6;  // of a micro-batch's time can hide the sums of gradients

// Different slowest links on the ways from a node's devices to those of another.
int ways_out_of_a_node(const Topology& topology, int devices) {
  int node = devices / std::max(1, std::min(topology.nodes, devices));
  std::set<LinkId> links;
  for (int d = 0; d < node && d + node < devices; ++d) {
    std::vector<LinkId> route = topology.route(DeviceId(d), DeviceId(d + node));
    auto slowest = std::min_element(route.begin(), route.end(), [&](LinkId a, LinkId b) {
      return topology.links[a.index()].bandwidth.rate < topology.links[b.index()].bandwidth.rate;
    });
    if (slowest != route.end()) links.insert(*slowest);
  }
  return std::max<int>(1, static_cast<int>(links.size()));
}

}  // namespace

void StageTotals::add(const IntraCosts::Sums& s, std::size_t begin, std::size_t end, bool remat) {
  time += s.time[end] - s.time[begin];
  compute += s.compute[end] - s.compute[begin];
  forward += s.forward[end] - s.forward[begin];
  work += s.work[end] - s.work[begin];
  sync += s.sync[end] - s.sync[begin];
  update += s.update[end] - s.update[begin];
  bytes.persistent += s.persistent[end] - s.persistent[begin];
  const std::vector<double>&held = remat ? s.kept : s.in_flight, &transient = remat ? s.transient_again : s.transient;
  for (std::size_t k = begin; k < end; ++k)
    bytes.add(held[k + 1] - held[k], s.gradients[k + 1] - s.gradients[k], transient[k]);
  if (remat) time += s.again[end] - s.again[begin];
}

void StageTotals::append(const StageTotals& next) {
  time += next.time, compute += next.compute, forward += next.forward, work += next.work;
  sync += next.sync, update += next.update, bytes.append(next.bytes);
}

double StageTotals::once() const { return std::max(0.0, sync - kHidden * time) + update; }

StageOption StageTotals::option(int micro_batches, bool behind) const {
  auto whole = [](double x) { return static_cast<std::int64_t>(x); };
  return {.time = whole(time + once() / micro_batches),
          .persistent = whole(bytes.persistent),
          .in_flight = whole(bytes.in_flight),
          .unawaited = whole(unawaited(behind)),
          .gradients = whole(bytes.gradients),
          .turn = whole(bytes.turn),
          .first_turn = whole(bytes.first_turn)};
}

StageEstimates::StageEstimates(const StrategyInput& input, const IntraPlans& plans, Bytes bucket)
    : in_(input),
      plans_(plans),
      costs_(input, plans, bucket),
      ways_out_(ways_out_of_a_node(input.evaluator.cost().topology(), input.devices)) {
  const Topology& topology = input.evaluator.cost().topology();
  for (int d = 0; d < input.devices; ++d) {
    const DeviceId from((d + input.devices - 1) % input.devices), to(d);
    if (from == to)
      to_.emplace_back();
    else
      to_.emplace_back(topology.latency(from, to).count, topology.bandwidth(from, to).rate);
  }
}

double StageEstimates::rate_into(const Resources& devices) const {
  const Topology& topology = in_.evaluator.cost().topology();
  int node = std::max(1, in_.devices / std::max(1, std::min(topology.nodes, in_.devices)));
  int inside = devices.first > 0 ? devices.first : devices.first + devices.count - 1;
  int outside = devices.first > 0 ? inside - 1 : inside + 1;
  int ways = devices.count < node ? devices.count : devices.count / node * ways_out_;
  return topology.bandwidth(DeviceId(outside), DeviceId(inside)).rate * std::max(1, ways);
}

double StageEstimates::border_time(const IntraPlan& plan, std::size_t cut, const Resources& devices,
                                   int micro_batches) const {
  if (plan.tensor == 1 || cut == 0 || cut == plans_.operators().size() || devices.count == in_.devices) return 0;
  const double bytes = plan.tensor * plans_.crossing()[cut] / micro_batches;
  return 2 * static_cast<double>(from_seconds(bytes / rate_into(devices)).count);
}

double StageEstimates::anew(std::size_t cut, const Resources& devices, int micro_batches) const {
  return 2 * static_cast<double>(costs_.collective(CollectiveKind::all_to_all, devices.count, 1, devices,
                                                   plans_.crossing()[cut] / micro_batches));
}

std::int64_t StageEstimates::handover(std::size_t cut, int device, int micro_batches) const {
  auto [latency, rate] = to_[static_cast<std::size_t>(device)];
  return 2 * (latency + from_seconds(plans_.crossing()[cut] / micro_batches / rate).count);
}

std::int64_t StageEstimates::entry_time(std::size_t cut, const Resources& devices, int micro_batches) const {
  if (cut == 0 || devices.count == in_.devices) return 0;
  return from_seconds(plans_.crossing()[cut] / micro_batches / rate_into(devices)).count;
}

StageEstimates::Estimate StageEstimates::of(const StagedPlan& plan) const {
  // Of devices that stages share: all that they do, the first of its stages, which fills the pipeline, and when that
  // may begin.
  struct Group {
    StageTotals totals = {};
    double time = 0, first = 0, behind = 0;
    double start = std::numeric_limits<double>::infinity();
  };
  const std::size_t count = groups_of(plan);
  std::vector<Group> groups(count);
  double sum = 0;
  std::vector<double> done(plan.plans.size(), 0);  // by operator: its first micro-batch, of what all before it wait for
  std::vector<double> filled(plan.ends.size(), 0);  // by stage: one micro-batch, forth and back, through all before it
  std::vector<std::size_t> stage_of(plan.plans.size());
  for (std::size_t s = 0; s < plan.ends.size(); ++s) {
    std::size_t begin = s == 0 ? 0 : plan.ends[s - 1];
    const Resources& devices = plan.devices[s];
    Group& group = groups[s % count];
    StageTotals totals;
    double arrives = 0;
    totals.time = border_time(plan.plans[begin], begin, devices, plan.micro_batches);
    for (std::size_t k = begin; k < plan.ends[s];) {
      std::size_t end = k;
      while (end < plan.ends[s] && plan.plans[end] == plan.plans[k]) ++end;
      if (k > begin) totals.time += anew(k, devices, plan.micro_batches);
      const IntraCosts::Sums& sums = costs_.sums(plan.plans[k], plan.micro_batches, devices);
      totals.add(sums, k, end, plan.remat);
      for (; k < end; ++k) {
        stage_of[k] = s;
        for (std::size_t p : plans_.producers(k)) {
          done[k] = std::max(done[k], done[p]);
          if (stage_of[p] < s) arrives = std::max(arrives, filled[stage_of[p]]);
        }
        group.start = std::min(group.start, done[k]);
        done[k] += sums.forward[k + 1] - sums.forward[k];
      }
    }
    double time = std::max(totals.time, static_cast<double>(entry_time(begin, devices, plan.micro_batches)));
    double behind = totals.unawaited(plan.overlap > 0);
    group.totals.append(totals), group.time += time;
    if (s < count) group.first = time, group.behind = behind;
    if (s > 0) time += static_cast<double>(handover(begin, devices.first, plan.micro_batches));
    filled[s] = arrives + time - behind;
    if (s < count) sum += time - behind;
  }
  double once = 0, least = 0;
  for (const Group& g : groups) {
    once = std::max(once, g.totals.once());
    // Of several stages, all operators of one are on its first device, which has nothing to do before a micro-batch has
    // come to it. Of one stage, they are where the mapping search likes them, those of branches next to one another.
    least = std::max(least, plan.ends.size() > 1 ? g.start + plan.micro_batches * g.totals.compute
                                                 : plan.micro_batches * g.totals.work / in_.devices);
  }
  const Group& slowest =
      *std::max_element(groups.begin(), groups.end(), [](const Group& a, const Group& b) { return a.time < b.time; });
  double longest = *std::max_element(filled.begin(), filled.begin() + static_cast<std::ptrdiff_t>(count));
  Estimate result;
  result.time =
      static_cast<std::int64_t>(longest + plan.micro_batches * slowest.time - slowest.first + slowest.behind + once);
  result.beside = static_cast<std::int64_t>(sum - longest);
  result.least = static_cast<std::int64_t>(least);
  return result;
}

double StageEstimates::border_bytes(const IntraPlan& plan, std::size_t cut, int micro_batches) const {
  if (cut == 0 || cut == plans_.operators().size()) return 0;
  return plans_.crossing()[cut] / micro_batches / plan.data;
}

std::vector<double> StageEstimates::peaks(const StagedPlan& plan) const {
  const PipelineOrder order = plan.order.value_or(in_.options.schedule.order);
  const bool all = order == PipelineOrder::gpipe || plans_.waits_for_batch();
  const std::vector<std::string>& again = in_.options.schedule.remat;
  const bool remat = plan.remat || again == std::vector<std::string>{"blocks"};
  if (!remat && !again.empty()) return {};
  if (plan.stored_parts || is_interleaved(plan) || order == PipelineOrder::interleaved ||
      in_.options.schedule.offload != Offload::none)
    return {};
  std::vector<double> peaks;
  for (std::size_t s = 0, k = 0; s < plan.ends.size(); ++s) {
    StageTotals totals;
    totals.bytes.in_flight = border_bytes(plan.plans[k], k, plan.micro_batches);
    for (std::size_t end = k; k < plan.ends[s]; k = end) {
      while (end < plan.ends[s] && plan.plans[end] == plan.plans[k]) ++end;
      totals.add(costs_.sums(plan.plans[k], plan.micro_batches, plan.devices[s]), k, end, remat);
    }
    const int from_here = static_cast<int>(plan.ends.size() - s);
    peaks.push_back(
        totals.bytes.peak(all ? plan.micro_batches : std::min(plan.micro_batches, from_here), plan.micro_batches));
  }
  return peaks;
}

double StageEstimates::excess(const StagedPlan& plan) const {
  const std::vector<double> needed = peaks(plan);
  double most = 0;
  for (std::size_t s = 0; s < needed.size(); ++s)
    for (int d = plan.devices[s].first; d < plan.devices[s].first + plan.devices[s].count; ++d)
      most = std::max(most, needed[s] / static_cast<double>(in_.evaluator.memory_of(DeviceId(d)).count));
  return most;
}

void sort_by_time(std::vector<StagedPlan>& plans, const StageEstimates& estimates) {
  std::vector<std::pair<std::int64_t, StagedPlan>> sorted;
  for (StagedPlan& p : plans) sorted.emplace_back(estimates.of(p).time, std::move(p));
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (std::size_t i = 0; i < plans.size(); ++i) plans[i] = std::move(sorted[i].second);
}

void keep_fastest_by_stages(std::vector<StagedPlan>& plans, const StageEstimates& estimates, std::size_t most) {
  sort_by_time(plans, estimates);
  std::map<std::size_t, std::size_t> kept;  // by number of stages
  std::erase_if(plans, [&](const StagedPlan& p) { return kept[p.ends.size()]++ >= most; });
}

int drop_slower(std::vector<StagedPlan>& plans, const StageEstimates& estimates, double factor) {
  double least = std::numeric_limits<double>::infinity();
  auto time = [&](const StagedPlan& p) { return static_cast<double>(estimates.of(p).time); };
  for (const StagedPlan& p : plans)
    if (p.ends.size() > 1) least = std::min(least, time(p));
  return static_cast<int>(
      std::erase_if(plans, [&](const StagedPlan& p) { return p.ends.size() > 1 && time(p) > factor * least; }));
}

}  // namespace unity
