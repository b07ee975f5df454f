#include "runtime/comm/processes.h"

#include <atomic>
#include <csignal>
#include <cstring>
#include <thread>

#include <pthread.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/text.h"

namespace unity {
namespace {

// Channels from 0 on are communicators'.
constexpr std::int32_t kGather = -1, kGivesUp = -2;

std::atomic<Processes*> reporting{nullptr};

}  // namespace

Processes::Processes() = default;

Processes::Processes(std::unique_ptr<Transport> transport, std::chrono::milliseconds patience)
    : transport_(std::move(transport)),
      rank_(transport_->rank()),
      size_(transport_->size()),
      patience_(patience),
      gathered_(static_cast<std::size_t>(size_)) {
  transport_->start([this](int from, std::vector<std::byte> message) { arrived(from, std::move(message)); });
}

Processes::~Processes() {
  Processes* self = this;
  reporting.compare_exchange_strong(self, nullptr);
  if (transport_) transport_->finish();
}

void Processes::report_termination() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  reporting.store(this);
  std::thread([set] {
    int signal = 0;
    sigwait(&set, &signal);
    Processes* self = reporting.load();
    std::string what = "unity: error: terminated\n";
    if (self) what = fmt::format("unity: error: rank {}: terminated{}\n", self->rank_, self->waits());
    [[maybe_unused]] auto written = ::write(STDERR_FILENO, what.data(), what.size());
    ::_exit(1);
  }).detach();
}

std::string Processes::waits() {
  std::lock_guard lock(mutex_);
  std::vector<std::string> all;
  if (gathering_) all.push_back("the other ranks' parts of a result");
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
  std::vector<std::pair<int, std::vector<std::byte>>> early;
  std::lock_guard lock(mutex_);
  int id = opened_++;
  // Delivered under the lock, so that what comes now comes after.
  for (auto& [from, message] : early_[id]) channel.deliver(from, message);
  early_.erase(id);
  channels_.emplace(id, std::move(channel));
  return id;
}

void Processes::close(int channel) {
  std::lock_guard lock(mutex_);
  channels_.erase(channel);
}

void Processes::send(int to, int channel, std::span<const std::byte> first, std::span<const std::byte> second) {
  std::int32_t id = channel;
  std::vector<std::byte> message(sizeof id + first.size() + second.size());
  std::memcpy(message.data(), &id, sizeof id);
  if (!first.empty()) std::memcpy(message.data() + sizeof id, first.data(), first.size());
  if (!second.empty()) std::memcpy(message.data() + sizeof id + first.size(), second.data(), second.size());
  transport_->post(to, std::move(message));
}

void Processes::arrived(int from, std::vector<std::byte> message) {
  std::int32_t id = 0;
  UNITY_CHECK(message.size() >= sizeof id, "a message of {} bytes from rank {}", message.size(), from);
  std::memcpy(&id, message.data(), sizeof id);
  std::span<const std::byte> body = std::span<const std::byte>(message).subspan(sizeof id);
  std::lock_guard lock(mutex_);
  if (id == kGather) {
    gathered_[static_cast<std::size_t>(from)].emplace_back(body.begin(), body.end());
  } else if (id == kGivesUp) {
    if (failure_.empty())
      failure_ = fmt::format("rank {} gave up: {}", from,
                             std::string_view(reinterpret_cast<const char*>(body.data()), body.size()));
    for (auto& [open, channel] : channels_) channel.interrupt();
  } else if (auto found = channels_.find(id); found != channels_.end()) {
    found->second.deliver(from, body);
    return;
  } else if (id >= opened_) {
    early_[id].emplace_back(from, std::vector<std::byte>(body.begin(), body.end()));
    return;
  }
  changed_.notify_all();
}

std::vector<std::vector<std::byte>> Processes::all_gather(std::span<const std::byte> data) {
  std::vector<std::vector<std::byte>> all(static_cast<std::size_t>(size_));
  all[static_cast<std::size_t>(rank_)].assign(data.begin(), data.end());
  for (int r = 0; r < size_; ++r)
    if (r != rank_) send(r, kGather, data);
  if (size_ == 1) return all;
  std::unique_lock lock(mutex_);
  gathering_ = true;
  for (int r = 0; r < size_; ++r) {
    if (r == rank_) continue;
    auto& mine = gathered_[static_cast<std::size_t>(r)];
    bool came = changed_.wait_for(lock, patience_, [&] { return !mine.empty() || !failure_.empty(); });
    if (mine.empty() && !failure_.empty()) throw ProcessFailure(failure_);
    if (!came)
      throw ProcessFailure(fmt::format("rank {} was silent for {} s; expected its part of a result", r,
                                       static_cast<double>(patience_.count()) / 1000));
    all[static_cast<std::size_t>(r)] = std::move(mine.front());
    mine.pop_front();
  }
  gathering_ = false;
  return all;
}

void Processes::barrier() { all_gather({}); }

void Processes::require_equal(const std::string& what, const std::string& value) {
  std::vector<std::vector<std::byte>> all = all_gather(std::as_bytes(std::span(value)));
  for (std::size_t r = 0; r < all.size(); ++r) {
    std::string theirs(reinterpret_cast<const char*>(all[r].data()), all[r].size());
    if (theirs != value) throw_input_error("{}: rank {} has {}, rank {} has {}", what, rank_, value, r, theirs);
  }
}

void Processes::give_up(const std::string& why, int exit_code) {
  if (size_ == 1) return;
  bool first = failure().empty();
  for (int r = 0; r < size_ && first; ++r)
    if (r != rank_) send(r, kGivesUp, std::as_bytes(std::span(why)));
  std::this_thread::sleep_for(std::chrono::milliseconds(500));  // the others say what they were at
  transport_->abort(exit_code);
}

std::string Processes::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace unity
