#pragma once

/// Everything a program needs: #include <brigade/brigade.h> and `using namespace brigade`. Layers,
/// losses and weight files are in brigade::nn, optimizers in brigade::optim, data sets and loaders
/// in brigade::data, data parallelism in brigade::dist; what most lines use is in brigade:: itself.
/// CMake places this file at brigade/brigade.h, in the build folder and in an installation.

#include "autograd/functions/attention.h"
#include "autograd/functions/binary.h"
#include "autograd/functions/dropout.h"
#include "autograd/functions/embedding.h"
#include "autograd/functions/fused_linear.h"
#include "autograd/functions/layer_norm.h"
#include "autograd/functions/linear.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/reduce.h"
#include "autograd/functions/shape.h"
#include "autograd/functions/softmax.h"
#include "autograd/functions/unary.h"
#include "autograd/grad_mode.h"
#include "autograd/variable.h"
#include "core/error.h"
#include "core/random.h"
#include "core/tensor.h"
#include "dist/checkpoint/checkpoints.h"
#include "dist/ddp/data_parallel.h"
#include "dist/launch/world.h"
#include "nn/data/fashion_mnist.h"
#include "nn/data/loader.h"
#include "nn/data/synthetic.h"
#include "nn/data/text.h"
#include "nn/dropout.h"
#include "nn/embedding.h"
#include "nn/gelu.h"
#include "nn/generate.h"
#include "nn/gpt.h"
#include "nn/gpt2_files.h"
#include "nn/layer_norm.h"
#include "nn/linear.h"
#include "nn/loss.h"
#include "nn/module.h"
#include "nn/relu.h"
#include "nn/sequential.h"
#include "nn/weights.h"
#include "optim/adam.h"
#include "optim/clip_grad.h"
#include "optim/lr_schedule.h"
#include "optim/sgd.h"

namespace brigade {

using autograd::NoGradGuard;
using autograd::Precision;
using autograd::Variable;
using dist::run;
using dist::World;

using autograd::add;
using autograd::causal_attention;
using autograd::concat;
using autograd::div;
using autograd::dropout;
using autograd::embedding;
using autograd::exp;
using autograd::gelu;
using autograd::layer_norm;
using autograd::linear;
using autograd::log;
using autograd::log_softmax;
using autograd::matmul;
using autograd::max;
using autograd::mean;
using autograd::mul;
using autograd::neg;
using autograd::permute;
using autograd::relu;
using autograd::reshape;
using autograd::sigmoid;
using autograd::slice;
using autograd::softmax;
using autograd::sqrt;
using autograd::square;
using autograd::sub;
using autograd::sum;
using autograd::tanh;
using autograd::transpose;

}  // namespace brigade
