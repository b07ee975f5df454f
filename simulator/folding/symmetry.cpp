#include "simulator/folding/symmetry.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "simulator/devices/shared_compute.h"
#include "simulator/folding/interner.h"
#include "simulator/task_buffers.h"

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
    if (!foldable() || !color_devices()) return different();
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
    std::vector<std::size_t> next(begin.begin(), begin.end() - 1);
    communications_.resize(topology_.device_count());
    for (std::size_t t = 0; t < program_.tasks.size(); ++t) {
      const Task& task = program_.tasks[t];
      for_devices(task, [&](std::size_t d) {
        if (task.kind != TaskKind::communicate) {
          symmetry_.place[t] = static_cast<std::uint32_t>(next[d] - begin[d]);
        }
        if (task.kind == TaskKind::communicate || prepared_.flows[t] != PreparedProgram::kNoFlow) {
          std::size_t index =
              task.kind == TaskKind::communicate ? static_cast<std::size_t>(task.op) : prepared_.flows[t];
          parts_[index].push_back(
              {static_cast<std::uint32_t>(d), static_cast<std::uint32_t>(communications_[d].size())});
          communications_[d].push_back(static_cast<std::uint32_t>(t));
        }
        symmetry_.tasks[next[d]++] = static_cast<std::uint32_t>(t);
      });
    }
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

  static std::uint64_t describe(const BufferEntry& b) {
    return static_cast<std::uint64_t>(b.bytes.count) << 5 | static_cast<std::uint64_t>(b.category) << 2 |
           (b.on_host ? 2u : 0u) | (b.persistent ? 1u : 0u);
  }

  // What each device does by itself, word by word. Task by task, as memory has them, not device by device: so the words
  // of all devices grow together. A device's words are replaced by a number now and then, at places that depend on
  // them alone.
  class DeviceWords {
   public:
    explicit DeviceWords(std::size_t devices) : words_(devices, Words{kFirst}) {}
    Words& of(std::size_t device) { return words_[device]; }
    void end_task(std::size_t device) {
      if (words_[device].size() >= kMost) words_[device] = {intern_(words_[device])};
    }
    Colors colors() {
      Colors colors;
      Interner classes;
      for (Words& words : words_) {
        std::uint64_t number = intern_(words);
        colors.of.push_back(classes({&number, 1}));
      }
      colors.count = classes.size();
      return colors;
    }

   private:
    static constexpr std::uint64_t kFirst = UINT64_MAX;  // no number
    static constexpr std::size_t kMost = 256;
    std::vector<Words> words_;
    Interner intern_;
  };

  // Places of tasks and of communications among those of a device.
  std::uint64_t own_task(std::size_t task) const { return symmetry_.place[task]; }
  static std::uint64_t own_communication(std::size_t number) { return std::uint64_t{1} << 32 | number; }

  // By what a device does by itself. False when a task waits for one of another device, or a communication for one of
  // a device that has no part in it.
  bool color_devices() {
    const std::vector<BufferEntry>& buffers = prepared_.buffers.entries();
    std::vector<Words> persistent(topology_.device_count());  // what is there throughout
    for (const BufferEntry& b : buffers)
      if (b.persistent) persistent[b.device].push_back(describe(b));
    DeviceWords devices(topology_.device_count());
    for (std::size_t d = 0; d < topology_.device_count(); ++d) {
      devices.of(d).push_back(topology_.devices[d].spec);
      append_counted(devices.of(d), persistent[d]);
    }
    // By buffer: the how manieth that its device uses.
    std::vector<std::uint32_t> place(buffers.size(), kNone), used(topology_.device_count(), 0);
    auto use = [&](BufferId id, Words& words) {
      std::uint32_t& own = place[id.index()];
      bool fresh = own == kNone;
      if (fresh) own = used[buffers[id.index()].device]++;
      words.push_back(own);
      if (fresh) words.push_back(describe(buffers[id.index()]));
    };
    std::vector<std::uint32_t> part_in(topology_.device_count(), kNone);  // by device: the last communication's task
    for (std::size_t t = 0; t < program_.tasks.size(); ++t) {
      const Task& task = program_.tasks[t];
      if (task.kind == TaskKind::communicate) {
        if (!add_communication(t, part_in, devices, use)) return false;
        continue;
      }
      std::size_t d = task.device.index();
      Words& words = devices.of(d);
      bool flows = prepared_.flows[t] != PreparedProgram::kNoFlow;
      words.push_back(static_cast<std::uint64_t>(task.stream) << 2 | (flows ? 2u : 0u));
      words.push_back(static_cast<std::uint64_t>(prepared_.times[t].alone.count) << 1 |
                      (prepared_.times[t].measured ? 1u : 0u));
      for (TaskId dependency : program_.dependencies_of(task)) {
        std::optional<std::uint64_t> own = own_place(d, dependency);
        if (!own) return false;
        words.push_back(*own);
      }
      words.push_back(UINT64_MAX);
      for_each_buffer(program_, task, [&](BufferId b) { use(b, words); });
      words.push_back(UINT64_MAX);
      devices.end_task(d);
    }
    device_ = devices.colors();
    return true;
  }

  // Each participant brings what it has done of what the communication waits for. False when something is brought by
  // none.
  template <class Use>
  bool add_communication(std::size_t t, std::vector<std::uint32_t>& part_in, DeviceWords& devices, Use use) {
    const Task& task = program_.tasks[t];
    const Communication& c = program_.communications[static_cast<std::size_t>(task.op)];
    for (const Participant& p : c.participants) {
      part_in[p.device.index()] = static_cast<std::uint32_t>(t);
      devices.of(p.device.index()).push_back(static_cast<std::uint64_t>(task.stream) << 2 | 1u);
    }
    for (TaskId id : program_.dependencies_of(task)) {
      const Task& before = program_.tasks[id.index()];
      bool brought = false;
      auto bring = [&](std::size_t device, std::uint64_t own) {
        if (part_in[device] != t) return;
        devices.of(device).push_back(own);
        brought = true;
      };
      if (before.kind != TaskKind::communicate)
        bring(before.device.index(), own_task(id.index()));
      else
        for (Edge part : parts_[static_cast<std::size_t>(before.op)]) bring(part.to, own_communication(part.number));
      if (!brought) return false;
    }
    for (std::size_t i = 0; i < c.participants.size(); ++i) {
      std::size_t d = c.participants[i].device.index();
      Words& words = devices.of(d);
      words.push_back(UINT64_MAX);
      for (std::size_t part = 0; part < c.part_count(); ++part)
        for (BufferId b : {c.part(part)[i].send, c.part(part)[i].receive})
          if (b.valid()) use(b, words);
      words.push_back(UINT64_MAX);
      devices.end_task(d);
    }
    return true;
  }

  // Where a task stands among those of a device; none when it is another one's.
  std::optional<std::uint64_t> own_place(std::size_t device, TaskId id) const {
    const Task& task = program_.tasks[id.index()];
    if (task.kind != TaskKind::communicate)
      return task.device.index() == device ? std::optional(own_task(id.index())) : std::nullopt;
    const std::vector<std::uint32_t>& own = communications_[device];
    auto found = std::lower_bound(own.begin(), own.end(), static_cast<std::uint32_t>(id.value));
    if (found == own.end() || *found != static_cast<std::uint32_t>(id.value)) return std::nullopt;
    return own_communication(static_cast<std::size_t>(found - own.begin()));
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
      for (std::uint32_t t : communications_[d]) words.push_back(communication_.of[prepared_.flows[t]]);
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
  // By device: its tasks that are communications, or copies to and from its host that cross links.
  std::vector<std::vector<std::uint32_t>> communications_;
  std::vector<std::vector<Edge>> parts_;      // by communication and copy: device, the how manieth of them it is there
  std::vector<std::vector<Edge>> users_;      // by pattern: communication and phase
  std::vector<std::vector<Edge>> crossings_;  // by link: pattern and times
  Colors device_, communication_, pattern_, link_;
};

}  // namespace

Symmetry find_symmetry(const PreparedProgram& prepared, const Topology& topology) {
  return Refinement(prepared, topology).run();
}

}  // namespace unity
