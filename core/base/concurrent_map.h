// What is worked out once for each key and then asked for by many threads: answers that are the same whoever gives
// them.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <limits>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

namespace unity {

struct OneEach {
  template <class Key>
  std::size_t operator()(const Key&) const {
    return 1;
  }
};

// In parts with a lock each, so that threads seldom wait for one another. `Value` is small and copied: a pointer, say.
// `Hash` and `Equal` may be transparent. `Weight` says what a key counts for.
template <class Key, class Value, class Hash, class Equal = std::equal_to<>, class Weight = OneEach>
class ConcurrentMap {
 public:
  // Beyond about so many keys, or so much weight, it forgets what it knows.
  explicit ConcurrentMap(std::size_t most = std::numeric_limits<std::size_t>::max()) : most_(most / kParts) {}

  // What `make()` gives where the key is new; of threads that ask at the same time each may call it, and all get the
  // same. `make` may ask for other keys.
  template <class View, class Make>
  Value get(const View& key, const Make& make) {
    Part& part = parts_[(Hash()(key) >> 32) % kParts];  // the map inside takes the remainder of the whole
    {
      std::shared_lock lock(part.mutex);
      if (auto found = part.map.find(key); found != part.map.end()) return found->second;
    }
    Value made = make();
    std::unique_lock lock(part.mutex);
    if (part.weight >= most_) part.map.clear(), part.weight = 0;
    auto [at, is_new] = part.map.emplace(Key(key), std::move(made));
    if (is_new) part.weight += Weight()(at->first);
    return at->second;
  }

 private:
  static constexpr std::size_t kParts = 64;
  struct Part {
    std::shared_mutex mutex;
    std::unordered_map<Key, Value, Hash, Equal> map;
    std::size_t weight = 0;
  };

  std::size_t most_;
  std::array<Part, kParts> parts_;
};

}  // namespace unity
