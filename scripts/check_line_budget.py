#!/usr/bin/env python3
"""check_line_budget.py [ROOT]: fails when the product, without its tests, outgrows its budget.

Counted are code lines: neither blank nor comment only. File sizes are whole files, as a reader meets them.
"""

import statistics
import sys
from pathlib import Path

# Five synchronisation modes, two devices and four communicators, and still an afternoon's reading.
# Raised from 7000 to 8500 with the first complete train_mlp: the CUDA twin of every kernel, and a program that checks
# its input and reports what it measured. To 12500 with what makes a run visible: traces, time lines, compare_modes,
# the labs and the failures to learn from. To 17500 with the complete dist layer: our own all-reduces next to the
# libraries', compression, unused parameters, uneven data, the optimizer and the next forward in flight. To 19000
# with sockets and shared memory as carriers of their own, and bench_all_reduce. To 21000 with speed: two GEMM
# libraries on the CPU, fused and vectorised kernels, recycled graph nodes, and the account of memory. To 21400 with
# recorded steps, CUDA graphs and cuBLASLt's epilogues. To 22000 with the epilogue of backward, which is tried on known
# sums before it is used, and with an update that is made in the product that computes dW. To 22100 with a step that is
# recorded whole: Adam's count and the times inside it are the device's, and losses leave without anybody waiting.
# To 22350 with a ReLU whose mask is kept in bits, for the product that computes a gradient to mask it. To 22420 with
# updates in flight that know whether every one of them was made, and flags that would do nothing refused. To 22730 with
# less trust: a kernel's sums are tried before its mask, a file that cannot be written costs no other, and what would
# train wrongly without a word is refused (a hook for two models, a step() on top of updates in flight); and a GPU's
# epilogues say what is wrong with them and can be left out. To 22756 with oneDNN on CPUs that have AVX2 alone
# and checks that backward lacked. To 22824 with figures of the samples, steps and buckets that they name, and a fault
# that only the comparison after the last step sees. To 22980 with memory that is lent: a layer's output lies in its
# weight's gradient while that is empty, and one rank decides by itself to update weights where dW is computed.
# Raising it is a decision: write the reason here.
BUDGET = 22980

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


def percentile_90(values):
    return sorted(values)[int(0.9 * (len(values) - 1) + 0.5)]


def main():
    if sys.argv[1:] in (["-h"], ["--help"]):
        print(__doc__)
        return
    if len(sys.argv) > 2:
        sys.exit(__doc__)
    root = Path(sys.argv[1]) if len(sys.argv) == 2 else Path(__file__).resolve().parent.parent
    sizes = []
    total = comments = 0
    print(f"{'folder':<10}{'files':>6}{'code':>7}{'comment':>9}")
    for room in ROOMS:
        paths = [path for path in (root / room).rglob("*") if path.suffix in SUFFIXES]
        counts = [count(path.read_text(encoding="utf-8")) for path in paths]
        code, comment = sum(c[0] for c in counts), sum(c[1] for c in counts)
        print(f"{room:<10}{len(paths):>6}{code:>7}{comment:>9}")
        sizes += [c[2] for c in counts]
        total += code
        comments += comment
    if not sizes:
        sys.exit("line budget: no source files found")
    print(f"file length: median {statistics.median(sizes):.0f}, p90 {percentile_90(sizes)}, longest {max(sizes)}")
    print(f"comments: {100 * comments / max(1, total + comments):.0f} % of lines that are not blank")
    print(f"line budget: {total} of {BUDGET} code lines")
    if total > BUDGET:
        sys.exit(f"line budget: {total - BUDGET} lines too many; shorten, or raise BUDGET with its reason")


if __name__ == "__main__":
    main()
