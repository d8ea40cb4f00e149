#pragma once

/// Everything a program needs: #include <brigade/brigade.h> and `using namespace brigade`. Layers,
/// losses and weight files are in brigade::nn, optimizers in brigade::optim, data sets and loaders
/// in brigade::data, data parallelism in brigade::dist; what most lines use is in brigade:: itself.
/// CMake places this file at brigade/brigade.h, in the build folder and in an installation.

#include "autograd/engine.h"
#include "autograd/functions/add.h"
#include "autograd/functions/linear.h"
#include "autograd/functions/relu.h"
#include "autograd/functions/scale.h"
#include "autograd/grad_mode.h"
#include "autograd/variable.h"
#include "core/error.h"
#include "core/random.h"
#include "core/tensor.h"
#include "dist/ddp/grad_averager.h"
#include "dist/launch/world.h"
#include "nn/data/fashion_mnist.h"
#include "nn/data/loader.h"
#include "nn/data/synthetic.h"
#include "nn/linear.h"
#include "nn/loss.h"
#include "nn/module.h"
#include "nn/relu.h"
#include "nn/sequential.h"
#include "nn/weights.h"
#include "optim/adam.h"
#include "optim/clip_grad.h"
#include "optim/sgd.h"

namespace brigade {

using autograd::NoGradGuard;
using autograd::Precision;
using autograd::Variable;
using dist::run;
using dist::World;

using autograd::add;
using autograd::linear;
using autograd::relu;
using autograd::scale;

}  // namespace brigade
