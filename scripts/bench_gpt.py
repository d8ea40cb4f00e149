#!/usr/bin/env python3
"""bench_gpt.py: is a training step of a GPT-2 faster than PyTorch's, and does it need less memory?

  scripts/bench_gpt.py --python PYTHON [--cells 4x128x4x128x8,...|grid] [--rounds 5] [--compile]
                       [--precision f32|high|medium|bf16] [--json FILE]
  scripts/bench_gpt.py --python PYTHON --unshaped [--caps 25,4,1] [...]
  sudo scripts/bench_gpt.py --python PYTHON --rate 1gbit [...]

A cell is LAYERSxWIDTHxHEADSxCONTEXTxSEQUENCES; `grid` is 4x128, 6x384 and 12x768 at contexts of 128 and 512. In every
round train_gpt and torch_baseline.py take turns, one thread per rank: GPT-2 over 256 bytes, AdamW, gradients clipped,
float32 (--precision: as bench_compute.py has it). PyTorch has scaled_dot_product_attention and its AdamW of
one pass; --compile also times torch.compile. PYTHON is one that can import torch. Other flags go to train_gpt.

Without --unshaped or --rate one rank on core 0 is compared. With them it is two ranks, --mode overlap with buckets of
4 MiB, and PyTorch's DistributedDataParallel over gloo with every bucket_cap_mb in --caps, its default first:
--unshaped on two cores of this machine, --rate on two pretend hosts with a link of that rate between them
(scripts/netlab.sh, needs root).

  ratio      Brigade's median step / PyTorch's; of the medians of the rounds, and the least and most of a round
  memory     growth of the process, Brigade's / PyTorch's eager (MiB), as in bench_compute.py
  low        one rank: Brigade with --low-memory, its step and memory likewise

The last lines name every bar that is missed. One rank: ratio <= 1 with and without --low-memory, in the median <= 0.9
(--precision bf16: 0.75) without; memory <= 1 in the better of the two. Two ranks: ratio to the default cap <= 0.75 (--rate: 0.8),
to the best <= 0.97. With --check that is exit code 3."""
import argparse
import os
import re
import statistics
import sys
import tempfile

from bench_common import BUILD, HERE, ONE_THREAD, PRECISIONS, Shaped, Unshaped, parse_cells, rotated, run_json, why_no_import
from common import catch_signals, output_file, positive, write

BUCKETS = ["--bucket-mb", "4"]
GRID = [(4, 128, 4, 128, 8), (4, 128, 4, 512, 4), (6, 384, 6, 128, 4), (6, 384, 6, 512, 2), (12, 768, 12, 128, 2), (12, 768, 12, 512, 1)]
WARMUP = 3


class OneRank(Unshaped):
    """On core 0."""

    def mpi(self, ranks, program, flags=()):
        return ["taskset", "-c", "0", *program]

    def torch(self, program):
        return self.mpi(1, program)


def steps_of(cell):
    layers, width, _, context, sequences = cell
    flop = 72 * layers * width * width * context * sequences
    return max(5, min(100, int(150e9 / flop)))


def brigade(place, cell, options, *flags):
    with tempfile.TemporaryDirectory() as out:
        names = ["--layers", "--width", "--heads", "--context", "--batch"]
        shape = [word for name, value in zip(names, cell) for word in (name, str(value))]
        # Little text, because the last test of a run reads a tenth of it, in batches that are all alike.
        text, length = os.path.join(out, "text"), 40 * cell[3] * cell[4] + 40
        with open(text, "w", encoding="ascii") as file:
            file.write(("bench_gpt.py " * length)[:length])
        program = [os.path.join(BUILD, "train_gpt"), *shape, "--text", text, "--json", "--out", out, "--threads", "1", "--log-every", "100000",
                   "--eval-every", "0", "--warmup", str(WARMUP), "--steps", str(WARMUP + steps_of(cell)), *options.flags, *flags]
        result = run_json(place.mpi(options.ranks, program), "brigade")
        return {**result, "process_growth": result["memory_bytes"]["process_growth"]}


def torch(place, cell, options, *flags):
    program = [options.python, os.path.join(HERE, "torch_baseline.py"), "--device", "cpu", "--set-to-none",
               "--gpt", "x".join(map(str, cell[:4])), "--batch", str(cell[4]), "--warmup", str(WARMUP),
               "--steps", str(steps_of(cell)), *PRECISIONS[options.precision][1], *flags]
    return run_json(place.torch(program), "torch", ONE_THREAD)


def contestants(options):
    if options.ranks == 2:
        return {f"cap {cap}": ["--bucket-mb", cap] for cap in options.caps}
    return {"eager": [], **({"compile": ["--compile"]} if options.compile else {})}


def measure(place, cell, options):
    peers = contestants(options)
    ours = {"brigade": [], **({"low": ["--low-memory"]} if options.ranks == 1 else {})}
    names = [*ours, *peers]
    rounds = []
    for number in range(options.rounds):
        rounds.append({name: brigade(place, cell, options, *ours[name]) if name in ours else torch(place, cell, options, *peers[name])
                       for name in rotated(names, number)})
    return rounds


def summarise(cell, rounds):
    def median(name, key):
        values = [r[name][key] for r in rounds]
        return None if None in values else statistics.median(values)

    row = {"cell": cell, "brigade_ms": median("brigade", "step_ms"), "peers": {}, "rounds": rounds}
    for name in (name for name in sorted(rounds[0]) if name not in ("brigade", "low")):
        each = [r["brigade"]["step_ms"] / r[name]["step_ms"] for r in rounds]
        step = median(name, "step_ms")
        row["peers"][name] = {"ms": step, "ratio": row["brigade_ms"] / step, "least": min(each), "most": max(each)}
    first = next(name for name in rounds[0] if name not in ("brigade", "low", "compile"))
    ours = [name for name in ("brigade", "low") if name in rounds[0]]
    row["bytes"] = {name: median(name, "process_growth") for name in [*ours, first]}
    row["memory"] = None if None in row["bytes"].values() else {name: row["bytes"][name] / row["bytes"][first] for name in ours}
    row["low_ratio"] = median("low", "step_ms") / median(first, "step_ms") if "low" in ours else None
    return row


def report(row):
    print(f"{'x'.join(map(str, row['cell'])):>18} {row['brigade_ms']:9.1f}", end="")
    for name, peer in row["peers"].items():
        print(f"   {name} {peer['ms']:9.1f} {peer['ratio']:6.3f} ({peer['least']:.2f} to {peer['most']:.2f})", end="")
    for name in row["memory"] or ():
        print(f"   {'MiB' if name == 'brigade' else name} {row['bytes'][name] / 2**20:7.1f} {row['memory'][name]:6.3f}", end="")
    print(f"   low, step {row['low_ratio']:6.3f}" if row["low_ratio"] else "", flush=True)


def missed_bars(rows, options):
    lines = []

    def expect(what, value, bar):
        if value > bar:
            lines.append(f"missed: {what} {value:.3f}, expected <= {bar:.2f}")

    for row in rows:
        name = "x".join(map(str, row["cell"]))
        ratios = {peer: values["ratio"] for peer, values in row["peers"].items()}
        if options.ranks == 2:
            default = f"cap {options.caps[0]}"
            expect(f"{name} against the default cap", ratios[default], 0.8 if options.rate else 0.75)
            expect(f"{name} against the best cap", max(ratios.values()), 0.97)
        else:
            for peer, ratio in ratios.items():
                expect(f"{name} against {peer}", ratio, 1.0)
            expect(f"{name} with --low-memory against eager", row["low_ratio"], 1.0)
            if row["memory"]:
                expect(f"{name} memory", min(row["memory"].values()), 1.0)
    if options.ranks == 1:
        for peer in rows[0]["peers"]:
            expect(f"median against {peer}", statistics.median(row["peers"][peer]["ratio"] for row in rows),
                   0.75 if options.precision == "bf16" else 0.9)
    return lines


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--rate")
    where.add_argument("--unshaped", action="store_true")
    parser.add_argument("--cells", type=parse_cells("LAYERSxWIDTHxHEADSxCONTEXTxSEQUENCES", GRID), default="6x384x6x128x4")
    parser.add_argument("--rounds", type=positive(int), default=5)
    parser.add_argument("--caps", default="25,4,1")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--precision", choices=PRECISIONS, default="f32")
    parser.add_argument("--json", type=output_file)
    parser.add_argument("--check", action="store_true")
    options, options.flags = parser.parse_known_args()
    if not all(re.fullmatch(r"\d*[1-9]\d*(\.\d+)?|0?\.\d*[1-9]\d*", cap) for cap in options.caps.split(",")):
        parser.error(f"--caps: expected positive numbers of MB with commas between, got {options.caps}")
    options.ranks = 2 if options.unshaped or options.rate else 1
    if options.compile and options.ranks == 2:
        parser.error("--compile: expected one rank; leave it out, or --unshaped and --rate")
    if failure := why_no_import(options.python, "torch"):
        parser.error(f"--python: {failure}")
    options.caps = options.caps.split(",")
    options.flags = (BUCKETS if options.ranks == 2 else []) + PRECISIONS[options.precision][0] + options.flags
    return options


def main():
    catch_signals()
    options = parse()
    place = Shaped(options.rate, ["--mtu", "9000"]) if options.rate else Unshaped() if options.unshaped else OneRank()
    rows = []
    with place:
        for cell in options.cells:
            rows.append(summarise(cell, measure(place, cell, options)))
            report(rows[-1])
            if options.json:
                write({"flags": options.flags, "rate": options.rate, "cells": rows}, options.json)
    missed = missed_bars(rows, options)
    print("\n".join(missed))
    sys.exit(3 if options.check and missed else 0)


if __name__ == "__main__":
    main()
