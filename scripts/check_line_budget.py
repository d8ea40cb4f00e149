#!/usr/bin/env python3
"""check_line_budget.py [ROOT]: fails when a part of the product, without its tests, outgrows its cap.

Counted are code lines: neither blank nor comment only. File sizes are whole files, as a reader meets them. Lower a cap
when its code shrinks. To raise one needs a reason, in the message of the commit.
"""

import argparse
import statistics
import sys
from pathlib import Path

from common import ROOT, percentile

# Folder or folders -> most code lines.
CAPS = {
    "all": 28240,
    "core": 6155,
    "autograd": 1458,
    "nn": 1931,
    "optim": 600,
    "dist": 7925,
    "apps": 10171,
    "gradient route": 2779,
}
GRADIENT_ROUTE = ["autograd", "dist/ddp", "dist/comm"]  # each without its subfolders

ROOMS = ["core", "autograd", "nn", "optim", "dist", "apps"]
SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}


def count(text):
    """(code lines, comment lines, all lines); a line with both is code."""
    code = comment = 0
    in_block = False
    lines = text.splitlines()
    for line in (line.strip() for line in lines):
        if in_block or line.startswith("/*"):
            comment += 1
            in_block = "*/" not in line
        elif line.startswith("//"):
            comment += 1
        elif line:
            code += 1
    return code, comment, len(lines)


def count_rooms(root):
    """({room: code lines}, comment lines, file lengths)"""
    code_of = dict.fromkeys(CAPS, 0)
    comments, lengths = 0, []
    for room in ROOMS:
        for path in (root / room).rglob("*"):
            if path.suffix not in SUFFIXES:
                continue
            code, comment, length = count(path.read_text(encoding="utf-8"))
            code_of["all"] += code
            code_of[room] += code
            if path.parent.relative_to(root).as_posix() in GRADIENT_ROUTE:
                code_of["gradient route"] += code
            comments += comment
            lengths.append(length)
    return code_of, comments, lengths


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", metavar="ROOT", nargs="?", type=Path, default=ROOT)
    code_of, comments, lengths = count_rooms(parser.parse_args().root)
    if not lengths:
        sys.exit("line budget: no source files found")
    print(f"{'part':<16}{'code':>7}{'cap':>7}")
    for part, cap in CAPS.items():
        print(f"{part:<16}{code_of[part]:>7}{cap:>7}")
    print(f"file length: median {statistics.median(lengths):.0f}, p90 {percentile(lengths, 0.9)}, longest {max(lengths)}")
    print(f"comments: {100 * comments / max(1, code_of['all'] + comments):.0f} % of lines that are not blank")
    failures = [f"{part}: {code_of[part] - cap} lines over its cap" for part, cap in CAPS.items() if code_of[part] > cap]
    print(f"line budget: {code_of['all']} of {CAPS['all']} code lines")
    if failures:
        sys.exit("line budget: " + "; ".join(failures))


if __name__ == "__main__":
    main()
