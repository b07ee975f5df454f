#include <cmath>

#include <catch2/catch.hpp>

#include "simulator/simulate.h"
#include "tests/support/simulator_build.h"

using namespace unity;
using namespace unity::test;

namespace {

double microseconds(Picoseconds t) { return static_cast<double>(t.count) * 1e-6; }

}  // namespace

TEST_CASE("compute is slower while its device communicates") {
  // A transfer of 4 us beside a task of 10 us, which runs at 3/4 meanwhile: 3 of 10 are done at 4, the rest at 11. The
  // device that only sends later is not slowed before.
  Topology t = all_pairs(3, 1);
  for (DeviceSpec& spec : t.specs) spec.interference = 0.25;
  ProgramBuilder b(3);
  b.compute(0, 10);
  b.compute(2, 10);
  b.communicate(CollectiveKind::send, {0, 1}, 1000);
  SimulationResult r = simulate(b.program, t);
  CHECK(microseconds(r.iteration) == Approx(11));
  REQUIRE(r.trace.spans.size() == 4);
  for (const Span& s : r.trace.spans)
    if (s.device == DeviceId(2)) CHECK(microseconds(s.end) == Approx(10));
}

TEST_CASE("a straggler's tasks take longer, and those who wait for it wait longer") {
  ProgramBuilder b(2);
  TaskId slow = b.compute(1, 4);
  b.compute(0, 1, {slow});
  SimulationOptions options;
  options.noise.stragglers = {{DeviceId(1), 1.5}};
  CHECK(microseconds(simulate(b.program, all_pairs(2, 1), options).iteration) == Approx(7));
}

TEST_CASE("jitter is drawn by seed and task, and is 1 on average") {
  ProgramBuilder b(1);
  for (int i = 0; i < 4000; ++i) b.compute(0, 1);
  Topology t = all_pairs(2, 1).first_devices(1);
  SimulationOptions options;
  options.noise.jitter = 0.3;
  Picoseconds first = simulate(b.program, t, options).iteration;
  CHECK(simulate(b.program, t, options).iteration == first);
  // The mean of 4000 factors with standard deviation about 0.3: within four of its own, 0.02.
  CHECK(microseconds(first) / 4000 == Approx(1).epsilon(0.02));
  options.noise.seed = 2;
  CHECK(simulate(b.program, t, options).iteration != first);
  options.noise.jitter = 0;
  CHECK(microseconds(simulate(b.program, t, options).iteration) == Approx(4000));
}

TEST_CASE("noise out of range says so") {
  ProgramBuilder b(1);
  b.compute(0, 1);
  Topology t = all_pairs(2, 1).first_devices(1);
  SimulationOptions options;
  options.noise.jitter = -1;
  CHECK_THROWS_WITH(simulate(b.program, t, options), Catch::Contains("jitter: found -1"));
  options.noise = {};
  options.noise.stragglers = {{DeviceId(7), 2}};
  CHECK_THROWS_WITH(simulate(b.program, t, options), Catch::Contains("found device 7, expected 0 to 0"));
  options.noise.stragglers = {{DeviceId(0), 0}};
  CHECK_THROWS_WITH(simulate(b.program, t, options), Catch::Contains("expected more than 0"));
  // A task of 1 us: 10^300 times that is more than the clock holds.
  options.noise.stragglers = {{DeviceId(0), 1e300}};
  CHECK_THROWS_WITH(simulate(b.program, t, options), Catch::Contains("one after the other, expected less than"));
}
