// The CUDA backend on CUDA and NCCL played on the host (support/fake_cuda.h): several GPUs, several processes,
// failures.
#include <algorithm>
#include <cmath>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "core/base/does_not_fit.h"
#include "core/graph/builder.h"
#include "core/models/models.h"
#include "core/plan/lower.h"
#include "core/search/search.h"
#include "runtime/profile/collectives.h"
#include "runtime/profile/measure.h"
#include "runtime/validate.h"
#include "tests/support/command.h"
#include "tests/support/fake_plugin.h"
#include "tests/support/fake_processes.h"
#include "tests/support/plan_builder.h"
#include "tests/support/random_plan.h"
#include "tests/support/small_machine.h"
#include "tests/support/stub_cost_model.h"
#include "tests/support/training_run.h"

using namespace unity;
using namespace unity::test;
using nlohmann::json;

namespace {

Program offloaded(int devices, Offload what) {
  State state{build_model({"bert-tiny", {{"batch", 12}}}), {}, {}};
  if (devices > 1) state = std::move(apply_move(state, {Move::Kind::replicate_all, 0, 0, devices}).value());
  return lower(state.pcg, test::natural_mappings(state.pcg), uniform_topology(devices),
               {true, parse_optimizer("sgd 0.05 momentum=0.9"), {.offload = what}})
      .value();
}

struct Trained {
  std::vector<double> losses;
  std::map<std::string, HostTensor> state;
};
// The third step and later ones are launched as a graph, but for the fifth, which is traced.
Trained train(const Program& program, const ExecutorOptions& options,
              const std::map<std::string, HostTensor>& values = inputs()) {
  Executor executor(program, options);
  for (const ProgramLeaf& leaf : executor.inputs()) executor.set_input(leaf.name, values.at(leaf.name));
  Trained t;
  for (int i = 0; i < 6; ++i) t.losses.push_back(executor.step(i == 4).loss);
  for (const StateTensor& s : executor.state()) t.state.emplace(s.name, executor.state(s.name));
  executor.check_replicas();
  return t;
}
void check_equal(const Trained& found, const Trained& expected, double tolerance = 1e-9) {
  for (std::size_t i = 0; i < expected.losses.size(); ++i)
    CHECK(found.losses[i] == Approx(expected.losses[i]).epsilon(tolerance));
  for (const auto& [name, value] : expected.state) {
    HostTensor off = found.state.at(name);
    for (std::size_t i = 0; i < off.reals.size(); ++i) off.reals[i] -= value.reals[i];
    // The bias of attention's keys stays zero but for rounding.
    CHECK(norm(off) <= tolerance * std::max(norm(value), 1e-3));
  }
}
// What the libraries do while a model trains on a GPU, which must end as on a CPU device. `tune`: of UNITY_CUDA_TUNE.
FakeLibraryCalls library_calls(const ModelSpec& spec, Precision precision, double tolerance, const char* tune = "0") {
  ::setenv("UNITY_CUDA_TUNE", tune, 1);
  Pcg pcg = build_model(spec);
  auto values = random_inputs(pcg, 3);
  Program program = lower(pcg, std::vector<MachineMapping>(pcg.size()), uniform_topology(1)).value();
  FakeLibraryCalls before = fake().library_calls();
  Trained found = train(program, {.backend = "cuda", .precision = precision, .seed = 7}, values);
  FakeLibraryCalls after = fake().library_calls();
  ::unsetenv("UNITY_CUDA_TUNE");
  check_equal(found, train(program, {.precision = Precision::f64, .seed = 7}, values), tolerance);
  return {after.products - before.products, after.convolutions - before.convolutions, after.pools - before.pools,
          after.norms - before.norms, after.biases - before.biases};
}
const ExecutorOptions kSerial{.precision = Precision::f64, .seed = 7};

}  // namespace

TEST_CASE("data parallelism on several GPUs by NCCL trains as one CPU device, traced steps too") {
  fake();
  for (const char* optimizer : {"sgd 0.01 momentum=0.9", "adam 0.001"}) {
    Trained expected = train(data_parallel(1, optimizer), kSerial);
    for (const char* eager : {"0", ""})  // as a graph, too
      for (int devices : {2, 3, 4}) {
        fake().environment("UNITY_CUDA_EAGER", eager);
        check_equal(
            train(data_parallel(devices, optimizer), {.backend = "cuda", .precision = Precision::f64, .seed = 7}),
            expected);
      }
    fake().environment("UNITY_CUDA_EAGER", nullptr);
  }
}

TEST_CASE("inputs of values over and over are as those written out, in every precision") {
  fake();
  Pcg pcg = build_model({"bert-tiny", {{"batch", 3}}});
  Program program = lower(pcg, std::vector<MachineMapping>(pcg.size()), uniform_topology(1)).value();
  auto value = [](std::size_t i) { return mix(i) % 1000; };
  for (const ExecutorOptions& options : std::vector<ExecutorOptions>{{"cpu", Precision::f64},
                                                                     {"cpu", Precision::f32},
                                                                     {"cuda", Precision::f64},
                                                                     {"cuda", Precision::f32},
                                                                     {"cuda", Precision::bf16}}) {
    Executor once(program, options), repeated(program, options);
    // Some divide the number of elements, some do not; the last are more than there are.
    for (std::int64_t count : {1, 5, 64, 100000}) {
      CAPTURE(options.backend, to_string(options.precision), count);
      auto n = static_cast<std::size_t>(count);
      HostTensor reals = real_tensor({count}), ids = index_tensor({count});
      for (std::size_t i = 0; i < n; ++i) reals.reals[i] = static_cast<double>(value(i)) / 1000;
      for (std::size_t i = 0; i < n; ++i) ids.indices[i] = static_cast<std::int32_t>(value(i) % 2);
      for (const ProgramLeaf& leaf : once.inputs()) {
        const Dims& dims = ints_attribute(leaf.attributes, 0);
        const bool indices = text_attribute(leaf.attributes, 1) == "i32";
        HostTensor all = indices ? index_tensor(dims) : real_tensor(dims);
        for (std::size_t i = 0; i < all.indices.size(); ++i) all.indices[i] = ids.indices[i % n];
        for (std::size_t i = 0; i < all.reals.size(); ++i) all.reals[i] = reals.reals[i % n];
        once.set_input(leaf.name, all);
        repeated.repeat_values(leaf.name, indices ? ids : reals);
        CHECK_THROWS_WITH(repeated.repeat_values(leaf.name, indices ? reals : ids),
                          Catch::Contains("expected some of"));
      }
      CHECK(once.step().loss == repeated.step().loss);
    }
  }
}

TEST_CASE("devices take memory on their own GPUs, and give all back") {
  std::int64_t before = fake().bytes(0);
  Program program = data_parallel(4, "adam 0.001");
  {
    Executor executor(program, {.backend = "cuda"});
    for (std::size_t d = 0; d < 4; ++d) {
      std::int64_t said = executor.memory()[d].count, taken = fake().bytes(static_cast<int>(d)) - before;
      CHECK(said >= std::int64_t{64} << 20);  // the libraries' workspace
      CHECK(taken >= said);
      CHECK(taken <= said + (std::int64_t{1} << 18));  // gaps, step values, lists of shards
    }
  }
  for (int gpu = 0; gpu < 4; ++gpu) CHECK(fake().bytes(gpu) == before);
}

TEST_CASE("what waits on the host keeps every bit of training on GPUs, in every precision, by processes, too") {
  fake();
  auto values = random_inputs(build_model({"bert-tiny", {{"batch", 12}}}), 3);
  for (int devices : {1, 2})
    for (Precision precision : {Precision::f64, Precision::f32, Precision::bf16}) {
      ExecutorOptions options{.backend = "cuda", .precision = precision, .seed = 7};
      Trained here = train(offloaded(devices, Offload::none), options, values);
      if (precision == Precision::f64) check_equal(here, train(offloaded(1, Offload::none), kSerial, values));
      auto check_same = [&](const Trained& found) {
        CHECK(found.losses == here.losses);
        CHECK(found.state == here.state);
      };
      for (Offload what : {Offload::activations, Offload::optimizer, Offload::activations_and_optimizer}) {
        INFO(devices << " devices in " << to_string(precision) << ", " << to_string(what));
        Program program = offloaded(devices, what);
        CHECK(std::any_of(program.tasks.begin(), program.tasks.end(),
                          [&](const Task& t) { return program.copies_to_host(t); }));
        check_same(train(program, options, values));
        if (precision == Precision::f64 && devices == 2)
          on_all(2, [&](Processes& p) {
            ExecutorOptions of_process = options;
            of_process.processes = &p;
            check_same(train(program, of_process, values));
          });
      }
    }
}

TEST_CASE("optimizer states that wait on the host take pinned memory there, and give it back") {
  fake();
  Program plain = offloaded(1, Offload::none), moved = offloaded(1, Offload::optimizer);
  std::int64_t before = fake().pinned();
  {
    Executor without(plain, {.backend = "cuda"});
    std::int64_t usual = fake().pinned() - before;
    Executor with(moved, {.backend = "cuda"});
    std::int64_t host = fake().pinned() - before - 2 * usual, states = 0, count = 0;
    for (const StateTensor& s : with.state())
      if (s.name.find(".state") != std::string::npos) states += 4 * element_count(s.dims), ++count;
    REQUIRE(count > 20);
    CHECK(host >= states);
    CHECK(host <= states + 256 * count + 8192);  // each begins at a multiple of 256; and a gap
    std::int64_t saved = without.memory()[0].count - with.memory()[0].count;
    CHECK(saved > 0);
    CHECK(saved <= states + 256 * count);
  }
  CHECK(fake().pinned() == before);
}

TEST_CASE("a plan that moves more to the host than that gives is refused, and leaves nothing behind") {
  fake();
  Program program = offloaded(2, Offload::activations_and_optimizer);
  std::int64_t pinned = fake().pinned(), on_gpu = fake().bytes(0);
  fake().most_pinned(pinned + 8192);
  CHECK_THROWS_WITH(Executor(program, {.backend = "cuda"}), Catch::StartsWith("device 0 needs ") &&
                                                                Catch::Contains("of pinned memory on the host") &&
                                                                Catch::Contains("--offload"));
  fake().most_pinned(std::int64_t{1} << 32);
  CHECK(fake().pinned() == pinned);
  CHECK(fake().bytes(0) == on_gpu);
}

TEST_CASE("a plan that a GPU has no memory for is refused with what would do, and leaves nothing behind") {
  fake();
  const Pcg model = build_model({"bert-tiny", {{"batch", 12}}});
  Program program = lower(model, test::natural_mappings(model), uniform_topology(1)).value();
  const std::int64_t before = fake().bytes(0), all = std::int64_t{4} << 30;
  std::int64_t needed = 0;
  {
    Executor executor(program, {.backend = "cuda"});
    needed = fake().bytes(0) - before;
  }
  CHECK(fake().bytes(0) == before);
  // From what is not enough for the buffers of the plan to what lacks its last list.
  bool said = false, listed = false;
  for (std::int64_t memory : {needed / 40, needed / 2, needed - 100'000}) {
    fake().memory(before + memory);
    try {
      Executor executor(program, {.backend = "cuda"});
      FAIL("it fits into " << memory << " of " << needed << " bytes");
    } catch (const DoesNotFit& error) {
      const std::string what = error.what();
      INFO(what);
      CHECK(what.find("GPU 0 has ") != std::string::npos);
      CHECK((what.find(" needs ") != std::string::npos || what.find(" were asked for") != std::string::npos));
      CHECK((what.find("--memory-limit") != std::string::npos) == (error.limit() > 0));
      said = said || error.limit() > 0;
      listed = listed || what.find("memory ran out: task ") == 0;
    }
    fake().memory(all);
    CHECK(fake().bytes(0) == before);
  }
  CHECK(said);
  CHECK(listed);
  Executor executor(program, {.backend = "cuda"});
  CHECK(fake().bytes(0) - before == needed);
}

TEST_CASE("CUDA as it is played copies between a GPU and the host only what lies there") {
  constexpr int kUp = 1, kDown = 2, kDone = 0, kInvalid = 1;  // cudaMemcpyHostToDevice ..., cudaErrorInvalidValue
  constexpr std::size_t kBytes = 1 << 16;
  const Fake& cuda = fake();
  void *gpu = nullptr, *pinned = nullptr, *stream = nullptr;
  REQUIRE(cuda.allocate(&gpu, kBytes) == kDone);
  REQUIRE(cuda.allocate_pinned(&pinned, kBytes, 0) == kDone);
  REQUIRE(cuda.make_stream(&stream, 1) == kDone);
  std::vector<std::byte> pageable(kBytes, std::byte{3});
  auto behind = [](void* p) { return static_cast<std::byte*>(p) + kBytes; };  // with a gap that is no part of it
  CHECK(cuda.copy(gpu, pageable.data(), kBytes, kUp, stream) == kDone);
  CHECK(cuda.copy(pinned, gpu, kBytes, kDown, stream) == kDone);
  CHECK(cuda.copy(gpu, pinned, kBytes, kUp, stream) == kDone);
  CHECK(cuda.copy(gpu, pinned, kBytes, kDown, stream) == kInvalid);
  CHECK(cuda.copy(pinned, gpu, kBytes, kUp, stream) == kInvalid);
  CHECK(cuda.copy(pinned, pageable.data(), kBytes, kUp, stream) == kInvalid);
  CHECK(cuda.copy(gpu, gpu, kBytes, kUp, stream) == kInvalid);
  CHECK(cuda.copy(behind(gpu), pinned, kBytes, kUp, stream) == kInvalid);
  CHECK(cuda.copy(gpu, behind(pinned), kBytes, kUp, stream) == kInvalid);
  CHECK(cuda.synchronize(stream) == kDone);
  CHECK(static_cast<std::byte*>(pinned)[kBytes - 1] == std::byte{3});
  CHECK(cuda.end_stream(stream) == kDone);
  CHECK(cuda.release(gpu) == kDone);
  CHECK(cuda.release_pinned(pinned) == kDone);
}

TEST_CASE("processes with GPUs of their own train as one CPU device") {
  fake();
  Trained expected = train(data_parallel(1, "adam 0.001"), kSerial);
  Program program = data_parallel(4, "adam 0.001");
  for (bool bound : {false, true})
    for (int size : {2, 4})
      on_all(size, [&](Processes& p) {
        if (bound) fake().visible((size == 2 ? 3U : 1U) << (p.rank() * 4 / size));
        check_equal(train(program, {.backend = "cuda", .precision = Precision::f64, .seed = 7, .processes = &p}),
                    expected);
      });
}

TEST_CASE("a profile of the cuda backend is named after its GPU, with the cache of that") {
  fake();
  DeviceDescription device = describe_device("cuda");
  CHECK(device.name == "NVIDIA Fake");
  CHECK(device.cache.count == 50 << 20);
  CHECK(device.count == 4);
  CHECK(describe_device("cpu").count == 1);
  CHECK(describe_device("cpu").name.find("cores") != std::string::npos);
  CHECK_THROWS_AS(describe_device("cdua"), InputError);
}

TEST_CASE("collectives among GPUs are measured in one process and in several, of all kinds") {
  fake();
  Topology machine = load_topology("h200-shared");  // four devices, each with a GPU here
  for (int size : {1, 4})
    on_all(size, [&](Processes& p) {
      ProfileOptions options;
      options.executor.backend = "cuda";
      options.executor.processes = &p;
      options.task_seconds = 0.001;
      for (const std::vector<DeviceId>& group : groups_to_measure(machine))
        for (CollectiveKind kind : kinds_to_measure(group.size())) {
          if (group.size() == 2 && kind != CollectiveKind::send) continue;
          ProfileEntry e = measure_collective(collective_of(kind, group, {1 << 14}, machine), TaskId(0), options);
          CHECK(e.warm > 0);
          CHECK(e.low <= e.high);
        }
    });
}

TEST_CASE("unity profile --comm nccl measures the collectives among GPUs, which count for these alone") {
  fake();  // where commands find the plug-in
  command::Folder f;
  std::string profile = f.file("gpus.yaml"), plan = f.file("plan.json");
  std::string measure = "profile --backend cuda --comm nccl --task-seconds 0.001 --topology h200-shared --devices 2 ";
  command::Outcome o = command::unity(measure + "--largest 4KiB -o " + profile);
  INFO(o.err);
  CHECK(o.code == 0);
  CHECK(o.out.find("NVIDIA Fake: backend cuda") != std::string::npos);
  CHECK(o.out.find("0 tasks and 7 collectives measured") != std::string::npos);
  CHECK(command::read(profile).find("comm: 'nccl'\n  processes: 1\n  topology: 'h200-shared'") != std::string::npos);
  REQUIRE(
      command::unity("search mlp-tiny --topology h200-shared --devices 2 --strategy data-parallel -o " + plan).code ==
      0);
  // One process has the GPUs, whatever it is called.
  o = command::unity("validate " + plan + " --backend cuda --steps 2 --profile " + profile);
  INFO(o.err);
  CHECK(o.code == 0);
  command::check_refused("validate " + plan + " --profile " + profile, {"backend cuda", "expected of cpu"});
  for (std::string how : {"run ", "validate ", "profile "})
    command::check_refused(how + plan + " --comm nccl", {"--comm nccl: found backend cpu, expected cuda"});
  command::check_refused("profile --comm threads -o " + profile, {"gpus.yaml", "backend cuda", "expected cpu"});
}

TEST_CASE("unity profile measures the tasks of a plan on a GPU, and several plans are judged together") {
  fake();
  command::Folder f;
  std::string profile = f.file("gpu.yaml"), names;
  for (int batch : {8, 64, 512}) {
    std::string plan = f.file(fmt::format("{}.json", batch));
    REQUIRE(command::unity(fmt::format("search mlp-tiny --topology h200 --devices 1 --global-batch {} --strategy "
                                       "data-parallel -o {}",
                                       batch, plan))
                .code == 0);
    names += " " + plan;
  }
  command::Outcome o =
      command::unity("profile " + f.file("8.json") + " --backend cuda --task-seconds 0.001 --json -o " + profile);
  INFO(o.err);
  REQUIRE(o.code == 0);
  json measured = json::parse(o.out);
  CHECK(measured["measured"] > 5);
  CHECK(measured["device"].get<std::string>().find("NVIDIA Fake") != std::string::npos);
  o = command::unity("validate" + names + " --backend cuda --steps 3 --json --profile " + profile);
  INFO(o.err);
  REQUIRE(o.code == 0);
  json found = json::parse(o.out);
  REQUIRE(found["plans"].size() == 3);
  CHECK(found["plans"][0]["estimated_tasks"] == 0);
  CHECK(found["plans"][1]["estimated_tasks"] > 0);  // other shapes
  std::vector<double> predicted, taken;
  double error = 0;
  for (const json& plan : found["plans"]) {
    predicted.push_back(plan["predicted_seconds"]), taken.push_back(plan["measured_seconds"]);
    error += std::abs(predicted.back() / taken.back() - 1) / 3;
  }
  CHECK(found["mape"].get<double>() == Approx(error));
  // Spearman's of three that differ: 1 - sum of squared differences of ranks / 4.
  auto rank = [](const std::vector<double>& of, double x) {
    return std::count_if(of.begin(), of.end(), [x](double other) { return other < x; });
  };
  double off = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    auto by = static_cast<double>(rank(predicted, predicted[i]) - rank(taken, taken[i]));
    off += by * by;
  }
  CHECK(found["rank_correlation"].get<double>() == Approx(1 - off / 4));
}

TEST_CASE("a run in bf16 fits where one in f32 does not") {
  fake();
  command::Folder f;
  std::string model = "mlp-tiny --global-batch 512 --topology ", how = " --backend cuda --steps 1 --precision ";
  json found = json::parse(command::unity("search " + model + command::machine_with_memory(f, "large", 1'000'000'000) +
                                          " --strategy data-parallel --json")
                               .out);
  std::string small = command::machine_with_memory(f, "small", found["peak_memory_bytes"].get<std::int64_t>() - 1);
  command::check_refused("run " + model + small + how + "f32", {"needs"});
  command::Outcome o = command::unity("run " + model + small + how + "bf16");
  INFO(o.err);
  CHECK(o.code == 0);
  // But not in any memory.
  command::check_refused("run " + model + command::machine_with_memory(f, "tiny", 100'000) + how + "bf16",
                         {"plan for mlp-tiny: needs ", "which has 100 kB"});
}

TEST_CASE("what passes between tasks on a GPU is measured in steps that are not traced") {
  fake();
  ProfileOptions options;
  options.executor.backend = "cuda";
  ProfileSection section;
  measure_overheads(section, options);
  CHECK(section.task_overhead != 0);  // negative where events cost more than what passes between tasks
  CHECK(section.task_overhead > -2e-2);
  CHECK(section.task_overhead < 2e-2);  // less than a step of all tasks
}

TEST_CASE("what an iteration takes on GPUs is measured in steps that are not traced") {
  fake();
  Program program = data_parallel(2, "sgd 0.01");
  Executor cuda(program, {.backend = "cuda"}), cpu(program, {});
  CHECK(cuda.tracing_costs());
  CHECK_FALSE(cpu.tracing_costs());
  MeasureOptions options;
  options.executor.backend = "cuda", options.steps = 5;
  Measurement measured = measure(program, options);
  CHECK(measured.iteration.count > 0);
  CHECK(measured.trace.spans.size() > program.tasks.size());
  options.executor.backend = "cpu";
  measured = measure(program, options);
  CHECK(measured.iteration == measured.trace.iteration);
}

TEST_CASE("products and norms run by the libraries where these take them, else by kernels of our own") {
  // Two blocks of two norms each, one behind the embedding and one in the head; as many gradients. The first step, the
  // capture of the second and the traced one call each of these.
  std::map<std::string, std::int64_t> small = {{"batch", 4},  {"seq-len", 6}, {"layers", 2},
                                               {"hidden", 8}, {"heads", 2},   {"vocab", 24}};
  FakeLibraryCalls single = library_calls({"bert-large", small}, Precision::f32, 1e-4);
  CHECK(single.products > 0);
  CHECK(single.norms == 3 * 2 * (2 * 2 + 2));
  FakeLibraryCalls exact = library_calls({"bert-large", small}, Precision::f64, 1e-9);
  CHECK(exact.products == single.products);
  CHECK(exact.norms == 0);  // cuDNN has none in f64
  fake().libraries(false);
  FakeLibraryCalls without = library_calls({"bert-large", small}, Precision::f64, 1e-9);
  fake().libraries(true);
  CHECK(without.products == 0);
}

TEST_CASE("RMS norms, convolutions and pooling run by the libraries") {
  std::map<std::string, std::int64_t> small = {{"batch", 4},     {"seq-len", 6}, {"target-len", 5},
                                               {"layers", 1},    {"hidden", 8},  {"heads", 2},
                                               {"head-size", 4}, {"ffn", 8},     {"vocab", 24}};
  CHECK(library_calls({"t5-small", small}, Precision::f32, 1e-4).norms > 0);
  FakeLibraryCalls vision = library_calls(
      {"vgg-16", {{"batch", 4}, {"image", 32}, {"classes", 6}, {"hidden", 12}, {"divisor", 16}}}, Precision::f64, 1e-9);
  CHECK(vision.convolutions > 0);
  CHECK(vision.pools > 0);
}

TEST_CASE("convolutions that are products, and those added behind, train as one CPU device, whichever way is taken") {
  const ModelSpec spec{"resnext-50",
                       {{"batch", 2}, {"image", 48}, {"classes", 5}, {"blocks", 2}, {"divisor", 32}, {"groups", 2}}};
  const FakeLibraryCalls first = library_calls(spec, Precision::f64, 1e-6);
  const FakeLibraryCalls last = library_calls(spec, Precision::f64, 1e-6, "last");
  CHECK(first.convolutions > 0);
  CHECK(last.products > first.products);
  CHECK(last.convolutions < first.convolutions);
  CHECK(last.products - first.products == first.convolutions - last.convolutions);
}

TEST_CASE("attention by cuDNN trains as one CPU device, its gradient in as many parts as have room to work in") {
  fake();
  for (int causal : {0, 1}) {
    Builder b("attention");
    const ValueRef x = b.input("x", {4, 6, 16}), target = b.input("target", {4, 2, 6, 8});
    auto heads = [&](const char* weight) {
      const ValueRef y = b.apply("matmul", {}, {x, b.weight(weight, {16, 16})});
      return b.apply("transpose", {Dims{0, 2, 1, 3}}, {b.apply("reshape", {Dims{4, 6, 2, 8}}, {y})});
    };
    const ValueRef q = heads("q"), k = heads("k"), v = heads("v");
    const ValueRef y = b.apply("attention", {0.3, std::int64_t{causal}}, {q, k, v});
    const Pcg pcg = std::move(b).finish({b.apply("mean_squared_error", {}, {y, target})});
    const Program program = lower(pcg, std::vector<MachineMapping>(pcg.size()), uniform_topology(1)).value();
    const auto values = random_inputs(pcg, 3);
    const Trained expected = train(program, {.precision = Precision::f64, .seed = 7}, values);
    std::optional<Trained> whole;
    // Of 288 scores: all at once, a sample at a time, a head at a time; and more than is given for one.
    for (auto [bytes, parts] : {std::pair<std::int64_t, int>{2, 1}, {8 << 20, 4}, {16 << 20, 8}, {64 << 20, 0}}) {
      CAPTURE(causal, bytes);
      fake().set_score_bytes(bytes);
      const int before = fake().library_calls().attentions;
      Trained found = train(program, {.backend = "cuda", .precision = Precision::bf16, .seed = 7}, values);
      // The first step, the capture of the second and the traced one.
      CHECK(fake().library_calls().attentions - before == 3 * (1 + 2 * parts));
      check_equal(found, expected, 0.05);
      if (!whole) whole = found;
      if (parts > 0) CHECK(found.losses == whole->losses);
    }
    fake().set_score_bytes(2);
  }
}

TEST_CASE("engines for convolutions of equal shapes are tried once, before training") {
  // Sizes of no other test: what was found is kept for the process. cuDNN is played with two engines for each graph.
  const ModelSpec spec{"vgg-16", {{"batch", 2}, {"image", 32}, {"classes", 5}, {"hidden", 8}, {"divisor", 32}}};
  const int plain = library_calls(spec, Precision::f64, 1e-9).convolutions;
  const int first = library_calls(spec, Precision::f64, 1e-9, "1").convolutions;
  const int second = library_calls(spec, Precision::f64, 1e-9, "1").convolutions;
  CHECK(plain > 0);
  CHECK(second == plain);
  CHECK(first > plain);
  CHECK((first - plain) % 12 == 0);  // of two engines a run that loads code and five that are timed
}

TEST_CASE("chains on GPUs are the kernels one by one, bit for bit, in every precision, and train as one CPU device") {
  fake();
  const ModelSpec spec{"bert-tiny", {{"batch", 12}}};
  Pcg serial = normalize(build_model(spec));
  auto values = random_inputs(build_model(spec), 3);
  auto lowered = [&](int devices, Fuse fuse) {
    State state{serial, {}, {}};
    if (devices > 1) state = std::move(apply_move(state, {Move::Kind::replicate_all, 0, 0, devices}).value());
    return lower(state.pcg, test::natural_mappings(state.pcg), uniform_topology(devices),
                 {true, parse_optimizer("sgd 0.1 momentum=0.9"), {.fuse = fuse}})
        .value();
  };
  // Four steps, of which the last is launched as a graph.
  auto losses = [&](const Program& program, const ExecutorOptions& options) {
    Executor executor(program, options);
    for (const ProgramLeaf& leaf : executor.inputs()) executor.set_input(leaf.name, values.at(leaf.name));
    std::vector<double> all;
    for (int i = 0; i < 4; ++i) all.push_back(executor.step().loss);
    for (const StateTensor& s : executor.state()) all.push_back(norm(executor.state(s.name)));
    return all;
  };
  std::vector<double> expected = losses(lowered(1, Fuse::none), kSerial);
  for (int devices : {1, 2}) {
    Program apart = lowered(devices, Fuse::none), fused = lowered(devices, Fuse::chains);
    CHECK(fused.tasks.size() < apart.tasks.size());
    for (Precision precision : {Precision::f64, Precision::f32, Precision::bf16}) {
      INFO(devices << " devices in " << to_string(precision));
      ExecutorOptions options{.backend = "cuda", .precision = precision, .seed = 7};
      fake().libraries(false);
      std::vector<double> found = losses(fused, options), one_by_one = losses(apart, options);
      fake().libraries(true);
      CHECK(found == one_by_one);
      for (std::size_t i = 0; i < expected.size() && precision == Precision::f64; ++i)
        CHECK(found[i] == Approx(expected[i]).epsilon(1e-9).margin(1e-12));
      // cuBLASLt adds a bias before it rounds.
      const double tolerance = precision == Precision::f64 ? 1e-9 : precision == Precision::f32 ? 1e-4 : 5e-2;
      int biases = fake().library_calls().biases;
      found = losses(fused, options);
      CHECK((fake().library_calls().biases > biases) == (precision != Precision::f64));  // which it has no bias in
      for (std::size_t i = 0; i < expected.size(); ++i)
        CHECK(found[i] == Approx(expected[i]).epsilon(tolerance).margin(tolerance));
    }
  }
}
