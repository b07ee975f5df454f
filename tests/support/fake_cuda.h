// CUDA, NCCL, cuBLASLt (fake_cublas.cpp) and cuDNN (fake_cudnn.cpp) played on the host, for a plug-in of the CUDA
// backend's own sources and its kernels as plain loops (areas/cuda.cmake). A launch on a stream of another GPU than the
// current one fails as it does on CUDA, and so do one behind a call that left an error, times between events of two
// GPUs, and copies that take a GPU's memory for the host's or the other way round, or run over the end of what was
// allocated. Work on a GPU that touches memory of another one, kernels that touch pinned memory of the host (which CUDA
// would let them), and host code that touches a GPU's memory end the process. What is enqueued is ordered by streams
// and events alone (fake_world.h). A capture that CUDA would refuse is refused: streams that are not joined, events
// from outside it or behind it, copies from pageable memory.
//
// UNITY_FAKE_GPUS: how many there are (4). UNITY_FAKE_ORDER: of streams, "forward", "backward" (the default) or
// "mixed". Threads are processes to NCCL.
#pragma once

#include <cstdint>

extern "C" {
// From now on NCCL's work on the GPUs has no end, until its communicators are aborted.
void fake_cuda_hang(bool hang);
// From now on NCCL's start has no end, or has one again.
void fake_cuda_nccl_starts(bool ends);
// As seen by the calling thread.
void fake_cuda_nccl_version(int version);
// The GPUs that the calling thread sees, as bits; 0: all.
void fake_cuda_visible(std::uint32_t gpus);
// Communicators that have been aborted since the start.
int fake_cuda_aborted();
// Of them, those that a captured graph still held: NCCL would wait for its end without one.
int fake_cuda_held_aborts();
// Bytes allocated on a GPU; and the memory of each, of all processes.
std::int64_t fake_cuda_bytes(int gpu);
void fake_cuda_memory(std::int64_t bytes);
// Bytes of pinned memory of the host that the calling thread's process has; and the most that it gets.
std::int64_t fake_cuda_pinned();
void fake_cuda_most_pinned(std::int64_t bytes);
// Bytes that cuDNN's gradient of attention works in, for each score (2).
std::int64_t fake_cuda_score_bytes();
void fake_cuda_set_score_bytes(std::int64_t bytes);
// From now on cuBLASLt and cuDNN find no algorithm for anything; or do again.
void fake_cuda_libraries(bool on);
bool fake_cuda_libraries_on();
// How often each of what the libraries do was called, or captured, since the start.
struct FakeLibraryCalls {
  int products = 0, convolutions = 0, pools = 0, norms = 0, biases = 0;  // products with a bias: of both
  int attentions = 0;                                                    // and gradients, in which there are two
};
FakeLibraryCalls fake_cuda_library_calls();
// What was enqueued and made since the start.
struct FakeCounts {
  int launches = 0;                    // of kernels, the libraries' too; captured ones when they are
  int captures = 0, graphs = 0;        // graphs made, and launched
  int cliques = 0, communicators = 0;  // of NCCL: groups, and their members
  int meetings = 0;                    // of calls of different groups on one GPU, which CUDA lets wait for one another
};
FakeCounts fake_cuda_counts();
// The CUDA that the driver is for, as 13000 (its own: 13000); 0: there is no driver.
void fake_cuda_driver(int version);
// The value that the calling thread's environment has of a variable of the backend; null: what the process has.
void fake_cuda_environment(const char* name, const char* value);
// Of all GPUs, as 90.
void fake_cuda_capability(int capability);
// The launch of a kernel that comes behind so many more fails, and likewise the call of a collective of
// NCCL; -1: none does.
void fake_cuda_fail_launch(int after);
// With which error a launch then fails (cudaErrorLaunchFailure); and the one that says that a GPU takes no code (none).
void fake_cuda_launch_error(int error);
void fake_cuda_code(int error);
void fake_cuda_fail_nccl(int after);
void fake_cuda_count(int FakeLibraryCalls::*which);
}
