#include "core/machine/import/nvidia_smi.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <numeric>
#include <optional>
#include <sstream>

#include "core/base/text.h"

namespace unity {
namespace {

// Ways over PCIe, nearest first. What is related by one of them hangs on one vertex of that level.
enum Relation { self, pix, pxb, phb, node, sys, unknown };
constexpr int kMostLinks = 1000;  // of a pair: more is damage
constexpr std::array<std::string_view, 6> kRelations = {"X", "PIX", "PXB", "PHB", "NODE", "SYS"};

struct Cell {
  Relation relation = unknown;
  int nvlinks = 0;
};

struct Row {
  std::string name;
  int line = 0;
  bool gpu = false;
  std::vector<Cell> cells;
  std::string affinity;  // NUMA node, else the list of CPUs; empty: none
};

bool numbered(const std::string& word, std::string_view stem) {
  return word.size() > stem.size() && word.starts_with(stem) &&
         word.find_first_not_of("0123456789", stem.size()) == std::string::npos;
}
bool is_gpu(const std::string& word) { return numbered(word, "GPU"); }
bool is_nic(const std::string& word) { return numbered(word, "NIC") || word.find("_") != std::string::npos; }

// Words of a line, without the escape sequences that underline the head of the table.
std::vector<std::string> words_of(const std::string& line) {
  std::string plain;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b') {
      while (i < line.size() && !std::isalpha(static_cast<unsigned char>(line[i]))) ++i;
      continue;
    }
    plain += line[i];
  }
  std::istringstream stream(plain);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

class Matrix {
 public:
  Matrix(const std::string& text, std::string file) : file_(std::move(file)) {
    std::istringstream stream(text);
    std::vector<std::string> columns;
    std::string line;
    for (int number = 1; std::getline(stream, line); ++number) {
      std::vector<std::string> words = words_of(line);
      if (words.empty()) continue;
      if (columns.empty()) {
        if (is_gpu(words[0])) columns = head(words);
        continue;
      }
      if (rows_.size() == columns.size()) break;  // the legend follows
      if (words[0] != columns[rows_.size()])
        fail(number, fmt::format("row {}: found '{}', expected '{}' as in the head", rows_.size(), words[0],
                                 columns[rows_.size()]));
      read_row(words, columns, number);
    }
    if (columns.empty()) fail(1, "found no line that begins with GPU0, expected the table of nvidia-smi topo -m");
    if (rows_.size() < columns.size())
      fail(static_cast<int>(std::count(text.begin(), text.end(), '\n')),
           fmt::format("found {} rows, expected {}: {} is missing", rows_.size(), columns.size(),
                       columns[rows_.size()]));
    for (std::size_t a = 0; a < rows_.size(); ++a)
      for (std::size_t b = 0; b < a; ++b) {
        const Cell &x = rows_[a].cells[b], &y = rows_[b].cells[a];
        if (x.relation != y.relation || x.nvlinks != y.nvlinks)
          fail(rows_[a].line, fmt::format("{} and {}: found {}, expected {} as in row {}", rows_[a].name, rows_[b].name,
                                          to_text(x), to_text(y), rows_[b].name));
      }
  }

  const std::vector<Row>& rows() const { return rows_; }
  [[noreturn]] void fail(int line, const std::string& message) const {
    throw_input_error("{}:{}: {}", file_, std::max(line, 1), message);
  }
  static std::string to_text(const Cell& cell) {
    return cell.nvlinks ? fmt::format("NV{}", cell.nvlinks) : std::string(kRelations[cell.relation]);
  }

 private:
  static std::vector<std::string> head(const std::vector<std::string>& words) {
    std::vector<std::string> columns;
    for (const std::string& word : words) {
      if (!is_gpu(word) && !is_nic(word)) break;
      columns.push_back(word);
    }
    return columns;
  }

  void read_row(const std::vector<std::string>& words, const std::vector<std::string>& columns, int line) {
    Row row{words[0], line, is_gpu(words[0]), {}, {}};
    if (words.size() < columns.size() + 1)
      fail(line, fmt::format("{}: found {} entries, expected {}", row.name, words.size() - 1, columns.size()));
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const std::string& word = words[c + 1];
      Cell cell;
      auto found = std::find(kRelations.begin(), kRelations.end(), word);
      if (found != kRelations.end()) {
        cell.relation = static_cast<Relation>(found - kRelations.begin());
      } else if (numbered(word, "NV")) {
        std::from_chars(word.data() + 2, word.data() + word.size(), cell.nvlinks);
      }
      if ((cell.relation == unknown && (cell.nvlinks < 1 || cell.nvlinks > kMostLinks)) ||
          (cell.relation == self) != (c == rows_.size()))
        fail(line, fmt::format("{} and {}: found '{}', expected {}", row.name, columns[c], word,
                               c == rows_.size() ? "X" : "NV#, PIX, PXB, PHB, NODE or SYS"));
      row.cells.push_back(cell);
    }
    // CPU affinity, NUMA affinity
    std::size_t rest = columns.size() + 1;
    for (std::size_t place : {rest + 1, rest})
      if (row.affinity.empty() && place < words.size() && words[place] != "N/A") row.affinity = words[place];
    rows_.push_back(std::move(row));
  }

  std::string file_;
  std::vector<Row> rows_;
};

class Groups {
 public:
  explicit Groups(std::size_t n) : parent_(n) { std::iota(parent_.begin(), parent_.end(), std::size_t{0}); }
  std::size_t find(std::size_t i) const {
    while (parent_[i] != i) i = parent_[i];
    return i;
  }
  void join(std::size_t a, std::size_t b) {
    a = find(a), b = find(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<std::size_t> parent_;
};

class NodeBuilder {
 public:
  NodeBuilder(const Matrix& matrix, const std::string& device) : matrix_(matrix), rows_(matrix.rows()) {
    int nics = 0;
    for (const Row& row : rows_)
      names_.push_back(row.gpu ? fmt::format("gpu{}", node_.gpus++) : fmt::format("nic{}", nics++));
    choose_generation(device);
    add_nvlinks();
    group();
    add_pcie();
    for (std::size_t i = 0; i < rows_.size(); ++i)
      if (!rows_[i].gpu)
        link(names_[i], "fabric", LinkKind::infiniband, generation_->network, 0.75,
             "E: a port as sold with these GPUs");
  }

  ImportedNode take() && { return std::move(node_); }

 private:
  void link(const std::string& a, const std::string& b, LinkKind kind, double rate, double microseconds,
            const std::string& source) {
    node_.links.push_back({a, b, kind, {rate}, from_seconds(microseconds * 1e-6), source});
  }

  void choose_generation(const std::string& device) {
    int largest = 0, sum = 0;  // of one GPU
    for (const Row& row : rows_) {
      int here = 0;
      for (const Cell& cell : row.cells) {
        largest = std::max(largest, cell.nvlinks);
        here += cell.nvlinks;
      }
      sum = std::max(sum, here);
    }
    if (!device.empty()) {
      generation_ = &generation_of_device(device);
    } else if (largest > 0) {
      generation_ = &generation_with(sum > gpu_generations().back().nvlinks ? largest : sum);
    } else {
      matrix_.fail(rows_.front().line, "found no NVLinks, which would tell the GPUs apart; expected --device");
    }
    node_.device = device.empty() ? generation_->device : device;
    switched_ = sum > std::max(generation_->nvlinks, largest);
    node_.notes.push_back(device.empty() ? fmt::format("Taken for {}: {} NVLinks for each GPU{}", node_.device,
                                                       switched_ ? largest : sum,
                                                       switched_ ? ", on NVSwitches (drawn as one)" : "")
                                         : "Rates are those of the generation of " + device);
  }

  void add_nvlinks() {
    if (switched_) node_.vertices.push_back("nvswitch");
    bool complete = true;
    for (std::size_t a = 0; a < rows_.size(); ++a) {
      if (!rows_[a].gpu) continue;
      int most = 0;
      for (std::size_t b = 0; b < rows_.size(); ++b) {
        int count = rows_[a].cells[b].nvlinks;
        most = std::max(most, count);
        if (a == b || !rows_[b].gpu) continue;
        if (count == 0) complete = false;
        if (!switched_ && b > a && count > 0)
          link(names_[a], names_[b], LinkKind::nvlink, count * generation_->nvlink, 1.9,
               fmt::format("{} NVLinks (F) of {:g} GB/s per direction (V)", count, generation_->nvlink / 1e9));
      }
      if (switched_ && most > 0)
        link(names_[a], "nvswitch", LinkKind::nvlink, most * generation_->nvlink, 0.95,
             fmt::format("{} NVLinks (F) of {:g} GB/s per direction (V)", most, generation_->nvlink / 1e9));
      any_nvlink_ = any_nvlink_ || most > 0;
    }
    node_.forwarding = any_nvlink_ && !switched_ && !complete;
  }

  // Joins what is related, from the nearest relation on; then checks that the tree has the relations of the table.
  void group() {
    bool any_relation = false;
    for (const Row& row : rows_)
      for (const Cell& cell : row.cells)
        any_relation = any_relation || (cell.relation != self && cell.relation != unknown);
    for (Relation r : {pix, pxb, phb, node}) {
      Groups groups = levels_.empty() ? Groups(rows_.size()) : levels_.back();
      for (std::size_t a = 0; a < rows_.size(); ++a)
        for (std::size_t b = 0; b < a; ++b)
          if (rows_[a].cells[b].relation == r) groups.join(a, b);
      // GPUs that only NVLinks relate; where nothing relates any over PCIe, all are on one host.
      if (r == node)
        for (std::size_t a = 0; a < rows_.size(); ++a)
          for (std::size_t b = 0; b < a; ++b)
            if (rows_[a].cells[b].nvlinks > 0 && rows_[a].affinity == rows_[b].affinity &&
                (!rows_[a].affinity.empty() || !any_relation))
              groups.join(a, b);
      levels_.push_back(groups);
    }
    for (std::size_t a = 0; a < rows_.size(); ++a)
      for (std::size_t b = 0; b < a; ++b) {
        Relation found = rows_[a].cells[b].relation, expected = sys;
        for (std::size_t l = levels_.size(); l-- > 0;)
          if (levels_[l].find(a) == levels_[l].find(b)) expected = static_cast<Relation>(l + 1);
        if (found != unknown && found != expected)
          matrix_.fail(rows_[a].line,
                       fmt::format("{} and {}: found {}, expected {} as others relate them", rows_[a].name,
                                   rows_[b].name, kRelations[found], kRelations[expected]));
      }
  }

  // A vertex for each group of a level that joins several of the level below, and a host for each of the last level.
  void add_pcie() {
    constexpr std::array<std::string_view, 4> kStems = {"pcie", "bridge", "root", "host"};
    std::vector<std::string> top = names_;  // by row: what it hangs on so far
    std::vector<std::string> hosts;
    for (std::size_t l = 0; l < levels_.size(); ++l) {
      std::map<std::size_t, std::vector<std::string>> groups;  // what they join
      for (std::size_t i = 0; i < rows_.size(); ++i) {
        std::vector<std::string>& parts = groups[levels_[l].find(i)];
        if (std::find(parts.begin(), parts.end(), top[i]) == parts.end()) parts.push_back(top[i]);
      }
      int number = 0;
      for (const auto& [first, parts] : groups) {
        const bool last = l + 1 == levels_.size();
        if (parts.size() < 2 && !last) continue;
        if (parts.size() < 2 && std::find(names_.begin(), names_.end(), parts[0]) == names_.end()) {
          hosts.push_back(parts[0]);  // of which the level below made a vertex
          continue;
        }
        std::string name = fmt::format("{}{}", kStems[l], number++);
        node_.vertices.push_back(name);
        if (last) hosts.push_back(name);
        for (const std::string& part : parts)
          link(part, name, LinkKind::pcie, generation_->pcie,
               part.starts_with("gpu")   ? 1
               : part.starts_with("nic") ? 0.25
                                         : 0.5,
               "PCIe x16 of these GPUs' generation (C: usable)");
        for (std::size_t i = 0; i < rows_.size(); ++i)
          if (levels_[l].find(i) == first) top[i] = name;
      }
    }
    for (std::size_t i = 0; i < rows_.size(); ++i)
      if (!rows_[i].gpu) node_.vertices.push_back(names_[i]);
    for (std::size_t a = 0; a < hosts.size(); ++a)
      for (std::size_t b = a + 1; b < hosts.size(); ++b)
        link(hosts[a], hosts[b], LinkKind::xbus, generation_->between_hosts, 0.5, "E: between NUMA nodes");
  }

  const Matrix& matrix_;
  const std::vector<Row>& rows_;
  ImportedNode node_;
  std::vector<std::string> names_;  // by row
  const GpuGeneration* generation_ = nullptr;
  bool switched_ = false, any_nvlink_ = false;
  std::vector<Groups> levels_;  // pix, pxb, phb, node
};

}  // namespace

ImportedNode import_nvidia_smi(const std::string& text, const std::string& file, const std::string& device) {
  ImportedNode imported = NodeBuilder(Matrix(text, file), device).take();
  imported.from = "Imported from the table of nvidia-smi topo -m.";
  return imported;
}

}  // namespace unity
