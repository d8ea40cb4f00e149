#include "apps/flags/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "apps/flags/flag_values.h"
#include "core/config.h"
#include "core/error.h"

namespace brigade::apps {

namespace {

[[noreturn]] void refuse_line(const std::string& line) {
  throw UsageError(
      fmt::format("--config: expected lines such as batch = 64, each flag once, got \"{}\"", line));
}

/// What stands in `line` from `begin` on, without blanks, a comment, quotes and brackets:
/// `[512, 256]` says the same as `"512,256"`.
std::string value_of(const std::string& line, std::size_t begin) {
  const std::string value = CLI::detail::trim_copy(line.substr(begin));
  if (value.starts_with('"') || value.starts_with('\'')) {
    const std::size_t end = value.find(value[0], 1);
    const std::string rest =
        end == std::string::npos ? "?" : CLI::detail::trim_copy(value.substr(end + 1));
    if (!rest.empty() && !rest.starts_with('#')) {
      refuse_line(line);
    }
    return value.substr(1, end - 1);
  }
  std::string bare = CLI::detail::trim_copy(value.substr(0, value.find('#')));
  if (bare.starts_with('[') && bare.ends_with(']')) {
    std::vector<std::string> items = split_at_commas(bare.substr(1, bare.size() - 2));
    std::ranges::transform(items, items.begin(),
                           [](const std::string& item) { return value_of(item, 0); });
    bare = CLI::detail::join(items, ",");
  }
  return bare.empty() ? refuse_line(line), "" : bare;
}

/// The part of TOML that holds flags. CLI11's own reader takes a # inside quotes for a comment, and
/// passes over what it does not know.
class FlagFile final : public CLI::ConfigBase {
 public:
  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    std::vector<CLI::ConfigItem> found;
    for (std::string line; std::getline(input, line);) {
      const std::string text = CLI::detail::trim_copy(line);
      const std::size_t equals = text.find('=');
      if (text.empty() || text.starts_with('#')) {
        continue;
      }
      const std::string name = CLI::detail::trim_copy(text.substr(0, equals));
      const bool again = std::ranges::find(found, name, &CLI::ConfigItem::name) != found.end();
      if (text.starts_with('[') || equals == std::string::npos || again) {
        refuse_line(text);
      }
      found.emplace_back();
      found.back().name = name;
      found.back().inputs = {value_of(text, equals + 1)};
    }
    return found;
  }
};

/// A line of TOML; a comment where no line can hold the value.
std::string config_line(const std::string& name, const std::string& value) {
  const bool quoted_twice =
      value.find('"') != std::string::npos && value.find('\'') != std::string::npos;
  return quoted_twice || value.find('\n') != std::string::npos
             ? fmt::format("# {}: give it again, as no line can hold it", name)
             : fmt::format("{} = {}", name, CLI::detail::convert_arg_for_ini(value));
}

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
  throw UsageError(fmt::format("unknown {} {}{}", word.starts_with('-') ? "flag" : "argument", word,
                               hint.empty() ? "; --help-all lists the flags" : hint));
}

}  // namespace

void prepare_command_line(CLI::App& app) {
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.allow_extras();
  app.get_formatter()->column_width(26);
}

void add_config_flag(CLI::App& app) {
  app.config_formatter(std::make_shared<FlagFile>());
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
    if (const CLI::Option* config = app.get_config_ptr();
        config != nullptr && config->count() > 0) {
      check_not_empty("--config", config->as<std::string>());
    }
    finish();
  } catch (const CLI::CallForAllHelp&) {
    return EarlyExit{without_double_blank_lines(app.help()), 0};
  } catch (const CLI::CallForHelp&) {
    return EarlyExit{without_double_blank_lines(brief_help(app)), 0};
  } catch (const CLI::CallForVersion& version) {
    return EarlyExit{std::string(version.what()) + "\n", 0};
  } catch (const CLI::FileError& error) {
    return EarlyExit{
        fmt::format("{}: --config: expected a file of flags, got {}, which cannot be read\n",
                    app.get_name(), app.get_config_ptr()->as<std::string>()),
        2};
  } catch (const std::exception& error) {
    return EarlyExit{fmt::format("{}: {}\n", app.get_name(), error.what()), 2};
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
                                         : config_line(name, option->reduced_results()[0]));
  }
  return lines;
}

}  // namespace brigade::apps
