// A heap with four children per node, least first: half as deep as a binary heap, and the children of a node lie in one
// or two cache lines. `track(entry, position)` is told wherever an entry is put, so that it can be found again.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace unity {

// Puts `entry` at `hole` or above.
template <class Entry, class Track>
void sift_up(std::vector<Entry>& heap, std::size_t hole, Entry entry, Track track) {
  while (hole > 0) {
    std::size_t parent = (hole - 1) / 4;
    if (!(entry < heap[parent])) break;
    heap[hole] = heap[parent];
    track(heap[hole], hole);
    hole = parent;
  }
  heap[hole] = entry;
  track(entry, hole);
}

// Puts `entry` at `hole` or below.
template <class Entry, class Track>
void sift_down(std::vector<Entry>& heap, std::size_t hole, Entry entry, Track track) {
  while (true) {
    std::size_t least = 4 * hole + 1;
    if (least >= heap.size()) break;
    if (least + 4 <= heap.size()) {
      std::size_t first = least + (heap[least + 1] < heap[least]),
                  second = least + 2 + (heap[least + 3] < heap[least + 2]);
      least = heap[second] < heap[first] ? second : first;
    } else {
      for (std::size_t child = least + 1; child < heap.size(); ++child)
        if (heap[child] < heap[least]) least = child;
    }
    if (!(heap[least] < entry)) break;
    heap[hole] = heap[least];
    track(heap[hole], hole);
    hole = least;
  }
  heap[hole] = entry;
  track(entry, hole);
}

}  // namespace unity
