// The state of the program but for its window: open documents, what is selected, what runs in the background. Panels
// read it and change it through commands.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gui/session/commands.h"
#include "gui/session/edits.h"
#include "gui/session/jobs.h"
#include "gui/session/prediction.h"
#include "gui/session/searching.h"
#include "gui/session/selection.h"
#include "gui/session/state.h"

namespace unity::gui {

struct Message {
  std::string text;
  bool error = false;
  double since = -1;  // when it was first shown, in the window's seconds
};

// An open document with its past, and what was predicted of its snapshots.
struct OpenFile {
  explicit OpenFile(Snapshot first) : history(std::move(first)) {}
  History history;
  std::size_t place = SIZE_MAX;  // among those that were open at the last end; others come behind

  PredictionPtr prediction(const Snapshot& snapshot) const;  // null: not known yet
  void keep(const Snapshot& snapshot, PredictionPtr prediction);

 private:
  // The newest last. Whole predictions are large, so that few are kept whole.
  std::vector<std::pair<Snapshot, PredictionPtr>> predictions_;
};

class Session {
 public:
  Session();
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Jobs jobs;
  Commands commands;
  bool dark = false;
  bool quit = false;

  // In the background; a failure is a message.
  void open(const OpenRequest& request);
  // The active document's file again, in its place; an edited one stays a step back. On failure nothing changes.
  void reload();
  // What was open at the last end, in its order: first the one in front, then the others behind it.
  void restore(const SavedState& state, const std::string& state_path);
  // Nothing of it, as `instead` was asked for: the plans that no file of the user's has are for the next start.
  void keep(const SavedState& state, const std::string& state_path, const std::vector<OpenRequest>& instead);
  // Those of them that are not there yet, or could not be opened.
  std::vector<SavedDocument> restoring() const;
  // One that is already there. A trace opens behind a plan, which it is laid under.
  void add(Snapshot document);
  // A search in the background; what it finds opens when it ends, also when it is stopped early. One at a time.
  Result<void> search(const SearchRequest& request);
  const std::shared_ptr<SearchRun>& search_run() const { return search_; }  // the last; null: none yet
  bool searching() const { return search_job_ && !search_job_->done(); }
  // Of background work; a search that runs ends with the best so far.
  void cancel();
  void close(std::size_t index);
  // What was closed last, with its edits; some are kept.
  bool can_reopen() const { return !closed_.empty(); }
  void reopen();
  const std::vector<std::unique_ptr<OpenFile>>& files() const { return files_; }
  std::size_t active() const { return active_; }
  // Of all files, each another one: with strategy, devices or a number, where titles alone do not tell.
  std::vector<std::string> titles() const;
  void activate(std::size_t index);
  OpenFile* file() const { return files_.empty() ? nullptr : files_[active_].get(); }
  Snapshot document() const { return file() ? file()->history.now() : nullptr; }
  PredictionPtr prediction() const { return file() ? file()->prediction(document()) : nullptr; }
  // That of a snapshot of any file.
  PredictionPtr prediction_of(const Snapshot& snapshot) const;
  // Of the snapshot before the last edit, to compare with; null where there is none.
  PredictionPtr prediction_before() const;

  // To the active document. An edit that does not fit is a message.
  Result<void> apply(const Edit& edit);
  void undo();
  void redo();

  const Selection& selection() const { return selection_; }
  void select(Selection selection) { selection_ = std::move(selection); }

  void say(std::string text) { messages_.push_back({std::move(text), false}); }
  void complain(std::string text) { messages_.push_back({std::move(text), true}); }
  std::deque<Message>& messages() { return messages_; }

  // Simulating everything was cancelled, or failed, and is not under way again.
  bool simulation_stopped() const;
  void simulate_again() { predicting_whole_ = {}; }
  // Writes the plan of a snapshot with what is predicted of it on its machine as it is. InputError.
  void save_plan(const Snapshot& snapshot, const std::string& path);

  // Asks the user where something is to be written, and goes on with the path; without a window, with the proposal.
  void ask_path(const std::string& what, const std::string& proposal, std::function<void(const std::string&)> go_on);
  std::function<void(const std::string&, const std::string&, std::function<void(const std::string&)>)> asks_path;

  // Once a frame: takes what the background has done and starts what is missing. Whether anything changed.
  bool poll();
  // Nothing is under way: what is shown is what will be.
  bool settled() const;
  // From the last edit until the time of an iteration under it was known, in seconds; 0: no edit yet.
  double last_edit_seconds() const { return last_edit_seconds_; }
  // The same, until that was no estimate.
  double last_edit_exact_seconds() const { return last_edit_exact_seconds_; }

 private:
  void open_in_background(const OpenRequest& request, std::function<void(const Snapshot&)> then);
  Job restore_one(std::size_t place);
  void read_rules(const Document& document);
  void predict();
  void forget_asked() { estimating_ = predicting_ = predicting_whole_ = {}; }
  // Another graph has other numbers of nodes: what is selected is found by its labels.
  void keep_selection(const Document& before);

  std::vector<std::unique_ptr<OpenFile>> files_;
  std::deque<std::unique_ptr<OpenFile>> closed_;    // the last one behind
  std::map<std::size_t, SavedDocument> restoring_;  // by place; the first is opened alone
  std::string state_path_;                          // that they are from
  std::size_t restored_first_ = 0;
  Job restore_job_;  // of the first; the others follow, however it ends
  std::size_t active_ = 0;
  Selection selection_;
  std::deque<Message> messages_;
  std::shared_ptr<Predictor> predictor_ = std::make_shared<Predictor>();
  // What was asked for last. The same snapshot may be open in two files, or again after it was closed.
  struct Asked {
    const OpenFile* file = nullptr;
    Snapshot snapshot;
    bool operator==(const Asked&) const = default;
  };
  Asked estimating_, predicting_, predicting_whole_;
  Job estimate_job_, quick_job_, whole_job_, search_job_;
  std::shared_ptr<SearchRun> search_;
  std::chrono::steady_clock::time_point edited_at_;
  bool edit_pending_ = false, exact_pending_ = false;
  double last_edit_seconds_ = 0, last_edit_exact_seconds_ = 0;
};

}  // namespace unity::gui
