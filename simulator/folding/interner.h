// Numbers for sequences of words: equal sequences get equal numbers, others different ones.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/base/hash.h"

namespace unity {

class Interner {
 public:
  // Numbers are given in the order of first appearance.
  std::uint32_t operator()(std::span<const std::uint64_t> words) {
    Hash hash = hash_bytes(std::as_bytes(words));
    auto [first, last] = by_hash_.equal_range(hash);
    for (; first != last; ++first)
      if (std::ranges::equal(words, sequence(first->second))) return first->second;
    auto number = static_cast<std::uint32_t>(begins_.size() - 1);
    words_.insert(words_.end(), words.begin(), words.end());
    begins_.push_back(words_.size());
    by_hash_.emplace(hash, number);
    return number;
  }
  std::size_t size() const { return begins_.size() - 1; }

 private:
  std::span<const std::uint64_t> sequence(std::uint32_t number) const {
    return {words_.data() + begins_[number], words_.data() + begins_[number + 1]};
  }

  std::vector<std::uint64_t> words_;
  std::vector<std::size_t> begins_{0};
  std::unordered_multimap<Hash, std::uint32_t> by_hash_;
};

}  // namespace unity
