#pragma once

#include <cuda_runtime_api.h>

#include <functional>

/// What the pretended libraries share.
namespace emulator {

using Work = std::function<void()>;

/// Enqueues `work` on `stream`.
void submit(cudaStream_t stream, Work work);

/// Whether [begin, begin + bytes) is memory of a GPU, of one allocation.
bool on_gpu(const void* begin, std::size_t bytes);
/// The same of this GPU.
bool on_gpu(const void* begin, std::size_t bytes, int gpu);
bool pinned(const void* begin);

/// Says on stderr what is wrong, and remembers `error` as this thread's last.
cudaError_t refuse(cudaError_t error, const char* why);
/// Without a word: an answer that is expected, such as "not ready".
cudaError_t answer(cudaError_t error);

/// A number from the environment.
int setting(const char* name, int otherwise);
/// How many GPUs there are, at most as many as CUDA_VISIBLE_DEVICES names.
int gpus();
/// This thread's, as cudaSetDevice() has chosen.
int current_gpu();

/// Waits until no stream has anything to do.
void drain_all_streams();

}  // namespace emulator
