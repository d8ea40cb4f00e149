#include "dist/bucket.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>

#include "core/context.h"
#include "core/error.h"

namespace brigade::dist {

namespace {

/// Equal pieces rather than full ones and a rest: a small last collective costs a latency and
/// carries nothing.
std::vector<Piece> cut_pieces(const Bucket& bucket, std::optional<std::size_t> piece_bytes) {
  const std::size_t bytes = bucket.grads.nbytes();
  if (!piece_bytes || bytes <= *piece_bytes || bytes <= kSliceAlignment) {
    return {{.grads = bucket.grads, .label = bucket.label}};
  }
  const std::size_t units = bytes / kSliceAlignment;
  const std::size_t most = std::max(*piece_bytes / kSliceAlignment, std::size_t{1});
  const std::size_t count = (units + most - 1) / most;
  const std::size_t per_unit = kSliceAlignment / size_of(bucket.grads.dtype());
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < count; ++i) {
    const auto begin = static_cast<std::int64_t>(units * i / count * per_unit);
    const auto end = static_cast<std::int64_t>(units * (i + 1) / count * per_unit);
    pieces.push_back({.grads = bucket.grads.flat_view(begin, {end - begin}),
                      .label = concat(bucket.label, '[', i + 1, '/', count, ']')});
  }
  return pieces;
}

}  // namespace

std::size_t slice_bytes(const Tensor& parameter) {
  return (parameter.nbytes() + kSliceAlignment - 1) / kSliceAlignment * kSliceAlignment;
}

std::vector<PlanParameter> plan_parameters(std::span<const autograd::Variable> parameters) {
  std::unordered_map<std::string, std::size_t> layers;
  std::vector<PlanParameter> result;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::string& name = parameters[i].name();
    const std::size_t dot = name.rfind('.');
    // The number of a layer is that of its first parameter, so it is free for one without a name.
    const std::size_t layer =
        dot == std::string::npos ? i : layers.try_emplace(name.substr(0, dot), i).first->second;
    const Tensor& data = parameters[i].data();
    result.push_back({.bytes = slice_bytes(data), .dtype = data.dtype(), .layer = layer});
  }
  return result;
}

std::vector<std::size_t> members_of(const Piece& piece, const Bucket& bucket,
                                    std::span<const autograd::Variable> parameters) {
  std::vector<std::size_t> result;
  const std::size_t begin = piece.grads.byte_offset();
  const std::size_t end = begin + piece.grads.nbytes();
  std::size_t offset = bucket.grads.byte_offset();
  for (const std::size_t i : bucket.members) {
    const Tensor& data = parameters[i].data();
    if (offset < end && offset + data.nbytes() > begin) {
      result.push_back(i);
    }
    offset += slice_bytes(data);
  }
  return result;
}

std::vector<Bucket> make_buckets(std::span<const autograd::Variable> parameters,
                                 const BucketPlan& plan, std::optional<std::size_t> piece_bytes,
                                 const MakeBuffer& make_buffer) {
  std::vector<bool> placed(parameters.size(), false);
  std::vector<Bucket> buckets;
  for (const std::vector<std::size_t>& members : plan) {
    BRIGADE_CHECK(!members.empty(), "bucket: a bucket of the plan is empty");
    const Tensor& first = parameters[members.front()].data();
    std::size_t bytes = 0;
    for (const std::size_t i : members) {
      const Tensor& data = parameters[i].data();
      BRIGADE_CHECK(!placed.at(i), "bucket: parameter '", parameters[i].name(),
                    "' is in the plan twice");
      BRIGADE_CHECK(data.dtype() == first.dtype() && data.device() == first.device(),
                    "bucket: expected '", parameters[i].name(), "' as ", first.dtype(), " on ",
                    first.device(), ", got ", data.dtype(), " on ", data.device());
      placed[i] = true;
      bytes += slice_bytes(data);
    }

    const Shape flat{static_cast<std::int64_t>(bytes / size_of(first.dtype()))};
    Bucket bucket{.members = members,
                  .data = Tensor::zeros(flat, first.dtype(), first.device()),
                  .grads = make_buffer(flat, first.dtype(), first.device()),
                  .label = members.size() == 1 ? parameters[members.front()].name()
                                               : concat("bucket_", buckets.size()),
                  .pieces = {}};
    bucket.pieces = cut_pieces(bucket, piece_bytes);
    std::int64_t offset = 0;
    for (const std::size_t i : members) {
      const autograd::Variable& parameter = parameters[i];
      const Shape shape = parameter.shape();
      const auto slice =
          static_cast<std::int64_t>(slice_bytes(parameter.data()) / size_of(first.dtype()));
      parameter.move_data_to(bucket.data.flat_view(offset, shape));
      parameter.move_grad_to(bucket.grads.flat_view(offset, shape));
      offset += slice;
    }
    Context::current().allocator(first.device())->trim();
    buckets.push_back(std::move(bucket));
  }
  for (std::size_t i = 0; i < placed.size(); ++i) {
    BRIGADE_CHECK(placed[i], "bucket: parameter '", parameters[i].name(), "' is not in the plan");
  }
  return buckets;
}

}  // namespace brigade::dist
