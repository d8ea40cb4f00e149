#include "apps/flags/program_text.h"

#include <filesystem>

namespace brigade::apps {

namespace {

constexpr const char* kTrainExamples = R"(Examples:
  mpirun -np 2 train_mlp --data fashion-mnist --momentum 0.9 --save weights.safetensors
  mpirun -np 4 train_mlp --mode naive --depth 8 --width 1024 --steps 50)";

constexpr const char* kCompareExamples = R"(Examples:
  mpirun -np 2 compare_modes --depth 8 --width 1024 --batch 128
  mpirun -np 2 compare_modes --modes overlap,no_sync --accum 4 --bucket-mb 1
  sudo scripts/netlab.sh run --rate 2gbit -- build/cpu-release/bin/compare_modes --bucket-mb 4)";

constexpr const char* kLabExamples = R"(Examples:
  mpirun -np 2 lab5_overlap
  lab5_overlap --quiz                           three questions about what it shows
  mpirun -np 2 lab5_overlap --trace --emulate-link 50,0.1 --out runs/lab5)";

}  // namespace

ProgramText text_of(Program program, const char* path) {
  switch (program) {
    case Program::train_mlp:
      return {"train_mlp",
              "Trains a multilayer perceptron, data parallel over the ranks that mpirun starts.",
              kTrainExamples};
    case Program::compare_modes:
      return {"compare_modes",
              "Times the synchronisation modes against each other, on the same work.",
              kCompareExamples};
    case Program::lab:
      break;
  }
  return {std::filesystem::path(path).filename().string(),
          "Data parallelism, built step by step: apps/labs/README.md tells what to look for.",
          kLabExamples};
}

}  // namespace brigade::apps
