#include "gui/layout/layout.h"

#include <chrono>
#include <sstream>

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/error.h"

extern char** environ;

namespace unity::gui {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kTooManyNodes = 4000;  // dot would not end before any time-out that users bear
constexpr int kPollMilliseconds = 20;

// A process whose standard input and output are a socket of ours; killed and waited for at the end.
class Child {
 public:
  explicit Child(const std::string& program) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw_input_error("layout: no socket");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    std::string name = program, option = "--layout";
    char* arguments[] = {name.data(), option.data(), nullptr};
    int error = posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    socket_ = ends[0];
    if (error != 0) pid_ = 0;
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    close(socket_);
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  bool runs() const { return pid_ > 0; }
  int socket() const { return socket_; }

 private:
  pid_t pid_ = 0;
  int socket_ = -1;
};

std::string ask(const std::string& dot, const std::string& program, double seconds, const std::atomic<bool>* stop,
                std::string& answer) {
  Child child(program);
  if (!child.runs()) return "dot cannot be started";
  Clock::time_point end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  std::size_t sent = 0;
  char buffer[65536];
  for (;;) {
    if (stop && *stop) return "cancelled";
    if (Clock::now() >= end) return fmt::format("dot took more than {:.0f} s", seconds);
    pollfd wait{child.socket(), static_cast<short>(sent < dot.size() ? POLLIN | POLLOUT : POLLIN), 0};
    if (poll(&wait, 1, kPollMilliseconds) <= 0) continue;
    if ((wait.revents & POLLOUT) != 0 && sent < dot.size()) {
      ssize_t n = send(child.socket(), dot.data() + sent, dot.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0) return "dot ended early";
      sent += static_cast<std::size_t>(n);
      if (sent == dot.size()) shutdown(child.socket(), SHUT_WR);
    }
    if ((wait.revents & (POLLIN | POLLHUP)) != 0) {
      ssize_t n = recv(child.socket(), buffer, sizeof buffer, MSG_DONTWAIT);
      if (n > 0) answer.append(buffer, static_cast<std::size_t>(n));
      if (n == 0) return answer.ends_with("end\n") ? std::string() : "dot failed";
    }
  }
}

}  // namespace

Layout read_layout(const std::string& text, const LayoutGraph& graph) {
  Layout layout;
  layout.nodes.resize(graph.nodes.size());
  layout.edges.resize(graph.edges.size());
  layout.labels.resize(graph.edges.size());
  layout.clusters.resize(graph.clusters.size());
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream in(line);
    std::string kind;
    std::size_t index = 0;
    in >> kind;
    if (kind == "g") {
      in >> layout.bounds.w >> layout.bounds.h;
    } else if (kind == "n" && in >> index && index < layout.nodes.size()) {
      in >> layout.nodes[index].x >> layout.nodes[index].y;
    } else if (kind == "c" && in >> index && index < layout.clusters.size()) {
      Rect& box = layout.clusters[index];
      in >> box.x >> box.y >> box.w >> box.h;
    } else if (kind == "e" && in >> index && index < layout.edges.size()) {
      in >> layout.labels[index].x >> layout.labels[index].y;
      for (Point p; in >> p.x >> p.y;) layout.edges[index].push_back(p);
    }
  }
  for (std::size_t e = 0; e < graph.edges.size(); ++e) {
    std::vector<Point>& path = layout.edges[e];
    if (path.size() < 2)
      path = {layout.nodes[static_cast<std::size_t>(graph.edges[e].from)],
              layout.nodes[static_cast<std::size_t>(graph.edges[e].to)]};
    Point& label = layout.labels[e];
    if (label == Point()) label = path[path.size() / 2];
  }
  return layout;
}

Layout lay_out(const LayoutGraph& graph, const std::string& program, double seconds, const std::atomic<bool>* stop) {
  std::string answer, note;
  if (graph.nodes.size() > kTooManyNodes)
    note = fmt::format("{} nodes are too many for dot", graph.nodes.size());
  else if (graph.nodes.empty())
    return {};
  else
    note = ask(to_dot(graph), program, seconds, stop, answer);
  if (note.empty()) return read_layout(answer, graph);
  Layout layout = lay_out_by_ranks(graph);
  layout.note = note;
  return layout;
}

}  // namespace unity::gui
