#!/usr/bin/env python3
"""kill_loop.py [--kills N]: kills trainings again and again, and looks at what they leave behind.

A run of two or three ranks writes a checkpoint every 5 steps. At a random moment SIGKILL hits one rank, or all of them
and mpirun, as when a host loses its power, or first the one and then the others. Every checkpoint that has a name then counts as good: this script reads its
files and compares their checksums, without Brigade's own code. The next run continues from the newest one, and is
killed, too. After every --chain kills a run may end in peace. The hash of its weights must be that of a run that was
never interrupted. Chains take turns through modes, optimizers, hooks and all-reduce algorithms.

Prints the number of kills, of checkpoints that were read and were damaged, of runs that ended in peace and of those
whose bits were equal. Exit code 1 if one was damaged or differed.
"""

import argparse
import random
import shutil
import signal
import sys
import time
from pathlib import Path

import fault_run
from common import ROOT, catch_signals, positive

WAYS = [
    ("", 2),
    ("--mode naive --comm mpi", 2),
    ("--mode flat --comm ring", 3),
    ("--mode per_param", 2),
    ("--mode no_sync --accum 2 --comm hierarchical", 3),
    ("--cross-step", 2),
    ("--optimizer adamw --weight-decay 0.01", 2),
    ("--comm-hook powersgd:rank=2 --comm ring", 2),
    ("--comm-hook topk:ratio=0.1", 3),
    ("--reduce deterministic --uneven pad --train-samples 155 --prefetch on", 2),
]
CHECKPOINTS = "--checkpoint-every 5 --resume latest"
LONG_S = 60  # a run that takes longer hangs


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=positive(int), default=1000, help="how many (1000)")
    parser.add_argument("--chain", type=positive(int), default=20, help="kills until a run may end (20)")
    parser.add_argument("--program", type=Path, default=ROOT / "build/cpu-release/bin/train_mlp")
    parser.add_argument("--seed", type=int, default=1, help="of the random moments (1)")
    return parser.parse_args()


class Loop:
    def __init__(self, options, work):
        self.options, self.work = options, work
        self.random = random.Random(options.seed)
        self.kills = self.read = self.ended = self.equal = self.lost = self.mpirun_hung = 0
        self.complaints = []
        self.hashes = {}

    def job(self, name, way, steps, checkpoints):
        flags, ranks = way
        flags += "" if "--optimizer" in flags else " --momentum 0.9"
        return fault_run.Job(self.work / name, self.options.program, f"{fault_run.WORK} {checkpoints} {flags} --steps {steps}", ranks)

    def complain(self, text):
        self.complaints.append(text)
        print(text, flush=True)

    def end_in_peace(self, name, way, steps, checkpoints=""):
        """The hash of the weights; "" if it has failed."""
        job = self.job(name, way, steps, checkpoints)
        code = job.wait(LONG_S)
        if code != 0:
            self.complain(f"{way}: a run that nobody killed has ended with exit code {code}: {job.said()}")
        return job.summary().get("params_hash", "")

    def check_checkpoints(self, way, newest_before, job):
        """After a kill: the checkpoints on the disk, and what the killed run has said of those before."""
        said = job.said()
        if "WARNING" in said or ("checkpoint: " in said and f"after step {newest_before} " not in said and newest_before):
            self.complain(f"{way}: expected to continue after step {newest_before}, got {said}")
        there = fault_run.checkpoints(self.work / "chain")
        for checkpoint in there.values():
            self.read += 1
            defect = fault_run.defect_of(checkpoint)
            if defect:
                self.complain(f"{way}: {defect}")
        self.lost = max(self.lost, job.step() - max(there, default=0))

    def kill_one(self, way):
        """Starts or continues the run of this chain and kills it."""
        newest = max(fault_run.checkpoints(self.work / "chain"), default=0)
        job = self.job("chain", way, 1_000_000, CHECKPOINTS)
        before = job.step()
        if self.random.random() < 0.8:  # else anywhere, mostly while it starts
            job.wait_for(lambda: job.step() not in (before, newest), LONG_S)
        time.sleep(self.random.uniform(0, 0.5))
        if job.ended():
            self.complain(f"{way}: ended on its own: {job.said()}")
        kind = self.random.random()
        if kind > 0.4:  # one rank first; the others go on until they notice
            rank = self.random.randrange(way[1])
            job.wait_for(lambda: job.lives(rank), LONG_S)
            job.send(signal.SIGKILL, rank)
            if kind > 0.9 and job.wait(LONG_S) is None:  # mpirun takes two seconds for that
                # Open MPI's mpirun may wait for itself when a rank dies while it connects (apps/FAILURES.md).
                self.mpirun_hung += 0 if job.hung else 1
                if job.hung:
                    self.complain(f"{way}: a run with a killed rank did not end on ranks {job.hung}: {job.said()}")
            job.wait_for(lambda: False, self.random.uniform(0, 0.3))
        job.kill_all()
        self.kills += 1
        self.check_checkpoints(way, newest, job)

    def chain(self, way):
        shutil.rmtree(self.work / "chain", ignore_errors=True)
        for _ in range(min(self.options.chain, self.options.kills - self.kills)):
            self.kill_one(way)
        # A few steps more than there are, so that it has something to do. The run to compare with writes no checkpoints.
        steps = max(fault_run.checkpoints(self.work / "chain"), default=0) + 7
        resumed = self.end_in_peace("chain", way, steps, CHECKPOINTS)
        shutil.rmtree(self.work / "whole", ignore_errors=True)
        whole = self.end_in_peace("whole", way, steps)
        self.ended += 1
        self.equal += whole == resumed != ""
        if whole != resumed:
            self.complain(f"{way}: expected weights {whole} after {steps} steps, got {resumed}")
        print(f"{self.kills} kills; {way[0] or 'overlap'}, {way[1]} ranks: {steps} steps, {'equal' if whole == resumed else 'NOT EQUAL'}",
              flush=True)


def main():
    options = arguments()
    catch_signals()
    began = time.monotonic()
    loop = Loop(options, fault_run.work_directory("kills."))
    while loop.kills < options.kills:
        loop.chain(WAYS[loop.ended % len(WAYS)])
    print(f"{loop.kills} kills in {time.monotonic() - began:.0f} s; {loop.read} checkpoints read, {len(loop.complaints)} complaints; "
          f"at most {loop.lost} steps lost by a kill; mpirun itself hung {loop.mpirun_hung} times; "
          f"{loop.ended} resumed runs compared with one that was never interrupted, {loop.equal} equal to the bit")
    sys.exit(1 if loop.complaints else 0)


if __name__ == "__main__":
    main()
