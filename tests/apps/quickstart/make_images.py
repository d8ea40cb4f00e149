#!/usr/bin/env python3
"""make_images.py DIR: a small data set in the files and the format of Fashion-MNIST.

Image i has class i % 10; a class is bright in rows of its own, so a network can learn it.
"""

import gzip
import struct
import sys
from pathlib import Path

SIDE = 28


def write(path, magic, extents, data):
    header = struct.pack(f">{1 + len(extents)}I", magic, *extents)
    path.write_bytes(gzip.compress(header + bytes(data)))


def image(i):
    label = i % 10
    return [(200 if row // 2 == label else 0) + (i * 7 + row * column) % 50
            for row in range(SIDE) for column in range(SIDE)]


def main():
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    for part, count in (("train", 1000), ("t10k", 100)):
        pixels = [pixel for i in range(count) for pixel in image(i)]
        write(directory / f"{part}-images-idx3-ubyte.gz", 0x803, [count, SIDE, SIDE], pixels)
        write(directory / f"{part}-labels-idx1-ubyte.gz", 0x801, [count], [i % 10 for i in range(count)])


if __name__ == "__main__":
    main()
