#include "simulator/folding/symmetry.h"

#include <bit>
#include <numeric>
#include <unordered_map>

#include "simulator/devices/shared_compute.h"
#include "simulator/folding/interner.h"
#include "simulator/memory_tracker.h"

namespace unity {
namespace {

using Words = std::vector<std::uint64_t>;

constexpr std::uint32_t kNone = UINT32_MAX;

Classes classes_of(std::vector<std::uint32_t> of, std::size_t count) {
  Classes classes{std::move(of), std::vector<std::uint32_t>(count, kNone)};
  for (std::size_t i = classes.of.size(); i-- > 0;) classes.first[classes.of[i]] = static_cast<std::uint32_t>(i);
  return classes;
}

std::uint64_t word(double x) { return std::bit_cast<std::uint64_t>(x); }
std::uint64_t pair(std::uint32_t a, std::uint32_t b) { return static_cast<std::uint64_t>(a) << 32 | b; }

// A sorted list as (item, how often), so that long lists of few kinds are short.
void append_counted(Words& to, Words& items) {
  std::sort(items.begin(), items.end());
  for (std::size_t i = 0; i < items.size();) {
    std::size_t end = i;
    while (end < items.size() && items[end] == items[i]) ++end;
    to.push_back(items[i]);
    to.push_back(end - i);
    i = end;
  }
  to.push_back(UINT64_MAX);
}

class Refinement {
 public:
  Refinement(const PreparedProgram& prepared, const Topology& topology)
      : prepared_(prepared), program_(*prepared.program), topology_(topology) {}

  Symmetry run() {
    list_tasks();
    list_patterns();
    if (!foldable() || !split_dependencies() || !color_devices()) return different();
    color_rest();
    while (refine()) {
    }
    return result(device_, communication_, pattern_, link_);
  }

 private:
  struct Colors {
    std::vector<std::uint32_t> of;
    std::size_t count = 1;
  };
  // To a node of another kind, with a number.
  struct Edge {
    std::uint32_t to, number;
  };

  void list_tasks() {
    std::vector<std::size_t>& begin = symmetry_.tasks_begin;
    begin.assign(topology_.device_count() + 1, 0);
    auto for_devices = [&](const Task& task, auto use) {
      if (task.kind != TaskKind::communicate) return use(task.device.index());
      for (const Participant& p : program_.communications[static_cast<std::size_t>(task.op)].participants)
        use(p.device.index());
    };
    for (const Task& task : program_.tasks) for_devices(task, [&](std::size_t d) { ++begin[d + 1]; });
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    symmetry_.tasks.resize(begin.back());
    symmetry_.place.assign(program_.tasks.size(), kNone);
    parts_.resize(prepared_.choices.size());
    participant_.resize(begin.back());
    std::vector<std::size_t> next(begin.begin(), begin.end() - 1);
    std::vector<std::uint32_t> communications(topology_.device_count(), 0);
    for (std::size_t t = 0; t < program_.tasks.size(); ++t) {
      const Task& task = program_.tasks[t];
      for_devices(task, [&](std::size_t d) {
        if (task.kind != TaskKind::communicate) {
          symmetry_.place[t] = static_cast<std::uint32_t>(next[d] - begin[d]);
          if (prepared_.flows[t] != PreparedProgram::kNoFlow)
            parts_[prepared_.flows[t]].push_back({static_cast<std::uint32_t>(d), communications[d]++});
        } else {
          std::vector<Edge>& parts = parts_[static_cast<std::size_t>(task.op)];
          participant_[next[d]] = static_cast<std::uint32_t>(parts.size());
          parts.push_back({static_cast<std::uint32_t>(d), communications[d]++});
        }
        symmetry_.tasks[next[d]++] = static_cast<std::uint32_t>(t);
      });
    }
  }

  // What each participant of a communication brings of what it waits for: tasks of its own, and communications that it
  // took part in. False when something is brought by none.
  bool split_dependencies() {
    brought_.resize(program_.communications.size());
    std::vector<std::uint32_t> stamp(topology_.device_count(), kNone), participant(topology_.device_count());
    for (std::size_t t = 0; t < program_.tasks.size(); ++t) {
      const Task& task = program_.tasks[t];
      if (task.kind != TaskKind::communicate) continue;
      const std::vector<Edge>& parts = parts_[static_cast<std::size_t>(task.op)];
      Brought& brought = brought_[static_cast<std::size_t>(task.op)];
      for (std::size_t i = 0; i < parts.size(); ++i) {
        stamp[parts[i].to] = static_cast<std::uint32_t>(t);
        participant[parts[i].to] = static_cast<std::uint32_t>(i);
      }
      std::vector<Edge> edges;  // participant, task
      for (TaskId id : program_.dependencies_of(task)) {
        const Task& before = program_.tasks[id.index()];
        std::size_t known = edges.size();
        auto bring = [&](std::size_t device) {
          if (stamp[device] == t) edges.push_back({participant[device], static_cast<std::uint32_t>(id.value)});
        };
        if (before.kind != TaskKind::communicate)
          bring(before.device.index());
        else
          for (Edge part : parts_[static_cast<std::size_t>(before.op)]) bring(part.to);
        if (edges.size() == known) return false;
      }
      brought.begin.assign(parts.size() + 1, 0);
      for (Edge e : edges) ++brought.begin[e.to + 1];
      std::partial_sum(brought.begin.begin(), brought.begin.end(), brought.begin.begin());
      brought.tasks.resize(edges.size());
      std::vector<std::uint32_t> next(brought.begin.begin(), brought.begin.end() - 1);
      for (Edge e : edges) brought.tasks[next[e.to]++] = e.number;
    }
    return true;
  }

  void list_patterns() {
    std::unordered_map<const Pattern*, std::uint32_t> numbers;
    symmetry_.phases.resize(prepared_.choices.size());
    for (std::size_t c = 0; c < prepared_.choices.size(); ++c) {
      const CollectiveChoice* choice = prepared_.choices[c].get();
      if (!choice || !choice->shape) continue;
      for (const CollectivePhase& phase : choice->shape->phases) {
        auto [it, fresh] = numbers.try_emplace(phase.pattern, static_cast<std::uint32_t>(symmetry_.patterns.size()));
        if (fresh) symmetry_.patterns.push_back(phase.pattern), users_.emplace_back();
        users_[it->second].push_back(
            {static_cast<std::uint32_t>(c), static_cast<std::uint32_t>(symmetry_.phases[c].size())});
        symmetry_.phases[c].push_back(it->second);
      }
    }
    crossings_.resize(prepared_.capacities.size());
    for (std::size_t p = 0; p < symmetry_.patterns.size(); ++p)
      for (const LinkUse& use : symmetry_.patterns[p]->uses)
        crossings_[use.link].push_back({static_cast<std::uint32_t>(p), use.times});
  }

  bool foldable() const {
    SharedCompute shared(topology_, 0);
    for (std::size_t d = 0; d < topology_.device_count(); ++d)
      if (!shared.exclusive(DeviceId(static_cast<std::int64_t>(d)))) return false;
    for (std::size_t c = 0; c < prepared_.choices.size(); ++c)
      if (!prepared_.choices[c]) return false;
    return true;
  }

  std::uint64_t describe(BufferId id, bool persistent) const {
    const Buffer& b = program_.buffer(id);
    return static_cast<std::uint64_t>(program_.bytes_of(id).count) << 5 | static_cast<std::uint64_t>(b.category) << 2 |
           (b.on_host ? 2u : 0u) | (persistent ? 1u : 0u);
  }

  // By what a device does by itself. False when a task waits for one of another device.
  bool color_devices() {
    std::vector<std::uint32_t> place(program_.tasks.size()), owner(program_.tasks.size(), kNone);
    std::vector<std::uint32_t> buffer_place(program_.buffers.size()), buffer_owner(program_.buffers.size(), kNone);
    std::vector<BufferLife> lives = buffer_lives(program_);
    std::vector<std::vector<std::uint64_t>> persistent(topology_.device_count());  // what is there throughout
    for (std::size_t b = 0; b < lives.size(); ++b)
      if (lives[b].persistent)
        persistent[program_.buffers[b].device.index()].push_back(
            describe(BufferId(static_cast<std::int64_t>(b)), true));
    Interner intern;
    Words words;
    device_.of.resize(topology_.device_count());
    for (std::size_t d = 0; d < topology_.device_count(); ++d) {
      auto self = static_cast<std::uint32_t>(d);
      words = {topology_.devices[d].spec};
      append_counted(words, persistent[d]);
      std::uint32_t buffers = 0;
      std::size_t begin = symmetry_.tasks_begin[d], end = symmetry_.tasks_begin[d + 1];
      for (std::size_t i = begin; i < end; ++i) {
        std::uint32_t id = symmetry_.tasks[i];
        const Task& task = program_.tasks[id];
        place[id] = static_cast<std::uint32_t>(i - begin);
        owner[id] = self;
        bool communicates = task.kind == TaskKind::communicate;
        bool flows = prepared_.flows[id] != PreparedProgram::kNoFlow;
        words.push_back(static_cast<std::uint64_t>(task.stream) << 2 | (flows ? 2u : 0u) | (communicates ? 1u : 0u));
        if (!communicates)
          words.push_back(static_cast<std::uint64_t>(prepared_.times[id].alone.count) << 1 |
                          (prepared_.times[id].measured ? 1u : 0u));
        if (communicates) {
          const Brought& brought = brought_[static_cast<std::size_t>(task.op)];
          for (std::uint32_t k = brought.begin[participant_[i]]; k < brought.begin[participant_[i] + 1]; ++k)
            words.push_back(place[brought.tasks[k]]);
        } else {
          for (TaskId dependency : program_.dependencies_of(task)) {
            if (owner[dependency.index()] != self) return false;
            words.push_back(place[dependency.index()]);
          }
        }
        words.push_back(UINT64_MAX);
        auto use = [&](BufferId b) {
          bool fresh = buffer_owner[b.index()] != self;
          if (fresh) buffer_owner[b.index()] = self, buffer_place[b.index()] = buffers++;
          words.push_back(buffer_place[b.index()]);
          if (fresh) words.push_back(describe(b, lives[b.index()].persistent));
        };
        if (communicates) {
          const Communication& c = program_.communications[static_cast<std::size_t>(task.op)];
          for (std::size_t part = 0; part < c.part_count(); ++part) {
            const Participant& p = c.part(part)[participant_[i]];
            for (BufferId b : {p.send, p.receive})
              if (b.valid()) use(b);
          }
        } else {
          for_each_buffer(program_, task, use);
        }
        words.push_back(UINT64_MAX);
      }
      device_.of[d] = intern(words);
    }
    device_.count = intern.size();
    return true;
  }

  void color_rest() {
    Interner communications, links;
    Words words;
    communication_.of.resize(prepared_.choices.size());
    for (std::size_t c = 0; c < prepared_.choices.size(); ++c) {
      const CollectiveChoice& choice = *prepared_.choices[c];
      words = {c < program_.communications.size(), word(choice.bytes)};
      if (choice.shape) {
        words.push_back(static_cast<std::uint64_t>(choice.shape->algorithm));
        words.push_back(choice.shape->stages.size());
        for (const CollectivePhase& p : choice.shape->phases)
          words.insert(words.end(), {p.stage, word(p.share), word(p.drain), word(p.wait), p.pattern->hops,
                                     static_cast<std::uint64_t>(p.latency.count)});
      }
      communication_.of[c] = communications(words);
    }
    communication_.count = communications.size();
    link_.of.resize(prepared_.capacities.size());
    for (std::size_t l = 0; l < link_.of.size(); ++l) {
      words = {word(prepared_.capacities[l].rate)};
      link_.of[l] = links(words);
    }
    link_.count = links.size();
    pattern_.of.assign(symmetry_.patterns.size(), 0);
  }

  // One round; whether any class was split.
  bool refine() {
    Words items;
    std::size_t before = device_.count + communication_.count + pattern_.count + link_.count;
    recolor(communication_, [&](std::size_t c, Words& words) {
      items.clear();
      for (Edge e : parts_[c]) items.push_back(pair(device_.of[e.to], e.number));
      append_counted(words, items);
      for (std::uint32_t p : symmetry_.phases[c]) words.push_back(pattern_.of[p]);
    });
    recolor(pattern_, [&](std::size_t p, Words& words) {
      items.clear();
      for (const LinkUse& use : symmetry_.patterns[p]->uses) items.push_back(pair(link_.of[use.link], use.times));
      append_counted(words, items);
      items.clear();
      for (Edge e : users_[p]) items.push_back(pair(communication_.of[e.to], e.number));
      append_counted(words, items);
    });
    recolor(link_, [&](std::size_t l, Words& words) {
      items.clear();
      for (Edge e : crossings_[l]) items.push_back(pair(pattern_.of[e.to], e.number));
      append_counted(words, items);
    });
    recolor(device_, [&](std::size_t d, Words& words) {
      for (std::size_t i = symmetry_.tasks_begin[d]; i < symmetry_.tasks_begin[d + 1]; ++i) {
        std::uint32_t flow = prepared_.flows[symmetry_.tasks[i]];
        if (flow != PreparedProgram::kNoFlow) words.push_back(communication_.of[flow]);
      }
    });
    return device_.count + communication_.count + pattern_.count + link_.count > before;
  }

  // `describe` says how a member is joined to other kinds.
  template <class Describe>
  void recolor(Colors& colors, Describe describe) {
    Interner intern;
    Words words;
    for (std::size_t i = 0; i < colors.of.size(); ++i) {
      words = {colors.of[i]};
      describe(i, words);
      colors.of[i] = intern(words);
    }
    colors.count = intern.size();
  }

  Symmetry different() {
    auto own = [](std::size_t n) {
      Colors colors{std::vector<std::uint32_t>(n), n};
      std::iota(colors.of.begin(), colors.of.end(), 0u);
      return colors;
    };
    return result(own(topology_.device_count()), own(prepared_.choices.size()), own(symmetry_.patterns.size()),
                  own(prepared_.capacities.size()));
  }

  Symmetry result(Colors devices, Colors communications, Colors patterns, Colors links) {
    symmetry_.devices = classes_of(std::move(devices.of), devices.count);
    symmetry_.communications = classes_of(std::move(communications.of), communications.count);
    symmetry_.pattern_classes = classes_of(std::move(patterns.of), patterns.count);
    symmetry_.links = classes_of(std::move(links.of), links.count);
    return std::move(symmetry_);
  }

  const PreparedProgram& prepared_;
  const Program& program_;
  const Topology& topology_;
  Symmetry symmetry_;
  struct Brought {
    std::vector<std::uint32_t> begin, tasks;  // by participant
  };
  std::vector<Brought> brought_;            // by communication
  std::vector<std::uint32_t> participant_;  // by entry of Symmetry::tasks: of a communication, which one it is
  // By communication and copy to or from a host: device, the how manieth of them it is there.
  std::vector<std::vector<Edge>> parts_;
  std::vector<std::vector<Edge>> users_;      // by pattern: communication and phase
  std::vector<std::vector<Edge>> crossings_;  // by link: pattern and times
  Colors device_, communication_, pattern_, link_;
};

}  // namespace

Symmetry find_symmetry(const PreparedProgram& prepared, const Topology& topology) {
  return Refinement(prepared, topology).run();
}

}  // namespace unity
