// What a panel is. panels.def lists them; each is a folder with a prepare (plain data from snapshots, off the UI
// thread, tested without a window) and a panel.cpp that draws what was prepared.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gui/session/session.h"
#include "gui/widgets/ui.h"

namespace unity::gui {

// Where the window shows it; panels of one area are tabs.
enum class Area : std::uint8_t { left, right, bottom };

// A drawing in full, for export.
struct Drawing {
  Rect bounds;
  std::function<void(Painter&)> paint;
};

class Panel {
 public:
  virtual ~Panel() = default;
  // Every frame in which it is in front, inside a window of its own. Takes what was prepared, starts what is missing,
  // and draws.
  virtual void draw(Ui& ui, Session& session) = 0;
  // Its commands, named "panel.verb"; they may keep references to the panel and the session.
  virtual void add_commands(Session& /*session*/) {}
  // What is restored at the next start, as text of its own.
  virtual std::string save() const { return {}; }
  virtual void load(const std::string& /*text*/) {}
  virtual std::optional<Drawing> drawing(const Theme& /*theme*/) const { return std::nullopt; }
};

// What is needed to lay out and prepare.
struct PanelTools {
  TextMetrics metrics;
  std::string program;  // this executable, for layouts
};

struct PanelInfo {
  std::string name, title;
  const char* icon = "";
  Area area = Area::left;
  std::unique_ptr<Panel> panel;
  bool visible = true;
};
std::vector<PanelInfo> make_panels(const PanelTools& tools);

// Data that a job prepares: the last that is ready is drawn while the next is made.
template <class Key, class Data>
class Prepared {
 public:
  // What was made of the newest key that is ready; null at first. Starts `make` when the key has changed.
  // Jobs that are not quiet are in the status line, and can be cancelled.
  const Data* get(Session& session, const std::string& what, const Key& key,
                  std::function<Data(const Key&, JobState&)> make, bool quiet = true) {
    if (!wanted_ || !(*wanted_ == key)) {
      wanted_ = key;
      if (job_) job_->cancel();
      auto work = [this, key, make = std::move(make), alive = std::weak_ptr<int>(alive_)](JobState& state) {
        auto data = std::make_shared<const Data>(make(key, state));
        return Jobs::Completion([this, key, data, alive] {
          if (alive.expired()) return;
          data_ = data;
          ready_ = key;
          ++version_;
        });
      };
      job_ = session.jobs.submit(
          what, work, [&session](const std::string& error) { session.complain(error); }, quiet);
    }
    return data_.get();
  }
  const std::shared_ptr<const Data>& data() const { return data_; }
  bool current() const { return wanted_ && ready_ && *wanted_ == *ready_; }
  bool cancelled() const { return job_ && job_->cancelled() && !current(); }
  int version() const { return version_; }  // counts what was made

 private:
  std::optional<Key> wanted_, ready_;
  std::shared_ptr<const Data> data_;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
  Job job_;
  int version_ = 0;
};

}  // namespace unity::gui
