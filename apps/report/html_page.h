#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "apps/metrics/figure.h"

/// Pages that open from a file, without scripts: nothing is loaded from elsewhere.
namespace brigade::apps {

/// `text` with the characters replaced that HTML, SVG or a quoted attribute would misread.
std::string escaped(std::string_view text);

/// `grid` as a table; its first row are the headings.
std::string html_table(const TextGrid& grid);

/// Each of `lines` between these tags.
std::string html_lines(std::string_view open, const std::vector<std::string>& lines,
                       std::string_view close);

/// A whole page with the style sheet, which has the colours of the blocks (timeline_canvas.h).
std::string html_page(const std::string& title, const std::string& body);

/// A part of page.html, {{name}} replaced by `texts`, which are HTML.
std::string html_part(std::string_view part, const std::map<std::string_view, std::string>& texts);

}  // namespace brigade::apps
