#include "apps/report/html_page.h"

namespace brigade::apps {

namespace {

// Computing is blue and communicating is orange: also people who see few colours tell these two
// apart. Forward, backward and optimizer differ in lightness, so they differ on a grey print as
// well; waiting, exposed and idle have textures.
constexpr std::string_view kCss = R"css(
:root {
  color-scheme: light dark;
  --page: #ffffff; --ink: #1b2330; --muted: #5c6776; --line: #dde2e9; --track: #f4f6f9;
  --forward: #c3def5; --backward: #79b0e2; --optimizer: #2a5a8f; --on-optimizer: #ffffff;
  --layer: #e4eef8; --layer-edge: #8fb0cf; --between: #e3e6ea;
  --comm: #f6bd74; --comm-edge: #a9631c; --waiting: #fff6ea; --hatch: #9c3d0c; --idle: #9aa6b5;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --page: #12161c; --ink: #e7ebf1; --muted: #9ba7b6; --line: #323a46; --track: #1b2129;
    --forward: #2c4a6b; --backward: #3f78b0; --optimizer: #b5d6f5; --on-optimizer: #12161c;
    --layer: #223246; --layer-edge: #57779a; --between: #2b323c;
    --comm: #b8762b; --comm-edge: #eab877; --waiting: #33261a; --hatch: #ffe2bd; --idle: #5d6979;
  }
}
html { font-size: 16px; }
body {
  margin: 2rem auto; max-width: 80rem; padding: 0 1.25rem; background: var(--page);
  color: var(--ink);
  font: .94rem/1.5 system-ui, "Segoe UI", "Liberation Sans", Arial, sans-serif;
}
h1 { font-size: 1.5rem; margin: 0 0 .25rem; }
h2 { font-size: 1.15rem; margin: 0; }
p { margin: .25rem 0; }
.muted { color: var(--muted); }
section { margin: 2rem 0; break-inside: avoid; }
.scroll { overflow-x: auto; }
summary { cursor: pointer; color: var(--muted); margin: .4rem 0; }
table { border-collapse: collapse; margin: .5rem 0; font-size: .85rem; }
th, td { padding: .15rem .55rem; text-align: right; white-space: nowrap;
         border-bottom: 1px solid var(--line); }
th { font-weight: 600; color: var(--muted); vertical-align: bottom; }
th[scope=col] { white-space: normal; }
td { font-variant-numeric: tabular-nums; }
.name { text-align: left; }
.key { display: flex; flex-wrap: wrap; gap: .3rem 1.4rem; list-style: none; padding: 0;
       margin: .9rem 0; font-size: .85rem; }
.key li { display: flex; align-items: center; gap: .45rem; }
.reading { font-size: .85rem; max-width: 60rem; }
.reading dt { font-weight: 600; margin-top: .5rem; }
.reading dd { margin: 0; color: var(--muted); }
.timeline { display: block; width: 100%; min-width: 56rem; height: auto; margin: .6rem 0;
            font-family: system-ui, "Segoe UI", "Liberation Sans", Arial, sans-serif; }
.key .timeline { width: 30px; min-width: 30px; margin: 0; }
.timeline text { fill: var(--ink); font-size: 11px; pointer-events: none; }
.timeline .small { font-size: 9.5px; }
.timeline .muted { fill: var(--muted); }
.timeline .strong { font-weight: 600; }
.timeline .middle { text-anchor: middle; }
.timeline .end { text-anchor: end; }
.timeline .on-optimizer { fill: var(--on-optimizer); }
.timeline .on-comm { paint-order: stroke; stroke: var(--comm); stroke-width: 5px;
                     stroke-linejoin: round; }
.timeline .on-idle { paint-order: stroke; stroke: var(--page); stroke-width: 4px;
                     stroke-linejoin: round; }
.timeline .grid { stroke: var(--line); stroke-width: 1; }
.timeline .border { stroke: var(--ink); stroke-width: 1; }
.timeline .bracket { stroke: var(--muted); stroke-width: 1; fill: none; }
.timeline .ready { stroke: var(--comm-edge); stroke-width: 1.5; }
.timeline rect { stroke: none; }
.timeline .track { fill: var(--track); }
.timeline .forward { fill: var(--forward); }
.timeline .backward { fill: var(--backward); }
.timeline .optimizer { fill: var(--optimizer); }
.timeline .layer { fill: var(--layer); stroke: var(--layer-edge); stroke-width: .6; }
.timeline .between { fill: var(--between); }
.timeline .idle { fill: var(--page); }
.timeline .transfer { fill: var(--comm); }
.timeline .waiting { fill: var(--waiting); }
.timeline .exposed { fill: none; }
.timeline .hatch { stroke: var(--hatch); stroke-width: 1.3; pointer-events: none; }
.timeline .dots { stroke-width: 1.7; stroke-linecap: round; stroke-dasharray: 0 5;
                  pointer-events: none; }
.timeline .dots.idle { stroke: var(--idle); }
.timeline .dots.waiting { stroke: var(--comm-edge); }
.timeline .collective { fill: none; stroke: var(--comm-edge); stroke-width: 1; }
.timeline .outline { fill: none; stroke: var(--muted); stroke-width: .8; }
.timeline .narrow { stroke-width: .4; }
.timeline g:hover > .collective { stroke: var(--ink); stroke-width: 2; }
@media print {
  @page { size: landscape; margin: 12mm; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  html { font-size: 11px; }
  body { margin: 0; max-width: none; }
  section { margin: 1rem 0; }
  details:not([open]) { display: none; }
  .timeline { min-width: 0; }
  .scroll { overflow: visible; }
}
)css";

}  // namespace

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string_view page_css() {
  return kCss;
}

std::string html_page(const std::string& title, const std::string& body) {
  std::string page = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
  page += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
  page += "<title>" + escaped(title) + "</title>\n<style>";
  page += kCss;
  return page + "</style>\n</head>\n<body>\n" + body + "</body>\n</html>\n";
}

}  // namespace brigade::apps
