// Data parallelism as a move, and choosing among plans: what several strategies build on.
//
// Unequal devices have unequal shares of the batch: it is split in more parts than there are devices, of which fast
// ones take several (core/machine/mapping.h).
#pragma once

#include <optional>
#include <vector>

#include "core/search/strategy.h"
#include "core/search/substitution.h"

namespace unity {

// The dimension 0 of the first input that has one. Error: the model has none.
Result<ValueRef> batch_leaf(const Pcg& pcg);

// All operators that walk the batch, split by `degree` along it. Error where that does not divide.
Result<State> shard_batch(const State& state, int degree);

// By device, how many of `parts` equal parts it takes, so that the last one is ready the soonest.
std::vector<int> shares(int parts, const std::vector<double>& speeds);

// What is split as the batch goes where the batch goes, part i on device places[i], with a copy of each weight on every
// device; the rest is on the device with the most parts.
std::vector<MachineMapping> share_out(const Pcg& pcg, const std::vector<int>& places);
// The places of such mappings; none where no device has several.
std::optional<std::vector<int>> shared_places(const std::vector<MachineMapping>& mappings);

// Data parallelism with shares in proportion to the speed of the devices: as the cost model has their tasks, then as
// the tasks of that plan turn out, and so on. Error where devices are alike, or the batch has no parts of that kind.
Result<Outcome> unequal_data_parallel(const StrategyInput& input);

// Of two plans the one that fits, else the faster; of two errors the later one. The other one goes into the log.
// Whether there is a better plan now. `candidates`: as of Evaluator::found().
bool take_better(Result<Outcome>& best, Result<Outcome> other, const StrategyInput& input, std::int64_t candidates = 0);

}  // namespace unity
