#pragma once

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

/// page.html around time lines: `title` is text; `summary`, above the key of colours, and `panels`,
/// below it, are HTML. The page's style sheet has the colours of the blocks (timeline_canvas.h).
std::string html_page(const std::string& title, const std::string& summary,
                      const std::string& panels);

}  // namespace brigade::apps
