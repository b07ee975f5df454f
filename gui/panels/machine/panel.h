// The machine panel: the topology with what its devices and links do, the mapping of the selected operator, and what if
// the machine were faster.
#pragma once

#include "gui/panels/machine/places.h"
#include "gui/panels/panel.h"
#include "gui/widgets/canvas.h"

namespace unity::gui {

class MachinePanel : public Panel {
 public:
  explicit MachinePanel(const PanelTools& tools) : tools_(tools) {}
  void draw(Ui& ui, Session& session) override;
  void add_commands(Session& session) override;
  std::string save() const override;
  void load(const std::string& text) override;
  std::optional<Drawing> drawing(const Theme& theme) const override;

 private:
  void draw_machine(Ui& ui, Session& session, float height);
  void draw_time(Ui& ui);
  void draw_mapping(Ui& ui, Session& session, float grid_below);  // 0: beside its fields, else so high
  void draw_dims(Ui& ui, Session& session, NodeId node, const TaskGrid& grid);
  void draw_scales(Ui& ui, Session& session);
  void apply(Session& session, NodeId node, const MachineMapping& mapping);
  // The operators that an edit of this one maps: itself, or all of the same label but for numbers.
  std::vector<NodeId> alike(const Document& document, NodeId node) const;
  MachineLook look(const Theme& theme, const Session& session) const;

  PanelTools tools_;
  Canvas canvas_, grid_canvas_;
  struct PlacesKey {
    std::shared_ptr<const Topology> topology;
    double aspect = 1.6;  // of the pane, in steps
    bool operator==(const PlacesKey&) const = default;
  };
  struct Placed {
    std::shared_ptr<const Topology> topology;
    MachinePlaces places;
  };
  Prepared<PlacesKey, Placed> places_;
  int fitted_ = -1;  // version of the places that the canvas was fitted to
  // Predictions are large: this keeps none alive.
  struct LoadKey {
    std::weak_ptr<const PlanPrediction> of;
    Snapshot document;
    bool operator==(const LoadKey& o) const {
      return document == o.document && !of.owner_before(o.of) && !o.of.owner_before(of);
    }
  };
  struct Load {
    Snapshot document;
    MachineLoad load;
  };
  Prepared<LoadKey, Load> load_;
  // That of the document in front; null while it is not known.
  const MachineLoad* known_load() const;
  Snapshot document_;
  std::shared_ptr<const Topology> topology_;
  bool mean_ = true;
  double time_ = 0;  // fraction of the iteration
  bool all_alike_ = true;
  double grid_aspect_ = 1.3;
  // The mapping that is being edited; it is applied when it fits.
  NodeId edited_;
  MachineMapping edit_, shown_;
  std::string problem_;
  std::map<std::string, double> factors_;  // of sliders that are being dragged
  // What the drawing needs when it is exported.
  struct Last {
    std::vector<std::string> tasks;
    DeviceId device;
    LinkId link;
    std::int64_t iteration = 0;
  } last_;
  // The grid that was drawn last, for export.
  GridPlaces mapped_;
  std::string mapped_title_;
};

}  // namespace unity::gui
