#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>

#include "core/base/error.h"
#include "runtime/comm/byte_store.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/processes.h"
#include "runtime/comm/wait.h"

namespace unity {
namespace {

// A mailbox for each device of this process. A message is copied into that of its receiver, or goes to the process that
// has the receiver, and there, as it came, into its mailbox.
class MailboxCommunicator final : public Communicator {
 public:
  MailboxCommunicator(int devices, Processes& processes, std::function<std::string(std::int64_t)> describe)
      : processes_(processes), describe_(std::move(describe)), boxes_(static_cast<std::size_t>(devices)) {
    for (int d = 0; d < devices; ++d) owners_.push_back(processes.owner(DeviceId(d), devices));
    if (processes.size() == 1) return;
    channel_ = processes.open({[this](int, Message message) { deliver(std::move(message)); }, [this] { cancel(); },
                               [this] { return waits(); }});
  }
  ~MailboxCommunicator() override {
    if (channel_ >= 0) processes_.close(channel_);
  }

  void send(DeviceId from, DeviceId to, std::int64_t tag, std::span<const std::byte> data) override {
    if (!local(to)) {
      Address address{from.value, to.value, tag};
      return processes_.send(owners_[to.index()], channel_, std::as_bytes(std::span(&address, 1)), data);
    }
    Message message{processes_.store().take(data.size()), 0};
    if (!data.empty()) std::memcpy(message.block.data.get(), data.data(), data.size());
    put(from, to, tag, std::move(message));
  }

  void receive(DeviceId from, DeviceId to, std::int64_t tag, std::span<std::byte> data) override {
    Mailbox& box = boxes_.at(to.index());
    auto key = std::make_pair(from, tag);
    wait_briefly([&] {
      std::lock_guard lock(box.mutex);
      return box.cancelled || box.messages.contains(key);
    });
    std::unique_lock lock(box.mutex);
    auto ready = [&] { return box.cancelled || box.messages.contains(key); };
    if (!ready()) {
      box.waiting = key;
      // This process's own threads fail with an error of their own; others may be stopped or cut off.
      if (local(from))
        box.arrived.wait(lock, ready);
      else
        wait_for_process(owners_[from.index()], box, lock, ready);
      box.waiting.reset();
    }
    if (box.cancelled) throw Cancelled();
    auto it = box.messages.find(key);
    Message message = std::move(it->second.front());
    it->second.pop_front();
    if (it->second.empty()) box.messages.erase(it);
    lock.unlock();
    UNITY_CHECK(message.body().size() == data.size(), "message of {} bytes from device {} to {}, expected {}",
                message.body().size(), from, to, data.size());
    if (!data.empty()) std::memcpy(data.data(), message.body().data(), data.size());
    processes_.store().give(std::move(message.block));
  }

  void cancel() override {
    for (Mailbox& box : boxes_) {
      {
        std::lock_guard lock(box.mutex);
        box.cancelled = true;
      }
      box.arrived.notify_all();
    }
  }

  void reset() override {
    for (Mailbox& box : boxes_) {
      std::lock_guard lock(box.mutex);
      box.cancelled = false;
      box.waiting.reset();
      box.messages.clear();
    }
  }

 private:
  struct Address {
    std::int32_t from = 0, to = 0;
    std::int64_t tag = 0;
  };
  struct Mailbox {
    std::mutex mutex;
    std::condition_variable arrived;
    std::map<std::pair<DeviceId, std::int64_t>, std::deque<Message>> messages;
    std::optional<std::pair<DeviceId, std::int64_t>> waiting;
    bool cancelled = false;
  };

  bool local(DeviceId device) const { return owners_[device.index()] == processes_.rank(); }
  std::string peer(DeviceId device) const {
    return fmt::format("device {} (rank {})", device, owners_[device.index()]);
  }

  template <class Ready>
  void wait_for_process(int rank, Mailbox& box, std::unique_lock<std::mutex>& lock, const Ready& ready) {
    auto since = Processes::Clock::now();
    while (!box.arrived.wait_until(lock, processes_.deadline(rank, since), ready))
      if (Processes::Clock::now() >= processes_.deadline(rank, since)) {
        DeviceId from = box.waiting->first;
        box.waiting.reset();
        throw PeerSilent(fmt::format("{} {}", peer(from), processes_.overdue(rank)));
      }
  }

  void put(DeviceId from, DeviceId to, std::int64_t tag, Message message) {
    Mailbox& box = boxes_.at(to.index());
    {
      std::lock_guard lock(box.mutex);
      box.messages[{from, tag}].push_back(std::move(message));
    }
    box.arrived.notify_all();
  }

  void deliver(Message message) {
    Address address;
    UNITY_CHECK(message.body().size() >= sizeof address, "a message of {} bytes has no address", message.body().size());
    std::memcpy(&address, message.body().data(), sizeof address);
    message.begin += sizeof address;
    put(DeviceId(address.from), DeviceId(address.to), address.tag, std::move(message));
  }

  std::vector<std::string> waits() {
    std::vector<std::string> all;
    for (std::size_t d = 0; d < boxes_.size(); ++d) {
      std::lock_guard lock(boxes_[d].mutex);
      if (!boxes_[d].waiting) continue;
      auto [from, tag] = *boxes_[d].waiting;
      all.push_back(fmt::format("{}{}", peer(from), describe_ ? ": " + describe_(tag) : ""));
    }
    return all;
  }

  Processes& processes_;
  std::function<std::string(std::int64_t)> describe_;
  std::deque<Mailbox> boxes_;
  std::vector<int> owners_;
  int channel_ = -1;
};

}  // namespace

std::unique_ptr<Communicator> make_communicator(int devices, Processes& processes,
                                                std::function<std::string(std::int64_t)> describe) {
  return std::make_unique<MailboxCommunicator>(devices, processes, std::move(describe));
}

}  // namespace unity
