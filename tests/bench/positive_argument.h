#pragma once

#include <cstdio>
#include <cstdlib>

namespace brigade::test {

/// argv[index], or `otherwise` where there are fewer. Ends the program with code 2 and one line
/// that shows `usage` unless it is a number of at least 1.
inline int positive_argument(int argc, char** argv, int index, int otherwise, const char* usage) {
  const int value = index < argc ? std::atoi(argv[index]) : otherwise;
  if (value < 1) {
    std::fprintf(stderr, "usage: %s, all at least 1; got %s\n", usage, argv[index]);
    std::exit(2);
  }
  return value;
}

}  // namespace brigade::test
