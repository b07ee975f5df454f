// Which algorithm and protocol a collective takes: the cheapest predicted on the idle machine, of those that the
// topology's library chooses from; without a library, what the runtime runs: rings, chains (broadcast, reduce, send),
// binomial trees and hierarchical ones where the Program says so, and direct exchanges (all-to-all). Where nothing is
// asked for, and the profile of the devices has the collective, it takes the measured time.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/plan/collective_algorithms.h"
#include "simulator/collectives/shapes.h"

namespace unity {

// What the user asks for. A collective that can not be done so takes the cheapest of the others.
struct CollectiveOptions {
  std::optional<CollectiveAlgorithm> algorithm;  // none: the cheapest
  std::string protocol;                          // empty: the cheapest
  // Of trees and chains: the bytes that travel on together; 0: as few as one likes. Of hierarchical: those that go
  // through its stages together, at least S / kMostChunks; 0: S / c, for the fastest c of 1, 2, 4, .. kMostChunks.
  Bytes chunk;
  static constexpr int kMostChunks = kMostCollectiveChunks;
  bool operator==(const CollectiveOptions&) const = default;
};
// InputError when the topology's library has no such protocol, or the chunk is negative.
void check_options(const CollectiveOptions& options, const Topology& topology);

struct CollectiveAlternative {
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::ring;
  std::string protocol;  // empty: plain links
  Picoseconds time;      // predicted, alone on the idle machine
  int chunks = 1;        // CollectiveShape::chunks
};

// Measured: the cheapest or only one, whose times are what was measured (measured.h).
enum class ChoiceReason : std::uint8_t { only, cheapest, asked, measured };
std::string_view to_string(ChoiceReason reason);

struct CollectiveChoice {
  const CollectiveShape* shape = nullptr;  // null: nothing is to be moved
  double bytes = 0;                        // S
  ChoiceReason reason = ChoiceReason::only;
  std::vector<CollectiveAlternative> alternatives;  // the chosen one first, the others by time

  Picoseconds predicted() const { return alternatives.empty() ? Picoseconds{} : alternatives.front().time; }

  std::unique_ptr<const CollectiveShape> own;  // where nobody else keeps the shape
};

// Choices on a topology, made once for each (kind, group, bytes, options) or (pairs, options). Thread-safe; gives the
// same to every thread. The topology must outlive it.
class CollectiveCache {
 public:
  explicit CollectiveCache(const Topology& topology) : shapes_(topology), algorithms_(topology) {}

  // `group` and `bytes` as in ShapeCache::find. Without a library: by the algorithm that lowering would choose.
  std::shared_ptr<const CollectiveChoice> choose(CollectiveKind kind, std::span<const DeviceId> group, Bytes bytes,
                                                 const CollectiveOptions& options = {}) const;
  std::shared_ptr<const CollectiveChoice> choose(const Communication& communication,
                                                 const CollectiveOptions& options = {}) const;
  // A copy between a device and its host; null where the topology has no host for it.
  std::shared_ptr<const CollectiveChoice> host_copy(DeviceId device, bool to_host, Bytes bytes) const;
  const Topology& topology() const { return shapes_.topology(); }

 private:
  struct Asked {
    CollectiveKind kind;
    std::optional<CommunicationAlgorithm> algorithm;  // none: as lowering would choose
    Bytes bytes;
    const CollectiveOptions& options;
    std::span<const DeviceId> group;
  };
  struct Key {
    explicit Key(const Asked& a)
        : kind(a.kind),
          algorithm(a.algorithm),
          bytes(a.bytes),
          options(a.options),
          group(a.group.begin(), a.group.end()) {}
    operator Asked() const { return {kind, algorithm, bytes, options, group}; }
    CollectiveKind kind;
    std::optional<CommunicationAlgorithm> algorithm;
    Bytes bytes;
    CollectiveOptions options;
    std::vector<DeviceId> group;
  };
  struct KeyHash {
    using is_transparent = void;
    std::size_t operator()(const Asked& asked) const;
  };
  struct KeyEqual {
    using is_transparent = void;
    bool operator()(const Asked& a, const Asked& b) const;
  };
  std::shared_ptr<const CollectiveChoice> choose(const Asked& asked) const;

  // What an all-to-all moves. Candidates of a search have most of theirs in common.
  struct ExchangeKey {
    std::vector<PairBytes> pairs;
    CollectiveOptions options;
    bool operator==(const ExchangeKey&) const = default;
  };
  struct ExchangeHash {
    std::size_t operator()(const ExchangeKey& key) const;
  };
  struct ExchangeWeight {
    std::size_t operator()(const ExchangeKey& key) const { return key.pairs.size(); }
  };
  CollectiveChoice choose_exchange(const ExchangeKey& asked) const;

  static constexpr std::size_t kKept = 1 << 18;       // a long search asks for ever new sizes
  static constexpr std::size_t kPairsKept = 1 << 20;  // of some 100 bytes each

  ShapeCache shapes_;
  CollectiveAlgorithms algorithms_;
  mutable ConcurrentMap<Key, std::shared_ptr<const CollectiveChoice>, KeyHash, KeyEqual> choices_{kKept};
  mutable ConcurrentMap<ExchangeKey, std::shared_ptr<const CollectiveChoice>, ExchangeHash, std::equal_to<>,
                        ExchangeWeight>
      exchanges_{kPairsKept};
};

}  // namespace unity
