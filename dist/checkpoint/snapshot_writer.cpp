#include "dist/checkpoint/snapshot_writer.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "core/error.h"

namespace brigade::dist {

NamedTensors copy_of(const NamedTensors& tensors) {
  NamedTensors copies;
  for (const auto& [name, tensor] : tensors) {
    copies.emplace_back(name, tensor.to(kCpu).clone());
  }
  return copies;
}

SnapshotWriter::SnapshotWriter(CheckpointStore store, int rank, std::size_t keep)
    : store_(std::move(store)),
      rank_(rank),
      keep_(keep),
      thread_(make_side_stream(kCpu, "brigade-saver")) {
  thread_->run([] { setpriority(PRIO_PROCESS, 0, 19); });  // on Linux: of this thread alone
}

SnapshotWriter::~SnapshotWriter() {
  abandoned_ = std::uncaught_exceptions() > exceptions_at_start_;
  finish();
}

void SnapshotWriter::copy(const std::string& file, const NamedTensors& now) {
  NamedTensors& copies = copies_[file];
  const auto name = &NamedTensors::value_type::first;
  if (!std::ranges::equal(copies, now, {}, name, name)) {
    copies = copy_of(now);  // the first time; later checkpoints use the same memory
    return;
  }
  for (std::size_t i = 0; i < now.size(); ++i) {
    copies[i].second.copy_from(now[i].second);
  }
}

void SnapshotWriter::start(const CheckpointInfo& info, const std::vector<std::string>& files) {
  thread_->run([this, info, files] { write(info, files); });
}

void SnapshotWriter::write(CheckpointInfo info, const std::vector<std::string>& files) {
  constexpr std::chrono::seconds kPatience{300};  // for the files of other ranks
  constexpr std::chrono::milliseconds kPause{5};
  try {
    for (const auto& [file, tensors] : copies_) {
      info.files[file] = store_.write(info.step, file, tensors);
    }
    if (rank_ != 0) {
      return;
    }
    const std::string& own = copies_.begin()->first;
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    for (const std::string& file : files) {
      while (!store_.written(info.step, file)) {
        BRIGADE_CHECK(store_.written(info.step, own), "the directory has been removed meanwhile");
        BRIGADE_CHECK(
            !abandoned_ && std::chrono::steady_clock::now() < deadline,
            "{} has not been written within {} s: expected a directory that all hosts share", file,
            kPatience.count());
        std::this_thread::sleep_for(kPause);
      }
    }
    store_.publish(info, files, keep_);
  } catch (const std::exception& error) {
    store_.discard(info.step);
    failure_ = fmt::format(
        "WARNING: the checkpoint of step {} is not written, the one before it remains: {}",
        info.step, error.what());
  }
}

bool SnapshotWriter::finish() {
  thread_->synchronize();  // write() lets nothing out
  const std::string failure = std::exchange(failure_, {});
  if (!failure.empty()) {
    report_line(fmt::format("[rank {}] {}", rank_, failure));
  }
  return failure.empty();
}

}  // namespace brigade::dist
