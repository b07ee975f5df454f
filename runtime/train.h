// Training: epochs over a data set, or steps on synthetic batches, with evaluation at the end.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/data/dataset.h"
#include "runtime/executor.h"

namespace unity {

struct TrainOptions {
  ExecutorOptions executor;
  std::string data = "synthetic";                    // "synthetic", "digits" or a path (see open_data)
  std::int64_t steps = 0;                            // total; 0: as many as the epochs have
  std::int64_t epochs = 1;                           // ignored when steps are given
  std::map<std::string, std::int64_t> index_bounds;  // of i32 inputs: data are drawn or checked below them
  std::string weights_file;                          // initial values (safetensors); empty: drawn from the seed
  bool trace = false;                                // of the last step
  // After each step: steps done, of how many, the loss.
  std::function<void(std::int64_t, std::int64_t, double)> progress;
};

struct TrainResult {
  std::vector<double> losses;        // per step
  std::vector<double> epoch_losses;  // mean over each epoch
  std::optional<double> accuracy;    // on the test rows; none for synthetic data, or without logits
  double iteration_seconds = 0;      // median, the first step left out where there are others
  std::optional<Trace> trace;
};

// `training` and, for data sets, `evaluation` (the forward pass of the same plan; its output 1 are the logits
// [batch, classes]) must outlive the call. InputError when the data do not suit the model's inputs (says what each
// has), or have more classes than the model tells apart.
TrainResult train(const Program& training, const Program* evaluation, const TrainOptions& options);

}  // namespace unity
