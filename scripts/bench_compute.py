#!/usr/bin/env python3
"""bench_compute.py: is a training step on one CPU thread faster than PyTorch's?

  scripts/bench_compute.py [--python PYTHON] [--cells 8x1024x128,...|grid] [--rounds 5] [--compile] [--jax PYTHON]
                           [--cpu-time] [--flags FLAGS]

A cell is depth x width x batch; `grid` is 8x1024, 12x2048, 40x256 and 4x4096 at batch 32, 128 and 512. In every round
train_mlp with one rank, torch_baseline.py and gemm_share (tests/bench) take turns on one core with one thread each.
Both train Linear and ReLU layers with MSE and plain SGD, timed from the start of forward to the end of the optimizer.
PYTHON is one that can import torch (default: the first python3); --compile also times torch.compile, --jax a jitted
JAX step (jax_baseline.py).

  ratio      Brigade's median step / PyTorch's; of the medians of the rounds, and the least and largest of a round
  GEMMs      share of Brigade's step that its matrix products take by themselves, on as many different buffers
  floor      the step as a multiple of those products plus one pass over the weights at memory speed (CPU time of
             gemm_share, all of it in one run)
  memory     growth of the process, Brigade's / PyTorch's (MiB): its highest resident set (VmHWM) less the resident set
             before the network is made, libraries imported, data loaded. Weights, gradients, activations, libraries'
             workspaces; code touched for the first time too, but PyTorch has made a step of a tiny network before

--cpu-time, for a machine that does other work as well, times both by the CPU time of their thread; Brigade's step is
then that of gemm_share, which trains the same layers without train_mlp around them.

--flags="--trace --trace-steps 1000" measures what these flags of train_mlp cost: the ratio is that of Brigade with them
to Brigade without, and nothing else takes part.

--json FILE keeps every number. Exit code 3 with --check when a ratio is above 1, or the median of a grid above 0.9."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.join(HERE, "..", "build", "cpu-release", "bin")
GRID = [(depth, width, batch) for depth, width in ((8, 1024), (12, 2048), (40, 256), (4, 4096))
        for batch in (32, 128, 512)]
SECONDS = 4  # about what one run may compute; a slow core makes it longer
GFLOPS = 60
WARMUP = 5


def steps_of(cell):
    depth, width, batch = cell
    flop = 6 * depth * width * width * batch
    return max(5, min(200, int(SECONDS * GFLOPS * 1e9 / flop)))


def run_json(command, environment=None):
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(environment or {})})
    if result.returncode != 0:
        sys.exit(f"bench_compute: {' '.join(command)} failed:\n{result.stderr}")
    return json.loads(result.stdout)


class Bench:
    def __init__(self, options):
        self.options = options
        self.pinned = ["taskset", "-c", str(options.core)]
        self.contestants = {"brigade": self.brigade, "torch": self.torch}
        if options.flags:
            self.contestants = {"brigade": lambda cell: self.brigade(cell, *options.flags.split()),
                                "torch": self.brigade}
        if options.compile:
            self.contestants["compile"] = lambda cell: self.torch(cell, "--compile")
        if options.jax:
            self.contestants["jax"] = self.jax

    def brigade(self, cell, *flags):
        if self.options.cpu_time:
            return self.gemms(cell)
        depth, width, batch = cell
        with tempfile.TemporaryDirectory() as out:
            return run_json([*self.pinned, os.path.join(BUILD, "train_mlp"), "--depth", str(depth),
                             "--width", str(width), "--batch", str(batch), "--lr", "0.01", "--threads", "1",
                             "--steps", str(steps_of(cell) + WARMUP), "--warmup", str(WARMUP),
                             "--train-samples", str(batch * 4), "--eval-every", "0", "--log-every", "100000",
                             "--json", "--out", out, *flags])

    def torch(self, cell, *flags):
        depth, width, batch = cell
        return run_json([*self.pinned, self.options.python, os.path.join(HERE, "torch_baseline.py"), "--device", "cpu",
                         "--widths", ",".join([str(width)] * (depth + 1)), "--batch", str(batch),
                         "--steps", str(steps_of(cell)), "--warmup", str(WARMUP),
                         *(["--cpu-time"] if self.options.cpu_time else []), *flags],
                        {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"})

    def jax(self, cell):
        depth, width, batch = cell
        return run_json([*self.pinned, self.options.jax, os.path.join(HERE, "jax_baseline.py"), "--widths",
                         ",".join([str(width)] * (depth + 1)), "--batch", str(batch), "--steps", str(steps_of(cell)),
                         "--warmup", str(WARMUP)])

    def gemms(self, cell):
        depth, width, batch = cell
        return run_json([*self.pinned, os.path.join(BUILD, "gemm_share"), str(depth), str(width), str(batch), "1",
                         str(steps_of(cell))])

    def measure(self, cell):
        rounds = []
        for number in range(self.options.rounds):
            names = list(self.contestants)
            turn = number % len(names)
            result = {name: self.contestants[name](cell) for name in names[turn:] + names[:turn]}
            gemms = result["brigade"] if self.options.cpu_time else self.gemms(cell)
            rounds.append({**result, "gemms": gemms})
        return rounds


def median(rounds, name, key="step_ms"):
    return statistics.median(r[name][key] for r in rounds)


def growth(result):
    return result["memory_bytes"]["process_growth"] if "memory_bytes" in result else result["process_growth"]


def report(bench, cell, rounds):
    each = [r["brigade"]["step_ms"] / r["torch"]["step_ms"] for r in rounds]
    row = {"cell": cell, "brigade_ms": median(rounds, "brigade"), "torch_ms": median(rounds, "torch"),
           "least": min(each), "largest": max(each), "gemm_share": median(rounds, "gemms", "gemm_share"),
           "of_floor": median(rounds, "gemms", "of_floor")}
    row["ratio"] = row["brigade_ms"] / row["torch_ms"]
    line = (f"{'x'.join(map(str, cell)):>12} {row['brigade_ms']:9.2f} {row['torch_ms']:9.2f} {row['ratio']:6.3f} "
            f"({row['least']:.2f}-{row['largest']:.2f}) {100 * row['gemm_share']:7.1f} {row['of_floor']:6.2f}")
    if not bench.options.cpu_time:
        row["brigade_bytes"] = statistics.median(growth(r["brigade"]) for r in rounds)
        row["torch_bytes"] = statistics.median(growth(r["torch"]) for r in rounds)
        line += (f" {row['brigade_bytes'] / 2**20:8.1f} {row['torch_bytes'] / 2**20:8.1f}"
                 f" {row['brigade_bytes'] / row['torch_bytes']:6.3f}")
    for name in ("compile", "jax"):
        if name in bench.contestants:
            row[f"{name}_ms"] = median(rounds, name)
            line += f" {row[f'{name}_ms']:9.2f} {row['brigade_ms'] / row[f'{name}_ms']:6.3f}"
    print(line, flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default="python3")
    parser.add_argument("--cells", default="8x1024x128")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--core", type=int, default=0)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--jax", metavar="PYTHON")
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--flags", default="")
    parser.add_argument("--json")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.cpu_time and options.jax:
        sys.exit("bench_compute: --cpu-time: expected no --jax, which computes on threads of its own; leave one out")
    if options.flags and (options.cpu_time or options.jax or options.compile):
        sys.exit("bench_compute: --flags: expected no --cpu-time, --jax or --compile: it compares Brigade with itself")
    other = "without" if options.flags else "PyTorch"
    cells = GRID if options.cells == "grid" else [tuple(int(n) for n in c.split("x")) for c in options.cells.split(",")]
    if any(len(cell) != 3 for cell in cells):
        sys.exit(f"bench_compute: --cells: expected DEPTHxWIDTHxBATCH,... or grid, got {options.cells}")

    bench = Bench(options)
    print(f"one thread, {options.rounds} rounds; step in ms" + (" of CPU time" if options.cpu_time else ""))
    print(f"{'cell':>12} {'Brigade':>9} {other:>9} {'ratio':>6} {'':11} {'GEMMs %':>7} {'floor':>6}"
          + ("" if options.cpu_time else f" {'MiB':>8} {other:>8} {'ratio':>6}")
          + "".join(f" {name:>9} {'ratio':>6}" for name in ("compile", "jax") if name in bench.contestants))
    rows, version = [], ""
    for cell in cells:
        rounds = bench.measure(cell)
        rows.append(report(bench, cell, rounds))
        version = rounds[0]["torch"].get("torch", options.flags)
    middle = statistics.median(row["ratio"] for row in rows)
    largest = max(row["ratio"] for row in rows)
    print(f"{options.flags or 'PyTorch ' + version}: median ratio {middle:.3f}, largest {largest:.3f}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"torch": version, "cells": rows}, file, indent=1)
    met = largest <= 1.0 and (len(rows) == 1 or middle <= 0.9)
    sys.exit(3 if options.check and not met else 0)


if __name__ == "__main__":
    main()
