#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace brigade::apps {

using Json = nlohmann::ordered_json;

/// One number of a run, written down once: where a file has it and how people see it.
struct Figure {
  std::string key;          ///< in the JSON file; "memory_bytes/peak" is nested
  Json value;               ///< null where this run has no such number
  std::string place = {};   ///< line of the screen or column of the table; empty: file only
  std::string format = {};  ///< for {fmt}: "forward {:.2f} ms"
  double scale = 1.0;       ///< people see scale · value: 100 for percent
};
using Figures = std::vector<Figure>;

inline constexpr double kPercent = 100.0;
inline constexpr double kMiB = 0x1p-20;  ///< MiB per byte

/// "1 step", "2 steps".
std::string plural(std::int64_t count, const char* word, const char* ending = "s");

/// `value` if `condition`, else null.
Json known(bool condition, double value);
/// `value` if there is one, else null.
Json known(std::optional<double> value);

/// All figures, under their keys.
Json json_of(const Figures& figures);

/// The text of a JSON file, with a newline at its end. Replaces what is not UTF-8: a path in a flag
/// may hold any bytes.
std::string json_text(const Json& json);

/// What people see: "forward 1.23 ms", or "-" for null.
std::string text_of(const Figure& figure);

/// "step: forward 1.23 ms, backward 2.34 ms": one line per place, without nulls.
std::vector<std::string> lines_of(const Figures& figures);

/// One row of a table. Every row has the same columns: the figures that have a place.
struct FigureRow {
  std::string name;
  Figures figures;
};

/// The texts of a table: the headings and the rows. `corner` is the heading of the names.
using TextGrid = std::vector<std::vector<std::string>>;
TextGrid grid_of(const std::string& corner, const std::vector<FigureRow>& rows);

/// One line per row of the grid, in aligned columns.
std::vector<std::string> text_table(const TextGrid& grid);

}  // namespace brigade::apps
