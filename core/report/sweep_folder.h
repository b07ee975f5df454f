// The folder of a sweep: results.json and results.csv, plans/, experiment.yaml; and of one in several processes parts/,
// with the rows of each shard in a file of its own, I-of-N.json, which merge() joins.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/report/claim.h"
#include "core/report/shard.h"

namespace unity::report {

using RowJson = nlohmann::ordered_json;  // has "point", the key of a point of the grid

class SweepFolder {
 public:
  // Makes the folder. InputError when that is not possible.
  SweepFolder(std::string folder, std::string experiment_file, Experiment experiment);

  // The points, each once, and what is written of them.
  const std::vector<GridPoint>& grid() const { return grid_; }
  std::string plan_file(const GridPoint& point) const;  // "plans/0a1b...json", from the folder
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string file_of(const Shard& shard) const;  // results.json, or parts/2-of-8.json

  // Whether anything is there that a sweep would go on with.
  bool has_results() const;
  // What is there is of this many shards of this grid, or of none. InputError.
  void check_parts(int shards) const;
  // The rows that are there, of results.json and all parts, by point; of two a plan counts before an error, then the
  // later one, then that of a part. InputError: a file that is no result, is cut off, of another grid, or has a row of
  // another's.
  std::map<std::string, RowJson> rows() const;

  // This process as the only one that writes the file of the shard. InputError: another one does, or one that does all
  // of them. To be called before rows() that are to be gone on with.
  void claim(const Shard& shard);
  // Writes the shard's rows, in the order of the grid, rows of other grids after them. For 1/1 the CSV file, too.
  void write(const Shard& shard, const std::map<std::string, RowJson>& rows) const;
  // results.json and results.csv of all rows that are there. The same whoever does it, and however often.
  void merge() const;

  // The points without a row.
  std::vector<GridPoint> open(const std::map<std::string, RowJson>& rows) const;

 private:
  struct PartFile {
    std::filesystem::path path;
    Shard shard;
  };
  std::vector<PartFile> parts() const;
  std::vector<RowJson> rows_of(const std::filesystem::path& file, const Shard& shard) const;
  std::string whole(const Shard& shard) const;  // "part 2/8 of FOLDER"

  std::filesystem::path folder_;
  std::string experiment_file_;
  std::vector<GridPoint> grid_;
  std::map<std::string, std::size_t> places_;  // by key
  std::string hash_;                           // of the grid
  std::unique_ptr<Claim> claim_;
};

}  // namespace unity::report
