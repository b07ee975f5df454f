// The rules panel: the rule library and its proofs, where a rule applies to the plan, and how the plan was derived.
#pragma once

#include <mutex>

#include "gui/panels/panel.h"
#include "gui/panels/rules/rules.h"
#include "gui/session/replay.h"
#include "gui/widgets/canvas.h"

namespace unity::gui {

class RulesPanel : public Panel {
 public:
  explicit RulesPanel(const PanelTools& tools) : tools_(tools) {}
  void draw(Ui& ui, Session& session) override;
  void add_commands(Session& session) override;
  std::string save() const override;
  void load(const std::string& text) override;
  std::optional<Drawing> drawing(const Theme& theme) const override;

 private:
  struct PlacesKey {
    std::shared_ptr<const Plan> plan;
    const Rule* rule = nullptr;
    bool operator==(const PlacesKey&) const = default;
  };

  void draw_list(Ui& ui);
  void draw_rule(Ui& ui, Session& session);
  void draw_places(Ui& ui, Session& session);
  void draw_outcome(Ui& ui, Session& session);
  void draw_derivation(Ui& ui, Session& session);
  void replay_derivation(Session& session);
  // A line of the derivation, as it is shown.
  struct LineText {
    std::string step, where, cost, tip;
  };
  LineText line_text(std::size_t line, const std::vector<std::optional<ReplayedSteps>>& replayed) const;
  std::vector<std::optional<ReplayedSteps>> replayed_lines() const;
  void update_lines(Session& session);
  // Where the chosen rule applies; null while that of the document as it is now is not known.
  const RulePlaces* places(const Session& session) const;
  void choose(std::size_t entry);
  void choose_match(Session& session, int match);
  void apply(Session& session);
  void walk(Session& session, int by);

  PanelTools tools_;
  std::string query_;
  std::vector<std::size_t> found_;
  std::optional<std::pair<std::string, int>> found_for_;  // the query, and the version of matching_
  int chosen_ = 0;                                        // of rule_entries()
  bool derivation_ = false, scroll_to_ = false;
  int step_ = -1;  // line of the derivation
  Canvas canvas_;
  Prepared<const Rule*, RulePicture> picture_;
  Prepared<PlacesKey, RulePlaces> places_;
  bool only_matching_ = false, together_ = true;
  Prepared<std::shared_ptr<const Plan>, std::vector<bool>> matching_;  // by entry
  int pictured_ = -1;  // version of the picture that the canvas was fitted to
  int match_ = 0, choice_ = 0;
  std::string problem_;
  std::pair<std::shared_ptr<const Plan>, bool> lines_of_;  // and whether together
  std::vector<DerivationLine> lines_;
  // What applying the steps again has said, by line; filled in while it goes on.
  struct Replayed {
    std::mutex mutex;
    std::vector<std::optional<ReplayedSteps>> lines;
  };
  std::shared_ptr<Replayed> replayed_;
  Job replaying_;
};

}  // namespace unity::gui
