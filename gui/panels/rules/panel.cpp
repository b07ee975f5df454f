#include "gui/panels/rules/panel.h"

#include <algorithm>

#include "core/base/text.h"
#include "gui/session/rewriting.h"
#include "gui/widgets/lines.h"

namespace unity::gui {
namespace {

constexpr float kList = 230;

}  // namespace

void RulesPanel::add_commands(Session& session) {
  auto have = [&session] { return session.document() && session.document()->plan; };
  session.commands.add({"rules.library", "Rules: the library", "Ctrl+Shift+R", [] { return true; },
                        [this](const Arguments&) { derivation_ = false; }});
  session.commands.add({"rules.derivation", "Rules: the derivation", "Ctrl+Shift+D", have,
                        [this](const Arguments&) { derivation_ = true; }});
  session.commands.add({"rules.next", "Rules: next step, or next match", "F8", have,
                        [this, &session](const Arguments&) { walk(session, 1); }});
  session.commands.add({"rules.previous", "Rules: step or match before", "F7", have,
                        [this, &session](const Arguments&) { walk(session, -1); }});
  session.commands.add({"rules.apply", "Rules: apply at the match that is shown", "F9", have,
                        [this, &session](const Arguments&) { apply(session); }});
  session.commands.add({"rules.replay", "Rules: apply the derivation again, with the time after each step", "F10", have,
                        [this, &session](const Arguments&) { replay_derivation(session); }});
  session.commands.add({"rules.show", "Rules: show rule ..", "", [] { return true; },
                        [this](const Arguments& a) {
                          std::string name = a.contains("rule") ? a.at("rule") : "";
                          std::vector<std::string> names;
                          for (std::size_t i = 0; i < rule_entries().size(); ++i) {
                            names.push_back(rule_entries()[i].rule->name);
                            if (names.back() == name) return choose(i);
                          }
                          throw_input_error("rules.show: the library has no rule '{}'{}", name,
                                            suggestion(name, names));
                        },
                        false});
  session.commands.add({"rules.find", "Rules: search for ..", "", [] { return true; },
                        [this](const Arguments& a) { query_ = a.contains("text") ? a.at("text") : ""; }, false});
}

std::string RulesPanel::save() const {
  return fmt::format("{} {}", derivation_, rule_entries()[static_cast<std::size_t>(chosen_)].rule->name);
}

void RulesPanel::load(const std::string& text) {
  std::size_t blank = text.find(' ');
  if (blank == std::string::npos) return;
  derivation_ = text.starts_with("true");
  for (std::size_t i = 0; i < rule_entries().size(); ++i)
    if (rule_entries()[i].rule->name == text.substr(blank + 1)) choose(i);
}

std::optional<Drawing> RulesPanel::drawing(const Theme& theme) const {
  if (derivation_ && !lines_.empty()) {
    constexpr float kWidth = 900;
    std::vector<LineText> lines;
    for (std::size_t i = 0; i < lines_.size(); ++i) lines.push_back(line_text(i, replayed_lines()));
    Rect area{0, 0, kWidth, kLine * static_cast<float>(lines.size() + 1)};
    return Drawing{area, [lines, metrics = tools_.metrics, &theme](Painter& painter) {
                     float y = 0;
                     for (const LineText& line : lines) {
                       y += kLine;
                       float right = metrics.width(line.cost, 14) + 20;
                       painter.text({10, y},
                                    elide(metrics, line.step + "   " + line.where, 14, Face::text, kWidth - right - 20),
                                    {14, theme.text});
                       painter.text({kWidth - 10, y}, line.cost, {14, theme.dim, Face::text, Align::right});
                     }
                   }};
  }
  auto picture = picture_.data();
  if (!picture) return std::nullopt;
  return Drawing{picture->bounds.grown(10),
                 [picture, &theme](Painter& painter) { paint_rule(painter, *picture, theme); }};
}

void RulesPanel::choose(std::size_t entry) {
  chosen_ = static_cast<int>(entry);
  match_ = choice_ = 0;
  scroll_to_ = true;
  derivation_ = false;
  problem_.clear();
}

const RulePlaces* RulesPanel::places(const Session& session) const {
  const auto& places = places_.data();
  Snapshot document = session.document();
  if (!places || !places_.current() || !document || !document->plan || places->graph != &document->plan->pcg)
    return nullptr;
  return places.get();
}

void RulesPanel::choose_match(Session& session, int match) {
  match_ = match;
  choice_ = 0;
  problem_.clear();
  const RulePlaces* places = this->places(session);
  if (!places || static_cast<std::size_t>(match) >= places->matches.size()) return;
  session.select(Selection::of(places->matches[static_cast<std::size_t>(match)].nodes));
  session.commands.run("pcg.show_selected").value();
}

void RulesPanel::walk(Session& session, int by) {
  if (!derivation_) {
    if (const RulePlaces* known = places(session); known && !known->matches.empty())
      choose_match(session, std::clamp(match_ + by, 0, static_cast<int>(known->matches.size()) - 1));
    return;
  }
  update_lines(session);
  if (lines_.empty()) return;
  step_ = std::clamp(step_ + by, 0, static_cast<int>(lines_.size()) - 1);
  scroll_to_ = true;
  Selection selection = Selection::of(lines_[static_cast<std::size_t>(step_)].nodes);
  selection.step = lines_[static_cast<std::size_t>(step_)].first;
  session.select(selection);
  if (!selection.nodes.empty()) session.commands.run("pcg.show_selected").value();
}

void RulesPanel::apply(Session& session) {
  const RulePlaces* places = this->places(session);
  auto m = static_cast<std::size_t>(match_);
  if (!places || m >= places->matches.size()) return session.say("the rule has no match here");
  Arguments arguments = {{"rule", rule_entries()[static_cast<std::size_t>(chosen_)].rule->name},
                         {"match", std::to_string(places->numbers[m])}};
  if (m < places->choices.size()) {
    const auto& choices = places->choices[m];
    if (static_cast<std::size_t>(choice_) < choices.size())
      arguments["parameters"] = to_text(choices[static_cast<std::size_t>(choice_)]);
  }
  Result<void> done = session.commands.run("apply_rule", arguments);
  problem_ = done.ok() ? std::string() : done.error().message;
}

void RulesPanel::draw(Ui& ui, Session& session) {
  if (ui.button("library", "Library", "All rules, and where they apply (Ctrl+Shift+R)", true, !derivation_))
    derivation_ = false;
  ui.flow(4);
  bool planned = session.document() && session.document()->plan;
  if (ui.button("derivation", "Derivation", "How the plan came from its model (Ctrl+Shift+D)", planned, derivation_))
    derivation_ = true;
  if (derivation_ && planned) return draw_derivation(ui, session);
  ui.flow();
  ui.input("rule search", query_, "search rules", 170);
  ui.flow();
  ui.checkbox("only matching", "that apply", only_matching_, "Only rules that have a match in this plan");
  bool filter = only_matching_ && planned;
  if (filter)
    matching_.get(session, "rules that apply", session.document()->plan,
                  [](const std::shared_ptr<const Plan>& plan, JobState& job) {
                    return rules_that_match(plan->pcg, rule_entries(), job.stop());
                  });
  if (std::pair wanted(query_, filter ? matching_.version() : -1); found_for_ != wanted) {
    found_ = search_rules(rule_entries(), query_);
    if (filter && matching_.data()) std::erase_if(found_, [&](std::size_t i) { return !(*matching_.data())[i]; });
    found_for_ = wanted;
  }
  ui.flow();
  ui.text(fmt::format("{} rules", found_.size()), ui.theme().dim);
  ImGui::BeginChild("rule list", {ui.unit(kList), 0});
  draw_list(ui);
  ImGui::EndChild();
  ImGui::SameLine(0, ui.unit(12));
  ImGui::BeginChild("rule", {0, 0});
  draw_rule(ui, session);
  ImGui::EndChild();
}

void RulesPanel::draw_list(Ui& ui) {
  int show = -1;
  if (scroll_to_)
    for (std::size_t i = 0; i < found_.size(); ++i)
      if (found_[i] == static_cast<std::size_t>(chosen_)) show = static_cast<int>(i);
  scroll_to_ = false;
  draw_lines(ui, found_.size(), show, [&](std::size_t i) {
    const RuleEntry& entry = rule_entries()[found_[i]];
    std::string label = elide(tools_.metrics, entry.rule->name, 14, Face::text, kList - 20);
    if (ui.selectable("rule " + entry.rule->name, label, static_cast<int>(found_[i]) == chosen_)) {
      choose(found_[i]);
      scroll_to_ = false;
    }
  });
}

void RulesPanel::draw_rule(Ui& ui, Session& session) {
  const RuleEntry& entry = rule_entries()[static_cast<std::size_t>(chosen_)];
  const Theme& theme = ui.theme();
  float width = ImGui::GetContentRegionAvail().x / ui.fonts().scale();
  ui.text(elide(tools_.metrics, entry.rule->name, 15, Face::strong, width), theme.text, Face::strong, 15);
  for (const auto& [label, value] : rule_facts(entry)) {
    std::string shown = elide(tools_.metrics, value, 13, Face::mono, width - 90);
    ui.fact(label, shown, 80);
    if (shown != value) ui.tooltip(value);
  }
  const Rule* rule = entry.rule;
  const RulePicture* picture = picture_.get(session, "rule", rule, [tools = tools_](const Rule* const& of, JobState&) {
    return picture_of(*of, tools.metrics, tools.program);
  });
  if (picture_.version() != pictured_) {
    pictured_ = picture_.version();
    canvas_.fit();
  }
  ImVec2 room = ImGui::GetContentRegionAvail();
  float height = std::max(room.y - ui.unit(190), ui.unit(60));
  if (picture && picture_.current())
    canvas_.draw(ui, "rule picture", {room.x, height}, picture->bounds,
                 [&](Painter& painter) { paint_rule(painter, *picture, theme); });
  else
    ImGui::Dummy({room.x, height});
  draw_places(ui, session);
}

void RulesPanel::draw_places(Ui& ui, Session& session) {
  Snapshot document = session.document();
  const Theme& theme = ui.theme();
  if (!document || !document->plan) {
    ui.wrapped("Open a plan to see where the rule applies.", theme.dim);
    return;
  }
  PlacesKey key{document->plan, rule_entries()[static_cast<std::size_t>(chosen_)].rule};
  places_.get(session, "matches", key, [topology = document->topology](const PlacesKey& of, JobState& job) {
    return rule_places(*of.plan, *topology, *of.rule, job.stop());
  });
  const RulePlaces* places = this->places(session);
  if (!places) {
    ui.text("matching ..", theme.dim);
    return;
  }
  std::size_t count = places->matches.size();
  ImGui::AlignTextToFramePadding();
  ui.text(count == 0   ? "applies nowhere in this plan"
          : count == 1 ? "1 match"
                       : fmt::format("{} matches", count),
          theme.text, Face::strong);
  if (places->ill_typed > 0) {
    ui.flow();
    ui.text(fmt::format("{} more would not fit", places->ill_typed), theme.dim);
  }
  if (count > 0) {
    match_ = std::clamp(match_, 0, static_cast<int>(count) - 1);
    auto m = static_cast<std::size_t>(match_);
    if (m < places->choices.size() && !places->choices[m].empty() && !places->choices[m][0].empty()) {
      std::vector<std::string> names;
      for (const Parameters& p : places->choices[m]) names.push_back(to_text(p));
      choice_ = std::clamp(choice_, 0, static_cast<int>(names.size()) - 1);
      ui.flow();
      ui.choose("parameters", names, choice_, 120, "The rule leaves this to choose");
    }
    ui.flow();
    if (ui.button("apply rule", "Apply", "Rewrite the plan here (F9); Ctrl+Z takes it back")) apply(session);
  }
  draw_outcome(ui, session);
  if (!problem_.empty()) ui.wrapped(problem_, theme.error);
  ImGui::BeginChild("matches", {0, 0});
  draw_lines(ui, count, -1, [&](std::size_t i) {
    std::string label = elide(tools_.metrics, places->labels[i], 14, Face::text, 340);
    if (ui.selectable(fmt::format("match {}", i), label, static_cast<int>(i) == match_))
      choose_match(session, static_cast<int>(i));
  });
  ImGui::EndChild();
}

void RulesPanel::draw_outcome(Ui& ui, Session& session) {
  const History& history = session.file()->history;
  if (history.position() == 0 || history.edits()[history.position() - 1].name != "apply_rule") return;
  PredictionPtr now = session.prediction(), before = session.prediction_before();
  const Theme& theme = ui.theme();
  if (!now) return ui.text("simulating ..", theme.dim);
  if (!now->error.empty()) return ui.wrapped(now->error, theme.error);
  std::string text = now->iteration_text();
  if (!before || !before->error.empty()) return ui.text(text, theme.text, Face::mono, 13);
  double change = 100 * (now->iteration.seconds() / before->iteration.seconds() - 1);
  ui.text(fmt::format("{} > {}", before->iteration_text(), text), theme.text, Face::mono, 13);
  ui.flow();
  ui.text(fmt::format("{:+.2f}% by {}", change, "the last rule"), change <= 0 ? theme.good : theme.error);
}

}  // namespace unity::gui
