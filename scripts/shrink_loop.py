#!/usr/bin/env python3
"""shrink_loop.py: kills random ranks of trainings that run with --on-failure shrink, again and again.

  scripts/shrink_loop.py --mtbf 5 --shrinks 200

A training of 4 ranks begins. Every MTBF seconds on average one of its ranks is killed (SIGKILL), at a random moment, until
one is left; sometimes another one follows while the others are still about to go on. A fresh start, which continues from the
newest checkpoint, brings the others back. Each shrink has to be told in one line, after which the program itself has
compared the weights of those that are left. Prints how long it took from the kill until that line. Exit code 1: a training
ended, or said nothing for 20 s.
"""
import argparse
import random
import re
import shlex
import signal
import statistics
import sys
import time

import fault_run
from common import NAME, ROOT, catch_signals, percentile, positive

RANKS = 4
FLAGS = ("--on-failure shrink --out run --resume latest --checkpoint-every 200 --steps 1000000 --log-every 1000 --threads 1 "
         "--verify-every 10")
GOES_ON = re.compile(r"; (\d+) of (\d+) ranks go on")


def wait_for(job, condition, what):
    if not job.wait_for(condition, 20):
        sys.exit(f"{NAME}: expected {what}, got exit code {job.mpirun.poll()} and\n{job.said()}")


def shrink(job, mtbf, most):
    """Seconds of each shrink, at most that many, until one rank is left."""
    wait_for(job, lambda: "ms/step" in job.said(), "the first step")
    alive = random.sample(range(RANKS), RANKS)
    times = []
    while len(alive) > 1 and len(times) < most:
        time.sleep(random.expovariate(1 / mtbf))
        job.send(signal.SIGKILL, alive.pop())
        if len(alive) > 1 and random.random() < 0.2:
            time.sleep(random.uniform(0.0, 0.1))
            job.send(signal.SIGKILL, alive.pop())
        begin, left = time.monotonic(), str(len(alive))
        wait_for(job, lambda: any(ranks == left for ranks, _ in GOES_ON.findall(job.said())), f"{left} ranks to go on")
        times.append(time.monotonic() - begin)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mtbf", type=positive(float), default=5.0, help="mean seconds between two kills (5)")
    parser.add_argument("--shrinks", type=positive(int), default=200)
    parser.add_argument("--program", default=ROOT / "build/cpu-release/bin/train_mlp")
    parser.add_argument("flags", nargs="*", help="of train_mlp, after --")
    args = parser.parse_args()
    catch_signals()
    directory = fault_run.work_directory("shrinks.")
    times = []
    starts = 0
    while len(times) < args.shrinks:
        job = fault_run.Job(directory, args.program, f"{FLAGS} {shlex.join(args.flags)}", RANKS,
                            launcher=["mpirun", "--enable-recovery", "-np", str(RANKS), "--bind-to", "none"])
        starts += 1
        times += shrink(job, args.mtbf, args.shrinks - len(times))
        job.kill_all()
    print(f"{len(times)} shrinks in {starts} trainings of {RANKS} ranks, from the (last) kill to the next step: median "
          f"{statistics.median(times):.2f} s, p99 {percentile(times, 0.99):.2f} s, longest {max(times):.2f} s")


if __name__ == "__main__":
    main()
