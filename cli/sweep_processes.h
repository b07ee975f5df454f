// A sweep in several processes on this machine, each with a shard of the points.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace unity::cli {

struct SweepProcess {
  std::vector<std::string> arguments;  // of `unity`
  std::string log;                     // a file for both of its streams
};

// Runs them all at once and waits; `waiting` is called meanwhile, a few times a second, with how many have ended. They
// end when this process does. Gives for each what it died of, "was killed by signal 9", or what it said last where its
// exit code was not 0; else an empty text. Throws std::runtime_error where no process can be had.
std::vector<std::string> run_processes(const std::vector<SweepProcess>& processes,
                                       const std::function<void(std::size_t ended)>& waiting);

}  // namespace unity::cli
