// What a search for pipelines knows of plans, and which of them it goes on from.
#include <catch2/catch.hpp>

#include "core/search/gradient_buckets.h"
#include "core/search/known_plans.h"
#include "core/search/open_plans.h"
#include "core/search/stage_moves.h"

namespace unity {
namespace {

// Of so many stages, each an operator on a device.
StagedPlan pipeline(std::size_t stages, int micro_batches = 4) {
  StagedPlan plan{.micro_batches = micro_batches};
  for (std::size_t s = 0; s < stages; ++s) {
    plan.ends.push_back(s + 1);
    plan.devices.push_back({static_cast<int>(s), 1});
  }
  plan.plans.assign(stages, {});
  return plan;
}

}  // namespace

TEST_CASE("what is known of a plan is whether it is to be simulated, and what came of it") {
  KnownPlans known;
  const StagedPlan begun = pipeline(2), left_out = pipeline(3), fits = pipeline(4), unfit = pipeline(5);
  CHECK_FALSE(known.contains(begun));
  known.begin(begun), known.leave_out(left_out);
  known.set(fits, 100, true), known.set(unfit, 90, false);
  for (const StagedPlan& plan : {begun, left_out, fits, unfit}) CHECK(known.contains(plan));
  CHECK_FALSE(known.contains(pipeline(6)));
  CHECK(known.times().size() == 3);
  CHECK(known.time(begun) == KnownPlans::kNever);
  CHECK(known.time(left_out) == KnownPlans::kNever);
  CHECK(known.time(fits) == 100);
  CHECK(known.fits(fits));
  CHECK_FALSE(known.fits(unfit));
  known.set(begun, 95, true);  // it has ended
  CHECK(known.time(begun) == 95);

  std::vector<StagedPlan> plans = {left_out, fits, begun, unfit, pipeline(6)};
  known.keep_fastest(plans, 99, 5);
  CHECK(plans == std::vector{unfit, begun});
  plans = {left_out, fits, begun, unfit};
  known.keep_fastest(plans, std::numeric_limits<double>::infinity(), 2);
  CHECK(plans == std::vector{unfit, begun});

  CHECK(known.all_slower({fits, unfit, left_out}, 89));  // what was not simulated counts as slower
  CHECK_FALSE(known.all_slower({fits, unfit, left_out}, 90));
  CHECK(known.all_slower({}, 90));
}

TEST_CASE("a plan that takes as long with its gradients joined otherwise has a twin") {
  const Bytes own{123};
  auto in_buckets = [](Bytes bucket) {
    StagedPlan plan = pipeline(2);
    plan.bucket = bucket;
    return plan;
  };
  for (Bytes other : {Bytes{}, kUsualBucket, own}) {
    KnownPlans known;
    const StagedPlan plan = in_buckets(Bytes{77}), twin = in_buckets(other);
    known.set(plan, 1000, true);
    CHECK_FALSE(known.has_twin(plan, own));  // itself is none
    known.begin(twin);
    CHECK_FALSE(known.has_twin(plan, own));
    known.set(twin, 1006, true);
    CHECK_FALSE(known.has_twin(plan, own));
    known.set(twin, 1004, true);
    CHECK(known.has_twin(plan, own));
    known.set(twin, 1004, false);  // needs too much memory
    CHECK_FALSE(known.has_twin(plan, own));
  }
}

TEST_CASE("a walk goes on from the fastest plan, and numbers of stages take turns") {
  OpenPlans open;
  CHECK(open.first() == nullptr);
  open.add({true, 50, pipeline(2)});
  open.add({false, 100, pipeline(3)});
  open.add({false, 100.1, pipeline(3, 8)});
  open.add({false, 100.5, pipeline(4)});
  open.add({false, 130, pipeline(5)});
  REQUIRE(open.first());
  CHECK(open.first()->time == 100);  // what fits comes first
  OpenPlans::Plan first = open.take();
  CHECK(first.plan == pipeline(3));
  // Three stages had their turn: by so little the next of them is not faster.
  CHECK(open.take().plan == pipeline(4));
  CHECK(open.take().plan == pipeline(3, 8));
  open.put_back(std::move(first));  // others of its neighbours, later
  CHECK(open.first()->time == Approx(101));
  CHECK(open.take().plan == pipeline(3));
  CHECK(open.take().plan == pipeline(5));
  CHECK(open.take().plan == pipeline(2));
  CHECK(open.first() == nullptr);
}

TEST_CASE("plans that differ in their schedule only, and take as long, are open once") {
  OpenPlans open;
  StagedPlan plan = pipeline(2), later = plan, elsewhere = pipeline(3);
  later.order = PipelineOrder::zero_bubble, later.overlap = 1;
  CHECK(open.is_new(plan, 100));
  CHECK_FALSE(open.is_new(later, 100));
  CHECK(open.is_new(later, 99));
  CHECK(open.is_new(elsewhere, 100));
}

TEST_CASE("what a step of the schedule does to plans is the least that it did to any") {
  const StagedPlan plan{.micro_batches = 4, .ends = {2, 4}, .devices = {{0, 2}, {2, 2}}, .plans = {4, {2, 1, {}}}};
  auto with = [](StagedPlan p, auto&& change) {
    change(p);
    return p;
  };
  const StagedPlan stored = with(plan, [](StagedPlan& p) { p.stored_parts = true; });
  const StagedPlan later = with(plan, [](StagedPlan& p) { p.order = PipelineOrder::zero_bubble; });
  const StagedPlan both = with(later, [](StagedPlan& p) { p.stored_parts = true; });
  const StagedPlan other = with(plan, [](StagedPlan& p) { p.ends = {1, 4}; });
  StepEffects effects;
  CHECK(effects.least(plan, stored) == 0);
  effects.learn(plan, stored, 2);
  CHECK(effects.least(plan, stored) == 2);
  CHECK(effects.least(later, both) == 2);  // the same step from another plan
  CHECK(effects.least(plan, both) == 0);   // two steps
  CHECK(effects.least(stored, plan) == 0);
  effects.learn(later, both, 1.5);
  effects.learn(plan, stored, 3);
  CHECK(effects.least(plan, stored) == 1.5);
  effects.learn(plan, other, 4);  // no step of the schedule
  CHECK(effects.least(plan, other) == 0);
  // What two micro-batches at once are worth depends on the order.
  auto two = [&](const StagedPlan& p) { return with(p, [](StagedPlan& q) { q.overlap = 2; }); };
  effects.learn(plan, two(plan), 1.2);
  CHECK(effects.least(stored, two(stored)) == 1.2);
  CHECK(effects.least(later, two(later)) == 0);
  // To no order of its own is a step, too, and buckets are none of the schedule's steps.
  effects.learn(plan, with(plan, [](StagedPlan& p) { p.bucket = kUsualBucket; }), 1);
  effects.learn(later, plan, 1.3);
  CHECK(effects.least(later, plan) == 1.3);
  // Nor is tensor parallelism inside stages worth the same in every order, degree and place.
  auto inside = [&](const StagedPlan& p, std::size_t begin, IntraPlan plan) {
    return with(p, [&](StagedPlan& q) { q.plans[begin] = q.plans[begin + 1] = plan; });
  };
  effects.learn(plan, inside(plan, 0, {1, 2, {}}), 1.3);
  effects.learn(plan, inside(inside(plan, 0, {1, 2, {}}), 2, {1, 2, {}}), 1.1);  // of both stages: no step
  CHECK(effects.least(stored, inside(stored, 0, {1, 2, {}})) == 1.3);
  CHECK(effects.least(plan, inside(plan, 2, {1, 2, {}})) == 0);  // of the last stage
  CHECK(effects.least(later, inside(later, 0, {1, 2, {}})) == 0);
  CHECK(effects.least(plan, inside(plan, 0, {1, 4, {}})) == 0);
  CHECK(effects.least(inside(plan, 0, {1, 2, {}}), plan) == 0);                         // the other way
  CHECK(effects.least(inside(plan, 0, {1, 4, {}}), inside(plan, 0, {1, 2, {}})) == 0);  // between two degrees
  CHECK(effects.least(plan, inside(other, 0, {1, 2, {}})) == 0);                        // other cuts, too
}

TEST_CASE("a second look at pipelines begins with numbers of stages that had fewer turns") {
  auto plan = [](std::size_t stages, int micro_batches) {
    StagedPlan p{.micro_batches = micro_batches};
    p.ends.resize(stages);
    return p;
  };
  auto fill = [&](OpenPlans& open) {
    open.add({false, 100, plan(2, 2)});
    open.add({false, 101.5, plan(3, 2)});
  };
  OpenPlans first;
  fill(first);
  CHECK(first.take().plan.ends.size() == 2);
  first.add({false, 100, plan(2, 4)});
  CHECK(first.take().plan.ends.size() == 2);  // 101 with one turn
  CHECK(first.taken().at(2) == 2);
  OpenPlans second(first.taken());
  fill(second);
  CHECK(second.take().plan.ends.size() == 3);
}

}  // namespace unity
