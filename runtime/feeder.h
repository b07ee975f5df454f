// Batches on their way to the devices: where the host is free during a step, the next one is read and prepared by a
// thread of its own meanwhile.
#pragma once

#include <functional>
#include <future>
#include <map>
#include <string>

#include "runtime/executor.h"

namespace unity {

class Feeder {
 public:
  using Batch = std::map<std::string, HostTensor>;
  // `next` gives one batch after the other; one thread at a time calls it, one batch ahead where the executor leaves
  // the host free. `executor`, and what `next` reads, must outlive the feeder.
  Feeder(Executor& executor, std::function<Batch()> next);
  ~Feeder();

  // The next batch becomes the executor's inputs. What `next` throws is thrown here, when it is the batch's turn.
  // `more`: whether another one will be asked for; without it, none is read ahead.
  Batch feed(bool more);

 private:
  struct Ready {
    Batch batch;
    HeldBatch held;
  };
  Ready make();

  Executor& executor_;
  std::function<Batch()> next_;
  std::future<Ready> ahead_;
};

}  // namespace unity
