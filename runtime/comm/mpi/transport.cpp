// MPI as the transport between processes. One thread makes all calls of MPI: it posts what others hand it, and looks
// for what arrives. Idle, it sleeps for a moment between looks, so that ranks that share cores leave them to compute.
#include "runtime/comm/transport.h"

#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <list>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

#include <mpi.h>
#include <sys/prctl.h>

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
    if (failure_.empty()) return;
    std::string why = failure_;
    lock.unlock();
    thread_.join();
    throw std::runtime_error("MPI does not start: " + why);
  }
  ~MpiTransport() override {
    finish(std::chrono::hours(24));
    if (thread_.joinable()) thread_.join();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int local_rank() const override { return local_rank_; }
  int local_size() const override { return local_size_; }
  int node() const override { return node_; }
  std::string version() const override { return version_; }

  void start(ByteStore& store, Receiver receiver) override {
    std::lock_guard lock(mutex_);
    store_ = &store;
    receiver_ = std::move(receiver);
    started_ = true;
    changed_.notify_all();
  }
  void post(int to, Block message) override {
    std::lock_guard lock(mutex_);
    if (!failure_.empty()) throw std::runtime_error(failure_);
    queue_.push_back({to, std::move(message)});
    changed_.notify_all();
  }
  bool finish(std::chrono::milliseconds patience) override {
    std::unique_lock lock(mutex_);
    leaving_ = true;
    changed_.notify_all();
    return changed_.wait_for(lock, patience, [&] { return ended_; });
  }
  [[noreturn]] void abort(int exit_code) override {
    // MPI's thread may be inside a call; a process may always end itself, and the launcher then ends the others.
    {
      std::unique_lock lock(mutex_);
      aborting_ = exit_code;
      changed_.notify_all();
      changed_.wait_for(lock, std::chrono::seconds(2), [&] { return ended_; });
    }
    std::_Exit(exit_code);
  }

 private:
  struct Outgoing {
    int to = 0;
    Block message;
  };
  struct Sending {
    Block message;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  struct Receiving {
    int from = 0;
    Block message;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  void serve() {
    prctl(PR_SET_TIMERSLACK, 1000);  // ns; by default a sleep takes 50 us more than asked for
    std::function<void(const std::string&)> failed;
    std::string why;
    try {
      if (begin()) carry();
      UNITY_MPI_CHECK(MPI_Finalize());
    } catch (const std::exception& e) {
      why = e.what();
    }
    {
      std::lock_guard lock(mutex_);
      failure_ = why;
      failed = receiver_.failed;
    }
    if (!why.empty() && failed) failed(why);
    std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

  // Whether there is anything to carry.
  bool begin() {
    // Segments of collectives (256 KiB) go at once: receivers have room. Otherwise each waits for leave to be sent,
    // behind what travels the other way, and until a process that shares its core with others gets its turn.
    for (const char* way : {"tcp", "vader"}) {
      ::setenv((std::string("OMPI_MCA_btl_") + way + "_eager_limit").c_str(), "300000", 0);
      ::setenv((std::string("OMPI_MCA_btl_") + way + "_max_send_size").c_str(), "524288", 0);
    }
    int provided = 0;
    UNITY_MPI_CHECK(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided));
    UNITY_MPI_CHECK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    MPI_Comm node;
    UNITY_MPI_CHECK(MPI_Comm_rank(MPI_COMM_WORLD, &rank_));
    UNITY_MPI_CHECK(MPI_Comm_size(MPI_COMM_WORLD, &size_));
    UNITY_MPI_CHECK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node));
    UNITY_MPI_CHECK(MPI_Comm_rank(node, &local_rank_));
    UNITY_MPI_CHECK(MPI_Comm_size(node, &local_size_));
    UNITY_MPI_CHECK(MPI_Allreduce(&rank_, &node_, 1, MPI_INT, MPI_MIN, node));
    UNITY_MPI_CHECK(MPI_Comm_free(&node));
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    UNITY_MPI_CHECK(MPI_Get_library_version(version, &length));
    version_.assign(version, static_cast<std::size_t>(length));
    std::unique_lock lock(mutex_);
    begun_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return started_ || leaving_ || aborting_ >= 0; });
    return started_ || aborting_ >= 0;
  }

  void carry() {
    int idle = 0;
    while (true) {
      std::deque<Outgoing> out;
      bool leaving = false;
      int aborting = -1;
      {
        std::lock_guard lock(mutex_);
        out.swap(queue_);
        leaving = leaving_, aborting = aborting_;
      }
      if (aborting >= 0) MPI_Abort(MPI_COMM_WORLD, aborting);
      bool busy = !out.empty();
      for (Outgoing& o : out) {
        Sending& s = sending_.emplace_back();
        s.message = std::move(o.message);
        UNITY_MPI_CHECK(MPI_Isend(s.message.data.get(), static_cast<int>(s.message.size), MPI_BYTE, o.to, kTag,
                                  MPI_COMM_WORLD, &s.request));
      }
      busy |= accept();
      busy |= deliver();
      busy |= release();
      if (leaving && sending_.empty() && receiving_.empty()) return;
      idle = busy ? 0 : idle + 1;
      bool moving = !sending_.empty() || !receiving_.empty();
      if (idle < kLooks)
        std::this_thread::yield();
      else
        rest(moving ? kShortRest : kRest);
    }
  }

  // Each says whether it did something.
  bool accept() {
    bool any = false;
    while (true) {
      int flag = 0, bytes = 0;
      MPI_Message message;
      MPI_Status status;
      UNITY_MPI_CHECK(MPI_Improbe(MPI_ANY_SOURCE, kTag, MPI_COMM_WORLD, &flag, &message, &status));
      if (!flag) return any;
      UNITY_MPI_CHECK(MPI_Get_count(&status, MPI_BYTE, &bytes));
      Receiving& r = receiving_.emplace_back();
      r.from = status.MPI_SOURCE;
      r.message = store_->take(static_cast<std::size_t>(bytes));
      UNITY_MPI_CHECK(MPI_Imrecv(r.message.data.get(), bytes, MPI_BYTE, &message, &r.request));
      any = true;
    }
  }
  // Messages of one process in the order in which they were matched; those of different processes as they come.
  bool deliver() {
    bool any = false;
    std::set<int> late;
    for (auto r = receiving_.begin(); r != receiving_.end();) {
      int flag = 0;
      if (!late.contains(r->from)) UNITY_MPI_CHECK(MPI_Test(&r->request, &flag, MPI_STATUS_IGNORE));
      if (!flag) {
        late.insert(r->from);
        ++r;
        continue;
      }
      receiver_.arrived(r->from, std::move(r->message));
      r = receiving_.erase(r);
      any = true;
    }
    return any;
  }
  bool release() {
    bool any = false;
    for (auto s = sending_.begin(); s != sending_.end();) {
      int flag = 0;
      UNITY_MPI_CHECK(MPI_Test(&s->request, &flag, MPI_STATUS_IGNORE));
      if (!flag) {
        ++s;
        continue;
      }
      store_->give(std::move(s->message));
      s = sending_.erase(s);
      any = true;
    }
    return any;
  }

  void rest(std::chrono::microseconds time) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, time, [&] { return !queue_.empty() || leaving_ || aborting_ >= 0; });
  }

  static constexpr int kTag = 1, kLooks = 50;
  static constexpr std::chrono::microseconds kRest{50}, kShortRest{10};

  int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1, node_ = 0;
  std::list<Sending> sending_;      // of MPI's thread
  std::list<Receiving> receiving_;  // of MPI's thread
  ByteStore* store_ = nullptr;
  Receiver receiver_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Outgoing> queue_;
  bool begun_ = false, started_ = false, leaving_ = false, ended_ = false;
  int aborting_ = -1;  // exit code
  std::string failure_, version_;
  std::thread thread_;
};

}  // namespace
}  // namespace unity

extern "C" unity::Transport* unity_make_mpi_transport(int version) {
  if (version != unity::kPluginVersion) return nullptr;
  return new unity::MpiTransport();
}
