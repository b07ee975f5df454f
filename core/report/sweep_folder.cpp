#include "core/report/sweep_folder.h"

#include <algorithm>
#include <regex>

#include "core/base/nesting.h"
#include "core/base/text.h"
#include "core/report/provenance.h"
#include "core/report/results.h"

namespace unity::report {

namespace fs = std::filesystem;

SweepFolder::SweepFolder(std::string folder, std::string experiment_file, Experiment experiment)
    : folder_(std::move(folder)), experiment_file_(std::move(experiment_file)) {
  for (GridPoint& p : experiment.grid)
    if (places_.emplace(p.key(), grid_.size()).second) grid_.push_back(std::move(p));
  hash_ = hex(grid_hash(grid_));
  std::error_code error;
  fs::create_directories(folder_ / "plans", error);
  if (error) throw_input_error("{}: cannot be written: {}", folder_.string(), error.message());
}

std::string SweepFolder::plan_file(const GridPoint& point) const {
  return fmt::format("plans/{}.json", hex(hash_text(point.key())));
}

std::string SweepFolder::file_of(const Shard& shard) const {
  if (shard.count == 1) return path("results.json");
  return (folder_ / "parts" / fmt::format("{}-of-{}.json", shard.index, shard.count)).string();
}

std::string SweepFolder::whole(const Shard& shard) const {
  return shard.count == 1 ? folder_.string() : fmt::format("part {} of {}", to_string(shard), folder_.string());
}

bool SweepFolder::has_results() const {
  std::error_code error;
  return fs::exists(folder_ / "results.json", error) || !parts().empty();
}

std::vector<SweepFolder::PartFile> SweepFolder::parts() const {
  static const std::regex name("([1-9][0-9]{0,5})-of-([1-9][0-9]{0,5})\\.json");
  std::vector<PartFile> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_ / "parts", error)) {
    std::string file = entry.path().filename().string();
    if (std::smatch m; std::regex_match(file, m, name))
      found.push_back({entry.path(), {std::stoi(m[1]), std::stoi(m[2])}});
  }
  std::sort(found.begin(), found.end(), [](const PartFile& a, const PartFile& b) {
    return std::pair(a.shard.count, a.shard.index) < std::pair(b.shard.count, b.shard.index);
  });
  return found;
}

void SweepFolder::check_parts(int shards) const {
  for (const PartFile& part : parts())
    if (part.shard.count != shards)
      throw_input_error(
          "{}: is one of {} parts, expected {}: go on with {} of them; or, when none is being run, --merge them and "
          "remove the folder {}",
          part.path.string(), part.shard.count, shards, part.shard.count, (folder_ / "parts").string());
}

std::vector<RowJson> SweepFolder::rows_of(const fs::path& file, const Shard& shard) const {
  const std::string text = read_file(file);
  Results read = results_from_json(text, file.string());  // says what is wrong
  bool part = shard.count > 1;
  if (part && (read.shard != to_string(shard) || read.grid != hash_))
    throw_input_error("{}: found part {} of a grid with hash {}, expected part {} of {}, which has {}: has {} changed?",
                      file.string(), read.shard.empty() ? "1/1" : read.shard, read.grid.empty() ? "none" : read.grid,
                      to_string(shard), experiment_file_, hash_, experiment_file_);
  if (!part && !read.shard.empty())
    throw_input_error("{}: found part {}, expected all rows", file.string(), read.shard);
  std::vector<RowJson> rows;
  std::vector<int> shards = part ? shards_of(grid_, shard.count) : std::vector<int>{};
  RowJson root = RowJson::parse(text);
  for (RowJson& row : root.at("rows")) {
    if (!row.contains("point") || !row["point"].is_string())
      throw_input_error("{}: is not the result of a sweep: found a row without a point", file.string());
    auto at = places_.find(row["point"].get<std::string>());
    if (part && (at == places_.end() || shards[at->second] != shard.index))
      throw_input_error("{}: found the row of {}, which is not of this part", file.string(),
                        row["point"].get<std::string>());
    rows.push_back(std::move(row));
  }
  return rows;
}

namespace {

// Of two rows of a point: a plan before an error, which may be of before it was tried again; else the later one.
bool counts_before(const RowJson& one, const RowJson& other) {
  if (one.contains("error") != other.contains("error")) return other.contains("error");
  auto started = [](const RowJson& row) {
    auto at = row.find("started");
    return at != row.end() && at->is_string() ? at->get<std::string>() : std::string();
  };
  return started(one) > started(other);
}

}  // namespace

std::map<std::string, RowJson> SweepFolder::rows() const {
  std::map<std::string, RowJson> rows;
  auto add = [&](const fs::path& file, const Shard& shard) {
    for (RowJson& row : rows_of(file, shard)) {
      std::string key = row["point"];
      auto there = rows.find(key);
      if (there == rows.end())
        rows.emplace(key, std::move(row));
      else if (!counts_before(there->second, row))
        there->second = std::move(row);
    }
  };
  std::error_code error;
  if (fs::exists(folder_ / "results.json", error)) add(folder_ / "results.json", {});
  std::vector<PartFile> files = parts();
  if (!files.empty()) check_parts(files.front().shard.count);
  for (const PartFile& part : files) add(part.path, part.shard);
  return rows;
}

void SweepFolder::claim(const Shard& shard) {
  std::error_code error;
  if (shard.count > 1) fs::create_directories(folder_ / "parts", error);
  if (error) throw_input_error("{}: cannot be written: {}", path("parts"), error.message());
  const fs::path all = folder_ / "results.running";
  auto running = [](const std::string& file) { return fs::path(file).replace_extension(".running"); };
  claim_ = std::make_unique<Claim>(shard.count == 1 ? all : running(file_of(shard)), whole(shard));
  if (shard.count > 1) return refuse_if_claimed(all, folder_.string());
  for (const auto& entry : fs::directory_iterator(folder_ / "parts", error))
    if (entry.path().extension() == ".running")
      refuse_if_claimed(entry.path(), fmt::format("part {} of {}", entry.path().stem().string(), folder_.string()));
}

void SweepFolder::write(const Shard& shard, const std::map<std::string, RowJson>& rows) const {
  if (claim_) claim_->check();
  RowJson root = {{"format", "unity-results"}, {"version", Results::kVersion}, {"experiment", experiment_file_}};
  root["grid"] = hash_;
  if (shard.count > 1) root["shard"] = to_string(shard);
  root["measured"] = measured_columns();
  root["rows"] = RowJson::array();
  for (const GridPoint& p : grid_)
    if (auto at = rows.find(p.key()); at != rows.end()) root["rows"].push_back(at->second);
  for (const auto& [key, row] : rows)
    if (!places_.contains(key)) root["rows"].push_back(row);
  std::string file = file_of(shard), text = root.dump(1) + "\n";
  write_file_atomically(file, text);
  if (shard.count == 1)
    write_file_atomically(folder_ / "results.csv", to_csv(result_columns(), results_from_json(text, file).rows));
}

void SweepFolder::merge() const {
  if (!claim_) refuse_if_claimed(folder_ / "results.running", folder_.string());  // it would not know of these rows
  write({}, rows());
}

std::vector<GridPoint> SweepFolder::open(const std::map<std::string, RowJson>& rows) const {
  std::vector<GridPoint> missing;
  for (const GridPoint& p : grid_)
    if (!rows.contains(p.key())) missing.push_back(p);
  return missing;
}

}  // namespace unity::report
