#!/usr/bin/env python3
"""faults.py: breaks trainings in many ways, and judges how each of them ends.

Every row is one training of 2 to 4 ranks under mpirun to which one fault happens. fault_table.py declares the faults and
what is expected of each: the exit codes, the line that names the culprit, the time, the steps that may be lost.

  ended    seconds from the fault until all ranks were gone, and the exit code of mpirun
  culprit  whether the output names the rank, bucket, parameter or file, as expected
  lost     steps that the next run computes again. It is started with --resume latest, and must succeed
  verdict  ok, skipped with the reason, or what is wrong

A training that is expected to survive must end with the weights, to the bit, of one without the fault. Exit code 1 if a
verdict is bad or one of the bars below the table is missed. What needs root, such as links, small disks and memory
limits of a cgroup, is skipped without it.
"""

import argparse
import os
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

import fault_actions
import fault_run
import fault_table
from common import ROOT, catch_signals, output_file, percentile, refuse, write

GRACE_S = 15  # after the time that is allowed: then the job hangs
BASE = f"{fault_run.WORK} --stall-warn 1 --timeout {fault_table.TIMEOUT_S}"


def regex(text):
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"expected a regular expression, got '{text}': {error}") from error


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="a subset for CI: less than a minute, without root")
    parser.add_argument("--only", type=regex, default="", metavar="REGEX", help="rows whose fault or mode matches")
    parser.add_argument("--list", action="store_true", help="print the faults, and run nothing")
    parser.add_argument("--json", type=output_file, metavar="FILE", help="write the rows to FILE")
    parser.add_argument("--markdown", type=output_file, metavar="FILE", help="write a table of the faults to FILE")
    parser.add_argument("--program", type=Path, default=ROOT / "build/cpu-release/bin/train_mlp")
    parser.add_argument("--verbose", action="store_true", help="print what bad rows have printed")
    return parser.parse_args()


class Cell:
    """One row: a fault in one way to train."""

    def __init__(self, fault, way, program, directory):
        self.fault, self.program, self.directory = fault, Path(program), Path(directory)
        self.mode, self.comm, ranks = way.split()
        self.ranks = int(ranks)
        self.way = f"{fault_table.MODES[self.mode]} --comm {self.comm}"
        self.struck = self.ended = self.code = self.lost = None
        self.named = "-"
        self.complaints = []
        self.said = ""

    def job(self, name, flags, **more):
        return fault_run.Job(self.directory / name, self.program, f"{BASE} {self.way} {flags}", ranks=self.ranks, **more)

    def flags(self):
        return f"{'--checkpoint-every 5' if self.fault.checkpoints else ''} --steps {self.fault.steps} {self.fault.flags}"

    def expect(self, holds, complaint):
        if not holds:
            self.complaints.append(complaint)

    def strike(self, job):
        """Waits for the moment of the fault, and lets it happen if it is one that comes from outside."""
        fault = self.fault
        if fault.at == "death":
            job.wait_for(lambda: job.pid(fault.culprit) and not job.lives(fault.culprit), GRACE_S)
        elif fault.at != "start":
            self.expect(job.wait_for(lambda: job.step() >= fault.at, GRACE_S), f"never came to step {fault.at}")
        self.struck = job.began if fault.at == "start" else time.monotonic()
        if fault.strike:
            fault.strike(self, job)

    def run(self):
        fault = self.fault
        if fault.prepare:
            fault.prepare(self)
        more = {"launcher": fault.launcher(self)} if fault.launcher else {}
        setup = fault.setup.format(program=self.program, cell=self.directory)
        job = self.job("job", self.flags(), culprit=fault.culprit, setup=setup, rank_flags=fault.rank_flags, **more)
        try:
            self.strike(job)
            self.code = job.wait(fault.seconds + GRACE_S)
            self.ended = (job.gone or time.monotonic()) - self.struck
            self.said = job.said()
            if fault.repair:
                fault.repair(self)
            self.judge(job)
        finally:
            job.kill_all()
            if fault.clean_up:
                fault.clean_up(self)

    def judge(self, job):
        fault = self.fault
        if self.code is None:
            self.complaints.append("HANGS")
            return
        self.expect(self.code in fault.codes, f"exit code {self.code}, expected {' or '.join(map(str, fault.codes))}")
        self.expect(self.ended <= fault.seconds, f"took {self.ended:.1f} s, expected {fault.seconds:g}")
        if fault.line:
            found = re.search(fault.line, self.said, re.DOTALL)
            self.named = "yes" if found else "NO"
            self.expect(found, f"expected '{fault.line}' in what it printed")
        if 0 in fault.codes:
            self.lost = 0
            self.compare_weights(job)
        elif fault.resumes and fault.at != "start":
            self.resume(job)

    def compare_weights(self, job):
        """Of a training that has survived, with one that had no fault."""
        whole = self.job("whole", f"--steps {self.fault.steps} {self.fault.plain_flags}")
        whole.wait(60)
        expected, got = whole.summary().get("params_hash"), job.summary().get("params_hash")
        self.expect(expected and expected == got, f"weights {got}, without the fault {expected}")

    def resume(self, job):
        """The next run continues from what the failed one has left."""
        reached = job.step()
        newest = max(fault_run.checkpoints(job.directory), default=0)
        again = self.job("job", f"--checkpoint-every 5 --resume latest --steps {newest + 3}")
        code = again.wait(60)
        self.expect(code == 0, f"the next run ends with exit code {code}: {again.said()[:300]}")
        said = f"continues after step {newest} " if newest else "no checkpoint to continue from"
        self.expect(said in again.said(), f"the next run does not say '{said}'")
        self.lost = max(0, reached - newest)
        self.expect(self.lost <= self.fault.lost, f"{self.lost} steps lost, expected at most {self.fault.lost}")

    def record(self):
        return {"fault": self.fault.name, "kind": self.fault.kind, "mode": self.mode, "comm": self.comm, "ranks": self.ranks,
                "exit_code": self.code, "seconds": None if self.ended is None else round(self.ended, 2), "named": self.named,
                "lost": self.lost, "verdict": "; ".join(self.complaints) or "ok"}


def row(record):
    seconds = "" if record["seconds"] is None else f"{record['seconds']:6.2f} s, {record['exit_code']}"
    lost = "" if record["lost"] is None else record["lost"]
    return (f"{record['fault']:<30} {record['mode']:<10} {record['comm']:<12} {record['ranks']:>2}   {seconds:<14} "
            f"{record['named']:<8} {lost:>4}  {record['verdict']}")


def run_cell(fault, way, options):
    directory = Path(tempfile.mkdtemp(prefix="faults."))
    cell = Cell(fault, way, options.program, directory)
    try:
        cell.run()
    except fault_actions.Skip as reason:
        cell.complaints = [f"skipped: {reason}"]
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    record = cell.record()
    print(row(record), flush=True)
    if options.verbose and record["verdict"] != "ok":
        print(cell.said, flush=True)
    return record


def bars(records):
    """[(text, holds)]: what the table as a whole must show."""
    ran = [r for r in records if not r["verdict"].startswith("skipped")]
    with_culprit = [r for r in ran if r["named"] != "-"]
    kills = [r["seconds"] for r in ran if r["kind"] == "kill" and r["seconds"] is not None]
    stalls = [r["seconds"] for r in ran if r["kind"] == "stall" and r["seconds"] is not None]
    ended = sum(r["exit_code"] is not None for r in ran)
    named = sum(r["named"] == "yes" for r in with_culprit)
    result = [(f"end or recover: {ended} of {len(ran)}", ended == len(ran)),
              (f"name the culprit: {named} of {len(with_culprit)}", named == len(with_culprit))]
    if kills:
        result.append((f"killed: p99 {percentile(kills, 0.99):.2f} s of {len(kills)} (bar: 2.5)", percentile(kills, 0.99) <= 2.5))
    if stalls:
        bar = fault_table.TIMEOUT_S + 1
        result.append((f"stalled: longest {max(stalls):.2f} s of {len(stalls)} (bar: --timeout {fault_table.TIMEOUT_S} + 1)", max(stalls) <= bar))
    return result


def markdown(records):
    """One line per fault."""
    lines = ["| fault | ways | slowest | exit code | names the culprit | steps lost |", "|---|---|---|---|---|---|"]
    for fault in dict.fromkeys(r["fault"] for r in records):
        rows = [r for r in records if r["fault"] == fault]
        ran = [r for r in rows if not r["verdict"].startswith("skipped")]
        named = [r["named"] for r in ran if r["named"] != "-"]
        lost = [r["lost"] for r in ran if r["lost"] is not None]
        cells = [fault, len(rows), f"{max((r['seconds'] for r in ran), default=0):.1f} s",
                 ", ".join(sorted({str(r["exit_code"]) for r in ran})),
                 f"{named.count('yes')} of {len(named)}" if named else "", max(lost) if lost else ""]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def main():
    options = arguments()
    if not options.list and not shutil.which("mpirun"):
        sys.exit("faults: expected mpirun on the PATH; scripts/setup.sh installs it")
    rows = [(fault, way) for fault in fault_table.FAULTS for way in (fault.short if options.short else fault.ways)
            if re.search(options.only, f"{fault.name} {way}")]
    if not rows:
        refuse(f"--only: expected part of a fault or mode that --list names, got '{options.only.pattern}'")
    catch_signals()
    began = time.monotonic()
    print(f"{'fault':<30} {'mode':<10} {'comm':<12} ranks  {'ended':<14} {'culprit':<8} lost  verdict")
    if options.list:
        print(*(f"{fault.name:<30} {way}" for fault, way in rows), sep="\n")
        return
    records = [run_cell(fault, way, options) for fault, way in rows]
    skipped = [r for r in records if r["verdict"].startswith("skipped")]
    bad = [r for r in records if r["verdict"] != "ok" and r not in skipped]
    print(f"\n{len({r['fault'] for r in records})} faults, {len(records)} rows in {time.monotonic() - began:.0f} s; {len(skipped)} skipped, "
          f"{len(bad)} bad; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    results = bars(records)
    for text, holds in results:
        print(f"{'ok    ' if holds else 'MISSED'} {text}")
    if options.markdown:
        Path(options.markdown).write_text(markdown(records))
    if options.json:
        write({"rows": records, "bars": dict(results)}, options.json)
    sys.exit(1 if bad or not all(holds for _, holds in results) else 0)


if __name__ == "__main__":
    main()
