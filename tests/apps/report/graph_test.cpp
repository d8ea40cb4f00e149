#include "apps/report/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "tests/support/temporary_directory.h"

namespace brigade::apps {
namespace {

namespace fs = std::filesystem;

/// A `dot` first in PATH that takes options of one letter, as Graphviz' does.
class Graph : public testing::Test {
 protected:
  Graph() {
    std::ofstream(dir_ / "dot") << R"(#!/bin/sh
for argument; do
  case $argument in
    -T* ) ;;
    -o* ) to=${argument#-o} ;;
    -* ) exit 1 ;;
    * ) cp "$argument" "$to" ;;
  esac
done)";
    fs::permissions(dir_ / "dot", fs::perms::owner_all);
    set_path(dir_.path().string() + ":" + path_);
    std::ofstream(dir_ / "graph.dot") << "digraph {}";
  }
  ~Graph() override { set_path(path_); }

  static void set_path(const std::string& path) { setenv("PATH", path.c_str(), 1); }

  std::string path_ = getenv("PATH");
  TemporaryDirectory dir_;
};

TEST_F(Graph, IsDrawnBesideTheFile) {
  EXPECT_EQ(draw_graph(dir_ / "graph.dot"), dir_ / "graph.svg");
  EXPECT_TRUE(fs::exists(dir_ / "graph.svg"));
}

TEST_F(Graph, IsNotDrawnWhereDotFailsOrIsMissing) {
  EXPECT_EQ(draw_graph(dir_ / "nowhere.dot"), std::nullopt);
  set_path("/nowhere");
  EXPECT_EQ(draw_graph(dir_ / "graph.dot"), std::nullopt);
}

}  // namespace
}  // namespace brigade::apps
