#pragma once

#include <string>
#include <string_view>

/// Pages that open from a file: nothing is loaded from elsewhere and no script runs.
namespace brigade::apps {

/// `text` as it may stand in HTML, in SVG and between quotes.
std::string escaped(std::string_view text);

/// The style sheet of all pages, light, dark and printed; also what gives the blocks of a time line
/// (timeline_svg.h) their colours. A bar chart of one's own can use its variables: --forward,
/// --backward, --optimizer, --comm, --hatch, --ink, --muted, --line.
std::string_view page_css();

/// A whole page around `body`, which is HTML.
std::string html_page(const std::string& title, const std::string& body);

}  // namespace brigade::apps
