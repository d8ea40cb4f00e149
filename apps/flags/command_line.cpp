#include "apps/flags/command_line.h"

#include <algorithm>
#include <memory>

#include "apps/flags/flag_values.h"
#include "core/config.h"
#include "core/error.h"

namespace brigade::apps {

namespace {

/// `hidden = [512, 256]` says the same as `hidden = "512,256"`.
class ArraysAsLists final : public CLI::ConfigBase {
 public:
  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    std::vector<CLI::ConfigItem> found = ConfigBase::from_config(input);
    for (CLI::ConfigItem& item : found) {
      item.inputs = {CLI::detail::join(item.inputs, ",")};
    }
    return found;
  }
};

/// CLI11 puts two blank lines between groups; one is enough.
std::string without_double_blank_lines(std::string text) {
  for (std::size_t at; (at = text.find("\n\n\n")) != std::string::npos;) {
    text.erase(at, 1);
  }
  return text;
}

std::string brief_help(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_group().starts_with("More")) {
      option->group("");  // which hides it
    }
  }
  return app.help();
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
  throw UsageError(message_of("unknown ", word.starts_with('-') ? "flag " : "argument ", word,
                              hint.empty() ? "; --help-all lists the flags" : hint));
}

}  // namespace

void prepare_command_line(CLI::App& app) {
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.allow_extras();
  app.get_formatter()->column_width(26);
}

void add_config_flag(CLI::App& app) {
  app.config_formatter(std::make_shared<ArraysAsLists>());
  app.allow_config_extras(CLI::config_extras_mode::capture);
  app.set_config("--config", "", "flags from a file, such as an earlier run's config.toml")
      ->type_name("FILE")
      ->group("Output");
}

std::optional<EarlyExit> parse_command_line(CLI::App& app, int argc, const char* const* argv,
                                            const std::function<void()>& finish) {
  // Last, and in the last group: CLI11's own group for them would come first and cost two lines.
  app.set_help_flag("-h,--help", "what most people need")->group("Output");
  app.set_help_all_flag("--help-all", "every flag")->group("Output");
  app.set_version_flag("--version", app.get_name() + " (Brigade) " + kVersion, "the version")
      ->group("More output");
  try {
    app.parse(argc, argv);
    reject_unknown(app);
    finish();
  } catch (const CLI::CallForAllHelp&) {
    return EarlyExit{without_double_blank_lines(app.help()), 0};
  } catch (const CLI::CallForHelp&) {
    return EarlyExit{without_double_blank_lines(brief_help(app)), 0};
  } catch (const CLI::CallForVersion& version) {
    return EarlyExit{std::string(version.what()) + "\n", 0};
  } catch (const CLI::FileError& error) {
    return EarlyExit{
        message_of(app.get_name(), ": --config: expected a file of flags, got ",
                   app.get_config_ptr()->as<std::string>(), ", which cannot be read\n"),
        2};
  } catch (const std::exception& error) {
    return EarlyExit{message_of(app.get_name(), ": ", error.what(), "\n"), 2};
  }
  return std::nullopt;
}

void keep_last(CLI::App& app, const std::vector<std::vector<std::string>>& ways) {
  const std::vector<std::string>* kept = nullptr;  // none: the config file has one way at most
  for (const CLI::Option* option : app.parse_order()) {
    for (const std::vector<std::string>& way : ways) {
      kept = std::count(way.begin(), way.end(), option->get_name()) > 0 ? &way : kept;
    }
  }
  for (const std::vector<std::string>& way : ways) {
    for (const std::string& name : way) {
      if (kept != nullptr && kept != &way) {
        app.get_option(name)->clear();
      }
    }
  }
}

std::vector<std::string> config_lines(const CLI::App& app) {
  std::vector<std::string> lines;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_configurable()) {
      continue;
    }
    const std::string& name = option->get_single_name();
    lines.push_back(option->count() == 0 ? "# " + name
                                         : message_of(name, " = ",
                                                      CLI::detail::convert_arg_for_ini(
                                                          option->reduced_results()[0])));
  }
  return lines;
}

}  // namespace brigade::apps
