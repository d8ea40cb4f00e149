#include <array>

#include "core/ops.h"
#include "tests/gpu/gpu_test.h"

namespace brigade {
namespace {

using ops::Trans;

/// The kernels behind autograd's matmul, shape functions, embedding, layer_norm and dropout.
template <class T>
class LayersOnGpu : public KernelTest<T> {
 protected:
  /// What a kernel may find in its destination: with beta = 0 anything.
  static Tensor destination(const Shape& shape, Scale scale) {
    return scale.beta == 0.0 ? KernelTest<T>::garbage(shape) : KernelTest<T>::numbers(shape, 77);
  }
};
TYPED_TEST_SUITE(LayersOnGpu, FloatTypes);

constexpr std::array<Scale, 3> kScales{
    {{.alpha = 1.0, .beta = 0.0}, {.alpha = -0.5, .beta = 1.0}, {.alpha = 3.0, .beta = 0.25}}};

TYPED_TEST(LayersOnGpu, PermuteEqualsTheCpu) {
  constexpr std::array<std::array<std::size_t, 4>, 4> kOrders{
      {{3, 2, 1, 0}, {0, 2, 1, 3}, {1, 0, 2, 3}, {0, 1, 3, 2}}};
  for (const Shape& shape : {Shape{5, 3, 7, 2}, Shape{2, 1, 33, 40}, Shape{3, 0, 2, 4}}) {
    for (const auto& order : kOrders) {
      const Shape permuted{shape[order[0]], shape[order[1]], shape[order[2]], shape[order[3]]};
      for (const Scale scale : kScales) {
        this->expect_same({this->numbers(shape, 1), this->destination(permuted, scale)},
                          [&](Tensors& t) { ops::permute(t[0], order, scale, t[1]); });
      }
    }
  }
}

TYPED_TEST(LayersOnGpu, SlicesEqualTheCpu) {
  const Shape whole{6, 50, 9};
  for (std::size_t dim = 0; dim < 3; ++dim) {
    for (const std::int64_t count : {0, 1, 4}) {
      std::array<std::int64_t, 3> extents{6, 50, 9};
      extents[dim] = count;
      const Shape part{std::span<const std::int64_t>(extents)};
      for (const Scale scale : kScales) {
        this->expect_same({this->numbers(whole, 1), this->destination(part, scale)},
                          [&](Tensors& t) { ops::read_slice(t[0], dim, 2, scale, t[1]); });
        this->expect_same({this->numbers(part, 1), this->numbers(whole, 2)},
                          [&](Tensors& t) { ops::write_slice(t[0], dim, 2, scale, t[1]); });
      }
    }
  }
}

TYPED_TEST(LayersOnGpu, MatmulEqualsTheCpu) {
  for (const Scale scale : kScales) {
    this->expect_same(
        {this->numbers({3, 2, 5, 7}, 1), this->numbers({3, 2, 7, 4}, 2),
         this->destination({3, 2, 5, 4}, scale)},
        [&](Tensors& t) { ops::matmul(t[0], Trans::no, t[1], Trans::no, scale, t[2]); },
        10 * this->kTolerance);
    this->expect_same(
        {this->numbers({2, 7, 5}, 1), this->numbers({2, 4, 7}, 2),
         this->destination({2, 5, 4}, scale)},
        [&](Tensors& t) { ops::matmul(t[0], Trans::yes, t[1], Trans::yes, scale, t[2]); },
        10 * this->kTolerance);
  }
}

TYPED_TEST(LayersOnGpu, AttentionEqualsTheCpu) {
  // Lengths below, at and above a block of threads, of one row and of several tiles.
  for (const std::int64_t length : {1, 7, 256, 300}) {
    for (const double p : {0.0, 0.2}) {
      const DropoutArgs dropout{.stream = {.seed = 5, .sequence = 1}, .p = p};
      const std::int64_t sequences = length < 256 ? 3 : 1;
      const Shape qkv{sequences, length, 18};
      const Shape y{sequences, length, 6};
      const Shape log_sums{sequences, 2, length};
      this->expect_same(
          {this->numbers(qkv, 1), this->garbage(y), this->garbage(log_sums)},
          [&](Tensors& t) { ops::attention(t[0], 2, dropout, t[1], t[2]); }, 10 * this->kTolerance);
      Tensor output = this->garbage(y);
      Tensor sums = this->garbage(log_sums);
      ops::attention(this->numbers(qkv, 1), 2, dropout, output, sums);
      for (const Scale scale : kScales) {
        this->expect_same(
            {this->numbers(qkv, 1), output, sums, this->numbers(y, 2),
             this->destination(qkv, scale)},
            [&](Tensors& t) {
              ops::attention_backward(t[0], 2, dropout, t[1], t[2], t[3], scale, t[4]);
            },
            30 * this->kTolerance);
      }
    }
  }
}

TYPED_TEST(LayersOnGpu, EmbeddingEqualsTheCpu) {
  for (const std::int64_t count : {0, 1, 300, 5000}) {
    for (const std::int64_t width : {1, 3, 300}) {
      const Tensor indices = this->labels(count, 41);  // each many times, in a mixed order
      this->expect_same({indices, this->numbers({50, width}, 1), this->garbage({count, width})},
                        [](Tensors& t) { ops::embedding(t[0], t[1], t[2]); });
      for (const Scale scale : kScales) {
        this->expect_same(
            {indices, this->numbers({count, width}, 1), this->destination({50, width}, scale)},
            [&](Tensors& t) { ops::embedding_backward(t[0], t[1], scale, t[2]); },
            100 * this->kTolerance);
      }
      if (count == 5000) {
        break;  // enough for more blocks than a grid has
      }
    }
  }
}

TYPED_TEST(LayersOnGpu, AnIndexOutsideTheVocabularyMakesItsRowNan) {
  const Tensor indices = Tensor::from(std::vector<std::int64_t>{1, 2, -1, 0}, {4}).to(kGpu);
  const std::vector<TypeParam> weight{10, 20};
  Tensor y = Tensor::empty({4, 1}, this->kType, kGpu);
  ops::embedding(indices, Tensor::from(weight, {2, 1}, kGpu), y);
  const auto rows = y.template to_vector<TypeParam>();
  EXPECT_EQ(rows[0], 20);
  EXPECT_TRUE(std::isnan(rows[1]));
  EXPECT_TRUE(std::isnan(rows[2]));
  EXPECT_EQ(rows[3], 10);
  const std::vector<TypeParam> dy{1, 2, 3, 4};
  Tensor dw = Tensor::empty({2, 1}, this->kType, kGpu);
  ops::embedding_backward(indices, Tensor::from(dy, {4, 1}, kGpu), {}, dw);
  EXPECT_EQ(dw.template to_vector<TypeParam>(), (std::vector<TypeParam>{4, 1}));
}

TYPED_TEST(LayersOnGpu, LayerNormEqualsTheCpu) {
  // The last one has more rows than a grid has blocks.
  for (const Shape& shape :
       {Shape{0, 4}, Shape{1, 1}, Shape{33, 31}, Shape{7, 1, 300}, Shape{4100, 2}}) {
    const std::int64_t cols = shape[shape.rank() - 1];
    const Shape rows{shape.extents().first(shape.rank() - 1)};
    this->expect_same(
        {this->numbers(shape, 1), this->numbers({cols}, 2), this->numbers({cols}, 3),
         this->garbage(shape), this->garbage(rows), this->garbage(rows)},
        [](Tensors& t) { ops::layer_norm(t[0], t[1], t[2], 1e-2, t[3], t[4], t[5]); },
        10 * this->kTolerance);
  }
  this->expect_same(
      {this->numbers({5, 300}, 1), this->garbage({5, 300}), this->garbage({5}), this->garbage({5})},
      [](Tensors& t) { ops::layer_norm(t[0], Tensor(), Tensor(), 1e-5, t[1], t[2], t[3]); },
      10 * this->kTolerance);
}

TYPED_TEST(LayersOnGpu, GradientsOfLayerNormEqualTheCpu) {
  for (const std::int64_t rows : {0, 1, 33}) {
    for (const std::int64_t cols : {1, 31, 300}) {
      const Shape shape{rows, cols};
      for (const Scale scale : kScales) {
        this->expect_same(
            {this->numbers(shape, 1), this->numbers(shape, 2), this->numbers({rows}, 3),
             this->numbers({rows}, 4), this->numbers({cols}, 5), this->destination({cols}, scale),
             this->destination(shape, scale), this->destination(shape, scale)},
            [&](Tensors& t) {
              ops::layer_norm_weight_backward(t[0], t[1], t[2], t[3], scale, t[5]);
              ops::layer_norm_input_backward(t[0], t[1], t[4], t[2], t[3], scale, t[6]);
              ops::layer_norm_input_backward(t[0], t[1], Tensor(), t[2], t[3], scale, t[7]);
            },
            static_cast<double>(rows + 10) * this->kTolerance);
      }
    }
  }
}

TYPED_TEST(LayersOnGpu, DropoutDropsTheElementsOfTheCpu) {
  for (const std::int64_t n : kSizes) {
    for (const double p : {0.1, 0.5, 0.999}) {
      const DropoutArgs args{.stream = {.seed = 0x1234'5678'9abc'def0, .sequence = 7}, .p = p};
      for (const Scale scale : kScales) {
        this->expect_same({this->numbers({n}, 1), this->destination({n}, scale)},
                          [&](Tensors& t) { ops::dropout(t[0], args, scale, t[1]); });
      }
    }
  }
}

}  // namespace
}  // namespace brigade
