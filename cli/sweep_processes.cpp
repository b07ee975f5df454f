#include "cli/sweep_processes.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/text.h"

namespace unity::cli {
namespace {

// Between fork and exec: only what a signal's handler may call.
[[noreturn]] void become(char* const* argv, const char* log, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);  // it died before
  int out = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666), in = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (out < 0 || in < 0) _exit(1);
  dup2(in, STDIN_FILENO), dup2(out, STDOUT_FILENO), dup2(out, STDERR_FILENO);
  execv("/proc/self/exe", argv);
  _exit(127);
}

pid_t start(const SweepProcess& process) {
  std::vector<std::string> words = {"unity"};
  words.insert(words.end(), process.arguments.begin(), process.arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t parent = getpid(), child = fork();
  if (child < 0) throw std::runtime_error(fmt::format("sweep: no further process: {}", std::strerror(errno)));
  if (child == 0) become(argv.data(), process.log.c_str(), parent);
  return child;
}

// What the process said last: its error, else its last line.
std::string last_words(const std::string& file) {
  constexpr std::string_view kHead = "unity: error: ";
  std::istringstream lines(read_file(file));
  std::string last, error;
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) last = line;
    if (line.starts_with(kHead)) error = line.substr(kHead.size());
  }
  return error.empty() ? last : error;
}

std::string end_of(const SweepProcess& process, int status) {
  if (WIFSIGNALED(status)) return fmt::format("was killed by signal {}", WTERMSIG(status));
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  try {
    return last_words(process.log);
  } catch (const std::exception& why) {
    return fmt::format("ended with code {}; {}", WEXITSTATUS(status), why.what());
  }
}

}  // namespace

std::vector<std::string> run_processes(const std::vector<SweepProcess>& processes,
                                       const std::function<void(std::size_t)>& waiting) {
  std::fflush(nullptr);
  std::vector<pid_t> children;
  for (const SweepProcess& process : processes) children.push_back(start(process));
  std::vector<std::string> ends(processes.size());
  std::size_t ended = 0;
  while (ended < children.size()) {
    for (std::size_t i = 0; i < children.size(); ++i) {
      int status = 0;
      if (children[i] == 0 || waitpid(children[i], &status, WNOHANG) != children[i]) continue;
      children[i] = 0;
      ends[i] = end_of(processes[i], status);
      ++ended;
    }
    waiting(ended);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return ends;
}

}  // namespace unity::cli
