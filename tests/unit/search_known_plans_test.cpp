// What a search for pipelines knows of plans, and which of them it goes on from.
#include <catch2/catch.hpp>

#include "core/search/gradient_buckets.h"
#include "core/search/known_plans.h"
#include "core/search/open_plans.h"

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

}  // namespace unity
