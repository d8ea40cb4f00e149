#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/kernel_args.h"
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
/// Uniform numbers from low to high, which rounding may give, too: element i of stream (seed,
/// sequence), the same on every device (core/random.h).
void uniform(UniformArgs args, Tensor& x);

/// Between float and 16 bits (core/half.h).   narrow: x f32, y f16 or bf16, widen: the reverse
void narrow(const Tensor& x, Tensor& y);
/// y = alpha x + beta y
void widen(const Tensor& x, Scale scale, Tensor& y);

/// c = alpha op(a) op(b) + beta c, 2-D. All of one dtype, or a and b bf16 and c f32: products added
/// up in f32.
void gemm(const Tensor& a, Trans trans_a, const Tensor& b, Trans trans_b, Scale scale, Tensor& c);
/// y = activation(z), z = x wᵀ + b.   x: [N, in]   w: [out, in]   b: [out] or undefined
///   y: [N, out]   z: the same for gelu, which keeps it; else undefined
/// All of one dtype, or x and w bf16, the others f32.
void linear(const Tensor& x, const Tensor& w, const Tensor& b, Tensor& y,
            Activation activation = Activation::none, const Tensor& z = {});

/// dz, as unary_backward, and its column sums db (on the CPU in one pass).
///   dy, kept, dz: [N, out]   db: [out]
/// All of one dtype, or kept and dz bf16, the others f32: dz is added first and rounded then.
void bias_backward(UnaryOp op, const Tensor& dy, const Tensor& kept, Tensor& dz, Tensor& db);

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

/// One optimizer step on flat, equally shaped tensors (see SgdArgs, AdamArgs). `velocity`
/// undefined: no momentum.
void sgd(SgdArgs args, const Tensor& g, Tensor& w, Tensor& velocity);
void adam(AdamArgs args, const Tensor& g, Tensor& w, Tensor& m, Tensor& v);

/// Clipping by the global norm, in two passes over the gradients: sum += Σ x² for each, then
/// x *= min(1, max_norm / (√squares + 1e-6)) for each.   sum, squares: f64 []
void add_squares(const Tensor& x, Tensor& sum);
void clip(const Tensor& squares, double max_norm, Tensor& x);

/// Whether no element is NaN or infinite. x: f32, or f64 whose squares are finite. Waits for the
/// device.
bool all_finite(const Tensor& x);

// Elementwise

/// y = op(x), equal shapes.
void unary(UnaryOp op, const Tensor& x, Tensor& y);
/// dx = dy op'(x). `kept`: the output if keeps_output(op) (core/arithmetic.h), else x.
void unary_backward(UnaryOp op, const Tensor& dy, const Tensor& kept, Scale scale, Tensor& dx);

/// "add", "sub", "mul" or "div".
const char* name_of(BinaryOp op);
/// The shape of `a op b` by NumPy's rule. Aligned at the last one, two extents are equal or one of
/// them is 1, which is then repeated. Error otherwise.
Shape broadcast_shape(BinaryOp op, const Shape& a, const Shape& b);
/// y = alpha (a op b) + beta y.   y: broadcast_shape(op, a, b)
void binary(BinaryOp op, const Tensor& a, const Tensor& b, Scale scale, Tensor& y);

// Reductions

/// A shape as a reduction over dimension `dim` sees it; negative dims count from the end. Error of
/// function `who` if there is no such dimension. A scalar counts as one dimension of extent 1.
ReduceShape reduce_shape(const char* who, const Shape& shape, std::int64_t dim);

/// y = sums of x over n.   x: any shape of outer * n * inner elements   y: outer * inner elements
void reduce_sum(const Tensor& x, ReduceShape shape, Scale scale, Tensor& y);
/// sums = column sums of x.   x: [rows, cols]   sums: [cols]
inline void column_sum(const Tensor& x, Scale scale, Tensor& sums) {
  reduce_sum(x, {.outer = 1, .n = x.shape()[0], .inner = x.shape()[1]}, scale, sums);
}
/// y = maxima of x over n, index = where the first of equal ones is, an i64. NaN is larger than any
/// number. Error if n = 0.
void reduce_max(const Tensor& x, ReduceShape shape, Tensor& y, Tensor& index);
/// The gradient of both: dx = dy at all n elements, or with `index` at that one and 0 elsewhere.
/// `index`: of reduce_max, or undefined
void reduce_backward(const Tensor& dy, const Tensor& index, ReduceShape shape, Scale scale,
                     Tensor& dx);

/// The gradient of broadcasting: y = x summed over the dimensions along which y was repeated. One
/// reduce_sum for each group of neighbouring ones, none for equal shapes.
void sum_to(const Tensor& x, Scale scale, Tensor& y);

// Copies between layouts, all by one kernel (copy_strided)

/// x = factor x. With factor 0 the old values have no influence, not even as NaN.
void scale_in_place(double factor, Tensor& x);

/// y = alpha x with its dimensions reordered + beta y: dimension d of y is dims[d] of x.
void permute(const Tensor& x, std::span<const std::size_t> dims, Scale scale, Tensor& y);

/// The slice of `whole` that begins at `begin` of dimension `dim` and is as long there as `part`;
/// the other extents are equal.   read_slice: part = alpha slice + beta part
void read_slice(const Tensor& whole, std::size_t dim, std::int64_t begin, Scale scale,
                Tensor& part);
/// slice = alpha part + beta slice
void write_slice(const Tensor& part, std::size_t dim, std::int64_t begin, Scale scale,
                 Tensor& whole);

// Layers

/// c = alpha op(a) op(b) + beta c for each pair of matrices in the last two dimensions. The leading
/// dimensions of a, b and c are equal; all of one dtype.
void matmul(const Tensor& a, Trans trans_a, const Tensor& b, Trans trans_b, Scale scale, Tensor& c);

/// The shape of y: [..., D]. Error if w is not [V, D].
Shape embedding_shape(const Shape& indices, const Shape& w);
/// y[...] = w[indices[...]].   indices: i64 [...]   w: [V, D]   y: [..., D]
/// On the CPU an index outside [0, V) is an Error, on a GPU its row becomes NaN.
void embedding(const Tensor& indices, const Tensor& w, Tensor& y);
/// dw[v] = alpha Σ dy[i] + beta dw[v] over the i with indices[i] = v, in the order of i.
void embedding_backward(const Tensor& indices, const Tensor& dy, Scale scale, Tensor& dw);

/// Of LayerNormArgs.   x, y: [..., D]   weight, bias: [D] or undefined   mean, rstd: [...]
void layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, Tensor& y,
                Tensor& mean, Tensor& rstd);
/// dw, the gradient of `weight`, is the sum of dy x̂ over the rows. That of `bias` is the
/// column_sum of dy.
void layer_norm_weight_backward(const Tensor& dy, const Tensor& x, const Tensor& mean,
                                const Tensor& rstd, Scale scale, Tensor& dw);
void layer_norm_input_backward(const Tensor& dy, const Tensor& x, const Tensor& weight,
                               const Tensor& mean, const Tensor& rstd, Scale scale, Tensor& dx);

/// Most columns of a head of attention: a thread of a CUDA block for each.
constexpr std::int64_t kWidestHead = 256;
/// The shape of y: [N, T, W]. Error unless qkv is [N, T, 3 W] and `heads` divides W.
Shape attention_shape(const Shape& qkv, std::int64_t heads);
/// Of AttentionArgs.   qkv, dqkv: [N, T, 3 W]   y, dy: [N, T, W]   log_sums: [N, heads, T]
void attention(const Tensor& qkv, std::int64_t heads, DropoutArgs dropout, Tensor& y,
               Tensor& log_sums);
void attention_backward(const Tensor& qkv, std::int64_t heads, DropoutArgs dropout, const Tensor& y,
                        const Tensor& log_sums, const Tensor& dy, Scale scale, Tensor& dqkv);

/// y = alpha dropout(x) + beta y (see DropoutArgs), the same elements on every device.
void dropout(const Tensor& x, DropoutArgs args, Scale scale, Tensor& y);

}  // namespace brigade::ops
