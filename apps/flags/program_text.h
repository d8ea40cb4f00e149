#pragma once

#include <string>

#include "apps/flags/options.h"

namespace brigade::apps {

/// What --help begins and ends with.
struct ProgramText {
  std::string name;
  const char* purpose;
  const char* examples;
};

/// `path`: of the program, as started.
ProgramText text_of(Program program, const char* path);

}  // namespace brigade::apps
