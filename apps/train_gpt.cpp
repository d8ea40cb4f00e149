// train_gpt: trains a GPT-2 on text, data parallel over the ranks that mpirun starts.
#include "apps/training/program.h"
#include "apps/training/text.h"
#include "apps/training/training.h"

int main(int argc, char** argv) {
  using namespace brigade::apps;
  return run_program(argc, argv, Program::train_gpt,
                     [](const Options& options, const brigade::dist::RankInfo& ranks) {
                       return run_training(
                           options, ranks, [&](brigade::nn::Module& model, const Console& console) {
                             print_sample(options, dynamic_cast<brigade::nn::GPT&>(model), console);
                           });
                     });
}
