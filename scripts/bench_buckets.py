#!/usr/bin/env python3
"""bench_buckets.py [--rounds 5] [--caps 0.25,1,5,25] [--cells NAME,...] [--gflops 16] [--json FILE]: is --bucket-mb auto as good as the
best fixed size?

Two ranks on this machine, one thread each, over emulated links (train_mlp --emulate-link US,GB/S): four models x three rates.
Products of matrices last as long as at --gflops, and the rank sleeps for most of that (slow_products.c), so that computation varies
less and communication has a core. --gflops 0 computes on the cores alone; without it, x86-64 and
libdnnl-dev are needed.
Per round every size runs once, and the order turns by one from round to round. A row per cell: the median step of
each size in ms, what auto has chosen, and auto / best, where best is the fixed size with the least median. The bar: at most 1.03
in every cell. Needs the build of scripts/setup.sh and cmake --preset cpu-release. Exit code 3 when the bar is missed, 2
for wrong flags."""
import argparse
import os
import re
import statistics
import sys
import tempfile

from bench_common import BUILD, Unshaped, rotated, run_json, slow_products
from common import ROOT, catch_signals, output_file, positive, refuse, write

STEPS = "40"
MODELS = {
    "mlp 8x512": ["train_mlp", "--depth", "8", "--width", "512", "--batch", "64"],
    "mlp 4x1024": ["train_mlp", "--depth", "4", "--width", "1024", "--batch", "128"],
    "mlp 24x256": ["train_mlp", "--depth", "24", "--width", "256", "--batch", "128"],
    "gpt 4x128": ["train_gpt", "--layers", "4", "--heads", "4", "--width", "128", "--context", "64", "--batch", "4", "--sample", "0",
                  "--text", os.path.join(ROOT, "nn")],
}
RATES = {"1 Gbit/s": "50,0.125", "4 Gbit/s": "50,0.5", "16 Gbit/s": "50,2"}
BAR = 1.03


def measure(model, rate, size, variables):
    """(median step in ms, number of buckets)"""
    program, *flags = MODELS[model]
    command = [os.path.join(BUILD, program), *flags, "--steps", STEPS, "--warmup", "8", "--threads", "1", "--emulate-link", RATES[rate],
               "--bucket-mb", size, "--eval-every", "0", "--log-every", "1000", "--json"]
    with Unshaped() as place:
        summary = run_json(place.mpi(2, command), f"{model}, {rate}", variables)
    return summary["step_ms"], len(summary["buckets"])


def measure_cell(model, rate, sizes, rounds, variables):
    steps = {size: [] for size in sizes}
    chosen = []
    for number in range(rounds):
        for size in rotated(sizes, number):
            step, buckets = measure(model, rate, size, variables)
            steps[size].append(step)
            if size == "auto":
                chosen.append(buckets)
    return {size: statistics.median(each) for size, each in steps.items()}, statistics.median_low(chosen)


def main():
    catch_signals()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=positive(int), default=5)
    parser.add_argument("--caps", default="0.25,1,5,25")
    parser.add_argument("--cells", help="part of a model's or rate's name", default="")
    parser.add_argument("--gflops", type=float, default=16.0)
    parser.add_argument("--json", type=output_file)
    arguments = parser.parse_args()
    caps = arguments.caps.split(",")
    if not all(re.fullmatch(r"[0-9.]+", cap) for cap in caps):
        refuse("expected --caps of numbers of MiB")
    rows = []
    print(f"{'model':<12}{'link':<11}" + "".join(f"{cap + ' MiB':>10}" for cap in caps) + f"{'auto':>9}{'buckets':>9}{'auto/best':>11}")
    with tempfile.TemporaryDirectory() as directory:
        variables = slow_products(arguments.gflops, directory)
        for model in MODELS:
            for rate in RATES:
                if not any(part in f"{model} {rate}" for part in arguments.cells.split(",")):
                    continue
                steps, buckets = measure_cell(model, rate, ["auto", *caps], arguments.rounds, variables)
                ratio = steps["auto"] / min(steps[cap] for cap in caps)
                rows.append({"model": model, "link": rate, "step_ms": steps, "buckets": buckets, "ratio": ratio})
                print(f"{model:<12}{rate:<11}" + "".join(f"{steps[cap]:>10.2f}" for cap in caps)
                      + f"{steps['auto']:>9.2f}{buckets:>9}{ratio:>11.3f}", flush=True)
    if not rows:
        refuse(f"--cells {arguments.cells}: expected part of {', '.join([*MODELS, *RATES])}")
    if arguments.json:
        write(rows, arguments.json)
    ratios = [row["ratio"] for row in rows]
    print(f"auto/best: median {statistics.median(ratios):.3f}, worst {max(ratios):.3f}; bar {BAR}")
    sys.exit(3 if max(ratios) > BAR else 0)


if __name__ == "__main__":
    main()
