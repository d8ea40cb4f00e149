// compare_weights A B [TOLERANCE]: prints the relative L2 difference of two weight files; 0 if it
// is at most TOLERANCE (0: equal), 3 if not, 2 if they cannot be compared.
#include "tests/support/compare_weights.h"

#include <cstdlib>
#include <exception>
#include <iostream>

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: compare_weights A B [TOLERANCE]\n";
    return 2;
  }
  try {
    const double tolerance = argc > 3 ? std::strtod(argv[3], nullptr) : 0.0;
    const double difference = brigade::relative_l2(argv[1], argv[2]);
    std::cout << "relative L2 difference " << difference << ", at most " << tolerance << '\n';
    return difference <= tolerance ? 0 : 3;  // a NaN is no agreement
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 2;
  }
}
