#include "gui/panels/timeline/panel.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "core/base/text.h"

namespace unity::gui {
namespace {

constexpr double kLeastStep = 1;  // picoseconds a pixel
constexpr std::size_t kRowsAround = 24;

}  // namespace

void TimelinePanel::add_commands(Session& session) {
  auto have = [&session] { return session.document() != nullptr; };
  auto add = [&](const char* name, const char* label, const char* shortcut, auto run) {
    session.commands.add({name, label, shortcut, have, [run](const Arguments&) { run(); }});
  };
  add("timeline.fit", "Timeline: show all", "Ctrl+8", [this] { fit_ = true; });
  add("timeline.zoom_selection", "Timeline: zoom to the range or the selection", "Ctrl+Shift+G",
      [this, &session] { zoom_to_selection(session); });
  add("timeline.zoom_in", "Timeline: zoom in", "Ctrl+Shift+Up", [this] { zoom(0.6, now_.pixels / 2.0); });
  add("timeline.zoom_out", "Timeline: zoom out", "Ctrl+Shift+Down", [this] { zoom(1 / 0.6, now_.pixels / 2.0); });
  auto pan = [this](double part) { now_.from += static_cast<std::int64_t>(part * now_.step * now_.pixels); };
  add("timeline.pan_left", "Timeline: earlier", "Ctrl+Shift+Left", [pan] { pan(-0.1); });
  add("timeline.pan_right", "Timeline: later", "Ctrl+Shift+Right", [pan] { pan(0.1); });
  add("timeline.up", "Timeline: lanes above", "Ctrl+Shift+PageUp", [this] { scroll_ -= 120; });
  add("timeline.down", "Timeline: lanes below", "Ctrl+Shift+PageDown", [this] { scroll_ += 120; });
  add("timeline.links", "Timeline: show or hide links", "", [this] { options_.links = !options_.links; });
  add("timeline.memory", "Timeline: show or hide memory", "", [this] { options_.memory = !options_.memory; });
  add("timeline.critical", "Timeline: show or hide the critical path", "",
      [this] { options_.critical = !options_.critical; });
  session.commands.add({"timeline.filter", "Timeline: only lanes of ..", "", have,
                        [this](const Arguments& a) { options_.filter = a.contains("text") ? a.at("text") : ""; },
                        false});
  session.commands.add({"timeline.range", "Timeline: range from .. to ..", "", have,
                        [this](const Arguments& a) {
                          double from = a.contains("from") ? std::atof(a.at("from").c_str()) : -1;
                          double to = a.contains("to") ? std::atof(a.at("to").c_str()) : -1;
                          if (!shown_) throw_input_error("timeline.range: there is no timeline yet");
                          if (!(from >= 0 && from < to && to <= 1))
                            throw_input_error(
                                "timeline.range: needs 'from' and 'to', fractions of the time with from < to");
                          range_from_ = static_cast<std::int64_t>(from * static_cast<double>(shown_->end));
                          range_to_ = static_cast<std::int64_t>(to * static_cast<double>(shown_->end));
                        },
                        false});
  session.commands.add({"timeline.compare", "Timeline: compare with document ..", "", have,
                        [this, &session](const Arguments& a) {
                          int number = a.contains("document") ? std::atoi(a.at("document").c_str()) : 0;
                          if (number < 0 || number > static_cast<int>(session.files().size()))
                            throw_input_error("timeline.compare: there is no document {}", number);
                          compare_with_ = number;
                        },
                        false});
}

std::string TimelinePanel::save() const {
  return fmt::format("{} {} {} {}", options_.links, options_.memory, options_.critical, options_.filter);
}

void TimelinePanel::load(const std::string& text) {
  std::istringstream in(text);
  if (!(in >> std::boolalpha >> options_.links >> options_.memory >> options_.critical)) return;
  in.get();
  std::getline(in, options_.filter);
}

TimelinePanel::SourcesKey TimelinePanel::wanted_sources(Session& session) const {
  SourcesKey key{session.document(), {}};
  PredictionPtr first;
  // Whether it measures the plan in front: its very program.
  auto is_own = [&](const Document& of) { return first && of.trace->program == first->result.trace.program; };
  auto add = [&](const OpenFile& file, const std::string& predicted) {
    const Snapshot& of = file.history.now();
    if (of->trace) {
      bool measured = of->trace->source == "measured" && (key.sources.empty() || is_own(*of));
      key.sources.push_back({measured ? "measured" : of->title, {}, of});
      return;
    }
    PredictionPtr known = file.prediction(of);
    if (!known || !known->whole || !known->error.empty()) return;
    if (key.sources.empty()) first = known;
    key.sources.push_back({predicted, known, of});
  };
  add(*session.file(), "predicted");
  if (key.sources.empty() || key.document->trace) return key;
  if (compare_with_ > 0 && compare_with_ <= static_cast<int>(session.files().size())) {
    const OpenFile& other = *session.files()[static_cast<std::size_t>(compare_with_ - 1)];
    if (&other != session.file()) add(other, session.titles()[static_cast<std::size_t>(compare_with_ - 1)]);
    return key;
  }
  // Its own measurement, else the trace that was opened last.
  const OpenFile* trace = nullptr;
  for (const auto& file : session.files())
    if (const Snapshot& of = file->history.now(); of->trace && !(trace && is_own(*trace->history.now())))
      trace = file.get();
  if (trace) add(*trace, "");
  return key;
}

void TimelinePanel::update(Session& session) {
  SourcesKey key = wanted_sources(session);
  if (key.sources.empty()) return;
  auto inputs = [](const SourcesKey& of, std::vector<PredictionPtr>& alive) {
    std::vector<TimelineInput> list;
    Hash first = 0;
    for (const Source& source : of.sources) {
      if (source.document->trace) {
        // Of the plan's own program, where the file says so.
        bool same = !alive.empty() && source.document->trace->program == first;
        list.push_back({source.title, source.document->trace.get(), same ? alive[0]->program : nullptr});
        continue;
      }
      PredictionPtr prediction = source.prediction.lock();
      if (!prediction) return std::vector<TimelineInput>();
      alive.push_back(prediction);
      if (alive.size() == 1) first = prediction->result.trace.program;
      list.push_back({source.title, &prediction->result.trace, prediction->program, source.document->topology.get()});
    }
    return list;
  };
  timeline_.get(session, "timeline", key, [inputs](const SourcesKey& of, JobState&) {
    std::vector<PredictionPtr> alive;
    return make_timeline(inputs(of, alive), &of.document->graph(), of.document->topology.get());
  });
  paths_.get(session, "critical path", key, [inputs](const SourcesKey& of, JobState&) {
    std::vector<PredictionPtr> alive;
    Paths paths;
    std::vector<TimelineInput> list = inputs(of, alive);
    bool any = std::any_of(list.begin(), list.end(), [](const TimelineInput& i) { return i.program != nullptr; });
    Timeline timeline;
    if (any) timeline = make_timeline(list, &of.document->graph(), of.document->topology.get());
    for (std::size_t i = 0; i < list.size(); ++i) {
      paths.push_back(list[i].program ? timeline_path(*list[i].trace, *list[i].program) : TimelinePath());
      if (list[i].program) place_path(paths.back(), timeline, i);
    }
    return paths;
  });
  if (timeline_.data() != shown_) {
    bool other = !shown_ || shown_->end != timeline_.data()->end;
    shown_ = timeline_.data();
    placed_.reset();
    selected_ = {};
    arrows_.clear();
    gap_text_.clear();
    seen_ = {};
    if (other) {
      range_from_ = range_to_ = -1;
      fit_ = true;
    }
  }
  if (!shown_) return;
  if (placed_ != options_) {
    placed_ = options_;
    places_ = place_rows(*shown_, options_);
    height_ = places_.empty() ? 0 : places_.back().y + places_.back().h;
  }
  const Selection& selection = session.selection();
  wanted_.get(session, "spans", {shown_, selection.nodes},
              [](const WantedKey& of, JobState&) { return tasks_of(*of.timeline, of.nodes); });
  if (selection == seen_) return;
  seen_ = selection;
  device_ = selection.kind == Selection::Kind::device ? selection.device : DeviceId();
  link_ = selection.kind == Selection::Kind::link ? selection.link : LinkId();
  if (!selection.task.valid()) {
    selected_ = {};
    arrows_.clear();
  }
  for (const RowPlace& place : places_) {
    const TimelineLane& lane = shown_->lanes[place.lane];
    if (!(device_.valid() && lane.device == device_) && !(link_.valid() && lane.link == link_)) continue;
    if (place.y < scroll_ || place.y + place.h > scroll_ + area_h_ - kRuler) scroll_ = place.y - 4;
    break;
  }
}

void TimelinePanel::zoom(double factor, double at) {
  double most = 4 * static_cast<double>(shown_ ? shown_->end : 1) / std::max(now_.pixels, 1);
  double step = std::clamp(now_.step * factor, kLeastStep, std::max(most, kLeastStep));
  now_.from += static_cast<std::int64_t>(at * (now_.step - step));
  now_.step = step;
}

void TimelinePanel::show(std::int64_t from, std::int64_t to) {
  auto length = static_cast<double>(std::max<std::int64_t>(to - from, 1));
  now_.step = std::max(length * 1.06 / std::max(now_.pixels, 1), kLeastStep);
  now_.from = from - static_cast<std::int64_t>(0.03 * length);
}

void TimelinePanel::zoom_to_selection(Session& session) {
  if (!shown_) return;
  if (range_to_ > range_from_) return show(range_from_, range_to_);
  if (selected_.valid()) {
    const TimelineSpan& span =
        shown_->lanes[static_cast<std::size_t>(selected_.lane)].rows[selected_.row].spans[selected_.span];
    std::int64_t around = (span.end - span.start) * 2;
    return show(span.start - around, span.end + around);
  }
  // The first of its spans: forward and backward lie far apart.
  const TimelineSource& source = shown_->sources[0];
  std::int64_t from = -1, to = -1;
  for (std::size_t t = 0; t < source.node_of_task.size() && t < source.first_start.size(); ++t) {
    if (source.first_start[t] < 0 || !session.selection().holds(source.node_of_task[t])) continue;
    if (from < 0 || source.first_start[t] < from) from = source.first_start[t], to = source.last_end[t];
  }
  if (from < 0) return session.say("select an operator, a span or a range of time first");
  show(from - 3 * (to - from), to + 3 * (to - from));
}

void TimelinePanel::start_view(Session& session) {
  // Prepared for a zoom level between a half and a whole of that shown, and half a screen around, so that moving and
  // zooming needs new ones only now and then.
  TimeWindow window;
  window.step = std::exp2(std::floor(std::log2(std::max(now_.step, 1e-3)) * 2) / 2);
  double tile = window.step * std::max(now_.pixels, 1) / 2;
  double from = std::floor(static_cast<double>(now_.from) / tile) - 1;
  double to = std::ceil((static_cast<double>(now_.from) + now_.step * now_.pixels) / tile) + 1;
  window.from = static_cast<std::int64_t>(from * tile);
  window.pixels = static_cast<int>((to - from) * tile / window.step);
  auto at = [&](float y) {
    return static_cast<std::size_t>(
        std::partition_point(places_.begin(), places_.end(), [&](const RowPlace& p) { return p.y + p.h < y; }) -
        places_.begin());
  };
  std::size_t first = at(scroll_) / kRowsAround * kRowsAround;
  std::size_t last = std::min((at(scroll_ + area_h_) / kRowsAround + 1) * kRowsAround, places_.size());
  view_.get(session, "view",
            {shown_, options_.critical ? paths_.data() : nullptr, wanted_.data(), options_, window, first, last},
            [](const ViewKey& of, JobState&) {
              static const Paths no_paths;
              static const Wanted no_wanted;
              TimelineView view{of.window, of.first, {}};
              std::vector<RowPlace> places = place_rows(*of.timeline, of.options);
              for (std::size_t i = of.first; i < std::min(of.last, places.size()); ++i)
                view.rows.push_back(reduce_row(*of.timeline, places[i].lane, places[i].row, of.window,
                                               of.wanted ? *of.wanted : no_wanted, of.paths ? *of.paths : no_paths));
              return view;
            });
}

std::int64_t TimelinePanel::time_at(float x) const {
  return now_.from + static_cast<std::int64_t>(static_cast<double>(x - kGutter) * now_.step);
}

TimelineLook TimelinePanel::look(const Theme& theme) const {
  TimelineLook look{theme, tools_.metrics, {0, 0, area_w_, area_h_}};
  look.scroll = scroll_;
  look.now = now_;
  look.places = &places_;
  look.selected = selected_;
  look.arrows = arrows_;
  if (options_.critical && paths_.current()) look.paths = paths_.data().get();
  look.device = device_;
  look.link = link_;
  look.range_from = range_from_;
  look.range_to = range_to_;
  return look;
}

std::optional<Drawing> TimelinePanel::drawing(const Theme& theme) const {
  auto view = view_.data();
  if (!shown_ || !view) return std::nullopt;
  return Drawing{{0, 0, area_w_, area_h_}, [this, view, timeline = shown_, &theme](Painter& painter) {
                   paint_timeline(painter, *timeline, *view, look(theme));
                 }};
}

void TimelinePanel::draw_lanes(Ui& ui, Session& session, Point size) {
  ImVec2 corner = ImGui::GetCursorScreenPos();
  Rect area{corner.x, corner.y, std::max(size.x, 8.0f), std::max(size.y, 8.0f)};
  ImGui::InvisibleButton("##timeline", {area.w, area.h});
  ui.note("canvas timeline", "", area, {}, false);
  float unit = ui.fonts().scale();
  area_w_ = area.w / unit, area_h_ = area.h / unit;
  now_.pixels = std::max(static_cast<int>(area_w_ - kGutter), 1);
  if (fit_) {
    show(0, shown_->end);
    scroll_ = 0;
    fit_ = false;
  }
  handle(ui, session, area, ImGui::IsItemHovered(), ImGui::IsItemActive());
  scroll_ = std::clamp(scroll_, 0.0f, std::max(0.0f, height_ - area_h_ + kRuler + 10));
  auto length = static_cast<std::int64_t>(now_.step * now_.pixels);
  now_.from = std::clamp(now_.from, -length, std::max<std::int64_t>(shown_->end, 1));
  start_view(session);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.PushClipRect({area.x, area.y}, {area.right(), area.bottom()}, true);
  ui.ground(area, ui.theme().canvas);
  ImGuiPainter painter(ui, list, {{area.x, area.y}, unit}, area);
  // What was reduced of other lanes or another trace stands elsewhere.
  static const TimelineView nothing;
  const TimelineView* view = view_.data().get();
  bool fits = view && viewed_ == std::pair(shown_, options_);
  if (view_.current()) viewed_ = {shown_, options_}, fits = view != nullptr;
  paint_timeline(painter, *shown_, fits ? *view : nothing, look(ui.theme()));
  list.PopClipRect();
}

void TimelinePanel::draw_toolbar(Ui& ui, Session& session) {
  ui.input("lanes", options_.filter, "lanes, e.g. gpu0", 130);
  ui.tooltip("Only lanes whose titles hold all these words: node0 compute");
  ui.flow();
  ui.checkbox("links", "links", options_.links, "A lane for each link, as full as it is");
  ui.flow();
  ui.checkbox("memory", "memory", options_.memory, "What the memory of each device holds, over time");
  ui.flow();
  ui.checkbox("critical path", "critical path", options_.critical, "Underline what the iteration waits for");
  ui.flow();
  if (ui.button("timeline fit", icon::kFit, "Show the whole iteration (Ctrl+8)")) fit_ = true;
  ui.flow(4);
  if (ui.button("timeline zoom", icon::kSearch, "Zoom to the range or the selection (Ctrl+Shift+G)"))
    zoom_to_selection(session);
  if (session.files().size() > 1) {
    std::vector<std::string> names = {"a measurement"};
    for (const std::string& title : session.titles()) names.push_back(title);
    compare_with_ = std::min(compare_with_, static_cast<int>(session.files().size()));
    ui.flow();
    ui.choose("timeline compare", names, compare_with_, 190, "What stands below each lane");
  }
  for (std::size_t k = 0; k + 1 < kSpanKinds; ++k) {
    ui.flow(12);
    ui.swatch(span_color(ui.theme(), static_cast<SpanKind>(k)), to_string(static_cast<SpanKind>(k)));
  }
}

void TimelinePanel::draw(Ui& ui, Session& session) {
  if (!session.document()) {
    ui.text("no document is open", ui.theme().dim);
    return;
  }
  update(session);
  if (!shown_ || wanted_sources(session).sources.empty()) {
    const Document& document = *session.document();
    PredictionPtr known = session.prediction();
    if (session.simulation_stopped() && !(known && !known->error.empty())) {
      ui.wrapped("Not everything was simulated.", ui.theme().dim);
      if (ui.button("simulate again", "Simulate again", "Lower and simulate every device"))
        session.commands.run("simulate").value();
      return;
    }
    ui.wrapped(known && !known->error.empty() ? known->error
               : document.plan || document.trace
                   ? "simulating .."
                   : "This is a model without a plan. Open it with a machine (Ctrl+O), or a trace that unity run or "
                     "unity validate has written.",
               ui.theme().dim);
    return;
  }
  draw_toolbar(ui, session);
  ImVec2 room = ImGui::GetContentRegionAvail();
  float facts = room.x > ui.unit(900) ? ui.unit(kFacts) : 0;
  ImGui::BeginChild("lanes", {room.x - facts - (facts > 0 ? ui.unit(10) : 0), 0}, false,
                    ImGuiWindowFlags_NoScrollWithMouse);
  ImVec2 inside = ImGui::GetContentRegionAvail();
  draw_lanes(ui, session, {inside.x, inside.y});
  ImGui::EndChild();
  if (facts <= 0) return;
  ImGui::SameLine(0, ui.unit(10));
  ImGui::BeginChild("facts", {0, 0});
  draw_facts(ui, session);
  ImGui::EndChild();
}

}  // namespace unity::gui
