// SimGrid's answer to what Unity's network engine simulates: the same links, routes and flows, max-min fair.
//
//   peer flows FILE        when each flow ends: "NUMBER SECONDS" a line
//   peer ring FILE N BYTES a ring all-reduce over hosts 0 to N-1, one actor each: "TRANSFERS END_SECONDS
//   PROCESSOR_SECONDS"
//
// FILE: "links N", a line "BYTES_PER_SECOND LATENCY" each; "routes N", a line "FROM TO COUNT LINK..." each; "flows N",
// a line "FROM TO BYTES START LATENCY COUNT AFTER..." each, a number for each host, link and flow, times in seconds.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <simgrid/s4u.hpp>

namespace sg4 = simgrid::s4u;

namespace {

struct Link {
  double bandwidth, latency;
};
struct Route {
  int from, to;
  std::vector<std::size_t> links;
};
struct Flow {
  int from, to;
  double bytes, start, latency;
  std::vector<std::size_t> after;
};
struct Network {
  std::vector<Link> links;
  std::vector<Route> routes;
  std::vector<Flow> flows;
};

std::size_t read_count(std::istream& in, const std::string& expected) {
  std::string word;
  std::size_t count = 0;
  if (!(in >> word >> count) || word != expected)
    throw std::runtime_error("found '" + word + "', expected " + expected);
  return count;
}

std::vector<std::size_t> read_list(std::istream& in) {
  std::size_t count = 0;
  in >> count;
  std::vector<std::size_t> list(count);
  for (std::size_t& entry : list) in >> entry;
  return list;
}

Network read_network(const std::string& file) {
  std::ifstream in(file);
  Network network;
  network.links.resize(read_count(in, "links"));
  for (Link& l : network.links) in >> l.bandwidth >> l.latency;
  network.routes.resize(read_count(in, "routes"));
  for (Route& r : network.routes) {
    in >> r.from >> r.to;
    r.links = read_list(in);
  }
  network.flows.resize(read_count(in, "flows"));
  for (Flow& f : network.flows) {
    in >> f.from >> f.to >> f.bytes >> f.start >> f.latency;
    f.after = read_list(in);
  }
  if (!in) throw std::runtime_error(file + ": truncated");
  return network;
}

// `latencies`: links have theirs. SimGrid divides a link among flows by their latencies (round-trip times of TCP), so
// where links are shared, actors wait the latency instead and links have none: then sharing is plain max-min.
std::vector<sg4::Host*> build(const Network& network, bool latencies) {
  sg4::NetZone* zone = sg4::create_full_zone("machine");
  int hosts = 0;
  for (const Route& r : network.routes) hosts = std::max({hosts, r.from + 1, r.to + 1});
  for (const Flow& f : network.flows) hosts = std::max({hosts, f.from + 1, f.to + 1});
  std::vector<sg4::Host*> result;
  for (int h = 0; h < hosts; ++h) result.push_back(zone->create_host("h" + std::to_string(h), 1e9)->seal());
  std::vector<sg4::Link*> links;
  for (std::size_t l = 0; l < network.links.size(); ++l)
    links.push_back(zone->create_link("l" + std::to_string(l), network.links[l].bandwidth)
                        ->set_latency(latencies ? network.links[l].latency : 0)
                        ->seal());
  for (const Route& r : network.routes) {
    std::vector<sg4::LinkInRoute> path;
    for (std::size_t l : r.links) path.emplace_back(links[l]);
    zone->add_route(result[static_cast<std::size_t>(r.from)]->get_netpoint(),
                    result[static_cast<std::size_t>(r.to)]->get_netpoint(), nullptr, nullptr, path, false);
  }
  zone->seal();
  return result;
}

void simulate_flows(sg4::Engine& engine, const Network& network) {
  std::vector<sg4::Host*> hosts = build(network, false);
  std::vector<sg4::ActorPtr> actors(network.flows.size());
  std::vector<double> ends(network.flows.size());
  for (std::size_t i = 0; i < network.flows.size(); ++i) {
    const Flow& flow = network.flows[i];
    sg4::Host *from = hosts[static_cast<std::size_t>(flow.from)], *to = hosts[static_cast<std::size_t>(flow.to)];
    actors[i] = sg4::Actor::create("f" + std::to_string(i), from, [&actors, &ends, &flow, from, to, i] {
      for (std::size_t before : flow.after) actors[before]->join();
      if (flow.start > sg4::Engine::get_clock()) sg4::this_actor::sleep_until(flow.start);
      if (flow.latency > 0) sg4::this_actor::sleep_for(flow.latency);
      if (flow.bytes > 0 && from != to) sg4::Comm::sendto(from, to, static_cast<std::uint64_t>(flow.bytes));
      ends[i] = sg4::Engine::get_clock();
    });
  }
  engine.run();
  for (std::size_t i = 0; i < ends.size(); ++i) std::printf("%zu %.17g\n", i, ends[i]);
}

void simulate_ring(sg4::Engine& engine, const Network& network, std::size_t n, std::uint64_t bytes) {
  std::vector<sg4::Host*> hosts = build(network, true);
  std::vector<sg4::Mailbox*> boxes;
  for (std::size_t i = 0; i < n; ++i) boxes.push_back(sg4::Mailbox::by_name("m" + std::to_string(i)));
  std::size_t steps = 2 * (n - 1);
  int token = 0;
  for (std::size_t i = 0; i < n; ++i) {
    sg4::Mailbox *mine = boxes[i], *next = boxes[(i + 1) % n];
    sg4::Actor::create("a" + std::to_string(i), hosts[i], [&token, mine, next, steps, part = bytes / n] {
      for (std::size_t s = 0; s < steps; ++s) {
        sg4::CommPtr sending = next->put_async(&token, part);
        mine->get<int>();
        sending->wait();
      }
    });
  }
  std::clock_t begin = std::clock();
  engine.run();
  double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  std::printf("%zu %.17g %.9g\n", steps * n, sg4::Engine::get_clock(), seconds);
}

}  // namespace

int main(int argc, char** argv) {
  sg4::Engine engine(&argc, argv);
  std::string mode = argc > 2 ? argv[1] : "";
  if (mode == "flows" && argc == 3) {
    simulate_flows(engine, read_network(argv[2]));
  } else if (mode == "ring" && argc == 5) {
    simulate_ring(engine, read_network(argv[2]), std::stoul(argv[3]), std::stoull(argv[4]));
  } else {
    std::fprintf(stderr, "usage: peer flows FILE | peer ring FILE N BYTES\n");
    return 2;
  }
  return 0;
}
