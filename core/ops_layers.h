#pragma once

#include "core/kernels.h"
#include "core/ops.h"
#include "core/tensor.h"

/// The functions behind matmul, embedding, layer_norm and dropout of autograd/functions, which say
/// what they compute. Checked and enqueued as the functions of core/ops.h.
namespace brigade::ops {

/// c = alpha op(a) op(b) + beta c for each pair of matrices in the last two dimensions. The leading
/// dimensions of a, b and c are equal; all of one dtype.
void matmul(const Tensor& a, Trans trans_a, const Tensor& b, Trans trans_b, Scale scale, Tensor& c);

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

/// y = alpha dropout(x) + beta y (see DropoutArgs), the same elements on every device.
void dropout(const Tensor& x, DropoutArgs args, Scale scale, Tensor& y);

}  // namespace brigade::ops
