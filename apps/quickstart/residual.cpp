// A layer and a loss of one's own: two residual blocks learn a made-up task, data parallel.
#include <brigade/brigade.h>

#include <cstdio>

using namespace brigade;

struct Residual : nn::Module {
  nn::Linear a{64, 64}, b{64, 64};
  Residual() {
    register_module("a", a);
    register_module("b", b);
  }
  Variable forward(const Variable& x) override { return x + b(relu(a(x))); }
};

Variable huber(const Variable& y, const Variable& t) {
  return mean(sqrt(1 + square(y - t)) - 1);
}

int main(int argc, char** argv) {
  return run(argc, argv, [](World& world) {
    manual_seed(1);
    nn::Sequential model{Residual(), nn::ReLU(), Residual()};
    model.to(world.device());

    dist::DataParallel ddp(model, world);
    optim::Adam adam(ddp.parameters());
    data::Loader loader(data::synthetic({.in = 64, .out = 64, .size = 4096}), world, {.batch = 32});

    float first = 0.0F;
    float last = 0.0F;
    for (int epoch = 0; epoch < 5; ++epoch) {
      for (const auto& [x, y] : loader.epoch(epoch)) {
        adam.zero_grad();
        Variable loss = huber(ddp(x), Variable(y));
        loss.backward();
        adam.step();
        last = loss.item();
        first = first == 0.0F ? last : first;
      }
    }
    ddp.verify_parameters_equal();
    if (world.get("rank") == 0) {
      std::printf("huber loss: %.4f in the first step, %.4f in the last\n", first, last);
    }
    return last < first / 2 ? 0 : 1;
  });
}
