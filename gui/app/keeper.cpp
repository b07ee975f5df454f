#include "gui/app/keeper.h"

#include <utility>

#include "core/base/error.h"

namespace unity::gui {
namespace {

constexpr std::chrono::seconds kBetween(5);

}  // namespace

std::vector<Snapshot> Keeper::documents() const {
  std::vector<Snapshot> documents;
  for (const auto& file : app_.session().files()) documents.push_back(file->history.now());
  return documents;
}

Keeper::~Keeper() {
  try {
    finish();
  } catch (const std::exception&) {  // the first error is the one that is told
  }
}

void Keeper::note() {
  auto now = std::chrono::steady_clock::now();
  if (path_.empty() || now - written_ < kBetween || (job_ && !job_->done())) return;
  std::vector<Snapshot> open = documents();
  if (open == kept_) return;
  written_ = now;
  job_ = app_.session().jobs.submit(
      "keep the session",
      [this, state = app_.window().save(), open, path = path_, writing = writing_](JobState&) -> Jobs::Completion {
        std::lock_guard lock(writing->mutex);
        if (!writing->over) write_session(state, open, path);
        return [this, open] { kept_ = open, complained_.clear(); };
      },
      [this](const std::string& error) {  // and is tried again
        if (std::exchange(complained_, error) != error) app_.session().complain(error);
      },
      true);
}

void Keeper::finish() {
  if (path_.empty() || writing_->over) return;
  std::lock_guard lock(writing_->mutex);
  writing_->over = true;
  write_session(app_.window().save(), documents(), path_);
}

}  // namespace unity::gui
