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
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
RANKS = 4
GOES_ON = re.compile(r"; (\d+) of (\d+) ranks go on")


def ranks_of(mpirun):
    """Process ids of the ranks that are alive."""
    found = []
    for status in pathlib.Path("/proc").glob("[0-9]*/status"):
        try:
            text = status.read_text()
        except OSError:
            continue
        if f"\nPPid:\t{mpirun}\n" in text and "\nState:\tZ" not in text and text.startswith("Name:\ttrain_mlp\n"):
            found.append(int(status.parent.name))
    return found


class Training:
    def __init__(self, program, directory, flags):
        self.errors = open(directory / "stderr", "w+", encoding="utf-8")
        env = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        command = ["mpirun", "--enable-recovery", "--oversubscribe", "-np", str(RANKS), program, "--on-failure", "shrink", "--out",
                   directory / "run", "--resume", "latest", "--checkpoint-every", "200", "--steps", "1000000", "--log-every",
                   "1000", "--threads", "1", "--verify-every", "10", *flags]
        self.process = subprocess.Popen(command, env=env, stdout=open(directory / "stdout", "w", encoding="utf-8"),
                                        stderr=self.errors, start_new_session=True)
        self.wait_for(lambda: len(ranks_of(self.process.pid)) == RANKS, "the ranks to start")
        self.wait_for(lambda: "ms/step" in (directory / "stdout").read_text(encoding="utf-8"), "the first step")

    def stderr(self):
        return pathlib.Path(self.errors.name).read_text(encoding="utf-8")

    def wait_for(self, condition, what):
        deadline = time.monotonic() + 20
        while not condition():
            if self.process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"shrink_loop: expected {what}, got exit code {self.process.poll()} and\n{self.stderr()}")
            time.sleep(0.002)

    def kill(self):
        os.kill(random.choice(ranks_of(self.process.pid)), signal.SIGKILL)

    def wait_until_go_on(self, left):
        """Seconds until that many ranks go on."""
        begin = time.monotonic()
        self.wait_for(lambda: any(int(ranks) == left for ranks, _ in GOES_ON.findall(self.stderr())), f"{left} ranks to go on")
        return time.monotonic() - begin

    def end(self):
        for rank in ranks_of(self.process.pid):
            os.kill(rank, signal.SIGKILL)
        self.process.wait(20)
        self.errors.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mtbf", type=float, default=5.0, help="mean seconds between two kills (5)")
    parser.add_argument("--shrinks", type=int, default=200)
    parser.add_argument("--program", default=ROOT / "build/cpu-release/bin/train_mlp")
    parser.add_argument("flags", nargs="*", help="of train_mlp, after --")
    args = parser.parse_args()
    times = []
    starts = 0
    with tempfile.TemporaryDirectory() as name:
        while len(times) < args.shrinks:
            training = Training(args.program, pathlib.Path(name), args.flags)
            starts += 1
            left = RANKS
            while left > 1 and len(times) < args.shrinks:
                time.sleep(random.expovariate(1 / args.mtbf))
                training.kill()
                left -= 1
                if left > 1 and random.random() < 0.2:
                    time.sleep(random.uniform(0.0, 0.1))
                    training.kill()
                    left -= 1
                times.append(training.wait_until_go_on(left))
            training.end()
    times.sort()
    print(f"{len(times)} shrinks in {starts} trainings of {RANKS} ranks, from the (last) kill to the next step: median "
          f"{statistics.median(times):.2f} s, p99 {times[int(0.99 * (len(times) - 1))]:.2f} s, longest {times[-1]:.2f} s")


if __name__ == "__main__":
    main()
