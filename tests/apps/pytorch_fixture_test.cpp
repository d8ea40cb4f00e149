// train_mlp against PyTorch: the same start, the same data in the same order, 50 steps. The
// expected weights were made by tests/data/make_pytorch_fixture.py.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/compare_weights.h"
#include "tests/support/temporary_directory.h"

namespace brigade {
namespace {

namespace fs = std::filesystem;

// Set by CMake.
const fs::path kProgram = BRIGADE_TRAIN_MLP;
const fs::path kData = BRIGADE_TEST_DATA;
// Open MPI asks root and machines with few cores to mean it.
const std::string kMpirun =
    "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
    "OMPI_MCA_rmaps_base_oversubscribe=1 " BRIGADE_MPIRUN;

constexpr int kGlobalBatch = 32;
constexpr double kTolerance = 1e-5;

struct Case {
  const char* name;
  const char* flags;
};

class PyTorchFixture : public testing::TestWithParam<Case> {
 protected:
  /// Trains on `ranks` ranks and returns the distance of the weights to PyTorch's.
  static double distance_after_training(int ranks, const std::string& more_flags = "",
                                        int accum = 1) {
    const TemporaryDirectory dir;
    const std::string launcher =
        ranks == 1 ? "" : kMpirun + " --bind-to none -np " + std::to_string(ranks) + " ";
    const std::string command =
        launcher + kProgram.string() +
        " --device cpu --threads 1 --data fashion-mnist --hidden 24 --no-shuffle --steps 50" +
        " --data-dir " + (kData / "tiny").string() +          //
        " --init " + (kData / "init.safetensors").string() +  //
        " --save " + (dir / "w.safetensors").string() +       //
        " --out " + (dir / "run").string() +                  //
        " --batch " + std::to_string(kGlobalBatch / ranks / accum) + " " + GetParam().flags + " " +
        more_flags + " > " + (dir / "log").string() + " 2>&1";
    const int status = std::system(command.c_str());
    EXPECT_EQ(status, 0) << command << '\n' << std::ifstream(dir / "log").rdbuf();
    const std::string expected = std::string("expected_") + GetParam().name + ".safetensors";
    return status == 0 ? relative_l2(dir / "w.safetensors", kData / expected) : HUGE_VAL;
  }
};

TEST_P(PyTorchFixture, EndsWithPyTorchsWeightsOnOneRank) {
  EXPECT_LE(distance_after_training(1), kTolerance);
}

TEST_P(PyTorchFixture, EndsWithPyTorchsWeightsOnTwoRanks) {
  EXPECT_LE(distance_after_training(2), kTolerance);
}

TEST_P(PyTorchFixture, EndsWithPyTorchsWeightsOnTwoRanksWithAccumulation) {
  EXPECT_LE(distance_after_training(2, "--mode no_sync --accum 4", 4), kTolerance);
}

const std::vector<Case> kCases{
    {"sgd_mse", "--loss mse --optimizer sgd --lr 0.1 --momentum 0.9"},
    {"sgd_cross_entropy",
     "--loss cross_entropy --optimizer sgd --lr 0.1 --momentum 0.9 --nesterov --weight-decay 1e-3"},
    {"adam_cross_entropy", "--loss cross_entropy --optimizer adam --lr 1e-3"},
    {"adam_mse", "--loss mse --optimizer adam --lr 1e-2 --weight-decay 1e-3"},
    {"adamw_cross_entropy", "--loss cross_entropy --optimizer adamw --lr 1e-2 --weight-decay 1e-2"},
};

INSTANTIATE_TEST_SUITE_P(Cases, PyTorchFixture, testing::ValuesIn(kCases),
                         [](const auto& test_case) { return std::string(test_case.param.name); });

}  // namespace
}  // namespace brigade
