#include "apps/flags/command_line.h"

#include <vector>

#include "apps/flags/flag_values.h"
#include "core/config.h"
#include "core/error.h"

namespace brigade::apps {

namespace {

/// CLI11 puts two blank lines between groups; with one, all of --help fits on a screen.
std::string without_double_blank_lines(std::string text) {
  for (std::size_t at; (at = text.find("\n\n\n")) != std::string::npos;) {
    text.erase(at, 1);
  }
  return text;
}

void reject_unknown(const CLI::App& app) {
  const std::vector<std::string> unknown = app.remaining();
  if (unknown.empty()) {
    return;
  }
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) {
    known.push_back(option->get_name());
  }
  const std::string word = unknown.front().substr(0, unknown.front().find('='));
  const std::string hint = suggestion(word, known);
  throw UsageError(concat("unknown ", word.rfind('-', 0) == 0 ? "flag " : "argument ", word,
                          hint.empty() ? "; --help lists the flags" : hint));
}

}  // namespace

void prepare_command_line(CLI::App& app) {
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.allow_extras();
  app.get_formatter()->column_width(26);
}

std::optional<EarlyExit> parse_command_line(CLI::App& app, int argc, const char* const* argv,
                                            const std::function<void()>& finish) {
  // Last, and in the last group: CLI11's own group for them would come first and cost two lines.
  app.set_help_flag("-h,--help", "this text")->group("Output");
  app.set_version_flag("--version", app.get_name() + " (Brigade) " + kVersion, "the version")
      ->group("Output");
  try {
    app.parse(argc, argv);
    reject_unknown(app);
    finish();
  } catch (const CLI::CallForHelp&) {
    return EarlyExit{without_double_blank_lines(app.help()), 0};
  } catch (const CLI::CallForVersion& version) {
    return EarlyExit{std::string(version.what()) + "\n", 0};
  } catch (const std::exception& error) {
    return EarlyExit{concat(app.get_name(), ": ", error.what(), "\n"), 2};
  }
  return std::nullopt;
}

std::string as_typed(int argc, const char* const* argv) {
  std::string text;
  for (int i = 0; i < argc; ++i) {
    text += (i == 0 ? "" : " ") + std::string(argv[i]);
  }
  return text;
}

}  // namespace brigade::apps
