// A map from short sequences of integers to integers, in one pool: the enumerator asks for millions of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/hash.h"

namespace unity {

class IntTable {
 public:
  using Int = std::int32_t;

  // The place of the key's value; a key that is new gets `fresh`. Valid until the next call.
  Int& at(std::span<const Int> key, Int fresh) {
    if (2 * (entries_.size() + 1) > slots_.size()) grow();
    Hash h = mix(key.size());
    for (Int i : key) h = combine(h, static_cast<Hash>(static_cast<std::uint32_t>(i)));
    std::size_t mask = slots_.size() - 1;
    std::size_t s = h & mask;
    for (; slots_[s] >= 0; s = (s + 1) & mask) {
      Entry& e = entries_[static_cast<std::size_t>(slots_[s])];
      if (e.hash == h && e.length == key.size() &&
          std::equal(key.begin(), key.end(), pool_.begin() + static_cast<std::ptrdiff_t>(e.offset)))
        return e.value;
    }
    slots_[s] = static_cast<Int>(entries_.size());
    entries_.push_back({h, pool_.size(), static_cast<std::uint32_t>(key.size()), fresh});
    pool_.insert(pool_.end(), key.begin(), key.end());
    return entries_.back().value;
  }

  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    Hash hash;
    std::size_t offset;
    std::uint32_t length;
    Int value;
  };

  void grow() {
    slots_.assign(std::max<std::size_t>(64, slots_.size() * 2), -1);
    std::size_t mask = slots_.size() - 1;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      std::size_t s = entries_[i].hash & mask;
      while (slots_[s] >= 0) s = (s + 1) & mask;
      slots_[s] = static_cast<Int>(i);
    }
  }

  std::vector<Int> slots_;  // index into entries_, or -1
  std::vector<Entry> entries_;
  std::vector<Int> pool_;
};

}  // namespace unity
