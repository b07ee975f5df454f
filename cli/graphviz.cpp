#include "cli/graphviz.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <stdexcept>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/text.h"

extern char** environ;

namespace unity::cli {
namespace {

constexpr std::chrono::seconds kTimeLimit{60};

// A file without a name: nothing of it is left, however the process ends.
class Scratch {
 public:
  explicit Scratch(const std::string& path) : path_(path), descriptor_(memfd_create("svg", MFD_CLOEXEC)) {
    if (descriptor_ < 0) failed();
  }
  ~Scratch() { close(descriptor_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  int descriptor() const { return descriptor_; }
  void put(std::string_view text) {
    while (!text.empty()) {
      ssize_t written = write(descriptor_, text.data(), text.size());
      if (written < 0) failed();
      text.remove_prefix(static_cast<std::size_t>(written));
    }
    lseek(descriptor_, 0, SEEK_SET);
  }
  std::string take() {
    std::string text(static_cast<std::size_t>(lseek(descriptor_, 0, SEEK_END)), '\0');
    if (pread(descriptor_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) failed();
    return text;
  }

 private:
  [[noreturn]] void failed() { throw_input_error("{}: cannot be written: {}", path_, std::strerror(errno)); }

  const std::string& path_;  // for messages
  int descriptor_;
};

}  // namespace

void write_svg(const std::string& dot, const std::string& path) {
  Scratch input(path), output(path);
  input.put(dot);
  // The network simplex of dot does not end in reasonable time on training graphs unless its rounds are limited.
  std::string arguments[] = {"dot", "-Gnslimit=1", "-Gnslimit1=1", "-Gmclimit=0.5", "-Tsvg"};
  char* argv[std::size(arguments) + 1] = {};
  for (std::size_t i = 0; i < std::size(arguments); ++i) argv[i] = arguments[i].data();
  posix_spawn_file_actions_t streams;
  posix_spawn_file_actions_init(&streams);
  posix_spawn_file_actions_adddup2(&streams, input.descriptor(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&streams, output.descriptor(), STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&streams, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  int failed = posix_spawnp(&child, "dot", &streams, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&streams);
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
  const std::string svg = output.take();
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || svg.find("</svg>") == std::string::npos)
    throw std::runtime_error("svg: Graphviz's 'dot' failed on this graph; write DOT instead");
  write_file_atomically(path, svg);
}

}  // namespace unity::cli
