#include "core/report/claim.h"

#include <csignal>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <optional>
#include <sstream>
#include <stdexcept>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "core/base/nesting.h"
#include "core/base/text.h"

namespace unity::report {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

// When a process was started, in ticks of the machine: of two with one number the later one is another. Empty: it has
// ended, though its parent may not have asked for its exit code.
std::string started(pid_t process) {
  std::string stat = first_line(fmt::format("/proc/{}/stat", process));
  std::istringstream rest(stat.substr(std::min(stat.rfind(')') + 1, stat.size())));
  std::string field;
  for (int i = 3; i <= 22; ++i)  // proc(5): the command is field 2, the state field 3, the start field 22
    if (!(rest >> field) || (i == 3 && (field == "Z" || field == "X"))) return {};
  return field;
}

// The machine since its start, and the numbering of processes that this one sees.
std::string machine() {
  std::error_code error;
  return first_line("/proc/sys/kernel/random/boot_id") + " " + fs::read_symlink("/proc/self/ns/pid", error).string();
}

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

// The content of a claim; empty: there is none.
std::string content_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return in ? std::string{std::istreambuf_iterator<char>(in), {}} : std::string();
}

struct Owner {
  std::string token, host, machine, started;
  pid_t process = 0;
};

std::optional<Owner> owner_of(const std::string& content) {
  try {
    refuse_deep_json(content, "");
    ordered_json in = ordered_json::parse(content);
    return Owner{in.at("token"), in.at("host"), in.at("machine"), in.at("started"), in.at("process")};
  } catch (const std::exception&) {
    return {};
  }
}

std::string token_of(const std::string& content) {
  std::optional<Owner> owner = owner_of(content);
  return owner ? owner->token : std::string();
}

// None: it cannot be told from here.
std::optional<bool> lives(const Owner& owner) {
  if (owner.machine != machine() || owner.process <= 0) return {};
  if (kill(owner.process, 0) != 0 && errno == ESRCH) return false;
  return !owner.started.empty() && started(owner.process) == owner.started;
}

// Whether somebody has it; waits to see where the owner is not on this machine.
bool held(const fs::path& file, const std::string& content, const Claim::Times& times) {
  if (std::optional<Owner> owner = owner_of(content); owner && lives(*owner).has_value()) {
    // One that has been told to end, as its parent was killed, may need a moment.
    auto last = std::chrono::steady_clock::now() + std::min(times.patience, std::chrono::milliseconds(1000));
    while (*lives(*owner) && std::chrono::steady_clock::now() < last)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return *lives(*owner);
  }
  auto end = std::chrono::steady_clock::now() + times.patience;
  while (std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::min(times.beat, std::chrono::milliseconds(500)));
    if (std::string now = content_of(file); now != content) return !now.empty();
  }
  return false;
}

[[noreturn]] void refuse(const fs::path& file, const std::string& what, const std::string& content) {
  std::optional<Owner> owner = owner_of(content);
  throw_input_error("{}: is being run{}; when that is not so, remove {}", what,
                    owner ? fmt::format(" by process {} on {}", owner->process, owner->host) : "", file.string());
}

}  // namespace

void refuse_if_claimed(const fs::path& file, const std::string& what, Claim::Times times) {
  std::string content = content_of(file);
  if (!content.empty() && held(file, content, times)) refuse(file, what, content_of(file));
}

Claim::Claim(fs::path file, const std::string& what, Times times) : file_(std::move(file)), what_(what), times_(times) {
  std::string host = host_name(), start = started(getpid());
  token_ =
      fmt::format("{} {} {} {}", host, getpid(), start, std::chrono::system_clock::now().time_since_epoch().count());
  const std::string content = ordered_json{{"token", token_},  {"host", host},        {"machine", machine()},
                                           {"started", start}, {"process", getpid()}, {"beat", 0}}
                                  .dump() +
                              "\n";
  // Of all who come at once the same, so that nothing is left but what the next one writes anew: the claim may have the
  // content of another, and is then the other's.
  fs::path fresh = file_;
  fresh += ".new";
  std::error_code error;
  for (int attempt = 0;; ++attempt) {
    constexpr int kAttempts = 4;
    write_file_atomically(fresh, content);
    fs::create_hard_link(fresh, file_, error);
    if (!error) break;
    std::string there = content_of(file_);
    if (token_of(there) == token_) break;
    if (there.empty() && attempt < kAttempts) continue;  // the claim, or the new file, went away in between
    if (!there.empty() && held(file_, there, times_)) {
      fs::remove(fresh, error);
      refuse(file_, what_, there);
    }
    // The owner is dead; or there are no links here, and those who come at once are told apart by check().
    fs::rename(fresh, file_, error);
    if (!error) break;
    if (attempt >= kAttempts) throw_input_error("{}: cannot be written: {}", file_.string(), error.message());
  }
  fs::remove(fresh, error);
  check();
  beating_ = std::thread([this] { beat(); });
}

Claim::~Claim() {
  {
    std::lock_guard lock(mutex_);
    over_ = true;
  }
  wake_.notify_all();
  beating_.join();
  std::error_code error;
  if (token_of(content_of(file_)) == token_) fs::remove(file_, error);
}

void Claim::check() const {
  std::lock_guard lock(mutex_);
  std::string content = content_of(file_);
  if (token_of(content) == token_) return;
  std::optional<Owner> owner = owner_of(content);
  throw std::runtime_error(fmt::format("{}: was taken over{}, which goes on with it", what_,
                                       owner ? fmt::format(" by process {} on {}", owner->process, owner->host) : ""));
}

void Claim::beat() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, times_.beat, [&] { return over_; })) {
    std::string content = content_of(file_);
    if (token_of(content) != token_) return;
    ordered_json next = ordered_json::parse(content);
    next["beat"] = ++beats_;
    try {
      write_file_atomically(file_, next.dump() + "\n");
    } catch (const InputError&) {  // a full disk, for now: others see that it still is there, and who has it
    }
  }
}

}  // namespace unity::report
