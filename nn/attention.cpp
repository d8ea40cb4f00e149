#include "nn/attention.h"

#include <cmath>

#include "autograd/functions/attention.h"
#include "autograd/functions/binary.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/shape.h"
#include "autograd/functions/softmax.h"
#include "core/error.h"
#include "core/ops.h"

namespace brigade::nn {

CausalSelfAttention::CausalSelfAttention(std::int64_t width, std::int64_t heads,
                                         autograd::Precision precision, double dropout)
    : heads_(heads),
      dropout_(dropout),
      c_attn_(width, 3 * width, {.precision = precision}),
      c_proj_(width, width, {.precision = precision}) {
  BRIGADE_CHECK(heads > 0 && width % heads == 0,
                "attention: expected heads that divide the width {}, got {}", width, heads);
  register_module("c_attn", c_attn_);
  register_module("c_proj", c_proj_);
}

Variable CausalSelfAttention::forward(const Variable& x) {
  DropoutArgs dropout;
  if (is_training() && dropout_ != 0.0) {
    dropout = {.stream = next_dropout_stream(), .p = dropout_};
  }
  return c_proj_(autograd::causal_attention(c_attn_(x), heads_, dropout));
}

Variable CausalSelfAttention::forward_next(const Variable& x, KeysAndValues& before) {
  const std::int64_t width = x.shape()[2] / heads_;
  const Tensor qkv = c_attn_(x).data().reshape({3 * heads_, 1, width});
  ops::write_slice(qkv.rows(heads_, heads_), 1, before.length, {}, before.keys);
  ops::write_slice(qkv.rows(2 * heads_, heads_), 1, before.length, {}, before.values);
  ++before.length;
  const Variable query(qkv.rows(0, heads_));  // [heads, 1, D]
  const Variable keys = autograd::slice(Variable(before.keys), 1, 0, before.length);
  const Variable values = autograd::slice(Variable(before.values), 1, 0, before.length);
  const Variable scores =
      matmul(query, transpose(keys, 1, 2)) / std::sqrt(static_cast<double>(width));
  return c_proj_(Variable(matmul(softmax(scores), values).data().reshape(x.shape())));
}

}  // namespace brigade::nn
