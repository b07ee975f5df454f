// An experiment file (format: unity-experiment): a grid of searches, and the figures that its results are drawn as.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/report/search_settings.h"

namespace unity::report {

// A strategy under settings of its own.
struct Variant {
  std::string name;
  std::string strategy = "unity";
  SearchSettings settings;
  std::string text;  // the settings that differ from the defaults; empty: none
};

// A search of the grid. Its key says so in words, and names its row.
struct GridPoint {
  std::string model, topology;
  Variant variant;
  int nodes = 0, devices = 0;  // 0: as the topology says, all
  std::int64_t batch_per_gpu = 0, seq_len = 0, layers = 0;
  int budget = 0;
  std::int64_t global_batch = 0;  // instead of batch_per_gpu

  std::string key() const;
};

// Figures that others have published: from a value on, to the same or a higher one.
using Published = std::pair<double, double>;

// What of the results is drawn how. Rows are points with a plan; columns are the keys of a row.
struct Figure {
  std::string name, title;
  bool lines = false;                                    // else bars
  std::string x, y, series = "variant", panels;          // columns; panels: a chart for each of its values, or empty
  std::map<std::string, std::vector<std::string>> only;  // column: the values whose rows count
  std::vector<std::string> over;  // y is divided by that of the best of these variants at the same point
  std::string take = "max";       // max, min or mean of rows with equal panel, series and x
  bool log_x = false, log_y = false;
  std::map<std::string, std::map<std::string, Published>> published;  // by series, x
  std::string source = "paper";                                       // of what is published
};

struct Experiment {
  std::string name;
  std::vector<GridPoint> grid;
  std::vector<Figure> figures;
};

// InputError with file, line and column. To be run: also where a file of mappings is not there, or no machine of the
// grid has so many devices.
Experiment load_experiment(const std::string& file, bool to_run = false);

// Columns of results that a figure can have as y, and whether more is better.
const std::map<std::string, bool>& quantities();

}  // namespace unity::report
