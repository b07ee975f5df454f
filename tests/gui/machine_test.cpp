#include <algorithm>
#include <set>

#include <catch2/catch.hpp>

#include "gui/panels/info/facts.h"
#include "gui/panels/machine/places.h"
#include "tests/gui/support.h"

using namespace unity;
using namespace unity::gui;

TEST_CASE("every device and switch of a machine has a place of its own inside the drawing") {
  for (const std::string& name : topology_names()) {
    Topology topology = load_topology(name);
    if (topology.device_count() > 600) continue;
    MachinePlaces places = place_machine(topology);
    INFO(name);
    std::vector<Rect> boxes = places.devices;
    for (const Rect& box : places.switches)
      if (box.w > 0) boxes.push_back(box);
    std::size_t overlaps = 0, outside = 0;
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      if (intersect(boxes[i], places.bounds).w < boxes[i].w - 0.01f) ++outside;
      for (std::size_t j = i + 1; j < boxes.size(); ++j) overlaps += boxes[i].meets(boxes[j]) ? 1 : 0;
    }
    CHECK(overlaps == 0);
    CHECK(outside == 0);
    std::size_t links = 0;
    for (const MachinePlaces::Wire& wire : places.wires) links += wire.back.valid() ? 2 : 1;
    std::size_t joining = 0;
    for (const Link& link : topology.links) joining += link.from != link.to ? 1 : 0;
    CHECK(links == joining);
  }
}

TEST_CASE("a grid has a cell for each task, with the device that the mapping says") {
  Snapshot plan = small_plan();
  const Pcg& pcg = plan->graph();
  int grids = 0;
  for (std::size_t i = 0; i < pcg.size(); ++i) {
    NodeId id(static_cast<std::int64_t>(i));
    const MachineMapping& mapping = plan->plan->mappings[i];
    if (!has_tasks(pcg, id, mapping)) continue;
    GridPlaces grid = place_grid(pcg, id, mapping, *plan->topology);
    CHECK(grid.cells.size() == grid.devices.size());
    CHECK(grid.devices == mapping.devices(node_grid(pcg, id)));
    std::set<std::pair<float, float>> corners;
    for (const Rect& cell : grid.cells) corners.emplace(cell.x, cell.y);
    CHECK(corners.size() == grid.cells.size());
    grids += grid.dims.empty() ? 0 : 1;
    auto tasks = tasks_by_device(pcg, id, mapping, static_cast<int>(plan->topology->device_count()));
    CHECK(static_cast<std::size_t>(std::count_if(tasks.begin(), tasks.end(), [](const auto& t) {
            return !t.empty();
          })) == std::set<DeviceId>(grid.devices.begin(), grid.devices.end()).size());
  }
  CHECK(grids > 0);
}

TEST_CASE("levels say which strides walk them") {
  // Summit: 2 nodes of 2 sockets of 3 GPUs; a step of 1 walks GPUs, of 3 sockets, of 6 nodes.
  auto strides = level_strides(load_topology("summit"));
  CHECK(strides == std::vector<std::pair<std::string, int>>{{"gpu", 1}, {"socket", 3}, {"node", 6}});
}

TEST_CASE("the load of links and devices is a fraction of what they can do") {
  Snapshot plan = small_plan();
  PlanPrediction whole = Predictor().whole(*plan);
  MachineLoad load = machine_load(*plan->topology, whole);
  double most = 0;
  for (std::size_t l = 0; l < load.link_mean.size(); ++l) {
    CHECK(load.link_mean[l] >= 0);
    CHECK(load.link_mean[l] <= 1 + 1e-9);
    most = std::max(most, load.link_mean[l]);
    // What a link carried is its mean use times its bandwidth times the iteration.
    double bytes = load.link_mean[l] * plan->topology->links[l].bandwidth.rate * whole.iteration.seconds();
    if (load.link_bytes[l].count > 0)
      CHECK(bytes == Approx(static_cast<double>(load.link_bytes[l].count)).epsilon(0.02));
  }
  CHECK(most > 0);
  for (double busy : load.device_busy) CHECK((busy > 0 && busy <= 1));
  CHECK(load.link_at(0, -1) == 0);
}

TEST_CASE("facts name what is selected") {
  Snapshot plan = small_plan();
  PlanPrediction whole = Predictor().whole(*plan);
  const Pcg& pcg = plan->graph();
  CHECK(document_facts(*plan, &whole).lines.size() >= 8);
  for (std::size_t i = 0; i < pcg.size(); ++i) {
    auto facts = selection_facts(*plan, Selection::of(NodeId(static_cast<std::int64_t>(i))), &whole);
    REQUIRE(facts.size() == 2);
    CHECK(facts[0].title == pcg.nodes()[i].op->name());
  }
  CHECK(selection_facts(*plan, Selection::of(DeviceId(1)), &whole)[0].title == "Device node0.socket0.gpu1");
  CHECK(selection_facts(*plan, Selection::of(LinkId(0)), &whole)[0].title == "Link");
  CHECK(selection_facts(*plan, Selection::of(ValueRef{NodeId(0), 0}), nullptr)[0].title == "Tensor");
  CHECK(selection_facts(*plan, Selection::of({NodeId(0), NodeId(1)}), &whole)[0].title == "Block");
  CHECK(selection_facts(*plan, {}, &whole).empty());
}

TEST_CASE("from afar, devices are larger, stand in their nodes and overlap nothing") {
  Topology topology = load_topology("summit", {32, 0});
  MachinePlaces places = place_machine(topology, 2.2);
  REQUIRE(places.far_devices.size() == 192);
  CHECK(places.far_titles.size() == 32);
  CHECK(is_far(places, 0.2f));
  CHECK(!is_far(places, 1));
  for (std::size_t d = 0; d < places.far_devices.size(); ++d) {
    const Rect& box = places.far_devices[d];
    CHECK(box.h > places.devices[d].h);
    auto inside = std::count_if(places.parts.begin(), places.parts.end(), [&](const MachinePlaces::Part& part) {
      return part.level == 0 && intersect(part.box, box).w > 0.99f * box.w &&
             intersect(part.box, box).h > 0.99f * box.h;
    });
    CHECK(inside == 1);
    for (std::size_t other = d + 1; other < places.far_devices.size(); ++other)
      if (box.meets(places.far_devices[other])) FAIL(d << " overlaps " << other);
  }
}
