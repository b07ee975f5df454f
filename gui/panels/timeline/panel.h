// The timeline panel: what happens when, predicted and measured, of one plan or of two.
#pragma once

#include "gui/panels/panel.h"
#include "gui/panels/timeline/timeline.h"
#include "gui/widgets/imgui_painter.h"

namespace unity::gui {

class TimelinePanel : public Panel {
 public:
  explicit TimelinePanel(const PanelTools& tools) : tools_(tools) {}
  void draw(Ui& ui, Session& session) override;
  void add_commands(Session& session) override;
  std::string save() const override;
  void load(const std::string& text) override;
  std::optional<Drawing> drawing(const Theme& theme) const override;

 private:
  static constexpr float kFacts = 330;  // width of what stands beside

  // Predictions are large: keys keep none alive.
  struct Source {
    std::string title;
    std::weak_ptr<const PlanPrediction> prediction;
    Snapshot document;  // whose trace it is, or that was predicted
    bool operator==(const Source& o) const {
      return title == o.title && document == o.document && !prediction.owner_before(o.prediction) &&
             !o.prediction.owner_before(prediction);
    }
  };
  struct SourcesKey {
    Snapshot document;
    std::vector<Source> sources;
    bool operator==(const SourcesKey&) const = default;
  };
  using TimelinePtr = std::shared_ptr<const Timeline>;
  using Paths = std::vector<TimelinePath>;
  using Wanted = std::vector<std::vector<bool>>;
  struct WantedKey {
    TimelinePtr timeline;
    std::vector<NodeId> nodes;
    bool operator==(const WantedKey&) const = default;
  };
  struct ViewKey {
    TimelinePtr timeline;
    std::shared_ptr<const Paths> paths;
    std::shared_ptr<const Wanted> wanted;
    TimelineOptions options;
    TimeWindow window;
    std::size_t first = 0, last = 0;
    bool operator==(const ViewKey&) const = default;
  };
  struct RangeKey {
    TimelinePtr timeline;
    std::int64_t from = 0, to = 0;
    bool operator==(const RangeKey&) const = default;
  };

  SourcesKey wanted_sources(Session& session) const;
  void update(Session& session);
  void draw_toolbar(Ui& ui, Session& session);
  void draw_lanes(Ui& ui, Session& session, Point size);
  void draw_facts(Ui& ui, Session& session);
  void start_view(Session& session);
  void handle(Ui& ui, Session& session, const Rect& area, bool hovered, bool held);
  void click(Session& session, Point at);
  void zoom(double factor, double at);  // `at`: pixels from the gutter
  void show(std::int64_t from, std::int64_t to);
  void zoom_to_selection(Session& session);
  std::optional<std::size_t> row_at(Point at) const;  // index of a place; in units of the area
  SpanPlace span_at(Point at) const;
  std::int64_t time_at(float x) const;
  TimelineLook look(const Theme& theme) const;

  PanelTools tools_;
  TimelineOptions options_;
  Prepared<SourcesKey, Timeline> timeline_;
  Prepared<SourcesKey, Paths> paths_;
  Prepared<WantedKey, Wanted> wanted_;
  Prepared<ViewKey, TimelineView> view_;
  Prepared<RangeKey, std::vector<RangeStatistics>> range_;
  std::pair<TimelinePtr, TimelineOptions> viewed_;  // what view_ last held was made of
  TimelinePtr shown_;                               // of which places_, window and selection are
  std::optional<TimelineOptions> placed_;           // that places_ were made of
  std::vector<RowPlace> places_;
  float height_ = 0, scroll_ = 0, area_w_ = 0, area_h_ = 0;
  TimeWindow now_;
  bool fit_ = true;
  int compare_with_ = 0;  // 0: a measurement, of the same program if one is open; else a document's number + 1
  std::int64_t range_from_ = -1, range_to_ = -1;
  enum class Drag : std::uint8_t { none, pan, range } drag_ = Drag::none;
  bool moved_ = false;
  SpanPlace selected_;
  std::vector<TimelineArrow> arrows_;
  std::string gap_text_;
  Selection seen_;  // the selection that was shown last
  DeviceId device_;
  LinkId link_;
};

}  // namespace unity::gui
