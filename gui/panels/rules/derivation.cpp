// The derivation of a plan, and its steps applied again.
#include <algorithm>

#include "gui/panels/rules/panel.h"
#include "gui/widgets/lines.h"

namespace unity::gui {

void RulesPanel::replay_derivation(Session& session) {
  derivation_ = true;
  update_lines(session);
  if (lines_.empty() || (replaying_ && !replaying_->done())) return;
  auto replayed = replayed_ = std::make_shared<Replayed>();
  replayed->lines.resize(lines_.size());
  std::vector<StepRange> ranges;
  for (const DerivationLine& line : lines_) ranges.push_back({line.first, line.count});
  auto work = [replayed, ranges, plan = session.document()->plan,
               topology = session.document()->topology](JobState& job) -> Jobs::Completion {
    ReplayWatch watch;
    watch.known = [&](std::size_t line, const ReplayedSteps& steps) {
      std::lock_guard lock(replayed->mutex);
      replayed->lines[line] = steps;
    };
    watch.progress = [&](double fraction, const std::string& what) { job.progress(fraction, what); };
    watch.stop = job.stop();
    replay(*plan, topology, ranges, watch);
    return [] {};
  };
  replaying_ =
      session.jobs.submit("replay derivation", work, [&session](const std::string& error) { session.complain(error); });
}

void RulesPanel::update_lines(Session& session) {
  Snapshot document = session.document();
  if (lines_of_ == std::pair(document->plan, together_)) return;
  lines_of_ = {document->plan, together_};
  lines_ = derivation_lines(*document->plan, together_);
  step_ = -1;
  replayed_.reset();
  if (replaying_) replaying_->cancel();
}

std::vector<std::optional<ReplayedSteps>> RulesPanel::replayed_lines() const {
  if (!replayed_) return {};
  std::lock_guard lock(replayed_->mutex);
  return replayed_->lines;
}

RulesPanel::LineText RulesPanel::line_text(std::size_t i,
                                           const std::vector<std::optional<ReplayedSteps>>& replayed) const {
  const DerivationLine& line = lines_[i];
  LineText text;
  text.step = fmt::format("{:>3}  {}{}", i + 1, line.rule, line.degree ? fmt::format(" in {}", line.degree) : "");
  text.where = line.count > 1 ? fmt::format("at {} and {} more", line.where, line.count - 1) : "at " + line.where;
  auto from_to = [](Picoseconds before, Picoseconds after) {
    return fmt::format("{} > {}", to_string(before), to_string(after));
  };
  if (line.after > 0)
    text.cost = line.before > 0 ? from_to(Picoseconds{line.before}, Picoseconds{line.after})
                                : to_string(Picoseconds{line.after});
  if (i >= replayed.size() || !replayed[i]) return text;
  const ReplayedSteps& again = *replayed[i];
  text.cost = again.applied == 0       ? std::string("-")
              : again.after.count == 0 ? std::string("cannot run so")
                                       : (again.about ? "about " : "") + from_to(again.before, again.after);
  text.tip = again.note.empty() && again.about
                 ? "As the same steps in the first and in the last layer, which were simulated"
                 : again.note;
  return text;
}

void RulesPanel::draw_derivation(Ui& ui, Session& session) {
  Snapshot document = session.document();
  const Theme& theme = ui.theme();
  update_lines(session);
  ui.flow();
  if (ui.button("step before", "<", "Step before (F7)", step_ > 0)) walk(session, -1);
  ui.flow(4);
  if (ui.button("next step", ">", "Next step (F8)", !lines_.empty())) walk(session, 1);
  ui.flow();
  if (ui.button("replay", "Replay",
                "Apply all steps again, from the model on, with every operator from the first device on, and show the "
                "time before and after each (F10)",
                !lines_.empty() && !(replaying_ && !replaying_->done())))
    session.commands.run("rules.replay").value();
  ui.flow();
  ui.checkbox("together", "together", together_, "Neighbouring steps that lay out operators the same way are one");
  ui.flow();
  ImGui::AlignTextToFramePadding();
  ui.text(lines_.empty()
              ? "none: the model as it is"
              : fmt::format("{} rules applied, in {} steps", document->plan->derivation.size(), lines_.size()),
          theme.dim);
  draw_outcome(ui, session);
  int show = scroll_to_ ? step_ : -1;
  scroll_to_ = false;
  float width = ImGui::GetContentRegionAvail().x / ui.fonts().scale();
  std::vector<std::optional<ReplayedSteps>> replayed = replayed_lines();
  ImGui::BeginChild("steps", {0, 0});
  draw_lines(ui, lines_.size(), show, [&](std::size_t i) {
    auto [step, where, cost, tip] = line_text(i, replayed);
    float right = cost.empty() ? 0 : tools_.metrics.width(cost, 14) + 20;
    std::string label = elide(tools_.metrics, step + "   " + where, 14, Face::text, width - right - 30);
    if (ui.selectable(fmt::format("step {}", i), label, static_cast<int>(i) == step_, cost)) {
      step_ = static_cast<int>(i);
      walk(session, 0);
      scroll_to_ = false;
    }
    if (!tip.empty()) ui.tooltip(tip);
  });
  ImGui::EndChild();
}

}  // namespace unity::gui
