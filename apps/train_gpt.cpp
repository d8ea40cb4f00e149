// train_gpt: trains a GPT-2 on text, data parallel over the ranks that mpirun starts.
#include "apps/training/program.h"
#include "apps/training/training.h"

int main(int argc, char** argv) {
  using namespace brigade::apps;
  return run_program(argc, argv, Program::train_gpt, run_training);
}
