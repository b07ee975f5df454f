#include "runtime/feeder.h"

#include "core/base/parallel.h"

namespace unity {

Feeder::Feeder(Executor& executor, std::function<Batch()> next) : executor_(executor), next_(std::move(next)) {}

Feeder::~Feeder() = default;  // waits for what is on its way

Feeder::Ready Feeder::make() {
  Ready ready{next_(), {}};
  ready.held = executor_.prepare(ready.batch);
  return ready;
}

Feeder::Batch Feeder::feed(bool more) {
  if (!executor_.leaves_host_free()) {
    Batch batch = next_();
    for (const auto& [name, value] : batch) executor_.set_input(name, value);
    return batch;
  }
  Ready ready = ahead_.valid() ? ahead_.get() : make();
  executor_.set_inputs(ready.held);
  if (more)
    ahead_ = std::async(std::launch::async, [this] {
      const LeaveCore leave;  // to whom waits for the step
      return make();
    });
  return std::move(ready.batch);
}

}  // namespace unity
