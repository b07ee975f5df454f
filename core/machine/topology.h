// A machine: devices, switches and links, with the hierarchy (node, socket, GPU) that numbers the devices.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/hash.h"
#include "core/base/ids.h"
#include "core/base/units.h"
#include "core/ops/shape.h"

namespace unity {

// `switching` is for links inside a vertex (Vertex::inside); the others join two.
enum class LinkKind : std::uint8_t { nvlink, xbus, pcie, infiniband, ethernet, memory, switching };
std::string_view to_string(LinkKind kind);

// One point of an efficiency curve: work of at least this amount (FLOPs or bytes) reaches this fraction of the peak.
// Between two points the fraction is interpolated over the logarithm of the amount; beyond the ends it stays.
struct EfficiencyPoint {
  double amount = 0;
  double fraction = 1;
};
double efficiency_at(const std::vector<EfficiencyPoint>& curve, double amount);  // 1 for an empty curve

class DeviceProfile;
struct CollectiveLibrary;
class MappingFamilies;

// What one (logical) device can do. From a device file, topologies/devices/NAME.yaml.
struct DeviceSpec {
  std::string name;                      // "V100-SXM2-16GB"
  std::string kind = "gpu";              // gpu, cpu
  std::map<DType, FlopsPerSecond> peak;  // f32 at least; alone on its physical device
  FlopsPerSecond elementwise_peak;       // f32, of exponentials and the like; 0: as `peak`
  BytesPerSecond memory_bandwidth;
  BytesPerSecond host_bandwidth;  // of copies to and from the host, where the topology has none; 0: not known
  Bytes memory;
  Picoseconds launch_overhead;  // per task
  Picoseconds handover;     // until a task notices that one of another stream or device, for which it waited, has ended
  double interference = 0;  // by which compute is slower while the device communicates; 0 to less than 1
  std::vector<EfficiencyPoint> matmul_efficiency;  // by FLOPs, ascending; fraction of peak
  std::vector<EfficiencyPoint> memory_efficiency;  // by bytes, ascending; fraction of memory bandwidth
  std::shared_ptr<const DeviceProfile> profile;    // measured times (profile.h); null: none
};

// Compute as a shared resource: logical devices on one physical device wait for its units of compute, or slow one
// another (simulator/devices/unit_queue.h, shared_compute.h).
struct PhysicalDevice {
  double units = 1;
  // Of each of so many logical devices, as many threads as the runtime gives it.
  int fair_share(int logical) const;
};

struct Device {
  std::size_t spec = 0;      // index into Topology::specs
  std::size_t physical = 0;  // index into Topology::physical_devices
  VertexId vertex;
  std::string name;  // "node0.socket1.gpu2"
};

struct Vertex {
  std::string name;
  DeviceId device;       // invalid for switches, hosts, NICs
  bool forwards = true;  // passes on what others send; what does not is only a first or last vertex of routes
  LinkId inside;         // a link from the vertex to itself, which all that passes through shares; invalid: none
  bool host = false;     // has the memory that devices copy to and from
};

// One direction of a link. A full-duplex link is two of these.
struct Link {
  VertexId from, to;
  BytesPerSecond bandwidth;
  Picoseconds latency;
  LinkKind kind = LinkKind::nvlink;
};

// Which of several equally good routes traffic takes; equally good are as many hops, the same sum of latencies and the
// same smallest bandwidth.
enum class Routing : std::uint8_t {
  shortest,  // always the one with the lowest link ids from the source on
  ecmp  // one of them by a hash of source, target and a label, drawn at each vertex among the links that lead there
};

// A level of the hierarchy, outermost first: {"node", 2}, {"socket", 2}, {"gpu", 3}.
struct Level {
  std::string name;
  int count = 1;                 // in a part of the level outside; the most, where parts differ
  std::vector<int> begins = {};  // where they do, by part, the first device, for all levels but the last; else empty
};

std::string in_words(const std::vector<Level>& levels);  // "2 node x 8 gpu", "2 node x up to 4 gpu"

class RouteTable;

class Topology {
 public:
  std::string name;
  int nodes = 1;
  int whole_nodes = 0;  // of the topology that first_devices() took its devices from; 0: this is whole
  std::vector<DeviceSpec> specs;
  std::vector<PhysicalDevice> physical_devices;
  std::vector<Device> devices;
  std::vector<Vertex> vertices;
  std::vector<Link> links;
  std::vector<Level> levels;
  std::shared_ptr<const CollectiveLibrary> collectives;  // what runs the collectives (collectives.h); null: plain rings
  std::shared_ptr<const MappingFamilies> mapping_families;  // of the user (mapping_families.h); null: none
  Routing routing = Routing::shortest;
  std::map<std::pair<DeviceId, DeviceId>, std::vector<LinkId>> custom_routes;  // stand in place of those found

  std::size_t device_count() const { return devices.size(); }
  const Device& device(DeviceId id) const { return devices.at(id.index()); }
  const DeviceSpec& spec(DeviceId id) const { return specs[device(id).spec]; }

  // The links from one device to another, in order, with those inside the vertices between them: the custom route, else
  // fewest hops (links inside vertices do not count), then lowest latency sum, then highest bandwidth, then as
  // `routing` says. Flows that are to take ways of their own under ECMP give different labels; without ECMP the label
  // does not matter. Deterministic. Empty for a device to itself. Needs finish(). Any number of threads may ask.
  std::vector<LinkId> route(DeviceId from, DeviceId to, std::uint64_t label = 0) const;
  // The host that a device copies to and from: of those that it can reach the best, as routes go, then the one with the
  // lowest id; invalid: none. Needs finish().
  VertexId host(DeviceId device) const;
  // The links between a device and its host, which there must be, as for route().
  std::vector<LinkId> route_to_host(DeviceId device) const;
  std::vector<LinkId> route_from_host(DeviceId device) const;
  // Sum of latencies, and the smallest bandwidth, along the route with label 0.
  Picoseconds latency(DeviceId from, DeviceId to) const;
  BytesPerSecond bandwidth(DeviceId from, DeviceId to) const;
  // Which part of a level (an index into `levels`) the device is in, counted over the machine.
  int part(std::size_t level, DeviceId device) const;
  // The outermost level in which the two devices differ (0 = different nodes); levels.size() for the same device.
  int distance_level(DeviceId a, DeviceId b) const;

  // Call after the last change. Routes are found from each device when first asked for (memory: one number for each
  // vertex, under ECMP one bit for each link, and device that was asked about). InputError when two devices are not
  // connected (says which), a rate is not positive, or a custom route is broken or passes a vertex twice.
  void finish();
  // Two devices without a way from the first to the second.
  std::optional<std::pair<DeviceId, DeviceId>> unconnected() const;
  // Units of compute (cores) that are a logical device's fair share: as many threads as the runtime gives it.
  int threads(DeviceId id) const;
  // The first n devices with everything between them: routes stay as they are, the other devices become switches.
  Topology first_devices(int n) const;
  // Not of hosts and host bandwidths: plans stay those of a machine whose file now says them. Nor of mapping families.
  Hash hash() const;

 private:
  // Gives the links of the route with label 0 to `use`, in any order.
  template <class Use>
  void for_links(DeviceId from, DeviceId to, Use use) const;
  // With label 0; one of the two is a host.
  std::vector<LinkId> route_between(VertexId from, VertexId to) const;

  std::shared_ptr<const RouteTable> routes_;
};

// Where topology files are found: $UNITY_TOPOLOGIES, else ../share/unity/topologies beside the executable's folder,
// else the source folder. Names are file names without ".yaml", sorted; devices are in its folder `devices`.
std::vector<std::string> topology_names();
std::vector<std::string> device_names();

struct TopologyOptions {
  int nodes = 0;    // 0: as the file says
  int devices = 0;  // 0: all; else the first N
};
// A name from `topologies/` or a path to a YAML file (form: topologies/README.md); a path looks for device files beside
// it first. InputError with file, line, column, found, expected.
Topology load_topology(const std::string& name_or_path, const TopologyOptions& options = {});
DeviceSpec load_device(const std::string& name);

}  // namespace unity
