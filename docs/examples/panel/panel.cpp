#include "docs/examples/panel/panel.h"

#include <algorithm>

namespace unity::gui {

void KindsPanel::draw(Ui& ui, Session& session) {
  Snapshot document = session.document();
  if (!document) return ui.text("no document is open", ui.theme().dim);
  // In the background whenever the document has changed; until it is ready, the last counts are drawn.
  const std::vector<KindCount>* counts = counts_.get(
      session, "count operators", document, [](const Snapshot& d, JobState&) { return count_kinds(d->graph()); });
  if (!counts) return;
  std::vector<KindCount> shown = *counts;
  if (by_name_) std::sort(shown.begin(), shown.end(), [](const auto& a, const auto& b) { return a.kind < b.kind; });
  ui.heading(document->title);
  for (const KindCount& kind : shown) ui.fact(kind.kind, std::to_string(kind.count));
}

void KindsPanel::add_commands(Session& session) {
  session.commands.add({"kinds.order", "Kinds: by name, or by count", "", [] { return true; },
                        [this](const Arguments&) { by_name_ = !by_name_; }});
}

}  // namespace unity::gui
