// The `unity` command as a process that goes on while a test looks at it.
#pragma once

#include <chrono>
#include <csignal>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/command.h"
#include "tests/support/paths.h"

extern char** environ;

namespace command {

// A command as a child process, which a test can interrupt or kill.
class Child {
 public:
  Child(const Folder& folder, std::vector<std::string> arguments) : folder_(folder) {
    arguments.insert(arguments.begin(), std::string(UNITY_BINARY_DIR) + "/bin/unity");
    std::vector<char*> argv;
    for (std::string& a : arguments) argv.push_back(a.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    int flags = O_WRONLY | O_CREAT | O_TRUNC;
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, folder.file("out").c_str(), flags, 0600);
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, folder.file("err").c_str(), flags, 0600);
    REQUIRE(posix_spawn(&pid_, argv[0], &files, nullptr, argv.data(), environ) == 0);
    posix_spawn_file_actions_destroy(&files);
  }
  ~Child() {
    if (pid_ > 0) kill(pid_, SIGKILL), waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void press(int signal = SIGINT) const { kill(pid_, signal); }
  // Until the kernel knows that the child handles Ctrl-C; false when it does not within a minute.
  bool listens() const {
    std::string status = "/proc/" + std::to_string(pid_) + "/status";
    return soon([&] {
      std::string text = read(status);
      std::size_t at = text.find("SigCgt:");
      return at != std::string::npos && (std::stoull(text.substr(at + 7), nullptr, 16) & (1u << (SIGINT - 1))) != 0;
    });
  }
  // Until it has had so many seconds of processors: on a machine that is busy with other things, that is later.
  bool works(double seconds) const {
    const auto ticks = static_cast<long>(seconds * static_cast<double>(sysconf(_SC_CLK_TCK)));
    return soon([&] {
      const std::string stat = read("/proc/" + std::to_string(pid_) + "/stat");
      const std::size_t name_end = stat.rfind(')');
      if (name_end == std::string::npos) return false;
      std::istringstream fields(stat.substr(name_end + 1));
      std::string skipped;
      for (int i = 0; i < 11; ++i) fields >> skipped;  // from the state to majflt's children
      long user = 0, system = 0;
      fields >> user >> system;
      return user + system >= ticks;
    });
  }
  bool says(const std::string& words) const {
    return soon([&] { return read(folder_.file("err")).find(words) != std::string::npos; });
  }
  int wait() {
    waitpid(pid_, &status_, 0);
    pid_ = 0;
    return status_;
  }

  // Whether it happens within a minute.
  static bool soon(const std::function<bool()>& happened) {
    for (int i = 0; i < 6000; ++i) {
      if (happened()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

 private:
  const Folder& folder_;
  pid_t pid_ = 0;
  int status_ = 0;
};

}  // namespace command
