#include "apps/report/html_page.h"

#include <fmt/format.h>

#include <map>

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

std::string html_page(const std::string& title, const std::string& summary,
                      const std::string& panels) {
  std::string page;
  std::string_view rest = kPageHtml;
  // Left to right, so that braces in what is put in are never taken for a placeholder.
  for (std::size_t open = rest.find("{{"); open != rest.npos; open = rest.find("{{")) {
    const std::size_t close = rest.find("}}", open);
    const std::string_view name = rest.substr(open + 2, close - open - 2);
    page += rest.substr(0, open);
    page += name == "title" ? escaped(title) : name == "summary" ? summary : panels;
    rest.remove_prefix(close + 2);
  }
  return page += rest;
}

}  // namespace brigade::apps
