#pragma once

#include <string>
#include <vector>

namespace brigade::apps {

/// Writes `text` to a file descriptor with one write(2) where the system allows it, so that the
/// lines of several ranks do not mix. The error number of what could not be written; 0 as well when
/// nobody reads any more (`| head`), which is no failure, and when nobody reads after a signal that
/// ends the job.
int write_all(int descriptor, const std::string& text);

/// What the program tells a person, and the one rank that does so.
class Console {
 public:
  enum class Target { out, err };

  /// `speaks`: false on all ranks but the first, whose lines vanish. `target` is err when stdout
  /// belongs to --json. `color`: auto, always or never. Under mpirun stdout looks like a terminal
  /// even when it is piped into a file, so `auto` colours only without mpirun; NO_COLOR
  /// (no-color.org) turns it off.
  Console(bool speaks, Target target, const std::string& color);

  /// One whole line. Never `\r`: mpirun passes on lines.
  void line(const std::string& text = {}) const;
  /// One line for each text, behind `before`.
  void lines(const std::vector<std::string>& texts, const std::string& before = "  ") const;
  /// To stderr: "[rank 0] TEXT", "[rank 0] warning: TEXT".
  void note(const std::string& text) const;
  void warn(const std::string& text) const { note("warning: " + text); }
  /// To stdout even if the lines go to stderr. Error if it cannot be written, as it is what the
  /// program was asked for.
  void result(const std::string& text) const;

  std::string strong(const std::string& text) const { return painted("1", text); }
  std::string faint(const std::string& text) const { return painted("2", text); }
  std::string good(const std::string& text) const { return painted("32", text); }

 private:
  std::string painted(const char* code, const std::string& text) const;

  bool speaks_;
  int descriptor_;
  bool color_;
};

}  // namespace brigade::apps
