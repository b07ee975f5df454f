#include "simulator/collectives/choice.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/base/hash.h"
#include "core/base/longest_time.h"
#include "core/base/text.h"
#include "core/plan/collective_algorithms.h"
#include "core/plan/collective_key.h"
#include "simulator/collectives/measured.h"

namespace unity {
namespace {

using enum CollectiveAlgorithm;

std::vector<const CollectiveProtocol*> protocols_of(const Topology& topology) {
  if (!topology.collectives) return {nullptr};
  std::vector<const CollectiveProtocol*> protocols;
  for (const CollectiveProtocol& p : topology.collectives->protocols) protocols.push_back(&p);
  return protocols;
}

// How many chunks are tried.
std::vector<int> chunk_counts(CollectiveAlgorithm algorithm, double bytes, Bytes chunk) {
  constexpr int kMost = CollectiveOptions::kMostChunks;
  if (algorithm != hierarchical) return {1};
  if (chunk.count > 0)
    return {static_cast<int>(std::clamp(std::ceil(bytes / static_cast<double>(chunk.count)), 1.0, double{kMost}))};
  std::vector<int> counts;
  for (int c = 1; c <= kMost; c *= 2) counts.push_back(c);
  return counts;
}

// Looks over algorithms and protocols; `shape_of(algorithm, protocol, chunks)` is null where that can not be done.
// `runs`: what the runtime does where the topology has no library.
template <class ShapeOf>
CollectiveChoice cheapest(const Topology& topology, double bytes, const CollectiveOptions& options,
                          const CommunicationAlgorithm& runs, ShapeOf shape_of) {
  struct Candidate {
    const CollectiveShape* shape;
    Picoseconds time;
  };
  std::vector<Candidate> candidates;
  auto consider = [&](CollectiveAlgorithm algorithm, const std::vector<int>& chunk_counts) {
    for (const CollectiveProtocol* protocol : protocols_of(topology)) {
      std::optional<Candidate> best;
      for (int chunks : chunk_counts) {
        const CollectiveShape* shape = shape_of(algorithm, protocol, chunks);
        if (!shape) break;
        Picoseconds time = shape->idle_time(bytes, options.chunk);
        if (!best || time < best->time) best = {shape, time};
      }
      if (best) candidates.push_back(*best);
    }
  };
  bool asked = false;
  if (options.algorithm) {
    consider(*options.algorithm, chunk_counts(*options.algorithm, bytes, options.chunk));
    asked = !candidates.empty();
  }
  if (candidates.empty() && topology.collectives)
    for (CollectiveAlgorithm a : topology.collectives->algorithms) consider(a, chunk_counts(a, bytes, options.chunk));
  if (candidates.empty() && !topology.collectives && runs.name) consider(*runs.name, {runs.chunks});
  for (CollectiveAlgorithm a : {ring, chain, direct})
    if (candidates.empty()) consider(a, {1});
  UNITY_CHECK(!candidates.empty(), "no algorithm for a collective on '{}'", topology.name);

  auto other = [&](const Candidate& c) { return !c.shape->protocol || c.shape->protocol->name != options.protocol; };
  if (!options.protocol.empty() && !std::all_of(candidates.begin(), candidates.end(), other)) {
    std::erase_if(candidates, other);
    asked = true;
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.time < b.time; });
  CollectiveChoice choice;
  choice.shape = candidates.front().shape;
  choice.bytes = bytes;
  choice.reason = asked ? ChoiceReason::asked : candidates.size() > 1 ? ChoiceReason::cheapest : ChoiceReason::only;
  for (const Candidate& c : candidates)
    choice.alternatives.push_back(
        {c.shape->algorithm, c.shape->protocol ? c.shape->protocol->name : "", c.time, c.shape->chunks});
  return choice;
}

// Where the user asks for something, the model says what that takes.
template <class KeyOf>
void take_measured(CollectiveChoice& choice, const CollectiveOptions& options, const Topology& topology,
                   DeviceId device, KeyOf key_of) {
  const MeasuredCollectives* measured = collectives_measured_on(topology, device);
  if (!measured || !(options == CollectiveOptions())) return;
  CollectiveKey key = key_of();
  if (const std::vector<ProfilePoint>* points = measured->find(key.name))
    stretch(choice, bounded_seconds(seconds_at(*points, key.bytes).warm), topology);
}

// Each pair once, in order of its devices.
std::vector<PairBytes> pairs_of(const Communication& c) {
  std::vector<PairBytes> pairs;
  pairs.reserve(c.exchanges.size());
  for (const Exchange& e : c.exchanges) {
    DeviceId from = c.participants[static_cast<std::size_t>(e.from)].device;
    DeviceId to = c.participants[static_cast<std::size_t>(e.to)].device;
    auto bytes = static_cast<double>(e.box.elements() * size_of(c.dtype));
    if (from != to && bytes > 0) pairs.push_back({from, to, bytes});
  }
  auto ends = [](const PairBytes& pair) { return std::pair(pair.from, pair.to); };
  auto before = [&](const PairBytes& a, const PairBytes& b) { return ends(a) < ends(b); };
  if (!std::is_sorted(pairs.begin(), pairs.end(), before)) std::sort(pairs.begin(), pairs.end(), before);
  std::size_t kept = 0;
  for (const PairBytes& pair : pairs) {
    if (kept > 0 && ends(pairs[kept - 1]) == ends(pair))
      pairs[kept - 1].bytes += pair.bytes;  // whole numbers: exact in every order
    else
      pairs[kept++] = pair;
  }
  pairs.resize(kept);
  return pairs;
}

}  // namespace

void check_options(const CollectiveOptions& options, const Topology& topology) {
  if (options.chunk.count < 0)
    throw_input_error("collectives: found a chunk of {} bytes, expected at least 0", options.chunk.count);
  if (options.protocol.empty()) return;
  if (!topology.collectives)
    throw_input_error("topology '{}': found protocol '{}', but it names no collectives that have protocols",
                      topology.name, options.protocol);
  std::vector<std::string> names;
  for (const CollectiveProtocol& p : topology.collectives->protocols) names.push_back(p.name);
  if (std::find(names.begin(), names.end(), options.protocol) == names.end())
    throw_input_error("collectives '{}': unknown protocol '{}'{}", topology.collectives->name, options.protocol,
                      suggestion(options.protocol, names));
}

std::string_view to_string(ChoiceReason reason) {
  constexpr std::array<std::string_view, 4> kNames = {"only", "cheapest", "asked", "measured"};
  return kNames[static_cast<std::size_t>(reason)];
}

std::size_t CollectiveCache::KeyHash::operator()(const Asked& asked) const {
  Hash h = combine(static_cast<Hash>(asked.bytes.count), static_cast<Hash>(asked.kind));
  h = combine(h, asked.options.algorithm ? static_cast<Hash>(*asked.options.algorithm) + 1 : 0);
  h = combine(combine(h, hash_text(asked.options.protocol)), static_cast<Hash>(asked.options.chunk.count));
  h = combine(h, asked.algorithm && asked.algorithm->name ? static_cast<Hash>(*asked.algorithm->name) + 1 : 0);
  for (DeviceId d : asked.group) h = (h ^ static_cast<Hash>(d.value)) * 0x100000001b3u;
  return mix(h);
}

bool CollectiveCache::KeyEqual::operator()(const Asked& a, const Asked& b) const {
  return a.kind == b.kind && a.algorithm == b.algorithm && a.bytes == b.bytes && a.options == b.options &&
         std::equal(a.group.begin(), a.group.end(), b.group.begin(), b.group.end());
}

std::shared_ptr<const CollectiveChoice> CollectiveCache::choose(CollectiveKind kind, std::span<const DeviceId> group,
                                                                Bytes bytes, const CollectiveOptions& options) const {
  return choose(Asked{kind, std::nullopt, bytes, options, group});
}

std::shared_ptr<const CollectiveChoice> CollectiveCache::choose(const Asked& asked) const {
  const auto& [kind, algorithm, bytes, options, group] = asked;
  if (group.size() < 2) return std::make_shared<const CollectiveChoice>();
  return choices_.get(asked, [&, kind = kind, bytes = bytes, algorithm = algorithm] {
    auto shape_of = [&](CollectiveAlgorithm by, const CollectiveProtocol* protocol, int chunks) {
      return shapes_.find(kind, by, protocol, group, chunks);
    };
    CollectiveChoice choice = cheapest(topology(), static_cast<double>(bytes.count), options,
                                       algorithm ? *algorithm : algorithms_.choose(kind, group, bytes), shape_of);
    take_measured(choice, options, topology(), group[0], [&] {
      return CollectiveKey{collective_name(kind, group, topology()), static_cast<double>(bytes.count)};
    });
    return std::make_shared<const CollectiveChoice>(std::move(choice));
  });
}

std::size_t CollectiveCache::ExchangeHash::operator()(const ExchangeKey& key) const {
  Hash h = combine(key.pairs.size(), hash_text(key.options.protocol));
  for (const PairBytes& pair : key.pairs) {
    h = mix(h ^ (static_cast<Hash>(pair.from.value) << 32 | static_cast<Hash>(pair.to.value)));
    h = mix(h ^ std::bit_cast<Hash>(pair.bytes));
  }
  return h;
}

CollectiveChoice CollectiveCache::choose_exchange(const ExchangeKey& asked) const {
  double bytes = 0;
  for (const PairBytes& pair : asked.pairs) bytes += pair.bytes;
  std::vector<std::unique_ptr<const CollectiveShape>> made;
  auto shape_of = [&](CollectiveAlgorithm algorithm, const CollectiveProtocol* protocol,
                      int) -> const CollectiveShape* {
    if (algorithm != direct || (protocol && !protocol->of(direct))) return nullptr;
    return made.emplace_back(std::make_unique<const CollectiveShape>(shapes_.exchange(protocol, asked.pairs))).get();
  };
  CollectiveChoice choice = cheapest(topology(), bytes, asked.options, {}, shape_of);
  for (auto& shape : made)
    if (shape.get() == choice.shape) choice.own = std::move(shape);
  return choice;
}

std::shared_ptr<const CollectiveChoice> CollectiveCache::host_copy(DeviceId device, bool to_host, Bytes bytes) const {
  const CollectiveShape* shape = shapes_.host_copy(device, to_host);
  if (!shape) return nullptr;
  auto choice = std::make_shared<CollectiveChoice>();
  choice->shape = shape;
  choice->bytes = static_cast<double>(bytes.count);
  choice->alternatives.push_back({shape->algorithm, "", shape->idle_time(choice->bytes, {})});
  return choice;
}

std::shared_ptr<const CollectiveChoice> CollectiveCache::choose(const Communication& c,
                                                                const CollectiveOptions& options) const {
  if (c.kind == CollectiveKind::all_to_all) {
    ExchangeKey asked{pairs_of(c), options};
    if (asked.pairs.empty()) return std::make_shared<const CollectiveChoice>();
    // A measured one is named by more than its pairs.
    const DeviceId first = c.participants[0].device;
    const bool measured = collectives_measured_on(topology(), first) != nullptr;
    auto choose = [&] {
      CollectiveChoice choice = choose_exchange(asked);
      if (measured) take_measured(choice, options, topology(), first, [&] { return collective_key(c, topology()); });
      return std::make_shared<const CollectiveChoice>(std::move(choice));
    };
    return measured ? choose() : exchanges_.get(asked, choose);
  }
  std::vector<DeviceId> devices;
  devices.reserve(c.participants.size());
  for (const Participant& p : c.participants) devices.push_back(p.device);
  return choose(Asked{c.kind, c.algorithm, {elements_in_steps(c) * size_of(c.dtype)}, options, devices});
}

}  // namespace unity
