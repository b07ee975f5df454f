#include "runtime/cuda/end_nccl.h"

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include <cuda_runtime_api.h>

namespace unity::cuda {
namespace {

constexpr std::chrono::seconds kEnd{10};

struct Ending {
  std::mutex mutex;
  std::condition_variable ended;
  std::size_t left = 0;
};

}  // namespace

void end_nccl(const std::vector<LocalCommunicator>& communicators) {
  auto ending = std::make_shared<Ending>();
  ending->left = communicators.size();
  for (const LocalCommunicator& c : communicators) {
    auto end = [ending, c] {
      cudaSetDevice(c.gpu);
      ncclCommAbort(c.communicator);
      std::lock_guard lock(ending->mutex);
      --ending->left;
      ending->ended.notify_all();
    };
    try {
      std::thread(end).detach();
    } catch (const std::system_error&) {  // no thread is to be had
      end();
    }
  }
  std::unique_lock lock(ending->mutex);
  ending->ended.wait_for(lock, kEnd, [&] { return ending->left == 0; });
}

}  // namespace unity::cuda
