// What a library of collectives does on a machine, as data: which algorithms it chooses from, and what its protocols
// take for each hop and leave of the links' bandwidth. A topology names a file (format unity-collectives,
// topologies/collectives/NAME.yaml) with its key `collectives`; without one, a hop takes the latencies of its links,
// all of their bandwidth is used, and the algorithms are those that the runtime runs on messages: ring, chain, direct,
// binomial, hierarchical.
//
// With a file, the protocol's latencies stand in place of the links' own, which then only choose routes.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/units.h"

namespace unity {

class Topology;
enum class LinkKind : std::uint8_t;

enum class CollectiveAlgorithm : std::uint8_t { ring, tree, hierarchical, in_switch, direct, chain, binomial };
constexpr std::size_t kCollectiveAlgorithms = 7;
std::string_view to_string(CollectiveAlgorithm algorithm);
Result<CollectiveAlgorithm> parse_collective_algorithm(std::string_view text);

// What a hop between two devices crosses: the network if any link does, else PCIe or a bus between sockets, else NVLink
// or memory.
enum class HopClass : std::uint8_t { nvlink, pci, net };
constexpr std::size_t kHopClasses = 3;
HopClass class_of(LinkKind kind);  // of a hop over links of this kind alone

// A figure on 1, on 2 or 3, and on 4 or more nodes.
using ByNodes = std::array<double, 3>;
constexpr double at_nodes(const ByNodes& figures, std::size_t nodes) {
  return figures[nodes < 2 ? 0 : nodes < 4 ? 1 : 2];
}

// What an algorithm takes under a protocol.
struct ProtocolCosts {
  Picoseconds base;                           // once: launch and start
  std::array<Picoseconds, kHopClasses> hops;  // latency of a hop, by HopClass
  ByNodes efficiency = {1, 1, 1};             // fraction of the usable bandwidth that is payload
};

struct CollectiveProtocol {
  std::string name;              // "LL128"
  Picoseconds network_overhead;  // on several nodes, a hop inside a node takes at least this
  std::array<std::optional<ProtocolCosts>, kCollectiveAlgorithms> costs;  // by algorithm; none: there is none

  // Hierarchical, direct, chain and binomial take those of the ring unless the file gives their own.
  const ProtocolCosts* of(CollectiveAlgorithm algorithm) const;
};

// At most this rate, in bytes per second that a device sends, whatever the links could carry.
struct RateLimit {
  std::string protocol;                          // empty: of all
  std::optional<CollectiveAlgorithm> algorithm;  // none: of all
  ByNodes rate{};                                // of all channels together
};

struct CollectiveLibrary {
  std::string name;                             // of the file
  std::vector<CollectiveAlgorithm> algorithms;  // to choose from
  int channels = 1;              // rings and trees that share the data; each begins at another device of a node
  bool chains_in_nodes = false;  // trees between nodes, chains inside them
  std::array<double, kHopClasses> link_efficiency{1, 1, 1};  // usable fraction of a link's bandwidth, by its class
  std::vector<CollectiveProtocol> protocols;                 // at least one
  std::vector<RateLimit> limits;

  // The smallest limit that counts, in bytes per second; infinity for none.
  double limit(CollectiveAlgorithm algorithm, const CollectiveProtocol& protocol, std::size_t nodes) const;
};

// The file that a topology's key `collectives` names: NAME.yaml in the folder collectives/ beside the topology's file,
// else in that of the topologies that come with Unity; or a path in that folder.
Result<std::string> find_collectives(const std::string& name, const std::string& folder);
// `device`: the name of the machine's devices, which picks an entry of `machines`. InputError with file, line, column,
// found, expected.
std::shared_ptr<const CollectiveLibrary> load_collectives(const std::string& file, const std::string& device);

}  // namespace unity
