#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/dtype.h"

/// Which parameters share a bucket. Pure numbers: no tensor, no rank.
namespace brigade::dist {

/// The buckets in the order in which they leave, and in each its parameters in the order in which
/// their gradients are expected.
using BucketPlan = std::vector<std::vector<std::size_t>>;

/// What a plan needs to know of a parameter.
struct PlanParameter {
  std::size_t bytes = 0;     ///< of its slice, padding included
  DType dtype = DType::f32;  ///< a bucket is one flat tensor, so it has one dtype
  /// Number of the parameter with which its layer begins; alike for all means one layer.
  std::size_t layer = 0;
};

/// What makes a bucket.
enum class BucketBy : std::uint8_t {
  size,  ///< filled up to a cap; cap 0: one parameter each
  layer  ///< one bucket per layer
};

struct BucketPolicy {
  BucketBy by = BucketBy::size;
  /// @name With BucketBy::size: a bucket has at most this many bytes.
  /// @{
  std::size_t cap_bytes = std::size_t{25} << 20U;
  /// Of the first bucket; a small one starts the network earlier and does nothing else.
  std::optional<std::size_t> first_cap_bytes = {};
  /// Of the last bucket. It becomes ready when backward is over, so no computation is left to hide
  /// it: its transfer is the exposed tail of every step, and the smaller it is the better.
  std::optional<std::size_t> last_cap_bytes = {};
  /// @}
};

/// "layer", or "size" with the caps that count.
std::string to_string(const BucketPolicy& policy);

/// The order in which gradients are expected before anybody has seen a backward: the last
/// registered layer first, because backward reaches it first, and in a layer the parameters as
/// registered: autograd's linear writes the weight's gradient before the bias's. A guess, see
/// bucket_rebuilder.h; for a stack of layers it is right, and then nothing has to move.
std::vector<std::size_t> expected_order(std::span<const PlanParameter> parameters);

/// Assigns parameters to buckets, walking them in `order`.
///
/// size: a bucket closes *before* the parameter that would take it past the cap, so only a
/// parameter that alone exceeds the cap makes a larger bucket, which it has to itself. One that
/// fits exactly is let in. Cap 0: one each. The last bucket is cut first, from the end of `order`,
/// by the same rule with its own cap; where both would claim a parameter it belongs to the last.
///
/// layer: `layer` decides, wherever in `order` the parameters stand.
///
/// Parameters of different dtypes never share a bucket: what the rule would put together becomes
/// one bucket per dtype (size: one open bucket per dtype, each filled up to the cap). Buckets are
/// numbered by the place of their last parameter in `order`, which is when they are full.
/// Error: `order` is not a permutation of the parameters.
BucketPlan assign_buckets(std::span<const PlanParameter> parameters,
                          std::span<const std::size_t> order, const BucketPolicy& policy);

/// The plain case: f32 parameters of these bytes, each a layer, up to one cap.
BucketPlan assign_buckets(std::span<const std::size_t> parameter_bytes, std::size_t cap_bytes);

/// Whether two plans put the same parameters into the same buckets, in the same order of buckets.
/// The order inside a bucket makes no difference to when it leaves.
bool same_buckets(BucketPlan a, BucketPlan b);

}  // namespace brigade::dist
