// Families of machine mappings that a user registers (paper, section 3.2): a file of format "unity-mappings" says for
// which task grids which devices; the search tries them beside the built-in ones. Form: topologies/README.md.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/hash.h"
#include "core/machine/mapping.h"

namespace unity {

class MappingFamilies {
 public:
  // Of this machine: its levels and devices are what expressions may name. InputError with file:line:column.
  MappingFamilies(const std::string& file, const Topology& topology);

  // What the families have for this grid, in their order, each mapping once. InputError that names family and grid
  // where one has a task off the machine, two tasks on one device, or an expression that has no value. Thread-safe.
  std::vector<MachineMapping> mappings(const TaskGrid& grid) const;
  std::vector<std::string> names() const;
  Hash text_hash() const { return text_hash_; }  // of the file

 private:
  struct Family;
  std::vector<std::shared_ptr<const Family>> families_;
  int devices_;
  Hash text_hash_;
};

}  // namespace unity
