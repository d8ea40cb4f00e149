#include "core/error.h"

namespace brigade {

void throw_error(const char* file, int line, const std::string& message) {
  throw Error(message_of(message, " (", file, ":", line, ")"));
}

}  // namespace brigade
