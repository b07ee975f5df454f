// Searches for plans, and how one that runs is watched.
#pragma once

#include <atomic>
#include <charconv>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/report/search_settings.h"
#include "gui/session/document.h"

namespace unity::gui {

// What is searched for: the same as the options of `unity search`.
struct SearchRequest {
  report::ModelChoice model;
  std::string topology;
  int nodes = 0, devices = 0;  // 0: as the topology says, all
  std::string strategy = "unity";
  report::SearchSettings settings;
};

// Of an argument. InputError.
template <class T>
T number_of(const std::string& name, const std::string& text) {
  T value{};
  auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || rest != text.data() + text.size() || value < T{})
    throw_input_error("{}: found '{}', expected a number of at least 0", name, text);
  return value;
}

// Sets one of setting_fields(), a size of the model ("batch-per-gpu", "seq-len", "layers", "model"), "topology",
// "nodes", "devices", "strategy" or "pareto" from text. InputError: unknown, or not of its kind.
void set_field(SearchRequest& request, const std::string& name, const std::string& value);
std::string field_text(const report::SettingField& field);  // empty: the default

// A search that runs or is over. Thread-safe.
class SearchRun {
 public:
  explicit SearchRun(SearchRequest request) : request_(std::move(request)) {}
  const SearchRequest& request() const { return request_; }
  void stop() { stop_ = true; }
  bool stopped() const { return stop_; }

  struct Status {
    SearchState state;
    SearchProgress progress;
    bool done = false;
    std::string error;                              // why it has no plan
    std::vector<std::pair<double, double>> scored;  // (seconds, candidates by then), while it ran
  };
  // As it is now; notes how many candidates there are.
  Status status();
  // The documents that it found: the fastest first, several with SearchOptions::pareto. Empty until it is done.
  std::vector<Snapshot> found() const;

  // Runs it, on the caller's thread: throws InputError where there is no plan. `progress` gets a fraction and what is
  // being done. `stop`: ends it instead of stop().
  std::vector<Snapshot> run(const std::function<void(double, const std::string&)>& progress,
                            const std::atomic<bool>* stop = nullptr);

 private:
  SearchRequest request_;
  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;
  std::function<SearchState()> view_;  // empty: none runs
  Status last_;
  std::vector<Snapshot> found_;
};

}  // namespace unity::gui
