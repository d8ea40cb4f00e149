#include "apps/report/html_page.h"

#include <fmt/format.h>

#include "apps/report/page_html.h"

namespace brigade::apps {

std::string escaped(std::string_view text) {
  const std::map<char, const char*> entities{
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
  std::string result;
  for (const char c : text) {
    entities.contains(c) ? result += entities.at(c) : result += c;
  }
  return result;
}

std::string html_table(const TextGrid& grid) {
  std::string html = "<div class=\"scroll\"><table>\n";
  const char* tag = "th";
  for (const std::vector<std::string>& row : grid) {
    html += "<tr>";
    for (const std::string& cell : row) {
      html += fmt::format("<{0}>{1}</{0}>", tag, escaped(cell));
    }
    html += "</tr>\n";
    tag = "td";
  }
  return html + "</table></div>\n";
}

std::string html_lines(std::string_view open, const std::vector<std::string>& lines,
                       std::string_view close) {
  std::string html;
  for (const std::string& line : lines) {
    html += fmt::format("{}{}{}\n", open, escaped(line), close);
  }
  return html;
}

std::string html_page(const std::string& title, const std::string& body) {
  return html_part("frame", {{"title", escaped(title)}, {"body", body}});
}

std::string html_part(std::string_view part, const std::map<std::string_view, std::string>& texts) {
  const std::string marker = fmt::format("<!--part {}-->\n", part);
  std::string_view rest = kPageHtml.substr(kPageHtml.find(marker) + marker.size());
  rest = rest.substr(0, rest.find("\n<!--part "));
  std::string html;
  // Left to right, so that braces in what is put in are never taken for a placeholder.
  for (std::size_t open = rest.find("{{"); open != rest.npos; open = rest.find("{{")) {
    const std::size_t close = rest.find("}}", open);
    html += rest.substr(0, open);
    html += texts.at(rest.substr(open + 2, close - open - 2));
    rest.remove_prefix(close + 2);
  }
  return html += rest;
}

}  // namespace brigade::apps
