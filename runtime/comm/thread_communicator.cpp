#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>

#include "core/base/error.h"
#include "runtime/comm/byte_store.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/wait.h"

namespace unity {
namespace {

class ThreadCommunicator final : public Communicator {
 public:
  explicit ThreadCommunicator(int devices) : boxes_(static_cast<std::size_t>(devices)) {}

  void send(DeviceId from, DeviceId to, std::int64_t tag, std::span<const std::byte> data) override {
    Mailbox& box = boxes_.at(to.index());
    Block message = store_.take(data.size());
    if (!data.empty()) std::memcpy(message.data.get(), data.data(), data.size());
    {
      std::lock_guard lock(box.mutex);
      box.messages[{from, tag}].push_back(std::move(message));
    }
    box.arrived.notify_all();
  }

  void receive(DeviceId from, DeviceId to, std::int64_t tag, std::span<std::byte> data) override {
    Mailbox& box = boxes_.at(to.index());
    auto key = std::make_pair(from, tag);
    wait_briefly([&] {
      std::lock_guard lock(box.mutex);
      return box.cancelled || box.messages.contains(key);
    });
    std::unique_lock lock(box.mutex);
    box.arrived.wait(lock, [&] { return box.cancelled || box.messages.contains(key); });
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
      box.messages.clear();
    }
  }

 private:
  struct Mailbox {
    std::mutex mutex;
    std::condition_variable arrived;
    std::map<std::pair<DeviceId, std::int64_t>, std::deque<Block>> messages;
    bool cancelled = false;
  };
  std::deque<Mailbox> boxes_;
  ByteStore store_;
};

}  // namespace

std::unique_ptr<Communicator> make_thread_communicator(int devices) {
  return std::make_unique<ThreadCommunicator>(devices);
}

}  // namespace unity
