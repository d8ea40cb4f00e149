// train_mlp: trains a multilayer perceptron, data parallel over the ranks that mpirun starts.
#include "apps/training/program.h"
#include "apps/training/training.h"

int main(int argc, char** argv) {
  using namespace brigade::apps;
  return run_program(argc, argv, Program::train_mlp, run_training);
}
