#!/usr/bin/env python3
"""How much of the possible overlap does --mode overlap reach? Measured on two pretend hosts with a shaped link.

  sudo scripts/overlap_efficiency.py [--rate 2gbit] [--rounds 5] [--bar 0.8] [train_mlp flags...]

Runs one rank alone, then two ranks in the modes naive, flat and overlap, in turn, --rounds times, and prints

  efficiency = (T_naive - T_overlap) / (T_naive - T_bound)

of the medians. T_bound is what a perfect reducer would reach with the measured parts:

  start_b = max(ready_b, end_(b-1))    ready_b: bucket b's gradients final, one rank alone (nothing disturbs it)
  end_b   = start_b + T_b              T_b: duration of bucket b's all-reduce in flat mode (nothing beside it)
  T_bound = max(end of backward, end_last) + optimizer

Needs root (network namespaces, scripts/netlab.sh). Exit code 3 when the efficiency is below --bar."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
MODEL = ["--depth", "8", "--width", "1024", "--batch", "256", "--bucket-mb", "4.1", "--steps", "20",
         "--warmup", "3", "--train-samples", "10240", "--threads", "1", "--eval-every", "0"]


def netlab(*arguments):
    subprocess.run([os.path.join(HERE, "netlab.sh"), *arguments], check=True, stdout=subprocess.DEVNULL)


def train(program, ranks, mode, flags):
    with tempfile.TemporaryDirectory() as out:
        command = [os.path.join(HERE, "netlab.sh"), "run", "-np", str(ranks), "--", program, "--mode", mode,
                   "--json", "--out", os.path.join(out, "run"), *MODEL, *flags]
        result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"overlap_efficiency: {' '.join(command)} failed:\n{result.stderr}")
    return json.loads(result.stdout)


def bound(alone, flat, overlap):
    """T_bound of one round, in ms (the recurrence above)."""
    end = 0.0
    for computed, sent in zip(alone["buckets"], flat["buckets"], strict=True):
        end = max(computed["ready_ms"], end) + (sent["end_ms"] - sent["begin_ms"])
    backward_end = alone["forward_ms"] + alone["backward_ms"]
    return max(backward_end, end) + overlap["optimizer_ms"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", default="2gbit")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bar", type=float, default=0.8)
    parser.add_argument("--program", default=os.path.join(HERE, "..", "build", "cpu-release", "bin", "train_mlp"))
    options, flags = parser.parse_known_args()
    program = os.path.abspath(options.program)
    os.environ.setdefault("NETLAB", "overlap")

    rounds = []
    netlab("up", "--hosts", "2", "--rate", options.rate)
    try:
        for number in range(1, options.rounds + 1):
            runs = {"alone": train(program, 1, "overlap", flags)}
            for mode in ("naive", "flat", "overlap"):
                runs[mode] = train(program, 2, mode, flags)
            runs["bound"] = bound(runs["alone"], runs["flat"], runs["overlap"])
            print(f"round {number}: alone {runs['alone']['step_ms']:.1f}  naive {runs['naive']['step_ms']:.1f}  "
                  f"flat {runs['flat']['step_ms']:.1f}  overlap {runs['overlap']['step_ms']:.1f}  "
                  f"bound {runs['bound']:.1f} ms  hidden {runs['overlap']['hidden_fraction']:.2f}", flush=True)
            rounds.append(runs)
    finally:
        netlab("down")

    def median(pick):
        return statistics.median(pick(r) for r in rounds)

    naive, overlap = median(lambda r: r["naive"]["step_ms"]), median(lambda r: r["overlap"]["step_ms"])
    ideal = median(lambda r: r["bound"])
    efficiency = (naive - overlap) / (naive - ideal)
    each = [(r["naive"]["step_ms"] - r["overlap"]["step_ms"]) / (r["naive"]["step_ms"] - r["bound"]) for r in rounds]
    comm, compute = median(lambda r: r["flat"]["comm_ms"]), median(lambda r: r["alone"]["step_ms"])
    print(f"link {options.rate}: compute {compute:.1f} ms, communication {comm:.1f} ms; median step naive {naive:.1f}, "
          f"overlap {overlap:.1f}, bound {ideal:.1f} ms")
    print(f"overlap efficiency {efficiency:.2f} (rounds {min(each):.2f} to {max(each):.2f}, bar {options.bar})")
    sys.exit(0 if efficiency >= options.bar else 3)


if __name__ == "__main__":
    main()
