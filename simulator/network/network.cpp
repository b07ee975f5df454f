#include "simulator/network/network.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace unity {

Network::Network(const Topology& topology) : links_(topology.links.size()) {
  for (std::size_t l = 0; l < links_.size(); ++l) links_[l].capacity = topology.links[l].bandwidth.rate * 1e-12;
}

void Network::touch(std::uint32_t link) {
  if (links_[link].mark == mark_) return;
  links_[link].mark = mark_;
  touched_.push_back(link);
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
  flow.uses = uses;
  flow.remaining = bytes;
  flow.rate = 0;
  flow.since = now;
  ++flow.version;
  for (const LinkUse& use : uses) {
    links_[use.link].flows.push_back(index);
    touch(use.link);
  }
  return index;
}

void Network::finish(FlowIndex index) {
  Flow& flow = flows_[index];
  for (const LinkUse& use : flow.uses) {
    std::vector<FlowIndex>& flows = links_[use.link].flows;
    *std::find(flows.begin(), flows.end(), index) = flows.back();
    flows.pop_back();
    touch(use.link);
  }
  ++flow.version;
  unused_.push_back(index);
}

void Network::collect_component() {
  component_.clear();
  for (std::size_t i = 0; i < touched_.size(); ++i)  // grows while it is read
    for (FlowIndex f : links_[touched_[i]].flows) {
      if (flows_[f].mark == mark_) continue;
      flows_[f].mark = mark_;
      component_.push_back(f);
      for (const LinkUse& use : flows_[f].uses) touch(use.link);
    }
}

void Network::fill() {
  open_.clear();
  for (std::uint32_t l : touched_) {
    LinkState& link = links_[l];
    if (link.flows.empty()) continue;
    link.left = link.capacity;
    link.weight = 0;
    open_.push_back(l);
  }
  constexpr double kNotFrozen = -1;
  for (FlowIndex f : component_) {
    flows_[f].new_rate = kNotFrozen;
    for (const LinkUse& use : flows_[f].uses) links_[use.link].weight += use.times;
  }
  // Shares that differ by rounding alone count as equal, so that symmetric flows freeze in one round.
  constexpr double kEqual = 1 + 1e-9;
  for (std::size_t left = component_.size(); left > 0;) {
    double least = std::numeric_limits<double>::infinity();
    for (std::uint32_t l : open_) least = std::min(least, links_[l].left / links_[l].weight);
    frozen_.clear();
    for (std::uint32_t l : open_) {
      if (links_[l].left > least * kEqual * links_[l].weight) continue;
      for (FlowIndex f : links_[l].flows)
        if (flows_[f].new_rate == kNotFrozen) {
          flows_[f].new_rate = least;
          frozen_.push_back(f);
        }
    }
    for (FlowIndex f : frozen_)
      for (const LinkUse& use : flows_[f].uses) {
        LinkState& link = links_[use.link];
        link.left = std::max(0.0, link.left - least * use.times);
        link.weight -= use.times;
      }
    left -= frozen_.size();
    std::erase_if(open_, [&](std::uint32_t l) { return links_[l].weight == 0; });
  }
}

std::span<const FlowIndex> Network::settle(Picoseconds now) {
  changed_.clear();
  if (touched_.empty()) return {};
  collect_component();
  fill();
  for (FlowIndex f : component_) {
    Flow& flow = flows_[f];
    // A rate that differs by rounding alone keeps the event that is on its way.
    if (std::abs(flow.new_rate - flow.rate) <= 1e-12 * flow.rate) continue;
    flow.remaining = std::max(0.0, flow.remaining - flow.rate * static_cast<double>((now - flow.since).count));
    flow.since = now;
    flow.rate = flow.new_rate;
    double duration = std::ceil(flow.remaining / flow.rate - 1e-6);
    flow.end = now + Picoseconds{static_cast<std::int64_t>(std::max(0.0, duration))};
    ++flow.version;
    changed_.push_back(f);
  }
  touched_.clear();
  ++mark_;
  return changed_;
}

}  // namespace unity
