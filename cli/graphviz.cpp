#include "cli/graphviz.h"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/text.h"

extern char** environ;

namespace unity::cli {
namespace {

constexpr std::chrono::seconds kTimeLimit{60};

// Removes the files it names when it goes out of scope.
struct Scratch {
  std::string input, output;
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove(input, ignored);
    std::filesystem::remove(output, ignored);
  }
};

}  // namespace

void write_svg(const std::string& dot, const std::string& path) {
  Scratch scratch{fmt::format("{}.{}.dot", path, getpid()), fmt::format("{}.{}.svg", path, getpid())};
  write_file_atomically(scratch.input, dot);
  // The network simplex of dot does not end in reasonable time on training graphs unless its rounds are limited.
  std::string arguments[] = {"dot",   "-Gnslimit=1", "-Gnslimit1=1", "-Gmclimit=0.5",
                             "-Tsvg", "-o",          scratch.output, scratch.input};
  char* argv[std::size(arguments) + 1] = {};
  for (std::size_t i = 0; i < std::size(arguments); ++i) argv[i] = arguments[i].data();
  posix_spawn_file_actions_t quiet;
  posix_spawn_file_actions_init(&quiet);
  posix_spawn_file_actions_addopen(&quiet, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  int failed = posix_spawnp(&child, "dot", &quiet, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&quiet);
  if (failed)
    throw std::runtime_error(
        "svg: Graphviz's 'dot' was not found; install it (apt-get install graphviz) or write DOT instead");
  auto deadline = std::chrono::steady_clock::now() + kTimeLimit;
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      throw std::runtime_error(
          fmt::format("svg: the layout did not finish within {} s; write DOT instead", kTimeLimit.count()));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw std::runtime_error("svg: Graphviz's 'dot' failed on this graph; write DOT instead");
  write_file_atomically(path, read_file(scratch.output));
}

}  // namespace unity::cli
