#include "dist/ddp/bucket.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>

#include "core/error.h"
#include "core/runtime/context.h"

namespace brigade::dist {

namespace {

/// Equal pieces rather than full ones and a rest: a small last collective costs a latency and
/// carries nothing.
std::vector<Chunk> cut_pieces(const Bucket& bucket, std::optional<std::size_t> piece_bytes) {
  const std::size_t bytes = bucket.grads.nbytes();
  if (!piece_bytes || bytes <= *piece_bytes || bytes <= kSliceAlignment) {
    return {{.grads = bucket.grads, .label = bucket.label}};
  }
  const std::size_t units = bytes / kSliceAlignment;
  const std::size_t most = std::max(*piece_bytes / kSliceAlignment, std::size_t{1});
  const std::size_t count = (units + most - 1) / most;
  const std::size_t per_unit = kSliceAlignment / size_of(bucket.grads.dtype());
  std::vector<Chunk> pieces;
  for (std::size_t i = 0; i < count; ++i) {
    const auto begin = static_cast<std::int64_t>(units * i / count * per_unit);
    const auto end = static_cast<std::int64_t>(units * (i + 1) / count * per_unit);
    pieces.push_back({.grads = bucket.grads.flat_view(begin, {end - begin}),
                      .label = message_of(bucket.label, '[', i + 1, '/', count, ']')});
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

std::vector<std::size_t> members_of(const Chunk& piece, const Bucket& bucket,
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

namespace {

/// Calls move(parameter, its slice of `flat`) for each member.
template <class Move>
void for_each_slice(const Tensor& flat, const std::vector<std::size_t>& members,
                    std::span<const autograd::Variable> parameters, Move&& move) {
  std::int64_t offset = 0;
  for (const std::size_t i : members) {
    const autograd::Variable& parameter = parameters[i];
    move(parameter, flat.flat_view(offset, parameter.shape()));
    offset += static_cast<std::int64_t>(slice_bytes(parameter.data()) / size_of(flat.dtype()));
  }
}

/// The rest is left to whoever writes it first: on a CPU a page that nobody writes is no memory.
void zero_padding(const Tensor& flat, const std::vector<std::size_t>& members,
                  std::span<const autograd::Variable> parameters) {
  for_each_slice(flat, members, parameters, [&](const auto& parameter, const Tensor& slice) {
    const std::size_t bytes = slice_bytes(parameter.data()) - slice.nbytes();
    if (bytes > 0) {
      const std::size_t end = slice.byte_offset() - flat.byte_offset() + slice.nbytes();
      flat.flat_view(static_cast<std::int64_t>(end / size_of(flat.dtype())),
                     {static_cast<std::int64_t>(bytes / size_of(flat.dtype()))})
          .zero();
    }
  });
}

/// Data first, and the memory they leave given back, before the gradients get theirs: all weights
/// and gradients exist once, and of one bucket a second copy of either.
Bucket make_bucket(const std::vector<std::size_t>& members,
                   std::span<const autograd::Variable> parameters, const MakeBuffer& make_buffer) {
  const DType dtype = parameters[members.front()].data().dtype();
  const Device device = parameters[members.front()].device();
  std::size_t bytes = 0;
  for (const std::size_t i : members) {
    const Tensor& data = parameters[i].data();
    BRIGADE_CHECK(data.dtype() == dtype && data.device() == device, "bucket: expected '",
                  parameters[i].name(), "' as ", dtype, " on ", device, ", got ", data.dtype(),
                  " on ", data.device());
    bytes += slice_bytes(data);
  }
  const Shape flat{static_cast<std::int64_t>(bytes / size_of(dtype))};
  CachingAllocator& allocator = *Context::current().allocator(device);
  Bucket bucket;
  bucket.members = members;
  bucket.data = Tensor::empty(flat, dtype, device);
  zero_padding(bucket.data, members, parameters);
  for_each_slice(bucket.data, members, parameters,
                 [](const auto& parameter, const Tensor& slice) { parameter.move_data_to(slice); });
  allocator.trim();
  bucket.grads = make_buffer(flat, dtype, device);
  zero_padding(bucket.grads, members, parameters);
  for_each_slice(bucket.grads, members, parameters,
                 [](const auto& parameter, const Tensor& slice) { parameter.move_grad_to(slice); });
  allocator.trim();
  return bucket;
}

/// Every parameter in the plan, and once.
void check_plan(std::span<const autograd::Variable> parameters, const BucketPlan& plan) {
  std::vector<bool> placed(parameters.size(), false);
  for (const std::vector<std::size_t>& members : plan) {
    BRIGADE_CHECK(!members.empty(), "bucket: a bucket of the plan is empty");
    for (const std::size_t i : members) {
      BRIGADE_CHECK(!placed.at(i), "bucket: parameter '", parameters[i].name(),
                    "' is in the plan twice");
      placed[i] = true;
    }
  }
  for (std::size_t i = 0; i < placed.size(); ++i) {
    BRIGADE_CHECK(placed[i], "bucket: parameter '", parameters[i].name(), "' is not in the plan");
  }
}

}  // namespace

std::vector<Bucket> make_buckets(std::span<const autograd::Variable> parameters,
                                 const BucketPlan& plan, std::optional<std::size_t> piece_bytes,
                                 const MakeBuffer& make_buffer, std::vector<Bucket> before) {
  check_plan(parameters, plan);
  std::unordered_map<std::size_t, const std::vector<std::size_t>*> planned;  // by first member
  for (const std::vector<std::size_t>& members : plan) {
    planned.emplace(members.front(), &members);
  }
  std::unordered_map<std::size_t, Bucket> stays;  // likewise
  for (Bucket& old : before) {
    const auto same = planned.find(old.members.front());
    if (same != planned.end() && *same->second == old.members) {
      stays.emplace(same->first, std::move(old));
    }
  }
  before.clear();  // from now on an old bucket ends with the last of its parameters that moves

  std::vector<Bucket> buckets;
  for (const std::vector<std::size_t>& members : plan) {
    const auto found = stays.find(members.front());
    Bucket bucket = found != stays.end() ? std::move(found->second)
                                         : make_bucket(members, parameters, make_buffer);
    bucket.label = members.size() == 1 ? parameters[members.front()].name()
                                       : message_of("bucket_", buckets.size());
    bucket.pieces = cut_pieces(bucket, piece_bytes);
    buckets.push_back(std::move(bucket));
  }
  return buckets;
}

}  // namespace brigade::dist
