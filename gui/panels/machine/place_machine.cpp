#include <algorithm>
#include <cmath>
#include <functional>

#include "gui/panels/machine/places.h"

namespace unity::gui {
namespace {

constexpr float kDeviceW = 56, kDeviceH = 44, kGap = 10, kPad = 10, kTitle = 18, kSwitchH = 20, kLetter = 6.6f;

std::vector<std::string> components(const std::string& name) {
  std::vector<std::string> parts(1);
  for (char c : name)
    if (c == '.')
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

// A part of the hierarchy with what stands in it.
struct Tree {
  std::string path, title;
  std::size_t level = 0;
  std::vector<int> children;  // parts
  std::vector<DeviceId> devices;
  std::vector<VertexId> switches;
  Rect box;
};

class Placer {
 public:
  Placer(const Topology& topology, double aspect) : topology_(topology), aspect_(aspect) {}

  MachinePlaces place() {
    places_.devices.resize(topology_.device_count());
    places_.device_names.resize(topology_.device_count());
    places_.switches.resize(topology_.vertices.size());
    places_.switch_names.resize(topology_.vertices.size());
    trees_.push_back({});
    for (std::size_t d = 0; d < topology_.device_count(); ++d) add_device(DeviceId(static_cast<std::int64_t>(d)));
    for (std::size_t v = 0; v < topology_.vertices.size(); ++v)
      if (!topology_.vertices[v].device.valid()) add_switch(VertexId(static_cast<std::int64_t>(v)));
    size(0);
    move(0, {0, 0});
    places_.bounds = trees_[0].box;
    for (std::size_t t = 1; t < trees_.size(); ++t)
      places_.parts.push_back({trees_[t].level, trees_[t].title, trees_[t].box, !trees_[t].children.empty()});
    std::stable_sort(places_.parts.begin(), places_.parts.end(),
                     [](const auto& a, const auto& b) { return a.level < b.level; });
    add_wires();
    for (int outer : trees_[0].children) place_far(outer);
    if (std::any_of(places_.far_devices.begin(), places_.far_devices.end(), [](const Rect& r) { return r.w <= 0; }))
      places_.far_devices.clear();  // some stand in no part
    return std::move(places_);
  }

 private:
  Tree& at(int i) { return trees_[static_cast<std::size_t>(i)]; }

  int part(const std::string& path, int parent, const std::string& title, std::size_t level) {
    for (int child : at(parent).children)
      if (at(child).path == path) return child;
    int index = static_cast<int>(trees_.size());
    trees_.push_back({path, title, level, {}, {}, {}, {}});
    at(parent).children.push_back(index);
    return index;
  }

  void add_device(DeviceId id) {
    std::vector<std::string> words = components(topology_.device(id).name);
    int parent = 0;
    std::string path;
    for (std::size_t i = 0; i + 1 < words.size(); ++i) {
      path += (i ? "." : "") + words[i];
      parent = part(path, parent, words[i], i);
    }
    at(parent).devices.push_back(id);
    places_.device_names[id.index()] = words.back();
  }

  // In the part whose path its name begins with.
  void add_switch(VertexId id) {
    std::vector<std::string> words = components(topology_.vertices[id.index()].name);
    int parent = 0;
    std::string path;
    for (std::size_t i = 0; i + 1 < words.size(); ++i) {
      path += (i ? "." : "") + words[i];
      auto next = std::find_if(at(parent).children.begin(), at(parent).children.end(),
                               [&](int child) { return at(child).path == path; });
      if (next == at(parent).children.end()) break;
      parent = *next;
    }
    at(parent).switches.push_back(id);
    places_.switch_names[id.index()] = words.back();
  }

  // The number of columns with which `count` boxes of one size come closest to the aspect.
  std::size_t columns(std::size_t count, float w, float h, double aspect) const {
    std::size_t best = 1;
    double worst = 1e30;
    for (std::size_t c = 1; c <= count; ++c) {
      auto rows = static_cast<double>((count + c - 1) / c);
      double is = (static_cast<double>(c) * (w + kGap)) / (rows * (h + kGap));
      double off = std::abs(std::log(is / aspect)) + (count % c == 0 ? 0 : 0.35);
      if (off < worst) worst = off, best = c;
    }
    return best;
  }

  float switch_width(VertexId id) const {
    return static_cast<float>(places_.switch_names[id.index()].size()) * kLetter + 14;
  }

  // Sets sizes, and places within the part; move() makes them absolute.
  void size(int index) {
    for (int child : std::vector<int>(at(index).children)) size(child);
    Tree& tree = at(index);
    bool outermost = index == 0;
    float top = outermost               ? kPad
                : tree.children.empty() ? kTitle + 6
                                        : 2.4f * kTitle,
          width = outermost ? 0 : static_cast<float>(tree.title.size()) * kLetter + 24;
    std::vector<Rect*> boxes;
    for (int child : tree.children) boxes.push_back(&at(child).box);
    for (DeviceId d : tree.devices) {
      places_.devices[d.index()] = {0, 0, kDeviceW, kDeviceH};
      boxes.push_back(&places_.devices[d.index()]);
    }
    float w = 0, h = 0;
    for (const Rect* box : boxes) w = std::max(w, box->w), h = std::max(h, box->h);
    double aspect = outermost ? aspect_ : tree.children.empty() ? 4.0 : 1.6;
    std::size_t in_row = boxes.empty() ? 1 : columns(boxes.size(), w, h, aspect);
    float grid = static_cast<float>(in_row) * (w + kGap) - kGap;
    // Switches in rows above, as wide as the rest.
    float x = 0, y = top;
    std::vector<std::pair<std::size_t, Rect>> switches;
    float room = std::max({grid, width, 120.0f});
    for (VertexId v : tree.switches) {
      float sw = switch_width(v);
      if (x > 0 && x + sw > room) x = 0, y += kSwitchH + 6;
      switches.emplace_back(v.index(), Rect{kPad + x, y, sw, kSwitchH});
      x += sw + 8;
      width = std::max(width, x - 8);
    }
    if (tree.switches.size() == 1 && grid > switches[0].second.w)
      switches[0].second.x = kPad + (grid - switches[0].second.w) / 2;
    for (auto& [v, box] : switches) places_.switches[v] = box;
    if (!tree.switches.empty()) y += kSwitchH + kGap + 6;
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      boxes[i]->x = kPad + static_cast<float>(i % in_row) * (w + kGap);
      boxes[i]->y = y + static_cast<float>(i / in_row) * (h + kGap);
    }
    float rows = static_cast<float>((boxes.size() + in_row - 1) / in_row);
    width = std::max(width, grid);
    // Links between devices of a row bow below it.
    float below = tree.devices.size() > 1 ? 14 : 0;
    tree.box = {0, 0, width + 2 * kPad, y + rows * (h + kGap) - kGap + kPad + below};
  }

  void move(int index, Point by) {
    Tree& tree = at(index);
    tree.box.x += by.x, tree.box.y += by.y;
    Point inner{tree.box.x, tree.box.y};
    for (DeviceId d : tree.devices) {
      places_.devices[d.index()].x += inner.x, places_.devices[d.index()].y += inner.y;
      home_[topology_.device(d).vertex.value] = index;
    }
    for (VertexId v : tree.switches) {
      places_.switches[v.index()].x += inner.x, places_.switches[v.index()].y += inner.y;
      home_[v.value] = index;
    }
    for (int child : std::vector<int>(tree.children)) {
      parent_[child] = index;
      move(child, inner);
    }
  }

  void devices_in(int tree, std::vector<DeviceId>& devices) {
    devices.insert(devices.end(), at(tree).devices.begin(), at(tree).devices.end());
    for (int child : at(tree).children) devices_in(child, devices);
  }

  // The part's title above, below it all its devices in cells as large as there is room for.
  void place_far(int tree) {
    places_.far_devices.resize(topology_.device_count());
    std::vector<DeviceId> devices;
    devices_in(tree, devices);
    if (devices.empty()) return;
    Rect box = at(tree).box;
    float title = 0.3f * box.h;
    Rect inner{box.x + 0.03f * box.w, box.y + title, 0.94f * box.w, box.h - title - 0.05f * box.h};
    std::size_t best = 1;
    float worst = 1e30f;
    for (std::size_t c = 1; c <= devices.size(); ++c) {
      auto rows = static_cast<float>((devices.size() + c - 1) / c);
      float shape = (inner.w / static_cast<float>(c)) / (inner.h / rows);
      float off = std::abs(std::log(shape / 1.7f)) + (devices.size() % c == 0 ? 0 : 0.4f);
      if (off < worst) worst = off, best = c;
    }
    float w = inner.w / static_cast<float>(best), h = inner.h / static_cast<float>((devices.size() + best - 1) / best);
    for (std::size_t i = 0; i < devices.size(); ++i)
      places_.far_devices[devices[i].index()] = {inner.x + w * (static_cast<float>(i % best) + 0.04f),
                                                 inner.y + h * (static_cast<float>(i / best) + 0.04f), 0.92f * w,
                                                 0.92f * h};
    places_.far_titles.emplace_back(Rect{inner.x, box.y, inner.w, title}, at(tree).title);
  }

  Rect box_of(VertexId v) const {
    DeviceId d = topology_.vertices[v.index()].device;
    return d.valid() ? places_.devices[d.index()] : places_.switches[v.index()];
  }

  std::vector<int> outwards(int tree) const {
    std::vector<int> path = {tree};
    for (auto up = parent_.find(tree); up != parent_.end(); up = parent_.find(path.back())) path.push_back(up->second);
    return path;
  }

  void add_wires() {
    std::map<std::pair<VertexId, VertexId>, std::size_t> known;
    for (std::size_t l = 0; l < topology_.links.size(); ++l) {
      const Link& link = topology_.links[l];
      if (link.from == link.to) continue;
      LinkId id(static_cast<std::int64_t>(l));
      if (auto other = known.find({link.to, link.from}); other != known.end()) {
        if (!places_.wires[other->second].back.valid()) {
          places_.wires[other->second].back = id;
          continue;
        }
      }
      known.emplace(std::pair(link.from, link.to), places_.wires.size());
      MachinePlaces::Wire wire;
      wire.forward = id;
      wire.path = route(box_of(link.from), box_of(link.to));
      std::vector<int> a = outwards(home_[link.from.value]), b = outwards(home_[link.to.value]);
      int common = 0;
      while (!a.empty() && !b.empty() && a.back() == b.back()) common = a.back(), a.pop_back(), b.pop_back();
      wire.depth = common == 0 ? 0 : at(common).level + 1;
      wire.around = at(common).box;
      places_.wires.push_back(std::move(wire));
    }
  }

  // Neighbours in a row are joined by a straight line, others of that row below it.
  static std::vector<Point> route(const Rect& a, const Rect& b) {
    Point p = a.center(), q = b.center();
    if (std::abs(p.y - q.y) < 1 && std::abs(p.x - q.x) > 1) {
      const Rect &left = p.x < q.x ? a : b, &right = p.x < q.x ? b : a;
      if (right.x - left.right() < kGap + 1) return {{left.right(), p.y}, {right.x, p.y}};
      float bottom = std::max(left.bottom(), right.bottom());
      std::vector<Point> path;
      constexpr int kPieces = 10;
      for (int i = 0; i <= kPieces; ++i) {
        float t = static_cast<float>(i) / kPieces;
        path.push_back({left.center().x + (right.center().x - left.center().x) * t, bottom + 10 * 4 * t * (1 - t)});
      }
      return path;
    }
    if (a.bottom() <= b.y) return {{p.x, a.bottom()}, {q.x, b.y}};
    if (b.bottom() <= a.y) return {{p.x, a.y}, {q.x, b.bottom()}};
    return {p, q};
  }

  const Topology& topology_;
  double aspect_;
  MachinePlaces places_;
  std::vector<Tree> trees_;
  std::map<std::int32_t, int> home_;  // by vertex
  std::map<int, int> parent_;
};

}  // namespace

bool is_far(const MachinePlaces& places, float pixels_per_unit) {
  return !places.far_devices.empty() && places.far_titles.size() > 1 && kDeviceH * pixels_per_unit < 22;
}

MachinePlaces place_machine(const Topology& topology, double aspect) { return Placer(topology, aspect).place(); }

}  // namespace unity::gui
