// Training: epochs over a data set, or steps on synthetic batches, with schedules, checkpoints, evaluation and early
// stopping.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/sessions.h"
#include "runtime/data/dataset.h"
#include "runtime/early_stop.h"
#include "runtime/executor.h"
#include "runtime/schedule.h"

namespace unity {

// Data that are told by name (TrainOptions::data); all others by path.
inline bool is_built_in_data(const std::string& data) { return data == "synthetic" || data == "digits"; }

struct TrainOptions {
  ExecutorOptions executor;
  std::string data = "synthetic";  // "synthetic", "digits" or a path (see open_data)
  bool in_order = false;           // rows as they come, all for training unless the data have test rows
  std::int64_t steps = 0;          // total; 0: as many as the epochs have
  std::int64_t epochs = 1;         // ignored when steps are given
  std::map<std::string, std::int64_t> index_bounds;  // by input: data are drawn, indices checked below them
  std::string weights_file;                          // initial values (safetensors); empty: drawn from the seed
  std::string gradients_file;                        // where to write those of the first step; empty: nowhere
  RateSchedule schedule;                             // its steps, when 0, are the total
  CheckpointOptions checkpoint;                      // a resumed run takes its seed from the checkpoint
  std::int64_t evaluate_every = 0;                   // epochs; 0: at the end only
  std::int64_t patience = 0;                         // stop after so many evaluations without a better one; 0: never
  bool watch_loss = false;                           // better: a smaller test loss instead of a larger accuracy
  bool trace = false;                                // of the last step; none where no step is left
  std::int64_t check_replicas_every = 0;             // steps; in any case at every checkpoint and at the end
  // Since when time counts in the folder's log of sessions: where the command started, say. None: the call of train().
  std::optional<SessionLog::Clock::time_point> began;
  const std::atomic<bool>* stop = nullptr;  // ends training behind the step in which it is set; of one process only
  // Called before the first step with what may not be as it was meant.
  std::function<void(const std::string&)> warn;
  // After each step: steps done, of how many, the loss.
  std::function<void(std::int64_t, std::int64_t, double)> progress;
};

// On the test rows, after so many epochs and steps.
struct Evaluation {
  std::int64_t epoch = 0, step = 0;
  std::optional<double> accuracy;  // none without logits
  double loss = 0;                 // mean over the rows
};

struct TrainResult {
  std::int64_t first_step = 0;       // steps done before: losses[i] is of step first_step + i
  std::vector<double> losses;        // per step
  std::vector<double> rates;         // per step: the learning rate
  std::vector<double> epoch_losses;  // mean over each epoch that ended
  std::vector<Evaluation> evaluations;
  std::optional<double> accuracy;  // on the test rows, at the end; none for synthetic data, or without logits
  std::optional<BestEpoch> best;   // where there were evaluations
  bool stopped_early = false;
  bool interrupted = false;      // by TrainOptions::stop: no evaluation at the end, no trace of the last step
  double iteration_seconds = 0;  // median, the first step left out where there are others
  double feed_seconds = 0;       // likewise: that a step waited for its batch, which is no part of the iteration
  std::vector<Bytes> memory;     // of the buffers of each device, those of the evaluation among them
  std::optional<Trace> trace;
  std::optional<EffectiveTime>
      effective;  // of all sessions of the folder of checkpoints, in the process that writes it
};

// `training` and, for data sets, `evaluation` (the forward pass of the same plan; its output 1 are the logits
// [batch, classes]) must outlive the call. InputError when the data do not suit the model's inputs (says what each
// has), or have more classes than the model tells apart; as of runtime/checkpoint; and when early stopping has nothing
// to watch. DoesNotFit before the first step where there are test rows and the evaluation does not fit beside the
// training.
TrainResult train(const Program& training, const Program* evaluation, const TrainOptions& options);

}  // namespace unity
