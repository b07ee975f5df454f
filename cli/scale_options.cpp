#include "cli/scale_options.h"

#include <algorithm>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/path_report.h"
#include "cli/table.h"
#include "core/base/text.h"

namespace unity::cli {
namespace {

double speedup(const SimulationResult& before, const SimulationResult& after) {
  return after.iteration.count ? before.iteration.seconds() / after.iteration.seconds() : 0;
}

std::vector<std::string> texts_of(const std::vector<Scale>& scales) {
  std::vector<std::string> texts;
  for (const Scale& scale : scales) texts.push_back(scale.text());
  return texts;
}

}  // namespace

void ScaleOptions::add(CLI::App& command, CLI::Option* excludes) {
  CLI::Option* option =
      command
          .add_option("--scale", texts,
                      "What if: a factor on a part of the machine, KIND[:NAME][.PROPERTY]=FACTOR; may be repeated. "
                      "link:infiniband=2 (bandwidth), link.latency=0, device=1.5, device.memory-bandwidth=2, "
                      "device.compute=2, device.launch=0, task:matmul=0.5 (times of an operator)")
          ->type_name("KEY=FACTOR")
          ->allow_extra_args(false);
  if (excludes) option->excludes(excludes);
}

std::vector<Scale> ScaleOptions::parse() const {
  std::vector<Scale> scales;
  for (const std::string& text : texts) scales.push_back(parse_scale(text));
  return scales;
}

void print_change(const std::vector<Scale>& scales, const Program& program, const SimulationResult& before,
                  const SimulationResult& after) {
  fmt::print("with {}: {:.2f}x as fast\n\n", join(texts_of(scales)), speedup(before, after));
  PathReport a = report_path(program, before.trace), b = report_path(program, after.trace);
  Table table({"", "as it is", "scaled", "change"});
  auto row = [&](const std::string& what, Picoseconds from, Picoseconds to) {
    std::string change = "-";
    if (from.count)
      change =
          fmt::format("{:+.1f}%", 100 * static_cast<double>(to.count - from.count) / static_cast<double>(from.count));
    table.add({what, to_string(from), to_string(to), change});
  };
  row("iteration", before.iteration, after.iteration);
  const std::string path =
      program.iterations > 1 ? fmt::format("critical path of {} iterations", program.iterations) : "critical path";
  row(path + ": computing", a.computing, b.computing);
  row(path + ": communicating", a.communicating, b.communicating);
  if (a.copying.count || b.copying.count) row(path + ": copying to and from the host", a.copying, b.copying);
  row(path + ": waiting", a.waiting, b.waiting);
  table.print();
  fmt::print("\n");
}

nlohmann::ordered_json change_json(const std::vector<Scale>& scales, const SimulationResult& before,
                                   const SimulationResult& after) {
  return {{"scale", texts_of(scales)},
          {"unscaled_iteration_seconds", before.iteration.seconds()},
          {"speedup", speedup(before, after)}};
}

}  // namespace unity::cli
