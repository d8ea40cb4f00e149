#!/usr/bin/env python3
"""launch_to_call.py IN OUT: makes C++ of a CUDA source.

kernel<<<grid, block, shared, stream>>>(args) becomes
emulator::Launch("kernel", grid, block, shared, stream).of([=](auto... a) { kernel(a...); }, args)
"""

import re
import sys
from pathlib import Path


def end_of_arguments(text, begin):
    """Behind the parenthesis that closes the one at `begin`."""
    depth = 0
    for at in range(begin, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return at + 1
    raise SystemExit("launch_to_call: a launch does not end")


def convert(text):
    done = ""
    while (launch := text.find("<<<")) >= 0:
        match = re.search(r"\w+$", text[:launch])
        if not match:
            raise SystemExit("launch_to_call: expected kernel<<<, with template arguments deduced")
        name = match[0]
        closing = text.index(">>>", launch)
        end = end_of_arguments(text, closing + 3)
        configuration, arguments = text[launch + 3:closing], text[closing + 4:end - 1]
        done += (f'{text[:launch - len(name)]}emulator::Launch("{name}", {configuration})'
                 f".of([=](auto... a) {{ {name}(a...); }}, {arguments})")
        text = text[end:]
    return done + text


source, target = map(Path, sys.argv[1:])
target.parent.mkdir(parents=True, exist_ok=True)
converted = convert(source.read_text(encoding="utf-8"))
target.write_text(f'#line 1 "{source}"\n{converted}', encoding="utf-8")
