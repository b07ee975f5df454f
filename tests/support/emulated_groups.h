// Launches in groups of as many threads as on a GPU, one thread running at a time: each goes on until it waits for the
// others, and all that lies between two such points runs thread by thread, first to last, or (UNITY_EMULATED_ORDER is
// "backward") last to first, groups and iterations likewise. What one thread writes and another reads without waiting
// between is there in one of the orders and not in the other, so that one of them gives another result. Threads of a
// group that wait for different things, or end while others wait, are an error, as they hang a GPU. Sums and maxima
// count as waiting, though in a warp they order no memory on a GPU: what follows one needs Group::sync all the same.
#pragma once

namespace unity::test {

// The order from now on; returns what it was.
bool run_groups_backward(bool backward);

}  // namespace unity::test
