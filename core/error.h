#pragma once

#include <fmt/core.h>  // IWYU pragma: export: fmt::format makes the messages

#include <stdexcept>
#include <string>

namespace brigade {

/// What every failed check throws. The text says who, expected, got and, where known, what to do,
/// and ends in the place of the check: `linear: expected x [N, 512], got [32, 500]
/// (core/ops_linear.cpp:43)`. Programs catch it once, at the top, and end the job
/// (dist/launch/launch.h).
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The caller's request cannot be served: bad flag, missing file. Programs exit with 2.
class UsageError : public Error {
 public:
  using Error::Error;
};

/// Something that had to be equal is not: parameters of two ranks, two modes. Programs exit with 3.
class VerificationError : public Error {
 public:
  using Error::Error;
};

/// A signal has ended the training, and what it had reached is saved. Programs exit with 4.
class Interrupted : public Error {
 public:
  using Error::Error;
};

/// Writes a line to stderr, in one write(2): lines of several ranks do not mix. Control characters,
/// which names in a file may have, become '?'.
void report_line(std::string text);

/// Throws Error{message (file:line)}.
[[noreturn]] void throw_error(const char* file, int line, const std::string& message);

}  // namespace brigade

/// Throws brigade::Error with the message fmt::format(...) unless `condition` holds. Always on.
#define BRIGADE_CHECK(condition, ...)                                         \
  do {                                                                        \
    if (!(condition)) [[unlikely]] {                                          \
      ::brigade::throw_error(__FILE__, __LINE__, ::fmt::format(__VA_ARGS__)); \
    }                                                                         \
  } while (false)
