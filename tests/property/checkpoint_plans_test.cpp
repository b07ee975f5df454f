// A checkpoint saved under any plan goes on under any other: all ordered pairs of six plans on 1 to 8 devices.

#include <cmath>
#include <filesystem>
#include <random>

#include <catch2/catch.hpp>
#include <unistd.h>

#include "core/graph/evaluate.h"
#include "core/models/models.h"
#include "core/plan/lower.h"
#include "core/rewrite/normalize.h"
#include "core/search/mapping_search.h"
#include "core/search/substitution.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/train.h"
#include "tests/support/paths.h"
#include "tests/support/stub_cost_model.h"

using namespace unity;
using namespace unity::test;

namespace {

constexpr std::int64_t kBefore = 5, kAfter = 20;

Pcg model(const std::string& name) {
  if (name == "two-tower")
    return build_model({std::string(UNITY_SOURCE_DIR) + "/experiments/models/two-tower.yaml", {}});
  ModelSpec spec{name, {{"batch", 12}}};
  if (name == "bert-tiny") spec.options["layers"] = 1, spec.options["seq-len"] = 8;
  return build_model(spec);
}

std::map<std::string, std::int64_t> bounds_of(const Pcg& pcg) {
  std::map<std::string, std::int64_t> bounds;
  for (std::size_t i = 0; i < pcg.size(); ++i)
    if (pcg.nodes()[i].op->name() == "input" && pcg.nodes()[i].outputs[0].dtype == DType::i32)
      bounds[pcg.nodes()[i].name] = index_bound(pcg, NodeId(static_cast<std::int64_t>(i)));
  return bounds;
}

// Some random rules, placed at random: none for one device.
Program program(const Pcg& serial, int devices, std::uint64_t seed, const OptimizerSpec& optimizer) {
  std::mt19937_64 random(seed);
  Topology topology = uniform_topology(devices);
  State state{normalize(serial), {}, {}};
  for (int attempt = 0; attempt < 200 && state.moves.size() < (devices > 1 ? 3u : 0u); ++attempt) {
    int degree = 2 + static_cast<int>(random() % 2);
    Move move = random() % 3 == 0 ? Move{Move::Kind::replicate_all, 0, 0, degree}
                                  : Move{Move::Kind::shard_class, static_cast<int>(random() % 24), 0, degree};
    auto next = apply_move(state, move);
    if (!next.ok()) continue;
    bool fits = true;
    for (std::size_t i = 0; i < next->pcg.size(); ++i)
      fits = fits && task_count(node_grid(next->pcg, NodeId(static_cast<std::int64_t>(i)))) <= devices;
    if (fits) state = std::move(*next);
  }
  std::vector<MachineMapping> where(state.pcg.size());
  for (std::size_t i = 0; i < where.size(); ++i) {
    TaskGrid grid = node_grid(state.pcg, NodeId(static_cast<std::int64_t>(i)));
    auto start = random() % static_cast<std::uint64_t>(devices - task_count(grid) + 1);
    where[i] = natural_mapping(grid, static_cast<int>(start));
  }
  return lower(state.pcg, where, topology, {true, optimizer}).value();
}

using Tensors = std::map<std::string, HostTensor>;

Tensors state_of(const Executor& executor) {
  Tensors tensors;
  for (const StateTensor& t : executor.state()) tensors.emplace(t.name, executor.state(t.name));
  return tensors;
}

void check_pairs(const std::string& name, const std::string& optimizer) {
  Pcg serial = model(name);
  auto bounds = bounds_of(serial);
  OptimizerSpec spec = parse_optimizer(optimizer);
  std::filesystem::path folder = std::filesystem::temp_directory_path() / fmt::format("unity-{}-{}", getpid(), name);
  std::vector<Program> programs;
  std::set<Hash> different;
  for (int devices : {1, 2, 3, 4, 6, 8}) {
    programs.push_back(program(serial, devices, 11 * static_cast<std::uint64_t>(devices), spec));
    different.insert(program_hash(programs.back()));
  }
  REQUIRE(different.size() == 6);
  TrainOptions options;
  options.executor = {"cpu", Precision::f64, 7};
  options.index_bounds = bounds;
  options.schedule = parse_schedule("cosine warmup=8 steps=25");
  options.steps = kBefore + kAfter;
  std::vector<double> whole = train(programs[0], nullptr, options).losses;
  std::vector<Tensors> saved;
  for (std::size_t a = 0; a < programs.size(); ++a) {
    options.steps = kBefore;
    options.checkpoint = {folder / fmt::format("{}", a), 0, 3, false, 1 << 14};
    train(programs[a], nullptr, options);
    Executor same(programs[a], {"cpu", Precision::f64, 7});
    Checkpoint::newest(options.checkpoint.folder).restore(same);
    saved.push_back(state_of(same));
  }
  options.steps = kBefore + kAfter;
  for (std::size_t a = 0; a < programs.size(); ++a)
    for (std::size_t b = 0; b < programs.size(); ++b) {
      if (a == b) continue;
      INFO(name << ": saved under plan " << a << ", resumed under plan " << b);
      std::filesystem::path copy = folder / fmt::format("{}-{}", a, b);
      std::filesystem::copy(folder / fmt::format("{}", a), copy, std::filesystem::copy_options::recursive);
      Executor restored(programs[b], {"cpu", Precision::f64, 7});
      Checkpoint::newest(copy).restore(restored);
      CHECK(state_of(restored) == saved[a]);
      options.executor.seed = 99;  // the checkpoint's counts
      options.checkpoint = {copy, 0, 3, true};
      TrainResult rest = train(programs[b], nullptr, options);
      CHECK(rest.first_step == kBefore);
      REQUIRE(rest.losses.size() == kAfter);
      for (std::size_t i = 0; i < rest.losses.size(); ++i) {
        double expected = whole[static_cast<std::size_t>(kBefore) + i];
        REQUIRE(std::abs(rest.losses[i] - expected) <= 1e-9 * std::abs(expected));
      }
    }
  std::filesystem::remove_all(folder);
}

}  // namespace

TEST_CASE("mlp-tiny saved under any of six plans trains on under any other as if it had not stopped") {
  check_pairs("mlp-tiny", "adamw 1e-3 weight_decay=0.1");
}

TEST_CASE("bert-tiny saved under any of six plans trains on under any other as if it had not stopped") {
  check_pairs("bert-tiny", "adam 1e-4");
}

TEST_CASE("two-tower saved under any of six plans trains on under any other as if it had not stopped") {
  check_pairs("two-tower", "sgd 0.01 momentum=0.9 nesterov weight_decay=1e-3");
}
