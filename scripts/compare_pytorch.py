#!/usr/bin/env python3
"""compare_pytorch.py: is a training step on one CPU thread faster than PyTorch's?

  scripts/compare_pytorch.py [--python PYTHON] [--depth 8] [--width 1024] [--batch 128] [--rounds 5]

Runs train_mlp with one rank and torch_baseline.py alternately, both with one thread on one core, --rounds times each,
and prints the ratio of the medians of their median steps, and which share of Brigade's step are its GEMMs
(tests/bench/gemm_share.cpp). PYTHON is one that can import torch (default: the first python3).
Both time the same work: Linear and ReLU layers, MSE, plain SGD, from the start of forward to the end of the optimizer.

Exit code 3 when the ratio is above --bar (1.0)."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def run_json(command, environment=None):
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(environment or {})})
    if result.returncode != 0:
        sys.exit(f"compare_pytorch: {' '.join(command)} failed:\n{result.stderr}")
    return json.loads(result.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default="python3")
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20, help="timed steps of each run")
    parser.add_argument("--core", type=int, default=0)
    parser.add_argument("--bar", type=float, default=1.0)
    parser.add_argument("--build", default=os.path.join(HERE, "..", "build", "cpu-release", "bin"))
    o = parser.parse_args()
    pinned = ["taskset", "-c", str(o.core)]
    samples = str(o.batch * 10)
    warmup = 5
    widths = ",".join([str(o.width)] * (o.depth + 1))

    ours, theirs, shares, version = [], [], [], ""
    for number in range(1, o.rounds + 1):
        with tempfile.TemporaryDirectory() as out:
            ours.append(run_json([*pinned, os.path.join(o.build, "train_mlp"), "--depth", str(o.depth),
                                  "--width", str(o.width), "--batch", str(o.batch), "--lr", "0.01",
                                  "--steps", str(o.steps + warmup), "--warmup", str(warmup), "--threads", "1",
                                  "--train-samples", samples, "--eval-every", "0", "--json",
                                  "--out", out])["step_ms"])
        peer = run_json([*pinned, o.python, os.path.join(HERE, "torch_baseline.py"), "--device", "cpu",
                         "--widths", widths, "--batch", str(o.batch), "--steps", str(o.steps),
                         "--warmup", str(warmup)], {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"})
        theirs.append(peer["step_ms"])
        version = peer["torch"]
        shares.append(run_json([*pinned, os.path.join(o.build, "gemm_share"), str(o.depth), str(o.width),
                                str(o.batch), "1", str(o.steps)])["gemm_share"])
        print(f"round {number}: Brigade {ours[-1]:.2f} ms, PyTorch {theirs[-1]:.2f} ms, "
              f"ratio {ours[-1] / theirs[-1]:.3f}, GEMMs {100 * shares[-1]:.1f} % of Brigade's step", flush=True)

    ratio = statistics.median(ours) / statistics.median(theirs)
    each = [a / b for a, b in zip(ours, theirs)]
    print(f"{o.depth} x {o.width}, batch {o.batch}, 1 thread: Brigade {statistics.median(ours):.2f} ms, "
          f"PyTorch {version} {statistics.median(theirs):.2f} ms")
    print(f"ratio {ratio:.3f} (rounds {min(each):.3f} to {max(each):.3f}, bar {o.bar}), "
          f"GEMMs {100 * statistics.median(shares):.1f} % of Brigade's step")
    sys.exit(0 if ratio <= o.bar else 3)


if __name__ == "__main__":
    main()
