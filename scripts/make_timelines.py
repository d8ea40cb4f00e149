#!/usr/bin/env python3
"""One step of naive above one step of overlap, as one picture, from the compare.html of compare_modes. Takes
the "enlarged" time line of both modes, which have one scale. The background is white on every page."""
import argparse
import pathlib
import re
import sys

WIDTH, TITLE, GAP = 1216, 30, 22
MODES = {"naive": "naive: first backward, then one blocking all-reduce per parameter",
         "overlap": "overlap: each full bucket travels while backward goes on"}
KEY = {"forward": "forward", "backward": "backward", "optimizer": "optimizer",
       "transfer": "all-reduce (hatched: exposed)", "idle": "idle (dotted): waits for an all-reduce"}
SIZES = ("text { font-size: 12px } .end, .key { font-size: 14px } .small { font-size: 10.5px }"
         " .title { font-size: 17px; font-weight: 600 }\n")


def time_line(page, mode):
    """The body and the height of the enlarged time line of `mode`, without its hover texts."""
    section = re.search(rf"<section>\n<h2>{mode},.*?</section>", page, re.S)
    svg = section and re.search(
        r'enlarged</summary>.*?viewBox="0 0 \d+ (\d+)"[^>]*>(.*?)</svg>', section[0], re.S)
    if not svg:
        sys.exit(f"make_timelines: expected a time line of mode {mode} in the page, found none; run "
                 "compare_modes --modes naive,overlap")
    return re.sub(r"<title>.*?</title>\n?", "", svg[2], flags=re.S), int(svg[1])


def style(page):
    """The page's classes and textures for time lines, with its light colours instead of variables."""
    colours = dict(re.findall(r"(--[\w-]+): (#\w+);", page[:page.index("@media")]))
    rules = re.findall(r"^\.timeline (?:[.]|text|rect).*?\}$", page, re.M | re.S)
    css = "svg { font-family: 'Liberation Sans', Arial, sans-serif }\n" + "\n".join(rules).replace(".timeline ", "")
    textures = "\n".join(re.findall(r"<pattern.*?</pattern>", page, re.S))
    return re.sub(r"var\((--[\w-]+)\)", lambda name: colours[name[1]], f"<style>{css}\n{SIZES}</style>\n{textures}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("html", type=pathlib.Path)
    parser.add_argument("svg", type=pathlib.Path)
    files = parser.parse_args()
    try:
        page = files.html.read_text(encoding="utf-8")
    except OSError as error:
        parser.error(f"{files.html} cannot be read: {error.strerror}")
    body, top = "", 8
    for mode, title in MODES.items():
        panel, height = time_line(page, mode)
        body += (f'<text class="title" x="8" y="{top + 16}">{title}</text>\n'
                 f'<g transform="translate(8 {top + TITLE})">{panel}</g>\n')
        top += TITLE + height + GAP
    for x, (name, text) in zip((140, 260, 390, 530, 790), KEY.items()):
        body += (f'<rect class="{name}" x="{x}" y="{top}" width="20" height="12"/><rect class="outline" '
                 f'x="{x}" y="{top}" width="20" height="12"/><text class="key" x="{x + 28}" '
                 f'y="{top + 11}">{text}</text>\n')
    svg = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top + 24}" role="img">\n'
           f'{style(page)}\n<rect width="100%" height="100%" fill="#ffffff"/>\n')
    files.svg.write_text(svg + body + "</svg>\n", encoding="utf-8")


if __name__ == "__main__":
    main()
