#include "runtime/cpu/arena.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include <sys/mman.h>

#include "core/base/error.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(begin, size) (static_cast<void>(begin), static_cast<void>(size))
#define ASAN_UNPOISON_MEMORY_REGION(begin, size) (static_cast<void>(begin), static_cast<void>(size))
#endif

namespace unity::cpu {
namespace {

std::atomic<std::int64_t> taken = 0;

std::size_t length(Bytes size) { return static_cast<std::size_t>(std::max<std::int64_t>(size.count, 1)); }

std::byte* map(std::size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) throw_input_error("{} bytes of memory for a device: {}", bytes, std::strerror(errno));
#ifdef MADV_HUGEPAGE
  madvise(p, bytes, MADV_HUGEPAGE);
#endif
  taken += static_cast<std::int64_t>(bytes);
  return static_cast<std::byte*>(p);
}

}  // namespace

Bytes taken_by_arenas() { return {taken}; }

Arena::Arena(Bytes size) : data_(map(length(size)), Unmap{length(size)}) {}

void Arena::guard(std::int64_t begin, std::int64_t alignment) {
  auto size = static_cast<std::size_t>((alignment - begin % alignment) % alignment);
  ASAN_POISON_MEMORY_REGION(data_.get() + begin, size);
}

void Arena::Unmap::operator()(std::byte* p) const {
  ASAN_UNPOISON_MEMORY_REGION(p, size);
  munmap(p, size);
  taken -= static_cast<std::int64_t>(size);
}

}  // namespace unity::cpu
