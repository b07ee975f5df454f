#include "gui/app/keeper.h"

#include <thread>

namespace unity::gui {
namespace {

constexpr std::chrono::seconds kBetween(5);

}  // namespace

std::vector<Snapshot> Keeper::documents() const {
  std::vector<Snapshot> documents;
  for (const auto& file : app_.session().files()) documents.push_back(file->history.now());
  return documents;
}

void Keeper::note() {
  auto now = std::chrono::steady_clock::now();
  if (path_.empty() || now - written_ < kBetween || (writing_ && !writing_->done())) return;
  std::vector<Snapshot> open = documents();
  if (open == kept_) return;
  kept_ = open;
  written_ = now;
  writing_ = app_.session().jobs.submit(
      "keep the session",
      [state = app_.window().save(), open, path = path_](JobState&) -> Jobs::Completion {
        write_session(state, open, path);
        return [] {};
      },
      [this](const std::string& error) { app_.session().complain(error); }, true);
}

void Keeper::finish() {
  if (path_.empty()) return;
  while (writing_ && !writing_->done()) {
    app_.session().jobs.poll();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  write_session(app_.window().save(), documents(), path_);
}

}  // namespace unity::gui
