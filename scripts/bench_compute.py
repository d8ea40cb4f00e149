#!/usr/bin/env python3
"""bench_compute.py: is a training step on one CPU thread faster than PyTorch's?

  scripts/bench_compute.py [--python PYTHON] [--cells 8x1024x128,...|grid] [--rounds 5] [--compile]
                           [--jax PYTHON] [--alone] [--cpu-time] [--precision f32|high|medium|bf16] [--flags FLAGS]

A cell is depth x width x batch; `grid` is 8x1024, 12x2048, 40x256 and 4x4096 at batch 32, 128 and 512. In every round
train_mlp with one rank, torch_baseline.py and gemm_share (tests/bench) take turns on one core with one thread each.
Both train Linear and ReLU layers with MSE and plain SGD. A step is timed from the start of forward to the end of the
optimizer, PyTorch's to the end of zero_grad(), without which its next step would be wrong; Brigade's zero_grad() marks
gradients as empty and does nothing else. A round has at least 5 steps behind those that warm up: 5 of PyTorch's; of
train_mlp's at most a quarter of its steps.
PYTHON is one that can import torch (default: the first python3); --compile also times torch.compile, --jax a jitted
JAX step (jax_baseline.py). --alone leaves PyTorch out.
PyTorch may drop its gradients after a step, as it does by default, or keep them and fill them with zeros, and take memory
in huge pages (THP_MEM_ALLOC_ENABLE=1) or not: which is fastest depends on the network. Before the rounds each of the four
runs once, and so does train_mlp --low-memory. PyTorch's fastest is timed ("as"), and Brigade without --low-memory (what
it costs: --flags=--low-memory). Memory is the least that either took in any way.

  as         how PyTorch was fastest: keeps or drops its gradients, + with huge pages
  ratio      Brigade's median step / PyTorch's; of the medians of the rounds, and the least and most of a round
  kept       that ratio if PyTorch's zero_grad() cost nothing
  GEMMs      share of a step that its matrix products take by themselves, on as many different buffers; gemm_share's,
             CPU time; so are the next two
  floor      the step as a multiple of those products plus one pass over the weights at memory speed, with bf16 another
             that rounds them
  roof       the same with products at the rate of a large square one, whatever this network's shapes allow
  memory     growth of the process, Brigade's / PyTorch's (MiB): its highest resident set (VmHWM) less the resident set
             before the network is made, libraries imported, data loaded. Weights, gradients, activations, libraries'
             workspaces; both have made a step of a tiny network before, because libraries load much of their
             code when they are first used. "-" where /proc does not tell

--cpu-time, for a machine that does other work as well, times both by the CPU time of their thread; Brigade's step is
then that of gemm_share, which trains the same layers without train_mlp around them.

--flags="--trace --trace-steps 1000" measures what these flags of train_mlp cost: the ratio is that of Brigade with them
to Brigade without, and nothing else takes part, gemm_share neither.

--precision bf16 compares --dtype bf16 with PyTorch's autocast; gemm_share then multiplies bf16 numbers. high and medium are
--matmul-precision and torch.set_float32_matmul_precision, without gemm_share.

The last lines name every bar that is missed: ratio <= 1, in the median <= 0.9; GEMMs >= 92 % from width 1024 on;
floor <= 1.1; memory <= 1.05. With --precision bf16: ratio <= 0.75, in the median <= 0.6; floor <= 1.15 from width 1024 on.
With --check that is exit code 3.
--json FILE keeps every number."""
import argparse
import os
import re
import statistics
import sys
import tempfile

from bench_common import BUILD, HERE, ONE_THREAD, PRECISIONS, parse_cells, rotated, run_json, why_no_import
from common import catch_signals, output_file, positive, refuse, write

PEERS = {"keeps": (["--no-set-to-none"], {}), "drops": (["--set-to-none"], {}),
         "keeps+": (["--no-set-to-none"], {"THP_MEM_ALLOC_ENABLE": "1"}),
         "drops+": (["--set-to-none"], {"THP_MEM_ALLOC_ENABLE": "1"})}
GRID = [(depth, width, batch) for depth, width in ((8, 1024), (12, 2048), (40, 256), (4, 4096))
        for batch in (32, 128, 512)]
SECONDS = 4  # about what one run may compute; a slow core makes it longer
GFLOPS = 60
WARMUP = 5


def steps_of(cell):
    depth, width, batch = cell
    flop = 6 * depth * width * width * batch
    return max(5, min(200, int(SECONDS * GFLOPS * 1e9 / flop)))


class Bench:
    def __init__(self, options):
        self.options = options
        self.pinned = ["taskset", "-c", str(options.core)]
        self.contestants = {"brigade": self.brigade}
        self.fastest_peer, self.least_memory = "keeps", None  # of the cell at hand
        self.low_memory = None  # bytes that Brigade took with --low-memory
        self.shares = None  # gemm_share's, of the round at hand
        self.brigades, self.peers, self.factor_bytes = PRECISIONS[options.precision]
        self.shares_too = not options.flags and self.factor_bytes is not None
        if not options.alone:
            self.contestants["peer"] = self.torch
        if options.flags:
            self.contestants = {"brigade": lambda cell: self.brigade(cell, *options.flags.split()), "peer": self.brigade}
        if options.compile:
            self.contestants["compile"] = lambda cell: self.torch(cell, "--compile")
        if options.jax:
            self.contestants["jax"] = self.jax

    def brigade(self, cell, *flags):
        if self.options.cpu_time:
            return self.shares
        depth, width, batch = cell
        with tempfile.TemporaryDirectory() as out:
            return run_json([*self.pinned, os.path.join(BUILD, "train_mlp"), "--depth", str(depth),
                             "--width", str(width), "--batch", str(batch), "--lr", "0.01", "--threads", "1",
                             "--steps", str(steps_of(cell) + WARMUP), "--warmup", str(WARMUP),
                             "--train-samples", str(batch * 4), "--eval-every", "0", "--log-every", "100000",
                             "--json", "--out", out, *self.brigades, *flags], "brigade")

    def torch(self, cell, *flags):
        depth, width, batch = cell
        how, environment = PEERS[self.fastest_peer]
        return run_json([*self.pinned, self.options.python, os.path.join(HERE, "torch_baseline.py"), "--device", "cpu", *how,
                         "--widths", ",".join([str(width)] * (depth + 1)), "--batch", str(batch),
                         "--steps", str(steps_of(cell)), "--warmup", str(WARMUP),
                         *(["--cpu-time"] if self.options.cpu_time else []), *self.peers, *flags],
                        "torch", {**ONE_THREAD, **environment})

    def choose_peer(self, cell):
        tried = {}
        for name in PEERS:
            self.fastest_peer = name
            tried[name] = self.torch(cell)
        self.fastest_peer = min(tried, key=lambda name: tried[name]["step_ms"])
        grown = [result["process_growth"] for result in tried.values()]
        self.least_memory = None if None in grown else min(grown)

    def jax(self, cell):
        depth, width, batch = cell
        return run_json([*self.pinned, self.options.jax, os.path.join(HERE, "jax_baseline.py"), "--widths",
                         ",".join([str(width)] * (depth + 1)), "--batch", str(batch), "--steps", str(steps_of(cell)),
                         "--warmup", str(WARMUP)], "jax")

    def gemms(self, cell):
        depth, width, batch = cell
        return run_json([*self.pinned, os.path.join(BUILD, "gemm_share"), str(depth), str(width), str(batch), "1",
                         str(min(51, steps_of(cell))), str(self.factor_bytes)], "gemm_share")

    def measure(self, cell):
        rounds = []
        if not self.options.alone and not self.options.flags:
            self.choose_peer(cell)
        if not self.options.flags and not self.options.cpu_time:
            self.low_memory = growth(self.brigade(cell, "--low-memory"))
        for number in range(self.options.rounds):
            self.shares = self.gemms(cell) if self.shares_too else None
            result = {name: self.contestants[name](cell) for name in rotated(list(self.contestants), number)}
            if self.shares:
                result["gemms"] = self.shares
            rounds.append(result)
        return rounds


def growth(result):
    return result["memory_bytes"]["process_growth"] if "memory_bytes" in result else result["process_growth"]


def median(rounds, name, pick=lambda result: result["step_ms"]):
    """None where nobody took part under that name, or one of the rounds could not tell."""
    values = [pick(r[name]) if name in r else None for r in rounds]
    return None if None in values else statistics.median(values)


def ratio(one, other):
    return None if one is None or other is None else one / other


def columns(bench):
    """Of the table: heading, key in the row, format, unit."""
    options = bench.options
    other = [] if options.alone else ["without" if options.flags else "PyTorch"]  # the peer
    result = [("Brigade", "brigade_ms", "9.2f", 1)]
    for name in other:
        result += [(name, "peer_ms", "9.2f", 1), ("ratio", "ratio", "6.3f", 1), ("least", "least", "6.2f", 1),
                   ("most", "largest", "6.2f", 1)]
        result += [] if options.flags else [("as", "peer_as", "6s", 1), ("kept", "ratio_kept", "6.3f", 1)]
    if bench.shares_too:
        result += [("GEMMs %", "gemm_share", "7.1f", 0.01), ("floor", "of_floor", "6.2f", 1),
                   ("roof", "of_roof", "6.2f", 1)]
    if not options.cpu_time:
        result.append(("MiB", "brigade_bytes", "8.1f", 2**20))
        for name in other:
            result += [(name, "peer_bytes", "8.1f", 2**20), ("ratio", "bytes_ratio", "6.3f", 1)]
    for name in ("compile", "jax"):
        if name in bench.contestants:
            result += [(name, f"{name}_ms", "9.2f", 1), ("ratio", f"of_{name}", "6.3f", 1),
                       ("least", f"of_{name}_least", "6.2f", 1), ("most", f"of_{name}_most", "6.2f", 1)]
    return result


def width(form):
    return int(re.match(r"\d+", form)[0])


def cell_text(value, form, unit):
    return value.rjust(width(form)) if isinstance(value, str) else format(value / unit, form)


def summarise(bench, cell, rounds):
    row = {"cell": cell}
    for part in ("gemm_share", "of_floor", "of_roof"):
        row[part] = median(rounds, "gemms", lambda result, part=part: result[part])
    for name in bench.contestants:
        row[f"{name}_ms"] = median(rounds, name)
        if name in ("compile", "jax"):
            each = [r["brigade"]["step_ms"] / r[name]["step_ms"] for r in rounds]
            row.update({f"of_{name}": ratio(row["brigade_ms"], row[f"{name}_ms"]), f"of_{name}_least": min(each),
                        f"of_{name}_most": max(each)})
    if "peer" in bench.contestants:
        each = [r["brigade"]["step_ms"] / r["peer"]["step_ms"] for r in rounds]
        row.update({"ratio": ratio(row["brigade_ms"], row["peer_ms"]), "least": min(each), "largest": max(each)})
        if not bench.options.flags:
            bare = median(rounds, "peer", lambda result: result["step_ms"] - result["zero_grad_ms"])
            row.update({"ratio_kept": ratio(row["brigade_ms"], bare), "peer_as": bench.fastest_peer})
    if not bench.options.cpu_time:
        row["brigade_bytes"] = min((count for count in (median(rounds, "brigade", growth), bench.low_memory) if count), default=None)
        row["peer_bytes"] = median(rounds, "peer", growth) if bench.options.flags else bench.least_memory
        row["bytes_ratio"] = ratio(row["brigade_bytes"], row["peer_bytes"])
    row["rounds"] = rounds
    return row


def missed_bars(rows, bf16):
    """A line for each."""
    lines = []

    def expect(what, value, bar, at_least=False):
        if value is not None and (value < bar if at_least else value > bar):
            lines.append(f"missed: {what} {value:.3f}, expected {'>=' if at_least else '<='} {bar:.2f}")

    for row in rows:
        depth, width, batch = row["cell"]
        name = f"{depth}x{width}x{batch}"
        expect(f"{name} ratio", row.get("ratio"), 0.75 if bf16 else 1.0)
        expect(f"{name} share of GEMMs", row["gemm_share"] if width >= 1024 and not bf16 else None, 0.92, at_least=True)
        expect(f"{name} multiple of the floor", None if bf16 and width < 1024 else row["of_floor"], 1.15 if bf16 else 1.1)
        expect(f"{name} memory", row.get("bytes_ratio"), 1.05)
        if "ratio" in row and row.get("bytes_ratio", 0) is None:
            lines.append(f"missed: {name} memory was not measured: /proc does not tell")
    if len(rows) > 1 and "ratio" in rows[0]:
        expect("median ratio", statistics.median(row["ratio"] for row in rows), 0.6 if bf16 else 0.9)
    return lines


def main():
    catch_signals()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default="python3")
    parser.add_argument("--cells", type=parse_cells("DEPTHxWIDTHxBATCH", GRID), default="8x1024x128")
    parser.add_argument("--rounds", type=positive(int), default=5)
    parser.add_argument("--core", type=int, default=0)
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--jax", metavar="PYTHON")
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--precision", choices=PRECISIONS, default="f32")
    parser.add_argument("--flags", default="")
    parser.add_argument("--json", type=output_file)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.cpu_time and options.jax:
        refuse("--cpu-time: expected no --jax, which computes on threads of its own; leave one out")
    if options.precision != "f32" and (options.cpu_time or options.jax):
        refuse(f"--precision {options.precision}: expected no --cpu-time or --jax, which have f32 alone")
    if options.flags and (options.cpu_time or options.jax or options.compile or options.check):
        refuse("--flags: expected no --cpu-time, --jax, --compile or --check: it compares Brigade with itself")
    if options.alone and (options.flags or options.compile or options.check):
        refuse("--alone: expected no --flags, --compile or --check, which need something to compare with")
    for python, module in ((None if options.alone or options.flags else options.python, "torch"), (options.jax, "jax")):
        if failure := python and why_no_import(python, module):
            refuse(failure + ("; --alone leaves PyTorch out" if module == "torch" else ""))

    bench = Bench(options)
    print(f"one thread, {options.precision}, {options.rounds} rounds; step in ms" + (" of CPU time" if options.cpu_time else ""))
    table = columns(bench)
    print(" ".join(["cell".rjust(12), *(heading.rjust(width(form)) for heading, _, form, _ in table)]))
    rows, version = [], ""
    for cell in options.cells:
        rounds = bench.measure(cell)
        row = summarise(bench, cell, rounds)
        print(" ".join(["x".join(map(str, cell)).rjust(12),
                        *("-".rjust(width(form)) if row[key] is None else cell_text(row[key], form, unit)
                          for _, key, form, unit in table)]), flush=True)
        rows.append(row)
        version = rounds[0].get("peer", {}).get("torch", version)
        if options.json:  # after every cell: a grid takes an hour, and may be interrupted
            write({"torch": version or None, "jax": rounds[0].get("jax", {}).get("jax"),
                   "precision": options.precision, "flags": options.flags or None, "cells": rows}, options.json)
    if not options.alone:
        middle = statistics.median(row["ratio"] for row in rows)
        largest = max(row["ratio"] for row in rows)
        print(f"{options.flags or 'PyTorch ' + version}: median ratio {middle:.3f}, largest {largest:.3f}")
    missed = [] if options.flags else missed_bars(rows, options.precision == "bf16")
    print("\n".join(missed))
    sys.exit(3 if options.check and missed else 0)


if __name__ == "__main__":
    main()
