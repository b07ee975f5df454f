#include "gui/session/session.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "core/base/text.h"
#include "gui/session/rewriting.h"

namespace unity::gui {
namespace {

constexpr std::size_t kPredictionsKept = 64, kWholeKept = 2;
constexpr std::size_t kFewDevices = 6;  // whose plans are simulated at once

using RunCommand = void (*)(Session&, const Arguments&);

void run_cancel(Session& session, const Arguments&) {
  session.cancel();
  session.say("cancelled");
}
void run_clear_selection(Session& session, const Arguments&) { session.select({}); }
void run_close(Session& session, const Arguments&) { session.close(session.active()); }
void run_reopen(Session& session, const Arguments&) { session.reopen(); }
void run_next_document(Session& session, const Arguments&) {
  session.activate((session.active() + 1) % session.files().size());
}
void run_undo(Session& session, const Arguments&) { session.undo(); }
void run_redo(Session& session, const Arguments&) { session.redo(); }
void run_reload(Session& session, const Arguments&) { session.reload(); }
void run_sample(Session& session, const Arguments&) { session.open(sample_request()); }
void run_simulate(Session& session, const Arguments&) { session.simulate_again(); }
void run_toggle_theme(Session& session, const Arguments&) { session.dark = !session.dark; }

// "bert-large on summit" -> "bert-large-on-summit.edited.json"
std::string file_name(std::string title) {
  if (title.ends_with(".json")) title.resize(title.size() - 5);
  std::replace(title.begin(), title.end(), ' ', '-');
  return title + ".edited.json";
}

void run_save_plan(Session& session, const Arguments& arguments) {
  auto path = arguments.find("file");
  if (path != arguments.end()) return session.save_plan(session.document(), path->second);
  // Another document may be in front by the time the path is known.
  session.ask_path("Save plan as", file_name(session.document()->title),
                   [&session, snapshot = session.document()](const std::string& file) {
                     try {
                       session.save_plan(snapshot, file);
                     } catch (const InputError& error) {
                       session.complain(error.what());
                     }
                   });
}

}  // namespace

PredictionPtr OpenFile::prediction(const Snapshot& snapshot) const {
  for (const auto& [known, prediction] : predictions_)
    if (known == snapshot) return prediction;
  return nullptr;
}

void OpenFile::keep(const Snapshot& snapshot, PredictionPtr prediction) {
  std::erase_if(predictions_, [&](const auto& entry) { return entry.first == snapshot; });
  predictions_.emplace_back(snapshot, std::move(prediction));
  if (predictions_.size() > kPredictionsKept) predictions_.erase(predictions_.begin());
  std::size_t whole = 0;
  for (auto entry = predictions_.rbegin(); entry != predictions_.rend(); ++entry) {
    if (!entry->second->whole || ++whole <= kWholeKept) continue;
    PlanPrediction light;
    light.iteration = entry->second->iteration;
    light.peak_memory = entry->second->peak_memory;
    light.communicated = entry->second->communicated;
    light.samples_per_second = entry->second->samples_per_second;
    light.error = entry->second->error;
    light.estimated = entry->second->estimated;
    entry->second = std::make_shared<const PlanPrediction>(std::move(light));
  }
}

Session::Session() {
  Session& session = *this;
#define UNITY_COMMAND(name, label, shortcut, possible)                                      \
  commands.add({#name, label, shortcut, [&session] { return static_cast<bool>(possible); }, \
                [&session](const Arguments& arguments) { run_##name(session, arguments); }});
#include "gui/session/commands.def"
#undef UNITY_COMMAND
  for (const EditInfo& info : edits())
    commands.add({std::string(info.name), std::string(info.label), "",
                  [&session] { return session.document() && session.document()->plan; },
                  [&session, name = std::string(info.name)](const Arguments& arguments) {
                    session.apply({name, arguments}).value();
                  },
                  info.name == "reset_scales"});
  commands.add({"open", "Open ..", "", [] { return true; },
                [&session](const Arguments& a) {
                  auto value = [&](const char* key) { return a.contains(key) ? a.at(key) : std::string(); };
                  auto number = [&](const char* key) { return a.contains(key) ? number_of<int>(key, a.at(key)) : 0; };
                  OpenRequest request{value("file"), value("topology"), number("nodes"), number("devices")};
                  if (a.contains("strategy")) request.strategy = value("strategy");
                  if (request.source.empty()) throw_input_error("open: needs the argument 'file'");
                  session.open(request);
                },
                false});
}

Session::~Session() {
  if (search_) search_->stop();
}

Result<void> Session::search(const SearchRequest& request) {
  if (searching()) return fail("a search runs already: stop it first");
  auto run = search_ = std::make_shared<SearchRun>(request);
  auto work = [this, run](JobState& job) -> Jobs::Completion {
    std::vector<Snapshot> found =
        run->run([&](double fraction, const std::string& text) { job.progress(fraction, text); });
    return [this, first = found.front()] { add(first); };
  };
  search_job_ = jobs.submit_long(fmt::format("search {}", request.model.model), work,
                                 [this](const std::string& error) { complain(error); });
  return {};
}

void Session::ask_path(const std::string& what, const std::string& proposal,
                       std::function<void(const std::string&)> go_on) {
  if (asks_path)
    asks_path(what, proposal, std::move(go_on));
  else
    go_on(proposal);
}

void Session::cancel() {
  for (const Job& job : jobs.running())
    if (job == search_job_)
      search_->stop();
    else
      job->cancel();
}

void Session::open_in_background(const OpenRequest& request, std::function<void(const Snapshot&)> then) {
  auto work = [request, then = std::move(then)](JobState& job) -> Jobs::Completion {
    Snapshot document = open_document(
        request, [&](double fraction, const std::string& text) { job.progress(fraction, text); }, job.stop());
    return [document, then] { then(document); };
  };
  auto failed = [this](const std::string& error) { complain(error); };
  if (is_searched(request))
    jobs.submit_long("open " + request.source, work, failed);
  else
    jobs.submit("open " + request.source, work, failed);
}

void Session::open(const OpenRequest& request) {
  open_in_background(request, [this](const Snapshot& document) { add(document); });
}

void Session::reload() {
  Snapshot before = document();
  const OpenFile* owner = file();
  open_in_background(before->request, [this, owner, before](const Snapshot& next) {
    auto at = std::find_if(files_.begin(), files_.end(), [&](const auto& f) { return f.get() == owner; });
    if (at == files_.end() || (*at)->history.now()->request != before->request) return;  // closed meanwhile
    Snapshot now = (*at)->history.now();
    if (now->edited) {
      (*at)->history.push(next, {"reload", {}});
    } else {
      std::size_t place = (*at)->place;
      *at = std::make_unique<OpenFile>(next);
      (*at)->place = place;
      forget_asked();
    }
    if (document() == next) keep_selection(*now);
  });
}

void Session::save_plan(const Snapshot& snapshot, const std::string& path) {
  Plan plan = *snapshot->plan;
  PredictionPtr known = prediction_of(snapshot);
  // A quick one may know no bytes of communication.
  if (!known || !known->whole || !snapshot->scales.empty()) {
    Document as_it_is = *snapshot;
    as_it_is.scales.clear();
    known = std::make_shared<const PlanPrediction>(predictor_->whole(as_it_is));
  }
  plan.prediction = {};
  if (known->error.empty())
    plan.prediction = {known->iteration, known->peak(), known->communicated};
  else
    complain(fmt::format("the plan is written without a time: {}", known->error));
  unity::save_plan(plan, path);
  say(fmt::format("plan written to {}", path));
}

void Session::restore(const SavedState& state, const std::string& state_path) {
  if (state.open.empty()) return;
  std::size_t first = std::min(state.active, state.open.size() - 1);
  for (std::size_t i = 0; i < state.open.size(); ++i) restoring_[i] = state.open[i];
  state_path_ = state_path;
  restored_first_ = first;
  restore_job_ = restore_one(first);
}

void Session::keep(const SavedState& state, const std::string& state_path, const std::vector<OpenRequest>& instead) {
  for (std::size_t i = 0; i < state.open.size(); ++i) {
    const SavedDocument& saved = state.open[i];
    // What the same request leads to again is no loss.
    bool again = !saved.edited && !saved.found &&
                 std::any_of(instead.begin(), instead.end(),
                             [&](const OpenRequest& request) { return with_whole_paths(request) == saved.request; });
    if (!again && !copy_of(saved, state_path).empty()) restoring_[i] = saved;
  }
}

Job Session::restore_one(std::size_t place) {
  const SavedDocument& saved = restoring_[place];
  std::string copy = copy_of(saved, state_path_);
  auto work = [this, saved, place, state_path = state_path_](JobState& job) -> Jobs::Completion {
    std::string note;
    Snapshot document = restore_document(
        saved, state_path, [&](double fraction, const std::string& text) { job.progress(fraction, text); }, job.stop(),
        note);
    return [this, document, place, note] {
      if (!note.empty()) complain(note);
      restoring_.erase(place);
      read_rules(*document);
      auto behind = std::find_if(files_.begin(), files_.end(), [&](const auto& f) { return f->place > place; });
      if (!files_.empty() && behind - files_.begin() <= static_cast<std::ptrdiff_t>(active_)) ++active_;
      (*files_.insert(behind, std::make_unique<OpenFile>(document)))->place = place;
    };
  };
  auto failed = [this, place, copy](const std::string& error) {
    if (copy.empty()) {
      restoring_.erase(place);
      return complain(error);
    }
    complain(fmt::format("{} cannot be opened; its plan stays in {}: {}", restoring_[place].title, copy, error));
  };
  std::string name = "open " + saved.request.source;
  return copy.empty() && is_searched(saved.request) ? jobs.submit_long(name, work, failed)
                                                    : jobs.submit(name, work, failed);
}

std::vector<SavedDocument> Session::restoring() const {
  std::vector<SavedDocument> open;
  for (const auto& [place, saved] : restoring_) open.push_back(saved);
  return open;
}

// Reading the rules takes as long as an edit may: they are there by then.
void Session::read_rules(const Document& document) {
  if (document.plan && files_.empty())
    jobs.submit(
        "rules", [](JobState&) -> Jobs::Completion { return find_rule({}), Jobs::Completion(); }, {}, true);
}

void Session::add(Snapshot document) {
  read_rules(*document);
  bool behind = document->trace && this->document() && this->document()->plan;
  files_.push_back(std::make_unique<OpenFile>(std::move(document)));
  if (!behind) return activate(files_.size() - 1);
  say(fmt::format("{} is in the timeline, beside {}", files_.back()->history.now()->title, this->document()->title));
}

void Session::close(std::size_t index) {
  constexpr std::size_t kKept = 8;
  if (index >= files_.size()) return;
  const Document& document = *files_[index]->history.now();
  if (document.plan && (document.edited || document.found))
    say(fmt::format("{} was closed, and is not in a file; Ctrl+Shift+T opens it again", document.title));
  closed_.push_back(std::move(files_[index]));
  if (closed_.size() > kKept) closed_.pop_front();
  files_.erase(files_.begin() + static_cast<std::ptrdiff_t>(index));
  if (active_ > index || active_ == files_.size()) active_ -= active_ > 0 ? 1 : 0;
  selection_ = {};
  forget_asked();
}

void Session::reopen() {
  if (closed_.empty()) return;
  files_.push_back(std::move(closed_.back()));
  closed_.pop_back();
  activate(files_.size() - 1);
}

void Session::activate(std::size_t index) {
  if (index != active_) selection_ = {};
  active_ = std::min(index, files_.empty() ? 0 : files_.size() - 1);
}

std::vector<std::string> Session::titles() const {
  std::map<std::string, std::vector<std::size_t>> groups;
  for (std::size_t f = 0; f < files_.size(); ++f) groups[files_[f]->history.now()->title].push_back(f);
  std::vector<std::string> titles(files_.size());
  for (const auto& [title, group] : groups) {
    // With as little more as tells them apart.
    for (int more = 0; more < 4; ++more) {
      std::set<std::string> different;
      for (std::size_t f : group) {
        const Document& document = *files_[f]->history.now();
        titles[f] = title;
        if (more & 1 && document.plan) titles[f] += ", " + document.request.strategy;
        if (more & 2 && document.plan) titles[f] += fmt::format(", {} devices", document.topology->device_count());
        different.insert(titles[f]);
      }
      if (different.size() == group.size()) break;
      if (more < 3) continue;
      for (std::size_t n = 0; n < group.size(); ++n) titles[group[n]] += fmt::format(" {}", n + 1);
    }
  }
  return titles;
}

PredictionPtr Session::prediction_of(const Snapshot& snapshot) const {
  for (const auto& file : files_)
    if (PredictionPtr known = file->prediction(snapshot)) return known;
  return nullptr;
}

bool Session::simulation_stopped() const {
  Snapshot now = document();
  if (!now || !now->plan || !whole_job_ || predicting_whole_ != Asked{file(), now}) return false;
  PredictionPtr known = prediction();
  return (whole_job_->cancelled() || whole_job_->done()) && !(known && known->whole);
}

PredictionPtr Session::prediction_before() const {
  const Snapshot* before = file() ? file()->history.before() : nullptr;
  return before ? file()->prediction(*before) : nullptr;
}

Result<void> Session::apply(const Edit& edit) {
  if (!file()) return fail("{}: no document is open", edit.name);
  Snapshot before = document();
  Document next = UNITY_TRY(gui::apply(*before, edit));
  next.edited = true;
  file()->history.push(std::make_shared<const Document>(std::move(next)), edit);
  keep_selection(*before);
  edited_at_ = std::chrono::steady_clock::now();
  edit_pending_ = exact_pending_ = true;
  return {};
}

void Session::undo() {
  Snapshot before = document();
  file()->history.undo();
  keep_selection(*before);
}

void Session::redo() {
  Snapshot before = document();
  file()->history.redo();
  keep_selection(*before);
}

void Session::keep_selection(const Document& before) {
  const std::vector<Node>&old = before.graph().nodes(), &now = document()->graph().nodes();
  if (std::equal(old.begin(), old.end(), now.begin(), now.end(),
                 [](const Node& a, const Node& b) { return a.op == b.op && a.name == b.name; }))
    return;
  std::set<std::string> labels;
  for (NodeId id : selection_.nodes)
    if (id.index() < old.size()) labels.insert(old[id.index()].name);
  if (selection_.kind != Selection::Kind::nodes && selection_.kind != Selection::Kind::value) return;
  std::vector<NodeId> kept;
  for (std::size_t i = 0; i < now.size(); ++i)
    if (!now[i].is_parallelization() && labels.contains(now[i].name)) kept.emplace_back(static_cast<std::int64_t>(i));
  selection_ = Selection::of(std::move(kept));
}

void Session::predict() {
  Snapshot now = document();
  if (!now || !now->plan) return;
  PredictionPtr known = file()->prediction(now);
  OpenFile* owner = file();
  const Asked asked{owner, now};
  auto keep = [this, owner, now](PlanPrediction prediction) {
    auto still = std::any_of(files_.begin(), files_.end(), [&](const auto& f) { return f.get() == owner; });
    if (!still) return;
    // One that comes late must not replace a better one.
    if (PredictionPtr old = owner->prediction(now);
        old && ((old->whole && !prediction.whole) || (!old->estimated && prediction.estimated)))
      return;
    bool exact = !prediction.estimated;
    owner->keep(now, std::make_shared<const PlanPrediction>(std::move(prediction)));
    if (document() != now) return;
    double since_edit = std::chrono::duration<double>(std::chrono::steady_clock::now() - edited_at_).count();
    if (std::exchange(edit_pending_, false)) last_edit_seconds_ = since_edit;
    if (exact && std::exchange(exact_pending_, false)) last_edit_exact_seconds_ = since_edit;
  };
  auto failed = [this](const std::string& text) { complain(text); };
  // First about how much the edit changes, then the time, then everything.
  const Snapshot* before = file()->history.before();
  PredictionPtr basis = before ? file()->prediction(*before) : nullptr;
  if (!known && basis && estimating_ != asked && now->topology->device_count() > kFewDevices) {
    estimating_ = asked;
    auto work = [from = *before, basis, now, keep, predictor = predictor_](JobState&) -> Jobs::Completion {
      return [keep, prediction = predictor->estimate(*from, *basis, *now)] {
        if (prediction) keep(*prediction);
      };
    };
    estimate_job_ = jobs.submit("estimate " + now->title, work, failed, true);
  }
  bool estimates = estimate_job_ && !estimate_job_->done();
  bool exact = known && !known->estimated;
  if (!exact && predicting_ != asked && !estimates) {
    if (quick_job_) quick_job_->cancel();
    predicting_ = asked;
    auto work = [this, now, keep, predictor = predictor_](JobState&) -> Jobs::Completion {
      return [keep, prediction = predictor->quick(*now)] { keep(prediction); };
    };
    quick_job_ = jobs.submit("predict " + now->title, work, failed, true);
  }
  if ((!exact || !known->whole) && predicting_whole_ != asked && (exact || file()->history.position() == 0)) {
    if (whole_job_) whole_job_->cancel();
    predicting_whole_ = asked;
    auto work = [this, now, keep, predictor = predictor_](JobState& job) -> Jobs::Completion {
      job.progress(0, "lowering and simulating every device");
      auto whole = std::make_shared<PlanPrediction>(predictor->whole(*now));
      return [keep, whole] { keep(std::move(*whole)); };
    };
    whole_job_ = jobs.submit("simulate " + now->title, work, failed);
  }
}

bool Session::poll() {
  bool changed = jobs.poll();
  if (restore_job_ && restore_job_->done()) {
    restore_job_ = nullptr;
    for (const auto& [place, saved] : std::map(restoring_))
      if (place != restored_first_) restore_one(place);
  }
  predict();
  return changed;
}

bool Session::settled() const {
  if (!jobs.idle()) return false;
  Snapshot now = document();
  if (!now || !now->plan) return true;
  PredictionPtr known = file()->prediction(now);
  return (known && known->whole) || predicting_whole_ == Asked{file(), now};
}

}  // namespace unity::gui
