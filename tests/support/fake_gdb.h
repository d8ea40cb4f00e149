#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/support/environment.h"
#include "tests/support/temporary_directory.h"

namespace brigade::test {

/// While it lives, this process finds a shell script where gdb would be. The last of its arguments
/// is the number of a process. It may write to "$0.log".
class FakeGdb {
 public:
  explicit FakeGdb(const std::string& script) {
    std::ofstream(directory_ / "gdb") << "#!/bin/bash\n" << script << "\n";
    std::filesystem::permissions(directory_ / "gdb", std::filesystem::perms::owner_all);
  }
  std::string log() const {
    std::ifstream file(directory_ / "gdb.log");
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  TemporaryDirectory directory_;
  EnvironmentVariable path_{"PATH", directory_.path().string() + ":" + std::getenv("PATH")};
};

}  // namespace brigade::test
