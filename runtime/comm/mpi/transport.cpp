// MPI as the transport between processes. One thread makes all calls of MPI: it posts what others hand it, and looks
// for what arrives. Idle, it sleeps for a moment between looks, so that ranks that share cores leave them to compute.
#include "runtime/comm/transport.h"

#include <condition_variable>
#include <deque>
#include <list>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>

#include <mpi.h>

#include "runtime/plugin.h"

namespace unity {
namespace {

void check(int status, const char* call) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(status, text, &length);
  throw std::runtime_error(std::string(call) + ": " + std::string(text, static_cast<std::size_t>(length)));
}
#define UNITY_MPI_CHECK(call) check((call), #call)

class MpiTransport final : public Transport {
 public:
  MpiTransport() : thread_([this] { serve(); }) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return begun_ || !failure_.empty(); });
    if (!failure_.empty()) {
      lock.unlock();
      thread_.join();
      throw std::runtime_error(failure_);
    }
  }
  ~MpiTransport() override { finish(); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int local_rank() const override { return local_rank_; }
  int local_size() const override { return local_size_; }

  void start(std::function<void(int, std::vector<std::byte>)> receive) override {
    std::lock_guard lock(mutex_);
    receive_ = std::move(receive);
    changed_.notify_all();
  }
  void post(int to, std::vector<std::byte> message) override {
    std::lock_guard lock(mutex_);
    if (!failure_.empty()) throw std::runtime_error(failure_);
    queue_.push_back({to, std::move(message)});
    changed_.notify_all();
  }
  void finish() override {
    if (!thread_.joinable()) return;
    {
      std::lock_guard lock(mutex_);
      leaving_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }
  [[noreturn]] void abort(int exit_code) override {
    // MPI's thread may be inside a call; a process may always end itself, and the launcher then ends the others.
    {
      std::unique_lock lock(mutex_);
      aborting_ = exit_code;
      changed_.notify_all();
      changed_.wait_for(lock, std::chrono::seconds(2), [] { return false; });
    }
    std::_Exit(exit_code);
  }

 private:
  struct Outgoing {
    int to = 0;
    std::vector<std::byte> message;
  };
  struct Sending {
    std::vector<std::byte> message;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  struct Receiving {
    int from = 0;
    std::vector<std::byte> message;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  void serve() {
    try {
      int provided = 0;
      UNITY_MPI_CHECK(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided));
      UNITY_MPI_CHECK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
      MPI_Comm node;
      {
        std::lock_guard lock(mutex_);
        UNITY_MPI_CHECK(MPI_Comm_rank(MPI_COMM_WORLD, &rank_));
        UNITY_MPI_CHECK(MPI_Comm_size(MPI_COMM_WORLD, &size_));
        UNITY_MPI_CHECK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node));
        UNITY_MPI_CHECK(MPI_Comm_rank(node, &local_rank_));
        UNITY_MPI_CHECK(MPI_Comm_size(node, &local_size_));
        UNITY_MPI_CHECK(MPI_Comm_free(&node));
        begun_ = true;
        changed_.notify_all();
      }
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return receive_ || leaving_; });
      lock.unlock();
      carry();
      UNITY_MPI_CHECK(MPI_Finalize());
    } catch (const std::exception& e) {
      std::lock_guard lock(mutex_);
      failure_ = e.what();
      changed_.notify_all();
    }
  }

  void carry() {
    std::list<Sending> sending;
    std::list<Receiving> receiving;
    int idle = 0;
    while (true) {
      bool busy = false, leaving = false;
      std::deque<Outgoing> out;
      {
        std::lock_guard lock(mutex_);
        out.swap(queue_);
        leaving = leaving_;
        if (aborting_ != 0) MPI_Abort(MPI_COMM_WORLD, aborting_);
      }
      for (Outgoing& o : out) {
        Sending& s = sending.emplace_back();
        s.message = std::move(o.message);
        UNITY_MPI_CHECK(
            MPI_Isend(s.message.data(), count(s.message), MPI_BYTE, o.to, kTag, MPI_COMM_WORLD, &s.request));
        busy = true;
      }
      int flag = 1;
      while (true) {
        MPI_Message message;
        MPI_Status status;
        UNITY_MPI_CHECK(MPI_Improbe(MPI_ANY_SOURCE, kTag, MPI_COMM_WORLD, &flag, &message, &status));
        if (!flag) break;
        int bytes = 0;
        UNITY_MPI_CHECK(MPI_Get_count(&status, MPI_BYTE, &bytes));
        Receiving& r = receiving.emplace_back();
        r.from = status.MPI_SOURCE;
        r.message.resize(static_cast<std::size_t>(bytes));
        UNITY_MPI_CHECK(MPI_Imrecv(r.message.data(), bytes, MPI_BYTE, &message, &r.request));
        busy = true;
      }
      // In the order in which they were matched, so that messages of one process stay in theirs.
      while (!receiving.empty()) {
        UNITY_MPI_CHECK(MPI_Test(&receiving.front().request, &flag, MPI_STATUS_IGNORE));
        if (!flag) break;
        receive_(receiving.front().from, std::move(receiving.front().message));
        receiving.pop_front();
        busy = true;
      }
      for (auto s = sending.begin(); s != sending.end();) {
        UNITY_MPI_CHECK(MPI_Test(&s->request, &flag, MPI_STATUS_IGNORE));
        s = flag ? sending.erase(s) : std::next(s);
        busy |= flag != 0;
      }
      if (leaving && sending.empty() && receiving.empty()) return;
      idle = busy ? 0 : idle + 1;
      if (idle < kLooks)
        std::this_thread::yield();
      else
        rest(sending.empty() && receiving.empty() ? kRest : kShortRest);
    }
  }

  void rest(std::chrono::microseconds time) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, time, [&] { return !queue_.empty() || leaving_ || aborting_ != 0; });
  }

  static int count(const std::vector<std::byte>& message) {
    if (message.size() > 0x7fffffff) throw std::runtime_error("a message of more than 2 GiB");
    return static_cast<int>(message.size());
  }

  static constexpr int kTag = 1, kLooks = 50;
  static constexpr std::chrono::microseconds kRest{50}, kShortRest{10};

  int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Outgoing> queue_;
  std::function<void(int, std::vector<std::byte>)> receive_;
  bool begun_ = false, leaving_ = false;
  int aborting_ = 0;  // exit code
  std::string failure_;
  std::thread thread_;
};

}  // namespace
}  // namespace unity

extern "C" unity::Transport* unity_make_mpi_transport(int version) {
  if (version != unity::kPluginVersion) return nullptr;
  return new unity::MpiTransport();
}
