#!/usr/bin/env python3
"""check_line_budget.py [ROOT]: fails when a part of the product, without its tests, outgrows its cap.

Counted are code lines: neither blank nor comment only. File sizes are whole files, as a reader meets them. Caps only
fall: a change that raises one fails, too (compared with the commit before, where git knows it). A feature that is new
as a whole has caps of its own, in FEATURES, with the reason why it is worth its lines. They only fall, too.
"""

import argparse
import ast
import statistics
import subprocess
import sys
from pathlib import Path

from common import ROOT, percentile

# Folder or folders -> most code lines.
CAPS = {
    "all": 19350,
    "core": 4768,
    "autograd": 1256,
    "nn": 999,
    "optim": 374,
    "dist": 4928,
    "apps": 7034,
    "gradient route": 2478,
}
# What each feature may add to the caps above, and why.
FEATURES = {
    "checkpoints: a killed job continues to the bit": {"core": 338, "autograd": 9, "optim": 29, "dist": 580, "apps": 145, "gradient route": 20},
    "cheap checkpoints: written through a small part of memory, and not read again for a checksum": {"core": 30},
    "bucket-mb auto: the buckets that are best for the times measured": {"dist": 331, "apps": 70},
    "check-reduce: a bit that flips while gradients are summed is found": {"dist": 220, "apps": 77, "gradient route": 1},
    "shrink: the others go on when a rank dies": {"dist": 432, "apps": 244},
    "bad input: a damaged file or a stranger on a port harms no job": {"core": 22, "dist": 100},
    "gpt: a transformer on the same engine, modes and flags": {"core": 450, "autograd": 80, "nn": 860, "optim": 70, "dist": 2, "apps": 420, "gradient route": 20},
    "loss curve: how a training went, in timeline.html": {"apps": 84},
    "bucket table of compare_modes: which gradients come last, and what waits for them": {"apps": 40},
    "gpt, other people's files and flags: long words, nested JSON, other models' sizes; what is refused, with what to do": {"nn": 42, "dist": 1, "apps": 49},
    "graph, lab 8: what backward walks; why tied weights ruin the overlap": {"autograd": 42, "apps": 190, "gradient route": 30},
    "shard-optimizer: each rank keeps 1/N of the optimizer's state": {"core": 24, "optim": 109, "dist": 87, "apps": 21},
    "slurm jobs: one rank tells of a wrong flag; under -K the lost rank is named before all end": {"dist": 31, "apps": 4},
    "slurm: ranks of srun know their number, or say what is missing": {"dist": 20},
    "stacks: stall.json says what the threads of a stalled rank do": {"dist": 106},
    "stalls end in time: ranks leave with the speaker or when given up, and the pause of gdb is no silence": {"dist": 30},
    "doctor: where the ranks of a job run, how fast their links are, and traps with what to do": {"dist": 17, "apps": 361},
    "ddp_plan: what a training would take on other numbers of ranks": {"dist": 362, "apps": 676},
    "ddp_plan: damaged profiles, shaped links, and questions that no training could ask": {"dist": 50, "apps": 55},
    "stragglers: how often a rank is the slowest, and whether it computes or reads data": {"apps": 50},
    "stragglers: which host has slow links": {"apps": 97},
    "ddp_plan: a sharded optimizer": {"dist": 11, "apps": 26},
    "watch: a job that stands still says who is waited for": {"core": 27, "dist": 819, "apps": 48, "gradient route": 10},
    "comm auto: ranks of a host add first, and an error calls a rank by its number in the job": {"dist": 30},
    "gpt in less memory: what is cheap is not kept for backward; bias and GELU in one pass; attention's weights are dropped": {"core": 97, "autograd": 45, "nn": 25, "apps": 3},
    "low-memory: activations and gradients share memory": {"core": 40, "optim": 13, "apps": 24},
    "profile.json is fuzzed: nothing in it is out of range": {"apps": 11},
    "watch from the start: a rank that hangs while it reads its data is named": {"dist": 13, "apps": 13},
    "checkpoints: the thread that writes them has the lowest priority": {"dist": 3},
    "bf16: on the matrix unit of a CPU with AMX; activations stay in bf16": {"core": 168, "autograd": 9, "gradient route": 2},
    "matmul-precision: f32 products of bf16 factors, or as three such; which unit multiplies bf16": {"core": 100, "apps": 9},
    "bf16 on AVX512_BF16: dW and dx by the faster of oneDNN's implementations, x Wᵀ of small batches as W xᵀ": {"core": 7},
    "bf16 on AMX: no transposing and repeated copying by oneDNN of large dW and x Wᵀ; dW of `high` in one product": {"core": 38},
    "fused_linear.cpp: bf16 and activation functions in a file of their own, so that linear.cpp, on a gradient's route, is plain": {"autograd": 22, "nn": 1},
    "rounds: ranks that exchange with all others over sockets do not overflow a receiver's link": {"dist": 10},
    "gather.h: values of all ranks in a header of their own, so that communicator.h, on a gradient's route, has the Communicator alone": {"dist": 19, "apps": 17, "gradient route": 3},
    "--config: every line is read or refused": {"apps": 36},
    "errors in place of crashes, waiting and lost files: undefined Variables, kept batches, ended or slow ranks, NaN, unreadable links, refused runs": {"core": 13, "nn": 20, "dist": 39, "apps": 40, "gradient route": 5},
    "lines of --config that are half right or twice there; batches that are skipped; buckets that a resumed run keeps": {"apps": 17, "nn": 1, "dist": 8, "gradient route": 1},
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


def table_of_commit(root, commit, name):
    """CAPS or FEATURES as it was, or {} where git cannot tell."""
    shown = subprocess.run(["git", "-C", root, "show", f"{commit}:scripts/check_line_budget.py"], capture_output=True, text=True)
    for node in ast.parse(shown.stdout).body if shown.returncode == 0 else []:
        if isinstance(node, ast.Assign) and node.targets[0].id == name:
            return ast.literal_eval(node.value)
    return {}


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
    root = parser.parse_args().root
    code_of, comments, lengths = count_rooms(root)
    if not lengths:
        sys.exit("line budget: no source files found")
    caps = {part: cap + sum(added.get(part, 0) for added in FEATURES.values()) for part, cap in CAPS.items()}
    caps["all"] += sum(lines for added in FEATURES.values() for part, lines in added.items() if part in ROOMS)
    print(f"{'part':<16}{'code':>7}{'cap':>7}")
    for part, cap in caps.items():
        print(f"{part:<16}{code_of[part]:>7}{cap:>7}")
    print(f"file length: median {statistics.median(lengths):.0f}, p90 {percentile(lengths, 0.9)}, longest {max(lengths)}")
    print(f"comments: {100 * comments / max(1, code_of['all'] + comments):.0f} % of lines that are not blank")
    failures = [f"{part}: {code_of[part] - cap} lines over its cap" for part, cap in caps.items() if code_of[part] > cap]
    for commit in ("HEAD", "HEAD~1"):
        before = table_of_commit(root, commit, "CAPS")
        failures += [f"{part}: cap raised from {before[part]} to {cap}" for part, cap in CAPS.items() if cap > before.get(part, cap)]
        for feature, added in table_of_commit(root, commit, "FEATURES").items():
            now = FEATURES.get(feature, {})
            failures += [f"{feature}: {part} raised to {cap}" for part, cap in now.items() if cap > added.get(part, 0)]
    print(f"line budget: {code_of['all']} of {caps['all']} code lines")
    if failures:
        sys.exit("line budget: " + "; ".join(failures))


if __name__ == "__main__":
    main()
