// Memory for messages, used again: fresh memory from the system costs more to touch than a message to copy.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace unity {

// Uninitialised bytes.
struct Block {
  std::unique_ptr<std::byte[]> data;
  std::size_t size = 0, capacity = 0;

  std::span<std::byte> bytes() { return {data.get(), size}; }
};

class ByteStore {
 public:
  Block take(std::size_t size) {
    {
      std::lock_guard lock(mutex_);
      std::size_t best = free_.size();
      for (std::size_t i = 0; i < free_.size(); ++i)
        if (free_[i].capacity >= size && (best == free_.size() || free_[i].capacity < free_[best].capacity)) best = i;
      if (best < free_.size() && free_[best].capacity / 2 <= size + kSmall) {
        Block block = std::move(free_[best]);
        free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(best));
        held_ -= block.capacity;
        block.size = size;
        return block;
      }
    }
    return {std::make_unique_for_overwrite<std::byte[]>(size), size, size};
  }

  void give(Block block) {
    std::lock_guard lock(mutex_);
    if (block.capacity == 0 || held_ + block.capacity > kMost) return;
    held_ += block.capacity;
    free_.push_back(std::move(block));
  }

 private:
  static constexpr std::size_t kSmall = 4096, kMost = std::size_t{256} << 20;
  std::mutex mutex_;
  std::size_t held_ = 0;  // bytes of free blocks
  std::vector<Block> free_;
};

}  // namespace unity
