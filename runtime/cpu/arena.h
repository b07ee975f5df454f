// One block of zeros from the operating system; pages are taken when first written, large ones where it offers them.
#pragma once

#include <cstddef>
#include <memory>

#include "core/base/units.h"

namespace unity::cpu {

// By all arenas that there are.
Bytes taken_by_arenas();

class Arena {
 public:
  explicit Arena(Bytes size);
  std::byte* data() const { return data_.get(); }

  // Has the address sanitizer, if there is one, report whoever touches [begin, begin rounded up to `alignment`).
  void guard(std::int64_t begin, std::int64_t alignment);

 private:
  struct Unmap {
    std::size_t size = 0;
    void operator()(std::byte* p) const;
  };
  std::unique_ptr<std::byte[], Unmap> data_;
};

}  // namespace unity::cpu
