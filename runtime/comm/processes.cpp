#include "runtime/comm/processes.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/text.h"

namespace unity {
namespace {

using namespace std::chrono_literals;

// Channels from 0 on are communicators'.
constexpr std::int32_t kExchange = -1, kGivesUp = -2, kThere = -3;

constexpr int kPatiences = 10;  // of a process that is heard of, but does not send what is waited for

// The processes that SIGTERM is to speak for.
std::mutex reporting_mutex;
Processes* reporting = nullptr;
volatile int termination_pipe = -1;  // where the signal's handler writes

}  // namespace

// Before every message. `whole` counts the bytes of all its parts, which have the same number.
struct Processes::Header {
  std::int32_t channel = 0;
  std::uint32_t number = 0;
  std::uint64_t whole = 0;
};

Processes::Processes(std::chrono::milliseconds patience) : patience_(patience) {}

Processes::Processes(std::unique_ptr<Transport> transport, std::chrono::milliseconds patience, std::size_t part_bytes)
    : transport_(std::move(transport)),
      rank_(transport_->rank()),
      size_(transport_->size()),
      patience_(patience),
      part_bytes_(part_bytes),
      gathered_(static_cast<std::size_t>(size_)),
      heard_(static_cast<std::size_t>(size_)) {
  for (auto& when : heard_) when = Clock::now().time_since_epoch().count();
  transport_->start(
      store_, {[this](int from, Block message) { arrived(from, std::move(message)); },
               [this](const std::string& why) { fail(fmt::format("messages are no longer carried: {}", why), 1); }});
  if (size_ > 1) pulse_ = std::thread([this] { pulse(); });
}

Processes::~Processes() {
  {
    std::lock_guard lock(reporting_mutex);
    if (reporting == this) reporting = nullptr;
  }
  if (!transport_) return;
  {
    std::lock_guard lock(mutex_);
    leaving_ = true;
    left_.notify_all();
  }
  if (pulse_.joinable()) pulse_.join();
  if (transport_->finish(patience_)) return;
  std::fflush(nullptr);
  fmt::print(stderr, "unity: error: rank {}: the other ranks did not take leave within {} s\n", rank_,
             seconds(patience_));
  transport_->abort(1);
}

void Processes::pulse() {
  auto interval = std::clamp<std::chrono::milliseconds>(patience_ / 5, 10ms, 10s);
  std::unique_lock lock(mutex_);
  while (!left_.wait_for(lock, interval, [&] { return leaving_; })) {
    lock.unlock();
    try {
      for (int r = 0; r < size_; ++r)
        if (r != rank_) send(r, kThere, {});
    } catch (const std::exception&) {
      return;  // reported by the transport
    }
    lock.lock();
  }
}

Processes::Clock::time_point Processes::deadline(int from, Clock::time_point since, Wait wait) const {
  if (wait == Wait::while_heard) return std::max(since, heard(from)) + patience_;
  return std::min(std::max(since, heard(from)) + patience_, since + kPatiences * patience_);
}

Processes::Clock::time_point Processes::heard(int from) const {
  return Clock::time_point(Clock::duration(heard_[static_cast<std::size_t>(from)].load()));
}

std::string Processes::overdue(int from) const {
  return Clock::now() < heard(from) + patience_
             ? fmt::format("is there, but sent nothing for {} s", seconds(kPatiences * patience_))
             : fmt::format("was silent for {} s", seconds(patience_));
}

void Processes::require_there(std::span<const int> others, Clock::time_point since, const std::string& what) const {
  if (std::string why = failure(); !why.empty()) throw ProcessFailure(why);
  for (int r : others)
    if (r != rank_ && Clock::now() >= deadline(r, since))
      throw ProcessFailure(fmt::format("rank {} {}; expected {}", r, overdue(r), what));
}

void Processes::report_termination() {
  {
    std::lock_guard lock(reporting_mutex);
    reporting = this;
  }
  int ends[2];
  if (termination_pipe >= 0 || ::pipe2(ends, O_CLOEXEC) != 0) return;
  termination_pipe = ends[1];
  // A handler, as libraries start threads of their own before main(), in which the signal is not blocked.
  struct sigaction action = {};
  action.sa_handler = [](int) {
    char byte = 0;
    [[maybe_unused]] auto written = ::write(termination_pipe, &byte, 1);
  };
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGTERM, &action, nullptr);
  std::thread([end = ends[0]] {
    char byte = 0;
    while (::read(end, &byte, 1) < 0 && errno == EINTR) {
    }
    std::string what = "unity: error: terminated\n";
    {
      std::lock_guard lock(reporting_mutex);
      if (reporting && reporting->given_up_) {
        what.clear();  // has said why
      } else if (reporting) {
        // What computes now may soon wait for the process that died. Launchers kill after a second or more.
        std::string waits = reporting->waits();
        for (int i = 0; i < 20 && waits.empty(); ++i) std::this_thread::sleep_for(20ms), waits = reporting->waits();
        what = fmt::format("unity: error: rank {}: terminated{}\n", reporting->rank_, waits);
      }
    }
    [[maybe_unused]] auto written = ::write(STDERR_FILENO, what.data(), what.size());
    ::_exit(1);
  }).detach();
}

std::string Processes::waits() {
  std::lock_guard lock(mutex_);
  std::vector<std::string> all;
  if (!gathering_.empty()) all.push_back(gathering_);
  for (auto& [id, channel] : channels_)
    for (std::string& wait : channel.waiting()) all.push_back(std::move(wait));
  return all.empty() ? "" : fmt::format(" while waiting for {}", fmt::join(all, "; "));
}

int Processes::owner(DeviceId device, int devices) const {
  std::int64_t p = size_, n = devices, d = device.value;
  return static_cast<int>(((d + 1) * p - 1) / n);
}

int Processes::count(int devices) const {
  int count = 0;
  for (int d = 0; d < devices; ++d) count += has(DeviceId(d), devices);
  return count;
}

void Processes::require_devices(int devices) const {
  if (size_ > devices)
    throw_input_error("{} processes were started for {} devices, expected at most one for each device", size_, devices);
}

int Processes::open(Channel channel) {
  std::lock_guard lock(mutex_);
  int id = opened_++;
  // Delivered under the lock, so that what comes now comes after.
  if (auto early = early_.find(id); early != early_.end()) {
    for (auto& [from, message] : early->second) channel.deliver(from, std::move(message));
    early_.erase(early);
  }
  if (!failure_.empty()) channel.interrupt();
  channels_.emplace(id, std::move(channel));
  return id;
}

void Processes::close(int channel) {
  std::lock_guard lock(mutex_);
  channels_.erase(channel);
}

void Processes::send(int to, int channel, std::span<const std::byte> first, std::span<const std::byte> second) {
  std::size_t whole = first.size() + second.size();
  Header header{channel, 0, whole};
  if (whole > part_bytes_) header.number = sent_.fetch_add(1);
  std::size_t begin = 0;
  do {
    std::size_t end = std::min(whole, begin + part_bytes_);
    Block block = store_.take(sizeof header + end - begin);
    std::byte* at = block.data.get();
    std::memcpy(at, &header, sizeof header), at += sizeof header;
    if (begin < first.size()) {
      std::size_t n = std::min(end, first.size()) - begin;
      std::memcpy(at, first.data() + begin, n), at += n;
    }
    if (end > first.size()) {
      std::size_t from = std::max(begin, first.size()) - first.size(), n = end - first.size() - from;
      if (n > 0) std::memcpy(at, second.data() + from, n);
    }
    transport_->post(to, std::move(block));
    begin = end;
  } while (begin < whole);
}

void Processes::arrived(int from, Block block) {
  Header header;
  UNITY_CHECK(block.size >= sizeof header, "a message of {} bytes from rank {}", block.size, from);
  std::memcpy(&header, block.data.get(), sizeof header);
  Message message{std::move(block), sizeof header};
  heard_[static_cast<std::size_t>(from)] = Clock::now().time_since_epoch().count();
  if (header.channel == kThere) return store_.give(std::move(message.block));
  if (message.body().size() < header.whole) {
    auto [it, first] = assemblies_.try_emplace({from, header.number});
    Assembly& a = it->second;
    if (first) a.whole = store_.take(header.whole);
    std::span<const std::byte> part = message.body();
    UNITY_CHECK(a.whole.size == header.whole && a.filled + part.size() <= header.whole,
                "a part of {} bytes of a message of {} from rank {}", part.size(), header.whole, from);
    std::memcpy(a.whole.data.get() + a.filled, part.data(), part.size());
    a.filled += part.size();
    store_.give(std::move(message.block));
    if (a.filled < header.whole) return;
    message = {std::move(a.whole), 0};
    assemblies_.erase(it);
  }
  take_in(from, header.channel, std::move(message));
}

void Processes::take_in(int from, int channel, Message message) {
  if (channel == kGivesUp) {
    std::span<const std::byte> body = message.body();
    std::int32_t code = 1;
    UNITY_CHECK(body.size() >= sizeof code, "rank {} gave up in {} bytes", from, body.size());
    std::memcpy(&code, body.data(), sizeof code);
    body = body.subspan(sizeof code);
    return fail(fmt::format("rank {} gave up: {}", from,
                            std::string_view(reinterpret_cast<const char*>(body.data()), body.size())),
                code);
  }
  std::lock_guard lock(mutex_);
  if (channel == kExchange) {
    gathered_[static_cast<std::size_t>(from)].push_back(std::move(message));
    changed_.notify_all();
  } else if (auto found = channels_.find(channel); found != channels_.end()) {
    found->second.deliver(from, std::move(message));
  } else if (channel >= opened_) {
    early_[channel].emplace_back(from, std::move(message));
  }
}

// The first failure counts.
void Processes::fail(const std::string& why, int exit_code) {
  std::lock_guard lock(mutex_);
  if (failure_.empty()) failure_ = why, failure_code_ = exit_code;
  for (auto& [id, channel] : channels_) channel.interrupt();
  changed_.notify_all();
}

BytesByRank Processes::exchange(const BytesByRank& to, const std::vector<bool>& from, const std::string& what,
                                Wait wait) {
  auto ranks = static_cast<std::size_t>(size_);
  UNITY_CHECK(to.size() == ranks && from.size() == ranks, "{} and {} parts for {} ranks", to.size(), from.size(),
              ranks);
  // Each begins with its neighbour, so that not all send to the same one at once.
  for (std::size_t i = 1; i < ranks; ++i) {
    std::size_t r = (static_cast<std::size_t>(rank_) + i) % ranks;
    if (!to[r].empty()) send(static_cast<int>(r), kExchange, to[r]);
  }
  BytesByRank all(ranks);
  std::unique_lock lock(mutex_);
  auto since = Clock::now();
  for (std::size_t r = 0; r < ranks; ++r) {
    if (!from[r] || r == static_cast<std::size_t>(rank_)) continue;
    auto& mine = gathered_[r];
    auto ready = [&] { return !mine.empty() || !failure_.empty(); };
    if (!ready()) gathering_ = fmt::format("rank {}'s part of {}", r, what);
    int rank = static_cast<int>(r);
    while (!changed_.wait_until(lock, deadline(rank, since, wait), ready))
      if (Clock::now() >= deadline(rank, since, wait)) {
        gathering_.clear();
        throw ProcessFailure(fmt::format("rank {} {}; expected its part of {}", r, overdue(rank), what));
      }
    gathering_.clear();
    if (mine.empty()) throw ProcessFailure(failure_);
    Message message = std::move(mine.front());
    mine.pop_front();
    all[r].assign(message.body().begin(), message.body().end());
    store_.give(std::move(message.block));
  }
  return all;
}

BytesByRank Processes::all_gather(std::span<const std::byte> data, const std::string& what, Wait wait) {
  auto ranks = static_cast<std::size_t>(size_), self = static_cast<std::size_t>(rank_);
  std::vector<std::byte> mine(data.begin(), data.end());
  if (ranks == 1) return {std::move(mine)};
  // A part may be empty, a message of exchange may not.
  mine.push_back(std::byte{0});
  BytesByRank to(ranks, mine);
  BytesByRank all = exchange(to, std::vector<bool>(ranks, true), what, wait);
  all[self] = std::move(mine);
  for (std::vector<std::byte>& part : all) part.pop_back();
  return all;
}

void Processes::barrier(const std::string& what, Wait wait) { all_gather({}, what, wait); }

void Processes::require_equal(const std::string& what, const std::string& value) {
  BytesByRank all = all_gather(std::as_bytes(std::span(value)), what);
  auto text = [](const std::vector<std::byte>& bytes) {
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  std::string first = text(all[0]);
  std::vector<std::string> others;
  for (std::size_t r = 1; r < all.size(); ++r)
    if (std::string theirs = text(all[r]); theirs != first) others.push_back(fmt::format("rank {} has {}", r, theirs));
  if (others.empty()) return;
  constexpr std::size_t kNamed = 4;
  std::size_t more = others.size() > kNamed ? others.size() - kNamed : 0;
  others.resize(others.size() - more);
  throw_input_error("{}: rank 0 has {}, {}{}", what, first, fmt::join(others, ", "),
                    more ? fmt::format(", and {} more differ", more) : "");
}

void Processes::give_up(const std::string& why, int exit_code) {
  if (size_ == 1) return;
  given_up_ = true;
  if (failure().empty()) {
    std::int32_t code = exit_code;
    try {
      for (int r = 0; r < size_; ++r)
        if (r != rank_) send(r, kGivesUp, std::as_bytes(std::span(&code, 1)), std::as_bytes(std::span(why)));
    } catch (const std::exception&) {
      // They learn it from the launcher.
    }
  }
  std::this_thread::sleep_for(500ms);  // the others say what they were at
  transport_->abort(exit_code);
}

std::string Processes::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

int Processes::failure_code() const {
  std::lock_guard lock(mutex_);
  return failure_code_;
}

}  // namespace unity
