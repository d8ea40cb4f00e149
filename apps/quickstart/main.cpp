#include <brigade/brigade.h>
using namespace brigade;

int main(int argc, char** argv) {
  return run(argc, argv, [](World& world) {  // MPI, device, threads, one line per error
    manual_seed(1);                          // the same weights on every rank
    nn::Sequential model(nn::Linear(784, 512), nn::ReLU(), nn::Linear(512, 10));
    model.to(world.device());

    dist::DataParallel ddp(model, world);  // verifies that all ranks start alike
    optim::SGD sgd(ddp.parameters(), {.lr = 0.1, .momentum = 0.9});
    data::Loader loader(data::fashion_mnist(), world, {.batch = 64});

    for (int epoch = 0; epoch < 2; ++epoch) {
      for (const auto& [x, y] : loader.epoch(epoch)) {
        sgd.zero_grad();
        Variable loss = nn::cross_entropy(ddp(x), y);
        loss.backward();  // buckets travel while this computes
        sgd.step();
      }
    }
    nn::save(model, "model.safetensors", world);  // rank 0, atomically, PyTorch's names
    ddp.verify_parameters_equal();
  });
}
