#pragma once

#include "core/kernels.h"
#include "core/tensor.h"

/// Shape-checked functions on tensors: what autograd/functions is written in. Each checks shapes,
/// dtypes and devices, then hands raw pointers to the kernel set of the device, on this thread's
/// compute stream. None waits for the device. Results go into a tensor the caller provides: in
/// backward that is a slice of a gradient bucket. All throw Error on a mismatch, naming themselves,
/// what they expected and what they got.
namespace brigade::ops {

/// Whether gemm reads an operand as it is stored or transposed.
enum class Trans : bool { no, yes };

void fill(double value, Tensor& x);
/// y = alpha x + beta y
void axpby(const Tensor& x, Scale scale, Tensor& y);
/// Uniform numbers in [low, high): element i of stream (seed, sequence), the same on every device
/// (core/random.h).
void uniform(UniformArgs args, Tensor& x);

/// Between float and 16 bits (core/half.h).   narrow: x f32, y f16 or bf16, widen: the reverse
void narrow(const Tensor& x, Tensor& y);
/// y = alpha x + beta y
void widen(const Tensor& x, Scale scale, Tensor& y);

/// c = alpha op(a) op(b) + beta c, 2-D. All of one dtype, or a and b bf16 and c f32: products added
/// up in f32.
void gemm(const Tensor& a, Trans trans_a, const Tensor& b, Trans trans_b, Scale scale, Tensor& c);
/// y = activation(x wᵀ + b).   x: [N, in]   w: [out, in]   b: [out] or undefined   y: [N, out]
/// All of one dtype, or x and w bf16, b and y f32.
void linear(const Tensor& x, const Tensor& w, const Tensor& b, Tensor& y,
            Activation activation = Activation::none);
/// Makes the rows of x orthonormal, in place (see CpuKernels).   x: [rows, cols], rows <= cols
void orthonormalize(Tensor& x);

/// dz = dy where y > 0, and its column sums (on the CPU in one pass).
///   dy, y, dz: [N, out]   db: [out]
void relu_bias_backward(const Tensor& dy, const Tensor& y, Tensor& dz, Tensor& db);

/// loss = mean of (x - target)² over all elements.   loss: []
void mse(const Tensor& x, const Tensor& target, Tensor& loss);
void mse_backward(const Tensor& x, const Tensor& target, const Tensor& dloss, Scale scale,
                  Tensor& dx);

/// loss = mean over rows of -log softmax(x)[label].   x, softmax: [N, classes]   labels: i64 [N]
/// loss: []
void cross_entropy(const Tensor& x, const Tensor& labels, Tensor& softmax, Tensor& loss);
void cross_entropy_backward(const Tensor& softmax, const Tensor& labels, const Tensor& dloss,
                            Scale scale, Tensor& dx);
/// y = 1 at each row's label, 0 elsewhere.   labels: i64 [N]   y: [N, classes]
void one_hot(const Tensor& labels, Tensor& y);
/// correct = number of rows whose largest value is at the label.   correct: i64 []
void count_correct(const Tensor& x, const Tensor& labels, Tensor& correct);

/// One optimizer step on flat, equally shaped tensors (see SgdArgs, AdamArgs). `velocity`
/// undefined: no momentum.
void sgd(SgdArgs args, const Tensor& g, Tensor& w, Tensor& velocity);
void adam(AdamArgs args, const Tensor& g, Tensor& w, Tensor& m, Tensor& v);

/// Clipping by the global norm, in two passes over the gradients: sum += Σ x² for each, then
/// x *= min(1, max_norm / (√squares + 1e-6)) for each.   sum, squares: f64 []
void add_squares(const Tensor& x, Tensor& sum);
void clip(const Tensor& squares, double max_norm, Tensor& x);

}  // namespace brigade::ops
