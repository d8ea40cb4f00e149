#include "apps/metrics/figure.h"

#include <fmt/format.h>

#include <algorithm>

namespace brigade::apps {

std::string plural(std::int64_t count, const char* word, const char* ending) {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : ending);
}

Json known(bool condition, double value) {
  return condition ? Json(value) : Json(nullptr);
}

Json known(std::optional<double> value) {
  return known(value.has_value(), value.value_or(0.0));
}

Json json_of(const Figures& figures) {
  Json json = Json::object();
  for (const Figure& figure : figures) {
    json[Json::json_pointer("/" + figure.key)] = figure.value;
  }
  return json;
}

std::string json_text(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string text_of(const Figure& figure) {
  if (figure.value.is_null()) {
    return "-";
  }
  return fmt::format(fmt::runtime(figure.format), figure.scale * figure.value.get<double>());
}

std::vector<std::string> lines_of(const Figures& figures) {
  std::vector<std::string> lines;
  std::string place;
  for (const Figure& figure : figures) {
    if (figure.place.empty() || figure.value.is_null()) {
      continue;
    }
    if (figure.place == place) {
      lines.back() += ", " + text_of(figure);
    } else {
      place = figure.place;
      lines.push_back(place + ": " + text_of(figure));
    }
  }
  return lines;
}

TextGrid grid_of(const std::string& corner, const std::vector<FigureRow>& rows) {
  TextGrid grid{{corner}};
  for (const FigureRow& row : rows) {
    std::vector<std::string> cells{row.name};
    for (const Figure& figure : row.figures) {
      if (!figure.place.empty()) {
        cells.push_back(text_of(figure));
        if (grid.size() == 1) {
          grid.front().push_back(figure.place);
        }
      }
    }
    grid.push_back(std::move(cells));
  }
  return grid;
}

std::vector<std::string> text_table(const TextGrid& grid) {
  std::vector<std::string> lines(grid.size());
  for (std::size_t column = 0; column < grid.front().size(); ++column) {
    std::size_t width = 0;
    for (const std::vector<std::string>& row : grid) {
      width = std::max(width, row[column].size());
    }
    for (std::size_t i = 0; i < grid.size(); ++i) {
      lines[i] += column == 0 ? fmt::format("{:<{}}", grid[i][column], width)
                              : fmt::format("  {:>{}}", grid[i][column], width);
    }
  }
  return lines;
}

}  // namespace brigade::apps
