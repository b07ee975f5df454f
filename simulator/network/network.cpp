#include "simulator/network/network.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace unity {
namespace {

constexpr double kNotFrozen = -1;
constexpr Picoseconds kNoEnd{-1};

double share_of(double capacity, std::uint32_t times) { return times == 1 ? capacity : capacity / times; }

}  // namespace

Network::Network(const Topology& topology) : links_(topology.links.size()) {
  for (std::size_t l = 0; l < links_.size(); ++l) links_[l].capacity = topology.links[l].bandwidth.rate * 1e-12;
}

Network::Network(std::span<const BytesPerSecond> capacities) : links_(capacities.size()) {
  for (std::size_t l = 0; l < links_.size(); ++l) {
    UNITY_CHECK(capacities[l].rate > 0, "link {} carries {} bytes per second", l, capacities[l].rate);
    links_[l].capacity = capacities[l].rate * 1e-12;
  }
}

void Network::record(LinkRecord& record) {
  record_ = &record;
  record.bytes.resize(links_.size());
  last_use_.assign(links_.size(), 0);
}

void Network::touch(std::uint32_t link) {
  if (links_[link].touched == turn_) return;
  links_[link].touched = turn_;
  touched_.push_back(link);
}

void Network::report(FlowIndex index) {
  Flow& flow = flows_[index];
  ++flow.version;
  if (flow.reported == turn_) return;
  flow.reported = turn_;
  changed_.push_back(index);
}

void Network::plan_end(Flow& flow, Picoseconds now) {
  // The whole picosecond in which the last byte arrives; a millionth of one is rounding.
  double duration = std::max(0.0, std::ceil(flow.bytes_left / flow.rate - 1e-6));
  if (duration + static_cast<double>(now.count) > 9.2e18)
    throw_input_error("a flow of {:.17g} bytes at {:.17g} bytes per second: found an end after more than 106 days",
                      flow.bytes_left, flow.rate * 1e12);
  flow.end = now + Picoseconds{static_cast<std::int64_t>(duration)};
}

FlowIndex Network::start(std::span<const LinkUse> uses, double bytes, Picoseconds now) {
  UNITY_CHECK(!uses.empty(), "a flow over no link");
  FlowIndex index;
  if (unused_.empty()) {
    index = static_cast<FlowIndex>(flows_.size());
    flows_.emplace_back();
  } else {
    index = unused_.back();
    unused_.pop_back();
  }
  Flow& flow = flows_[index];
  flow.uses = uses.data();
  flow.use_count = static_cast<std::uint32_t>(uses.size());
  flow.bytes_left = bytes;
  flow.since = now;
  bool alone = true;
  double rate = std::numeric_limits<double>::infinity();
  for (const LinkUse& use : uses) {
    LinkState& link = links_[use.link];
    if (!link.flows.empty()) {
      alone = false;
      touch(use.link);
    }
    link.flows.push_back({index, use.times});
    rate = std::min(rate, share_of(link.capacity, use.times));
  }
  if (alone) {
    flow.rate = rate;
    plan_end(flow, now);
    report(index);
  } else {
    flow.rate = 0;
    flow.end = kNoEnd;
    ++flow.version;
  }
  if (record_) {
    for (const LinkUse& use : uses) record_->bytes[use.link] += bytes * use.times;
    note(flow);
  }
  return index;
}

void Network::finish(FlowIndex index) {
  Flow& flow = flows_[index];
  for (const LinkUse& use : flow.links()) {
    std::vector<Member>& flows = links_[use.link].flows;
    auto at = flows.begin();
    while (at->flow != index) ++at;
    *at = flows.back();
    flows.pop_back();
    if (!flows.empty()) touch(use.link);
  }
  if (record_) note(flow);
  if (flow.reported == turn_) {
    std::erase(changed_, index);
    flow.reported = 0;
  }
  ++flow.version;
  unused_.push_back(index);
}

void Network::collect_component(std::uint32_t seed) {
  component_.clear();
  open_.clear();
  bounds_.clear();
  auto open = [&](std::uint32_t l) {
    LinkState& link = links_[l];
    link.collected = turn_;
    link.left = link.capacity;
    link.weight = link.frozen = 0;
    open_.push_back(l);
  };
  open(seed);
  for (std::size_t i = 0; i < open_.size(); ++i)  // grows while it is read
    for (const Member& member : links_[open_[i]].flows) {
      Flow& flow = flows_[member.flow];
      if (flow.collected == turn_) continue;
      flow.collected = turn_;
      flow.new_rate = kNotFrozen;
      component_.push_back(member.flow);
      double bound = std::numeric_limits<double>::infinity();
      for (const LinkUse& use : flow.links()) {
        LinkState& link = links_[use.link];
        if (link.flows.size() > 1 || use.link == seed) {
          if (link.collected != turn_) open(use.link);
          link.weight += use.times;
        } else {
          bound = std::min(bound, share_of(link.capacity, use.times));
        }
      }
      if (std::isfinite(bound)) bounds_.push_back({bound, member.flow});
    }
  for (std::uint32_t l : open_) links_[l].share = links_[l].left / links_[l].weight;
}

void Network::fill() {
  // Shares that differ by rounding alone count as equal, so that symmetric flows freeze in one round.
  constexpr double kEqual = 1 + 1e-11;
  for (std::size_t not_frozen = component_.size();;) {
    double least = std::numeric_limits<double>::infinity();
    for (std::uint32_t l : open_) least = std::min(least, links_[l].share);
    for (const Bound& bound : bounds_) least = std::min(least, bound.rate);
    frozen_.clear();
    auto freeze = [&](FlowIndex f) {
      if (flows_[f].new_rate != kNotFrozen) return;
      flows_[f].new_rate = least;
      frozen_.push_back(f);
    };
    for (std::uint32_t l : open_)
      if (links_[l].share <= least * kEqual)
        for (const Member& member : links_[l].flows) freeze(member.flow);
    for (const Bound& bound : bounds_)
      if (bound.rate <= least * kEqual) freeze(bound.flow);
    not_frozen -= frozen_.size();
    if (not_frozen == 0) return;
    for (FlowIndex f : frozen_)
      for (const LinkUse& use : flows_[f].links()) links_[use.link].frozen += use.times;
    std::erase_if(open_, [&](std::uint32_t l) {
      LinkState& link = links_[l];
      if (link.frozen == 0) return false;
      link.left -= least * link.frozen;
      link.weight -= link.frozen;
      link.frozen = 0;
      if (link.weight == 0) return true;
      link.share = std::max(least, link.left / link.weight);  // never less but by rounding
      return false;
    });
    std::erase_if(bounds_, [&](const Bound& bound) { return flows_[bound.flow].new_rate != kNotFrozen; });
  }
}

void Network::apply(Picoseconds now) {
  for (FlowIndex f : component_) {
    Flow& flow = flows_[f];
    if (flow.new_rate == flow.rate) continue;
    double sent = flow.rate * static_cast<double>((now - flow.since).count);
    flow.bytes_left = std::max(0.0, flow.bytes_left - sent);
    flow.since = now;
    flow.rate = flow.new_rate;
    Picoseconds before = flow.end;
    plan_end(flow, now);
    if (flow.end != before) report(f);
    if (record_) note(flow);
  }
}

std::span<const FlowIndex> Network::settle(Picoseconds now) {
  for (std::uint32_t l : touched_) {
    if (links_[l].flows.empty() || links_[l].collected == turn_) continue;
    collect_component(l);
    fill();
    apply(now);
  }
  touched_.clear();
  if (record_) take_samples(now);
  settled_.swap(changed_);
  changed_.clear();
  next_turn();
  return settled_;
}

void Network::next_turn() {
  if (++turn_ != 0) return;
  for (Flow& flow : flows_) flow.collected = flow.reported = 0;
  for (LinkState& link : links_) link.touched = link.collected = link.noted = 0;
  turn_ = 1;
}

void Network::note(const Flow& flow) {
  for (const LinkUse& use : flow.links()) {
    if (links_[use.link].noted == turn_) continue;
    links_[use.link].noted = turn_;
    noted_.push_back(use.link);
  }
}

void Network::take_samples(Picoseconds now) {
  for (std::uint32_t l : noted_) {
    double rate = 0;
    for (const Member& member : links_[l].flows) rate += flows_[member.flow].rate * member.times;
    double use = rate / links_[l].capacity;
    if (std::abs(use - last_use_[l]) <= 1e-12) continue;
    last_use_[l] = use;
    record_->samples.push_back({l, now, use});
  }
  noted_.clear();
}

}  // namespace unity
