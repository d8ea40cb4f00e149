#!/usr/bin/env python3
"""bench_checkpoints.py: what checkpoints and the watch cost a training of two ranks, one core each.

  scripts/bench_checkpoints.py [--steps 2000] [--every 20] [--program PROGRAM] [FLAGS of train_mlp]

One run of train_mlp. The time between the ends of two steps is compared with that of steps far from any checkpoint (their
trimmed mean), at each distance from the last checkpoint. So the two kinds of steps alternate within seconds, and a machine
that changes its speed does not matter. Prints

  copying step   the step in which the state is copied, as a multiple of the others
  checkpoint     ms that the first eight steps after it take longer in all, and % of 100 steps: one checkpoint in 100 steps
  saver, watch   ms of processor time of these threads, the most of any rank: per checkpoint, per second

Without FLAGS: 8 layers of 1024 x 1024, batch 128, plain SGD.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

from bench_common import Unshaped, end, start
from common import ROOT, catch_signals

AFTERWARDS = 8  # steps that a checkpoint may make longer


def thread_times(program):
    """{(process, name of a thread): ms of processor time} of the threads of all processes of that name."""
    times = {}
    for task in pathlib.Path("/proc").glob("[0-9]*/task/[0-9]*"):
        try:
            if (task.parent.parent / "comm").read_text() == f"{program[:15]}\n":
                key = (task.parts[2], (task / "comm").read_text().strip())
                times[key] = max(times.get(key, 0.0), int((task / "schedstat").read_text().split()[0]) / 1e6)
        except (OSError, IndexError):  # it has just ended
            pass
    return times


def most(times, name):
    return max((ms for (_, thread), ms in times.items() if thread == name), default=0.0)


def trimmed_mean(values):
    cut = len(values) // 10
    return statistics.mean(sorted(values)[cut:len(values) - cut])


def main():
    catch_signals()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--every", type=int, default=20, help="steps between two checkpoints, at least 16")
    parser.add_argument("--program", default=ROOT / "build/cpu-release/bin/train_mlp")
    args, flags = parser.parse_known_args()
    if args.every < 2 * AFTERWARDS or args.steps < 4 * args.every:
        parser.error(f"expected --every from {2 * AFTERWARDS} and --steps from four times that")
    flags = flags or "--depth 8 --width 1024 --batch 128".split()
    with Unshaped() as place, tempfile.TemporaryDirectory(dir=ROOT / "build") as directory:  # a disk, where /tmp may be memory
        out = pathlib.Path(directory) / "run"
        command = [args.program, "--threads", "1", "--eval-every", "0", "--log-every", "1", "--steps", str(args.steps),
                   "--checkpoint-every", str(args.every), "--out", out, *flags]
        run = start(place.mpi(2, command), stdout=subprocess.DEVNULL)
        begin = time.monotonic()
        times, seconds = {}, 1.0
        try:
            while run.poll() is None:
                now = thread_times(pathlib.Path(args.program).name)
                if len(now) >= len(times):  # all threads still live
                    times, seconds = now, time.monotonic() - begin
                time.sleep(0.5)
        finally:
            end(run)
        if run.returncode != 0:
            raise SystemExit(run.returncode)
        if most(times, "brigade-saver") == 0.0 or most(times, "brigade-watch") == 0.0:
            raise SystemExit("bench_checkpoints: found no thread brigade-saver or brigade-watch; raise --steps, or name a --program that writes checkpoints")
        ends = [json.loads(line)["seconds"] * 1e3 for line in open(out / "metrics.jsonl", encoding="utf-8") if "step_ms" in line]
    after = [[] for _ in range(args.every)]  # by the number of steps since the checkpoint
    for step in range(2 * args.every, len(ends)):
        after[step % args.every].append(ends[step] - ends[step - 1])
    means = [trimmed_mean(steps) for steps in after]
    usual = statistics.mean(means[AFTERWARDS:])
    longer = sum(mean - usual for mean in means[:AFTERWARDS])
    print(f"step          {usual:.2f} ms ({len(after[0])} checkpoints)")
    print(f"copying step  {means[0] / usual:.3f} of it")
    print(f"checkpoint    {longer:.2f} ms, {longer / usual:.3f} % of 100 steps")
    print(f"saver         {most(times, 'brigade-saver') * args.every / args.steps:.2f} ms per checkpoint")
    print(f"watch         {most(times, 'brigade-watch') / seconds:.3f} ms per second")


if __name__ == "__main__":
    main()
