#include "simulator/network/network.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "simulator/engine/held_bytes.h"

namespace unity {
namespace {

constexpr double kNotFrozen = -1;
constexpr double kNone = std::numeric_limits<double>::infinity();
constexpr Picoseconds kNoEnd{-1};

// Shares that differ by rounding alone count as equal, so that symmetric flows freeze in one round.
constexpr double kEqual = 1 + 1e-11;
// A link counts as full, or a flow as limited by it, from just below. To take in more than needed changes no rate.
constexpr double kNearly = 1 - 1e-9;

double share_of(double capacity, std::uint32_t times) { return times == 1 ? capacity : capacity / times; }

}  // namespace

std::vector<BytesPerSecond> link_capacities(const Topology& topology) {
  std::vector<BytesPerSecond> capacities;
  for (const Link& link : topology.links) capacities.push_back(link.bandwidth);
  return capacities;
}

Network::Network(const Topology& topology) : links_(topology.links.size()) {
  for (std::size_t l = 0; l < links_.size(); ++l) links_[l].capacity = topology.links[l].bandwidth.rate * 1e-12;
  for (LinkState& link : links_) link.level = kNone;
}

Network::Network(std::span<const BytesPerSecond> capacities) : links_(capacities.size()) {
  for (std::size_t l = 0; l < links_.size(); ++l) {
    UNITY_CHECK(capacities[l].rate > 0, "link {} carries {} bytes per second", l, capacities[l].rate);
    links_[l].capacity = capacities[l].rate * 1e-12;
    links_[l].level = kNone;
  }
}

void Network::record(LinkRecord& record) {
  record_ = &record;
  record.bytes.resize(links_.size());
  last_use_.assign(links_.size(), 0);
}

std::size_t Network::bytes() const {
  std::size_t members = 0;
  for (const LinkState& link : links_) members += held_bytes(link.flows);
  return members + held_bytes(links_, flows_, unused_, joined_, touched_, changed_, settled_, change_flows_,
                              change_links_, checked_, change_bounds_, open_, bounds_, frozen_, fixed_, noted_,
                              last_use_);
}

Network::State Network::state(std::span<const FlowIndex> flows, Picoseconds now) const {
  State state;
  std::vector<std::uint32_t> places(flows_.size()), links;
  for (std::size_t i = 0; i < flows.size(); ++i) {
    const Flow& flow = flows_[flows[i]];
    places[flows[i]] = static_cast<std::uint32_t>(i);
    state.flows.push_back({flow.bytes_left, flow.rate, now - flow.since, flow.end - now});
    for (const LinkUse& use : flow.links()) links.push_back(use.link);
  }
  std::sort(links.begin(), links.end());
  links.erase(std::unique(links.begin(), links.end()), links.end());
  for (std::uint32_t l : links) {
    const LinkState& link = links_[l];
    state.links.push_back({l, static_cast<std::uint32_t>(link.flows.size()), link.load, link.level});
    for (const Member& member : link.flows) state.members.push_back({places[member.flow], member.times});
  }
  return state;
}

void Network::resume(const State& state, std::span<const std::span<const LinkUse>> uses, Picoseconds now) {
  UNITY_CHECK(flows_.empty() && uses.size() == state.flows.size(), "{} flows of {} come to {}", uses.size(),
              state.flows.size(), flows_.size());
  flows_.resize(state.flows.size());
  for (std::size_t i = 0; i < flows_.size(); ++i) {
    const State::Flow& from = state.flows[i];
    Flow& flow = flows_[i];
    flow.uses = uses[i].data();
    flow.use_count = static_cast<std::uint32_t>(uses[i].size());
    flow.bytes_left = from.bytes_left;
    flow.rate = from.rate;
    flow.since = now - from.age;
    flow.end = now + from.left;
  }
  const State::Member* member = state.members.data();
  for (const State::Link& from : state.links) {
    LinkState& link = links_[from.link];
    link.load = from.load;
    link.level = from.level;
    for (std::uint32_t i = 0; i < from.members; ++i, ++member) link.flows.push_back({member->flow, member->times});
  }
}

void Network::report(FlowIndex index) {
  Flow& flow = flows_[index];
  ++flow.version;
  if (flow.reported == turn_) return;
  flow.reported = turn_;
  changed_.push_back(index);
}

void Network::set_rate(Flow& flow, double rate, Picoseconds now) {
  double sent = flow.rate * static_cast<double>((now - flow.since).count);
  flow.bytes_left = std::max(0.0, flow.bytes_left - sent);
  flow.since = now;
  flow.rate = rate;
  // The whole picosecond in which the last byte arrives; a millionth of one is rounding.
  double duration = std::max(0.0, std::ceil(flow.bytes_left / rate - 1e-6));
  if (duration + static_cast<double>(now.count) > 9.2e18)
    throw_input_error("a flow of {:.17g} bytes at {:.17g} bytes per second: found an end after more than 106 days",
                      flow.bytes_left, rate * 1e12);
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
  flow.rate = 0;
  flow.since = now;
  bool alone = true;
  double bound = kNone;
  for (const LinkUse& use : uses) {
    LinkState& link = links_[use.link];
    if (link.flows.empty())
      bound = std::min(bound, share_of(link.capacity, use.times));
    else
      alone = false;
    link.flows.push_back({index, use.times});
  }
  if (alone || start_beside_others(flow, bound)) {
    for (const LinkUse& use : uses) links_[use.link].load += bound * use.times;
    set_rate(flow, bound, now);
    report(index);
  } else {
    flow.end = kNoEnd;
    ++flow.version;
    joined_.push_back(index);
  }
  if (record_) {
    for (const LinkUse& use : uses) record_->bytes[use.link] += bytes * use.times;
    note(flow);
  }
  return index;
}

// Whether the links that the flow shares have room for all that its other links let through.
bool Network::start_beside_others(Flow& flow, double bound) {
  for (const LinkUse& use : flow.links()) {
    const LinkState& link = links_[use.link];
    if (link.load + bound * use.times > link.capacity * kNearly && link.flows.size() > 1) return false;
  }
  return true;
}

// Flows that start together tend to end in that order: from where the one before was found, to both sides.
void Network::remove(LinkState& link, FlowIndex index) {
  std::vector<Member>& flows = link.flows;
  std::size_t up = std::min<std::size_t>(link.removed, flows.size() - 1), down = up;
  while (flows[up].flow != index && flows[down].flow != index) {
    if (up + 1 < flows.size()) ++up;
    if (down > 0) --down;
  }
  std::size_t at = flows[up].flow == index ? up : down;
  link.removed = static_cast<std::uint32_t>(at + 1);
  flows[at] = flows.back();
  flows.pop_back();
}

void Network::finish(FlowIndex index) {
  Flow& flow = flows_[index];
  for (const LinkUse& use : flow.links()) {
    LinkState& link = links_[use.link];
    if (link.flows.size() == 1) {
      link.flows.clear();
      link.load = 0;
      link.level = kNone;
      continue;
    }
    remove(link, index);
    link.load -= flow.rate * use.times;
    if (link.level == kNone || link.touched == turn_) continue;
    link.touched = turn_;
    touched_.push_back(use.link);
  }
  if (record_) note(flow);
  if (flow.reported == turn_) {
    std::erase(changed_, index);
    flow.reported = 0;
  }
  flow.uses = nullptr;
  ++flow.version;
  unused_.push_back(index);
}

void Network::begin_change() {
  if (++change_ == 0) {
    for (Flow& flow : flows_) flow.reached = 0;
    for (LinkState& link : links_) link.reached = link.checked = 0;
    change_ = 1;
  }
  change_flows_.clear();
  change_links_.clear();
  change_bounds_.clear();
  expanded_ = 0;
}

void Network::settle_change(Picoseconds now) {
  do {
    expand();
    fill();
  } while (widen());
  apply(now);
}

// With the full links that it crosses.
void Network::add_flow(FlowIndex index) {
  Flow& flow = flows_[index];
  if (flow.reached == change_) return;
  flow.reached = change_;
  change_flows_.push_back(index);
  double bound = kNone;
  for (const LinkUse& use : flow.links()) {
    const LinkState& link = links_[use.link];
    if (link.level != kNone) add_link(use.link);
    if (link.flows.size() == 1 || is_new(flow)) bound = std::min(bound, share_of(link.capacity, use.times));
  }
  if (bound != kNone) change_bounds_.push_back({bound, index});
}

void Network::add_link(std::uint32_t l) {
  LinkState& link = links_[l];
  if (link.reached == change_) return;
  link.reached = change_;
  change_links_.push_back(l);
}

// From full links to the flows that they limit, and from these to the full links that they cross.
void Network::expand() {
  for (; expanded_ < change_links_.size(); ++expanded_) {
    const LinkState& link = links_[change_links_[expanded_]];
    for (const Member& member : link.flows) {
      const Flow& flow = flows_[member.flow];
      if (is_new(flow) || flow.rate >= link.level * kNearly) add_flow(member.flow);
    }
  }
}

// What flows that keep their rates leave to those of the change.
void Network::open_link(LinkState& link) {
  link.left = link.capacity;
  link.weight = link.frozen = 0;
  link.new_level = kNone;
  link.fastest_fixed = 0;
  fixed_.clear();
  for (const Member& member : link.flows) {
    const Flow& flow = flows_[member.flow];
    if (flow.reached == change_)
      link.weight += member.times;
    else
      fixed_.push_back({flow.rate, member.times});
  }
  if (!fixed_.empty()) {
    std::sort(fixed_.begin(), fixed_.end());
    link.fastest_fixed = fixed_.back().first;
    for (std::size_t i = 0; i < fixed_.size();) {
      double rate = fixed_[i].first;
      std::uint32_t weight = 0;
      for (; i < fixed_.size() && fixed_[i].first == rate; ++i) weight += fixed_[i].second;
      link.left -= rate * weight;
    }
    link.left = std::max(link.left, 0.0);
  }
  link.share = link.left / link.weight;
}

void Network::fill() {
  open_.clear();
  for (std::uint32_t l : change_links_) {
    open_link(links_[l]);
    if (links_[l].weight > 0) open_.push_back(l);
  }
  bounds_ = change_bounds_;
  for (FlowIndex f : change_flows_) flows_[f].new_rate = kNotFrozen;
  for (std::size_t not_frozen = change_flows_.size(); not_frozen > 0;) {  // a round
    double least = kNone;
    for (std::uint32_t l : open_) least = std::min(least, links_[l].share);
    for (const Bound& bound : bounds_) least = std::min(least, bound.rate);
    frozen_.clear();
    auto freeze = [&](FlowIndex f) {
      if (flows_[f].new_rate != kNotFrozen) return;
      flows_[f].new_rate = least;
      frozen_.push_back(f);
    };
    for (std::uint32_t l : open_) {
      LinkState& link = links_[l];
      if (link.share > least * kEqual) continue;
      link.new_level = least;
      for (const Member& member : link.flows)
        if (flows_[member.flow].reached == change_) freeze(member.flow);
    }
    for (const Bound& bound : bounds_)
      if (bound.rate <= least * kEqual) freeze(bound.flow);
    not_frozen -= frozen_.size();
    if (not_frozen == 0) {
      for (std::uint32_t l : open_) links_[l].left -= least * links_[l].weight;
      return;
    }
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

// Takes in the flows that are too fast for a link of the change, and the links that its flows overfill. False when
// there are none: the rates are right.
bool Network::widen() {
  std::size_t flows = change_flows_.size(), links = change_links_.size();
  for (std::size_t i = 0; i < links; ++i) {  // add_flow() adds links
    const LinkState& link = links_[change_links_[i]];
    if (link.new_level == kNone || link.fastest_fixed <= link.new_level * kEqual) continue;
    for (const Member& member : link.flows)
      if (flows_[member.flow].rate > link.new_level * kEqual) add_flow(member.flow);
  }
  checked_.clear();
  for (std::size_t i = 0; i < flows; ++i) {
    const Flow& flow = flows_[change_flows_[i]];
    double more = flow.new_rate - flow.rate;
    if (more == 0) continue;
    for (const LinkUse& use : flow.links()) {
      LinkState& link = links_[use.link];
      if (link.reached == change_) continue;
      if (link.checked != change_) {
        link.checked = change_;
        link.new_load = link.load;
        checked_.push_back(use.link);
      }
      link.new_load += more * use.times;
    }
  }
  for (std::uint32_t l : checked_) {
    links_[l].checked = 0;
    if (links_[l].new_load > links_[l].capacity * kNearly && links_[l].flows.size() > 1) add_link(l);
  }
  return change_flows_.size() > flows || change_links_.size() > links;
}

void Network::apply(Picoseconds now) {
  for (std::uint32_t l : change_links_) {
    LinkState& link = links_[l];
    link.level = link.new_level;
    link.load = link.capacity - link.left;
  }
  for (std::uint32_t l : checked_) links_[l].load = links_[l].new_load;
  for (FlowIndex f : change_flows_) {
    Flow& flow = flows_[f];
    if (flow.new_rate == flow.rate) continue;
    Picoseconds before = flow.end;
    set_rate(flow, flow.new_rate, now);
    if (flow.end != before) report(f);
    if (record_) note(flow);
  }
}

std::span<const FlowIndex> Network::settle(Picoseconds now) {
  if (!joined_.empty() || !touched_.empty()) {
    // One change, however many flows started and ended, with those that found room, too: so their order does not
    // matter.
    begin_change();
    for (FlowIndex f : changed_)
      for (const LinkUse& use : flows_[f].links())
        if (links_[use.link].flows.size() > 1) add_flow(f);
    for (FlowIndex f : joined_)
      if (flows_[f].uses != nullptr && flows_[f].rate == 0) add_flow(f);
    for (std::uint32_t l : touched_)
      if (!links_[l].flows.empty()) add_link(l);
    settle_change(now);
  }
  joined_.clear();
  touched_.clear();
  if (record_) take_samples(now);
  settled_.swap(changed_);
  changed_.clear();
  next_turn();
  return settled_;
}

void Network::next_turn() {
  if (++turn_ != 0) return;
  for (Flow& flow : flows_) flow.reported = 0;
  for (LinkState& link : links_) link.touched = link.noted = 0;
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
