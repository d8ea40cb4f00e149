#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "core/dtype.h"

/// Which parameters share a bucket. Pure data: no tensor, no rank.
namespace brigade::dist {

/// The buckets in the order in which they are launched. Each lists its parameters, as indices, in
/// the order in which their gradients are expected.
using BucketPlan = std::vector<std::vector<std::size_t>>;

/// What a plan needs to know of a parameter.
struct PlanParameter {
  std::string name = {};     ///< "4.weight": a parameter of layer "4"; without '.': of no layer
  std::size_t bytes = 0;     ///< of its slice, padding included
  DType dtype = DType::f32;  ///< a bucket is one flat tensor, so it has one dtype
};

/// The order in which gradients are expected before any backward was observed: the last registered
/// layer first, because backward reaches it first. Inside a layer the parameters as registered: the
/// linear function writes the weight's gradient before the bias's. BucketRebuilder corrects the
/// guess after the first backward.
std::vector<std::size_t> expected_order(std::span<const PlanParameter> parameters);

/// Assigns parameters to buckets of at most `cap_bytes`, walking them in `order`, a permutation of
/// their indices.
///
/// A bucket is closed *before* the parameter that would take it past the cap. Only a parameter that
/// alone exceeds the cap makes a larger bucket, which it has to itself. Cap 0: one parameter each.
/// Each dtype fills buckets of its own. Buckets are numbered by the place of their last parameter
/// in `order`, which is when they are full.
BucketPlan assign_buckets(std::span<const PlanParameter> parameters,
                          std::span<const std::size_t> order, std::size_t cap_bytes);

/// The plain case: f32 parameters of these bytes, the last one first.
BucketPlan assign_buckets(std::span<const std::size_t> parameter_bytes, std::size_t cap_bytes);

/// True if two plans put the same parameters into the same buckets, in the same order of buckets.
/// The order inside a bucket does not change when it is launched.
bool same_buckets(BucketPlan a, BucketPlan b);

}  // namespace brigade::dist
