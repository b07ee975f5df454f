// Which tasks of two prepared Programs are the same: they do the same on the same devices in the same time, crossing
// the same links. What they wait for may differ.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/hash.h"
#include "simulator/prepared.h"

namespace unity {

// By task: what tells it from others of its Program, and is equal for the same task of a similar one: its kind, stream
// and device, and a hash of phase, micro-batch and the name of its operator or tensor. Several tasks may have one key.
std::vector<Hash> task_keys(const Program& program);

class Alignment {
 public:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  // Both prepared with the same options on the same topology. In both Programs aligned tasks have the same order.
  Alignment(const PreparedProgram& before, std::span<const Hash> keys_before, const PreparedProgram& after);

  // By task: the same one of the other Program, or kNone.
  const std::vector<std::uint32_t>& to_after() const { return to_after_; }
  const std::vector<std::uint32_t>& to_before() const { return to_before_; }

  // Tasks that have no partner, or do not wait for the same tasks as theirs, each with all that it waits for.
  class Changed {
   public:
    std::size_t count() const { return tasks_.size(); }
    std::uint32_t task(std::size_t i) const { return tasks_[i]; }
    std::span<const std::uint32_t> waits_for(std::size_t i) const {
      return {waits_for_.data() + begin_[i], waits_for_.data() + begin_[i + 1]};
    }

   private:
    friend class Alignment;
    Changed() = default;
    Changed(const TaskGraph& graph, std::span<const std::uint8_t> changed);
    std::vector<std::uint32_t> tasks_, begin_, waits_for_;
  };
  const Changed& changed_before() const { return changed_before_; }
  const Changed& changed_after() const { return changed_after_; }

 private:
  void match(std::span<const Hash> before, std::span<const Hash> after);
  void drop_different(const PreparedProgram& before, std::span<const Hash> keys, const PreparedProgram& after);
  void find_changed(const TaskGraph& before, const TaskGraph& after);

  std::vector<std::uint32_t> to_after_, to_before_;
  Changed changed_before_, changed_after_;
};

}  // namespace unity
