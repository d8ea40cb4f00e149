#pragma once

#include <cstddef>
#include <string>

#include "core/error.h"

namespace brigade::dist {

/// A network that is not there: how long an all-reduce would take over it. Each rank has one link
/// of its own, on which it sends and receives at the same time.
struct LinkModel {
  double alpha_us = 0.0;         ///< latency: from the first byte leaving a rank to its arrival
  double gigabytes_per_s = 1.0;  ///< bandwidth in each direction, in GB/s (10⁹ bytes)

  /// The α-β cost of a ring all-reduce over N ranks: N-1 steps of reduce-scatter and N-1 of
  /// all-gather, in each of which every rank passes 1/N of the bytes on to its neighbour,
  ///
  ///   T = 2 (N-1) α + 2 (N-1)/N · bytes / bandwidth
  ///
  /// The second term is the least any algorithm can do (Patarasuk & Yuan 2009, J. Parallel
  /// Distrib. Comput. 69); the first is what the ring pays for it (Thakur, Rabenseifner & Gropp
  /// 2005, Int. J. High Perform. Comput. Appl. 19). Adding the numbers up is taken to be free.
  /// Here `bytes_sent` stands for the bytes of the second term: less when gradients are compressed.
  double ring_ms(int ranks, double bytes_sent) const {
    return 2.0 * (ranks - 1) * alpha_us * 1e-3 + bytes_sent / (gigabytes_per_s * 1e6);
  }

  /// "emulated link 50 us, 1 GB/s"
  std::string description() const {
    return message_of("emulated link ", alpha_us, " us, ", gigabytes_per_s, " GB/s");
  }
};

}  // namespace brigade::dist
