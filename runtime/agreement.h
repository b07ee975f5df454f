// What processes that train together must have alike, though each reads its own command line and its own files. Where
// they do not, losses would be those of no training at all, and one process would wait for steps that others do not do.
#pragma once

#include <map>
#include <string>

#include "core/base/hash.h"
#include "runtime/comm/processes.h"
#include "runtime/host_tensor.h"
#include "runtime/train.h"

namespace unity {

class Agreement {
 public:
  // Of one process alone (null, too) there is nothing to agree on. `processes` must outlive it.
  explicit Agreement(Processes* processes);

  // All processes call these, in the same order. InputError names the processes that have something else than rank 0.
  void require_equal_options(const TrainOptions& options);
  // By contents, of a large file at places all over it; where the file lies may differ.
  void require_equal_file(const std::string& what, const std::string& path);
  void require_equal(const std::string& what, const std::string& value);
  // All batches that were added.
  void require_equal_batches(const std::string& what);

  void add(const std::map<std::string, HostTensor>& batch);

 private:
  Processes* processes_ = nullptr;  // null: alone
  Hash batches_ = 0;
};

// "3 steps, digits, rates constant": all that a training does alike everywhere.
std::string in_words(const TrainOptions& options);

}  // namespace unity
