// Several processes that run one program, on a transport in memory.

#include <atomic>
#include <filesystem>
#include <mutex>
#include <set>

#include <catch2/catch.hpp>
#include <unistd.h>

#include "core/graph/evaluate.h"
#include "core/models/models.h"
#include "core/plan/lower.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/open_processes.h"
#include "runtime/comm/places.h"
#include "runtime/profile/collectives.h"
#include "runtime/profile/measure.h"
#include "runtime/train.h"
#include "tests/support/fake_processes.h"
#include "tests/support/paths.h"
#include "tests/support/plan_builder.h"
#include "tests/support/random_plan.h"
#include "tests/support/stub_cost_model.h"
#include "tests/support/training_run.h"

using namespace unity;
using namespace unity::test;
using namespace std::chrono_literals;

namespace {

namespace fs = std::filesystem;

std::vector<std::byte> bytes_of(std::string_view text) {
  auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}
std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool says(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    if (text.find(part) == std::string::npos) {
      UNSCOPED_INFO("'" << text << "' does not say '" << part << "'");
      return false;
    }
  return true;
}

Program data_parallel(const std::string& model, int devices, const std::string& optimizer = "sgd 0.01 momentum=0.9") {
  Pcg serial = normalize(build_model({model, {{"batch", 12}}}));
  State state{serial, {}, {}};
  if (devices > 1) {
    auto next = apply_move(state, {Move::Kind::replicate_all, 0, 0, devices});
    REQUIRE(next.ok());
    state = std::move(*next);
  }
  return lower(state.pcg, test::natural_mappings(state.pcg), uniform_topology(devices),
               {true, parse_optimizer(optimizer)})
      .value();
}

struct Trained {
  std::vector<double> losses;
  std::map<std::string, HostTensor> state;
  bool operator==(const Trained&) const = default;
};

constexpr int kSteps = 3;

Trained train_steps(const Program& program, const std::map<std::string, HostTensor>& inputs, Processes* processes) {
  Executor executor(program, {.seed = 7, .processes = processes});
  for (const ProgramLeaf& leaf : executor.inputs()) executor.set_input(leaf.name, inputs.at(leaf.name));
  Trained t;
  for (int i = 0; i < kSteps; ++i) t.losses.push_back(executor.step().loss);
  for (const StateTensor& s : executor.state()) t.state.emplace(s.name, executor.state(s.name));
  executor.check_replicas();
  return t;
}

}  // namespace

TEST_CASE("a wait that no message ends has an end when another process gives up or goes silent") {
  const std::vector<int> other = {1};
  FakeNetwork network(2);
  auto outcomes = on_processes(
      network,
      [&](Processes& p) {
        p.barrier();
        if (p.rank() == 1) return network.silence(1);
        auto since = Processes::Clock::now();
        p.require_there(other, since, "its part of a wait");  // is there still
        while (Processes::Clock::now() < since + 10s) {
          p.require_there(other, since, "its part of a wait");
          std::this_thread::sleep_for(5ms);
        }
      },
      300ms);
  CHECK(says(outcomes[0].error, {"rank 1 was silent for 0.3 s", "its part of a wait"}));
  outcomes = on_processes(2, [&](Processes& p) {
    if (p.rank() == 1) p.give_up("of hunger", 3);
    auto since = Processes::Clock::now();
    while (Processes::Clock::now() < since + 10s) p.require_there(other, since, "its part of a wait");
  });
  CHECK(says(outcomes[0].error, {"rank 1 gave up: of hunger"}));
}

TEST_CASE("all-gather brings every process everyone's bytes, whole and in parts, empty ones too") {
  const std::vector<std::string> said = {"", "a", std::string(1000, 'b'), "cc"};
  for (std::size_t part : {std::size_t{7}, std::size_t{1} << 20}) {
    std::atomic<int> right = 0;
    auto outcomes = on_processes(
        4,
        [&](Processes& p) {
          for (int round = 0; round < 3; ++round) {
            auto all = p.all_gather(bytes_of(said[static_cast<std::size_t>(p.rank())]));
            for (std::size_t r = 0; r < 4; ++r) right += text_of(all[r]) == said[r];
          }
        },
        60s, part);
    for (const Outcome& o : outcomes) CHECK(o.error.empty());
    CHECK(right == 4 * 4 * 3);
  }
}

TEST_CASE("an exchange goes only where it is meant to go") {
  // Each to the next; rank 2 sends nothing.
  std::atomic<int> right = 0;
  on_all(3, [&](Processes& p) {
    auto self = static_cast<std::size_t>(p.rank()), next = (self + 1) % 3, previous = (self + 2) % 3;
    BytesByRank out(3);
    std::vector<bool> from(3, false);
    if (self != 2) out[next] = bytes_of(std::to_string(self));
    from[previous] = previous != 2;
    BytesByRank in = p.exchange(out, from, "numbers");
    right += text_of(in[previous]) == (previous == 2 ? "" : std::to_string(previous));
  });
  CHECK(right == 3);
}

TEST_CASE("values that must be equal are: all processes name those that differ") {
  auto outcomes =
      on_processes(3, [](Processes& p) { p.require_equal("the plan", p.rank() == 2 ? "another" : "this one"); });
  for (const Outcome& o : outcomes) CHECK(says(o.error, {"the plan", "rank 0 has this one", "rank 2 has another"}));
  for (const Outcome& o : outcomes) CHECK(o.error.find("rank 1") == std::string::npos);
}

TEST_CASE("processes of another Unity, or with another MPI, are refused: all say which rank has what") {
  FakeNetwork network(3);
  const std::string ours = "Open MPI v4.1.4, package: a", theirs = "Open MPI v5.0.1, package: b";
  // How it was built, beyond the first 60 characters, does not count.
  for (int rank : {0, 1, 2}) network.set_version(rank, ours + std::string(60, '.') + std::to_string(rank));
  for (const Outcome& o : on_processes(network, [](Processes& p) { require_same_versions(p, "1.0.0 abc"); }))
    CHECK(o.error.empty());
  auto another_unity = [](Processes& p) { require_same_versions(p, p.rank() == 1 ? "1.0.0 abd" : "1.0.0 abc"); };
  FakeNetwork again(3);
  for (int rank : {0, 1, 2}) again.set_version(rank, ours);
  for (const Outcome& o : on_processes(again, another_unity)) {
    CHECK(
        says(o.error, {"versions", "rank 0 has unity 1.0.0 abc on " + ours, "rank 1 has unity 1.0.0 abd on " + ours}));
    CHECK(o.error.find("rank 2") == std::string::npos);
  }
  FakeNetwork mixed(3);
  for (int rank : {0, 1, 2}) mixed.set_version(rank, rank == 2 ? theirs : ours);
  for (const Outcome& o : on_processes(mixed, [](Processes& p) { require_same_versions(p, "1.0.0 abc"); })) {
    CHECK(says(o.error,
               {"versions", "rank 0 has unity 1.0.0 abc on " + ours, "rank 2 has unity 1.0.0 abc on " + theirs}));
    CHECK(o.error.find("rank 1") == std::string::npos);
  }
}

TEST_CASE(
    "messages that come before a communicator is there wait for it, in order; those that come after it are gone") {
  on_all(2, [](Processes& p) {
    std::int32_t a = 1, b = 2, x = 0;
    auto sends = [&](Communicator& c, std::int32_t& v) {
      c.send(DeviceId(0), DeviceId(1), 5, std::as_bytes(std::span(&v, 1)));
    };
    auto receives = [&](Communicator& c) {
      c.receive(DeviceId(0), DeviceId(1), 5, std::as_writable_bytes(std::span(&x, 1)));
      return x;
    };
    if (p.rank() == 0) {
      auto first = make_communicator(2, p);
      sends(*first, a), sends(*first, b);
      p.barrier();
      auto second = make_communicator(2, p);
      sends(*second, b);
      p.barrier();
      p.barrier();
      sends(*first, a);  // the other side is closed
      p.barrier();
    } else {
      p.barrier();
      auto first = make_communicator(2, p);
      p.barrier();
      if (receives(*first) != 1 || receives(*first) != 2) throw std::runtime_error("out of order");
      first.reset();
      auto second = make_communicator(2, p);
      if (receives(*second) != 2) throw std::runtime_error("another communicator's message");
      p.barrier();
      p.barrier();
    }
  });
}

TEST_CASE("a process that works for long is not taken for lost, one that is silent is, by its own name") {
  auto slow = on_processes(
      3,
      [](Processes& p) {
        if (p.rank() == 1) std::this_thread::sleep_for(800ms);
        p.barrier();
      },
      300ms);
  for (const Outcome& o : slow) CHECK(o.error.empty());
  FakeNetwork network(3);
  auto lost = on_processes(
      network,
      [&](Processes& p) {
        if (p.rank() == 1) return network.silence(1);
        // Rank 2 waits for rank 1, rank 0 for rank 2.
        std::vector<bool> from(3, false);
        from[p.rank() == 2 ? 1 : 2] = true;
        BytesByRank none(3);
        try {
          p.exchange(none, from, "a number");
        } catch (const ProcessFailure& e) {
          p.give_up(e.what(), 1);
        }
      },
      300ms);
  CHECK(lost[2].exit_code == 1);
  CHECK(lost[0].exit_code == 1);
}

TEST_CASE("a step that waits for a silent process names the rank, the task and the collective") {
  Program program = data_parallel("mlp-tiny", 2);
  auto inputs = random_inputs(build_model({"mlp-tiny", {{"batch", 12}}}), 3);
  FakeNetwork network(2);
  std::mutex mutex;
  auto outcomes = on_processes(
      network,
      [&](Processes& p) {
        Executor executor(program, {.seed = 7, .processes = &p});
        for (const ProgramLeaf& leaf : executor.inputs()) executor.set_input(leaf.name, inputs.at(leaf.name));
        executor.step();
        p.barrier();
        if (p.rank() == 1) return network.silence(1);
        while (true) executor.step();
      },
      500ms);
  CHECK(outcomes[1].error.empty());
  CHECK(says(outcomes[0].error, {"task ", "all_reduce ", "on device 0", "device 1 (rank 1) was silent for 0.5 s"}));
}

TEST_CASE("when one process gives up, the others learn why wherever they wait, and end with its exit code") {
  Program program = data_parallel("mlp-tiny", 4);
  auto inputs = random_inputs(build_model({"mlp-tiny", {{"batch", 12}}}), 3);
  std::mutex mutex;
  std::map<int, std::string> told;
  auto outcomes = on_processes(4, [&](Processes& p) {
    try {
      if (p.rank() == 3) std::this_thread::sleep_for(300ms);  // opens its channel after rank 2 gave up
      Executor executor(program, {.seed = 7, .processes = &p});
      for (const ProgramLeaf& leaf : executor.inputs()) executor.set_input(leaf.name, inputs.at(leaf.name));
      executor.step();
      if (p.rank() == 2) throw InputError("disk full");
      if (p.rank() == 1) p.barrier();
      while (true) executor.step();
    } catch (const InputError& e) {
      p.give_up(e.what(), 2);
    } catch (const ProcessFailure& e) {
      std::unique_lock lock(mutex);
      told[p.rank()] = e.what();
      lock.unlock();
      p.give_up(e.what(), p.failure_code());
    }
  });
  for (const Outcome& o : outcomes) CHECK(o.exit_code == 2);
  CHECK(told.size() == 3);
  for (const auto& [rank, why] : told) CHECK(why == "rank 2 gave up: disk full");
}

TEST_CASE("a task that fails in one process ends the others with its rank, task and device") {
  Program program = data_parallel("mlp-tiny", 3, "adam 1e-3");
  auto inputs = random_inputs(build_model({"mlp-tiny", {{"batch", 12}}}), 3);
  std::mutex mutex;
  std::map<int, std::string> told;
  auto outcomes = on_processes(3, [&](Processes& p) {
    auto end = [&](const std::string& why, int code) {
      std::unique_lock lock(mutex);
      told[p.rank()] = why;
      lock.unlock();
      p.give_up(why, code);
    };
    try {
      Executor executor(program, {.seed = 7, .processes = &p});
      for (const ProgramLeaf& leaf : executor.inputs()) executor.set_input(leaf.name, inputs.at(leaf.name));
      executor.step();
      if (p.rank() == 1) executor.set_steps_done(-1);  // updates of adam count from 1
      while (true) executor.step();
    } catch (const ProcessFailure& e) {
      end(e.what(), p.failure_code());
    } catch (const std::exception& e) {
      end(e.what(), 1);
    }
  });
  for (const Outcome& o : outcomes) CHECK(o.exit_code == 1);
  REQUIRE(told.size() == 3);
  CHECK(says(told[1], {"task ", "(adam ", " on device 1: ", "adam: step is 0, expected at least 1"}));
  CHECK(told[0] == "rank 1 gave up: " + told[1]);
  CHECK(told[2] == told[0]);
}

TEST_CASE("a communicator made after another process gave up does not wait for it") {
  auto outcomes = on_processes(2, [&](Processes& p) {
    if (p.rank() == 1) p.give_up("no memory", 1);
    while (p.failure().empty()) std::this_thread::sleep_for(1ms);
    auto communicator = make_communicator(2, p);
    std::byte data{};
    CHECK_THROWS_AS(communicator->receive(DeviceId(1), DeviceId(0), 0, std::span(&data, 1)), Cancelled);
  });
  CHECK(outcomes[1].exit_code == 1);
}

TEST_CASE("when messages can no longer be carried, those who wait are told why at once") {
  FakeNetwork network(2);
  auto outcomes = on_processes(network, [&](Processes& p) {
    if (p.rank() == 1) network.cut(0, "the cable is out");
    if (p.rank() == 0) p.barrier();
  });
  CHECK(says(outcomes[0].error, {"the cable is out"}));
}

TEST_CASE("processes that are not where the topology has their devices are told") {
  auto told = [](const std::vector<int>& hosts, const Topology& topology) {
    FakeNetwork network(static_cast<int>(hosts.size()));
    for (std::size_t r = 0; r < hosts.size(); ++r) network.set_node(static_cast<int>(r), hosts[r]);
    std::mutex mutex;
    std::set<std::string> all;
    for (const Outcome& o : on_processes(network, [&](Processes& p) {
           std::string text = misplaced(p, topology);
           std::lock_guard lock(mutex);
           all.insert(text);
         }))
      REQUIRE(o.error.empty());
    REQUIRE(all.size() == 1);
    return *all.begin();
  };
  Topology machine = load_topology("summit", {2, 12});
  CHECK(told({0, 0, 6, 6}, machine).empty());
  CHECK(told({0, 6}, machine).empty());
  CHECK(told({0, 0, 0, 0}, machine).empty());  // all on one host play it
  CHECK(says(told({0, 1, 0, 1}, machine), {"devices 0 and 3 are of one node", "ranks 0 and 1", "ppr:N:node"}));
  CHECK(says(told({0, 0, 0, 1}, load_topology("summit", {1, 4})), {"devices 0 and 3", "ranks 0 and 3"}));
}

TEST_CASE("plans train in 2, 3 and 4 processes as between threads, bit for bit") {
  std::mt19937_64 random(seed_of_run());
  for (std::string name : {"mlp-tiny", "bert-tiny", "two-tower"}) {
    ModelSpec spec{name, {{"batch", 12}}};
    if (name == "bert-tiny") spec.options["layers"] = 1, spec.options["seq-len"] = 8;
    if (name == "two-tower") spec = {std::string(UNITY_SOURCE_DIR) + "/experiments/models/two-tower.yaml", {}};
    Pcg serial = build_model(spec);
    auto inputs = random_inputs(serial, 3);
    Topology topology = uniform_topology(4);
    for (int plan = 0; plan < 4; ++plan) {
      State state = random_state(serial, 4, random);
      Program program = lower(state.pcg, random_mappings(state.pcg, topology, random), topology,
                              {true, parse_optimizer(plan % 2 ? "adam 1e-3" : "sgd 0.01 momentum=0.9")})
                            .value();
      Trained threads = train_steps(program, inputs, nullptr);
      for (int size = 2; size <= 4; ++size) {
        INFO(name << ", plan " << plan << ", " << size << " processes, seed " << seed_of_run());
        std::atomic<int> equal = 0;
        on_all(size, [&](Processes& p) { equal += train_steps(program, inputs, &p) == threads; });
        CHECK(equal == size);
      }
    }
  }
}

TEST_CASE("a checkpoint of some processes goes on in others as if it had not stopped, bit for bit") {
  Program program = data_parallel("mlp-tiny", 4, "adam 1e-3");
  auto run = [&](int size, const fs::path& folder, std::int64_t steps, bool resume) {
    std::vector<double> losses;
    auto one = [&](Processes* p) {
      TrainOptions options;
      options.executor.processes = p;
      options.index_bounds = {{"labels", 10}};
      options.steps = steps;
      options.checkpoint = {folder, 0, 3, resume, 1 << 14};
      std::vector<double> mine = train(program, nullptr, options).losses;
      if (!p || p->rank() == 0) losses = mine;
    };
    if (size == 0)
      one(nullptr);
    else
      on_all(size, [&](Processes& p) { one(&p); });
    return losses;
  };
  fs::path folder = fs::temp_directory_path() / fmt::format("unity-processes-{}", getpid());
  fs::remove_all(folder);
  std::vector<double> whole = run(0, {}, 6, false);
  for (int before : {0, 2, 3, 4}) {
    fs::path saved = folder / std::to_string(before);
    run(before, saved, 3, false);
    for (int after : {0, 2, 3, 4}) {
      INFO(before << " processes, then " << after);
      fs::path copy = folder / fmt::format("{}-{}", before, after);
      fs::copy(saved, copy, fs::copy_options::recursive);
      CHECK(run(after, copy, 6, true) == std::vector<double>(whole.begin() + 3, whole.end()));
    }
  }
  fs::remove_all(folder);
}

TEST_CASE("checkpoints of the same step from different runs are refused: all name the ranks") {
  Program program = data_parallel("mlp-tiny", 2);
  fs::path folder = fs::temp_directory_path() / fmt::format("unity-contents-{}", getpid());
  fs::remove_all(folder);
  auto run = [&](Processes* p, const fs::path& saved, bool resume, int warmup) {
    TrainOptions options;
    options.executor.processes = p;
    options.index_bounds = {{"labels", 10}};
    options.steps = resume ? 5 : 3;
    options.schedule = parse_schedule(fmt::format("constant warmup={}", warmup));
    options.checkpoint = {saved, 0, 3, resume};
    train(program, nullptr, options);
  };
  // Of the same model, seed and step; the values differ.
  run(nullptr, folder / "ours", false, 2);
  run(nullptr, folder / "theirs", false, 3);
  fs::copy(folder / "ours", folder / "copy", fs::copy_options::recursive);
  auto ours = Checkpoint::newest(folder / "ours").index(), theirs = Checkpoint::newest(folder / "theirs").index();
  REQUIRE(ours.weights == theirs.weights);
  REQUIRE(ours.position.step == theirs.position.step);
  auto resume = [&](const char* of_the_last) {
    return on_processes(2, [&](Processes& p) { run(&p, folder / (p.rank() == 1 ? of_the_last : "ours"), true, 2); });
  };
  for (const Outcome& o : resume("theirs"))
    CHECK(says(o.error,
               {"the checkpoint to go on from", fmt::format("rank 0 has step 3 with contents {:016x}", hash_of(ours)),
                fmt::format("rank 1 has step 3 with contents {:016x}", hash_of(theirs))}));
  for (const Outcome& o : resume("ours")) CHECK(o.error.empty());
  fs::remove_all(folder);
}

TEST_CASE("a process that cannot write its part of a checkpoint leaves the one before as it was") {
  Program program = data_parallel("mlp-tiny", 2);
  fs::path folder = fs::temp_directory_path() / fmt::format("unity-part-{}", getpid());
  fs::remove_all(folder);
  auto outcomes = on_processes(2, [&](Processes& p) {
    try {
      Executor executor(program, {.seed = 7, .processes = &p});
      TrainingPosition at;
      at.model = program.name;
      CheckpointOptions options{folder, 0, 3, false, 1 << 14};
      save_checkpoint(executor, at, options);
      at.step = 1;
      if (p.rank() == 1) options.folder = folder / "not-there";
      save_checkpoint(executor, at, options);
    } catch (const ProcessFailure& e) {
      p.give_up(e.what(), p.failure_code());
    } catch (const InputError& e) {
      p.give_up(e.what(), 2);
    }
  });
  for (const Outcome& o : outcomes) CHECK(o.exit_code == 2);
  int found = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    found += entry.path().filename() == "step-000000" ? 1 : 100;
  CHECK(found == 1);
  CHECK(Checkpoint::newest(folder).position().step == 0);
  fs::remove_all(folder);
}

TEST_CASE("a copy of a weight that differs in one bit is found, and named with its ranks and the step") {
  Program program = data_parallel("mlp-tiny", 3);
  auto inputs = random_inputs(build_model({"mlp-tiny", {{"batch", 12}}}), 3);
  std::string name;
  auto damaged = [&](Processes* p) {
    Executor executor(program, {.seed = 7, .processes = p});
    for (const ProgramLeaf& leaf : executor.inputs()) executor.set_input(leaf.name, inputs.at(leaf.name));
    executor.step(), executor.step();
    executor.check_replicas();
    HostTensor w = executor.weight(executor.weight_names()[0]);
    w.reals[1] = std::nextafterf(static_cast<float>(w.reals[1]), 9.0f);
    if (!p || p->rank() == 2) executor.set_weight(executor.weight_names()[0], w);
    if (p && p->rank() == 0) name = executor.weight_names()[0];
    executor.check_replicas();
  };
  damaged(nullptr);  // all copies change alike
  for (const Outcome& o : on_processes(3, [&](Processes& p) { damaged(&p); }))
    CHECK(says(o.error, {"'" + name + "'", "after step 2", "on 0 (rank 0), 1 (rank 1)", "on 2 (rank 2)"}));
}

TEST_CASE("processes measure a collective together and get the same, of one way too") {
  Topology machine = load_topology("laptop");
  for (CollectiveKind kind : {CollectiveKind::all_reduce, CollectiveKind::send, CollectiveKind::reduce}) {
    std::mutex mutex;
    std::vector<ProfileEntry> all;
    on_all(4, [&](Processes& p) {
      ProfileOptions options;
      options.executor.processes = &p;
      options.task_seconds = 0.001;
      Program program = collective_of(kind, {DeviceId(1), DeviceId(3)}, {1 << 16}, machine);
      ProfileEntry entry = measure_collective(program, TaskId(0), options);
      std::lock_guard lock(mutex);
      all.push_back(entry);
    });
    REQUIRE(all.size() == 4);
    for (const ProfileEntry& e : all) CHECK(e == all[0]);
    CHECK(all[0].warm > 0);
    CHECK(all[0].samples >= 12);  // four rows in each of three steps
  }
}

TEST_CASE("what rank 0 says counts") {
  on_all(3, [](Processes& p) { CHECK(agreed(p, 10 + p.rank()) == 10); });
}
