// Tables on standard output: the first column to the left, the others to the right, two blanks between.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace unity::cli {

class Table {
 public:
  explicit Table(std::vector<std::string> header) : header_(std::move(header)) {}
  // Left-aligns a further column (texts rather than numbers).
  Table& left(std::size_t column);
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string text() const;
  void print() const;

 private:
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::size_t> left_{0};
};

std::string grouped(std::int64_t number);  // "3,252,224"

}  // namespace unity::cli
