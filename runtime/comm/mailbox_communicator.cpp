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
// has the receiver, and there into its mailbox.
class MailboxCommunicator final : public Communicator {
 public:
  MailboxCommunicator(int devices, Processes& processes, std::function<std::string(std::int64_t)> describe)
      : processes_(processes), describe_(std::move(describe)), boxes_(static_cast<std::size_t>(devices)) {
    for (int d = 0; d < devices; ++d) owners_.push_back(processes.owner(DeviceId(d), devices));
    if (processes.size() == 1) return;
    channel_ = processes.open({[this](int, std::span<const std::byte> message) { deliver(message); },
                               [this] { cancel(); }, [this] { return waits(); }});
  }
  ~MailboxCommunicator() override {
    if (channel_ >= 0) processes_.close(channel_);
  }

  void send(DeviceId from, DeviceId to, std::int64_t tag, std::span<const std::byte> data) override {
    if (!local(to)) {
      Address address{from.value, to.value, tag};
      return processes_.send(owners_[to.index()], channel_, std::as_bytes(std::span(&address, 1)), data);
    }
    put(from, to, tag, data);
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
      else if (!box.arrived.wait_for(lock, processes_.patience(), ready))
        throw PeerSilent(fmt::format("{} was silent for {} s", peer(from),
                                     static_cast<double>(processes_.patience().count()) / 1000));
      box.waiting.reset();
    }
    if (box.cancelled) throw Cancelled();
    auto it = box.messages.find(key);
    Block message = std::move(it->second.front());
    it->second.pop_front();
    if (it->second.empty()) box.messages.erase(it);
    lock.unlock();
    UNITY_CHECK(message.size == data.size(), "message of {} bytes from device {} to {}, expected {}", message.size,
                from, to, data.size());
    if (!data.empty()) std::memcpy(data.data(), message.data.get(), data.size());
    store_.give(std::move(message));
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
    std::map<std::pair<DeviceId, std::int64_t>, std::deque<Block>> messages;
    std::optional<std::pair<DeviceId, std::int64_t>> waiting;
    bool cancelled = false;
  };

  bool local(DeviceId device) const { return owners_[device.index()] == processes_.rank(); }
  std::string peer(DeviceId device) const {
    return fmt::format("device {} (rank {})", device, owners_[device.index()]);
  }

  void put(DeviceId from, DeviceId to, std::int64_t tag, std::span<const std::byte> data) {
    Mailbox& box = boxes_.at(to.index());
    Block message = store_.take(data.size());
    if (!data.empty()) std::memcpy(message.data.get(), data.data(), data.size());
    {
      std::lock_guard lock(box.mutex);
      box.messages[{from, tag}].push_back(std::move(message));
    }
    box.arrived.notify_all();
  }

  void deliver(std::span<const std::byte> message) {
    Address address;
    UNITY_CHECK(message.size() >= sizeof address, "a message of {} bytes has no address", message.size());
    std::memcpy(&address, message.data(), sizeof address);
    put(DeviceId(address.from), DeviceId(address.to), address.tag, message.subspan(sizeof address));
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
  ByteStore store_;
  int channel_ = -1;
};

}  // namespace

std::unique_ptr<Communicator> make_communicator(int devices, Processes& processes,
                                                std::function<std::string(std::int64_t)> describe) {
  return std::make_unique<MailboxCommunicator>(devices, processes, std::move(describe));
}

}  // namespace unity
