"""What the benchmarks share: cells, rounds, runs of programs, and the places where two ranks run."""

import argparse
import json
import os
import re
import signal
import subprocess
import sys

from common import NAME, ROOT, SIGNALS

HERE = os.path.join(ROOT, "scripts")
BUILD = os.path.join(ROOT, "build", "cpu-release", "bin")
LIMIT = 1800  # seconds for one run: far more than any takes
PATIENCE = 10  # seconds in which a run that is told to end must do so
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}  # of PyTorch
# For each --precision: flags of Brigade's programs and of torch_baseline.py, and bytes of what gemm_share multiplies.
PRECISIONS = {"f32": ([], [], 4), "bf16": (["--dtype", "bf16"], ["--autocast"], 2),
              **{name: (["--matmul-precision", name],) * 2 + (None,) for name in ("high", "medium")}}


def parse_cells(names, grid=None):
    """The type of a flag: a list of networks such as 8x1024x128, one number per word of `names`. "grid" means `grid`."""
    def parse(text):
        if grid and text == "grid":
            return grid
        cells = text.split(",")
        if not all(re.fullmatch(rf"[1-9]\d*(x[1-9]\d*){{{names.count('x')}}}", cell) for cell in cells):
            raise argparse.ArgumentTypeError(f"expected {names},...{' or grid' if grid else ''}, got {text}")
        return [tuple(int(number) for number in cell.split("x")) for cell in cells]
    return parse


def rotated(names, number):
    """The order of round `number`. Each round begins one name later, so that all come first equally often."""
    turn = number % len(names)
    return names[turn:] + names[:turn]


def start(command, environment=None, **streams):
    """A process in a session of its own: Ctrl-C reaches us alone, and end() ends all of it."""
    return subprocess.Popen(command, start_new_session=True, env={**os.environ, **(environment or {})}, **streams)


def end(process):
    """Ends all that `process` started. TERM first: mpirun then ends its ranks, which are no part of this group."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.communicate(timeout=PATIENCE)  # until the last one has closed its output
            return
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            pass


def run(command, what, environment=None):
    """Exit code, output and errors."""
    process = start(command, environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, errors = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        end(process)
        sys.exit(f"{NAME}: {what}: {' '.join(command)} was not over after {LIMIT} s")
    except BaseException:
        end(process)
        raise
    return process.returncode, out, errors


def run_json(command, what, environment=None):
    status, out, errors = run(command, what, environment)
    if status != 0 or not out.strip():
        sys.exit(f"{NAME}: {what}: {' '.join(command)} failed:\n{errors}{out}")
    return json.loads(out.strip().splitlines()[-1] if what.startswith("torch") else out)


def why_no_import(python, module):
    """Why `python` cannot import `module`; "" if it can."""
    try:
        _, out, errors = run([python, "-c", f"import {module}; print('yes')"], f"import {module}")
    except OSError as error:
        return f"{python!r} cannot be run: {error.strerror}"
    if out.endswith("yes\n"):  # a program that is not Python may exit with 0, too
        return ""
    return f"{python} cannot import {module}: {(errors.strip().splitlines() or ['it says nothing'])[-1]}"


def slow_products(gflops, directory):
    """Variables of a program whose products of matrices last as long as at `gflops`; 0: as long as they take."""
    if gflops == 0:
        return {}
    library = os.path.join(directory, "slow_products.so")
    source = os.path.join(HERE, "slow_products.c")
    status, _, errors = run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], "slow_products.c")
    if status != 0:
        sys.exit(f"{NAME}: {source} cannot be compiled:\n{errors}")
    return {"LD_PRELOAD": library, "SLOW_GFLOPS": str(gflops)}


class Shaped:
    """Two pretend hosts, or as many as `lab_flags` say, up while the benchmark runs."""

    def __init__(self, rate, lab_flags):
        self.rate, self.lab_flags = rate, lab_flags
        os.environ.setdefault("NETLAB", NAME)

    def __enter__(self):
        self.netlab("up", "--rate", self.rate, *self.lab_flags)
        return self

    def __exit__(self, *_):
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        self.netlab("down")
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    def netlab(self, *arguments):
        status, out, errors = run([os.path.join(HERE, "netlab.sh"), *arguments], "netlab.sh")
        if status != 0:
            sys.exit(f"{NAME}: netlab.sh {' '.join(arguments)} failed:\n{errors}{out}")

    def mpi(self, ranks, program):
        return [os.path.join(HERE, "netlab.sh"), "run", "-np", str(ranks), "--", *program]

    def torch(self, program):
        return [os.path.join(HERE, "netlab.sh"), "env", "-np", "2", "--", *program]


class Unshaped:
    """Both ranks on this machine, rank r on core r."""

    def __enter__(self):
        for name in ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"):
            os.environ.setdefault(name, "1")
        return self

    def __exit__(self, *_):
        pass

    def mpi(self, ranks, program, flags=()):
        return ["mpirun", "-np", str(ranks), "--bind-to", "core", *flags, *program]

    def torch(self, program):
        # mpirun binds the ranks as it binds ours; one that fails takes the other along, which would wait for it.
        rendezvous = ["-x", "MASTER_ADDR=127.0.0.1", "-x", "MASTER_PORT=29517", "-x", "WORLD_SIZE=2"]
        return self.mpi(2, ["bash", "-c", 'RANK=$OMPI_COMM_WORLD_RANK exec "$@"', "bash", *program], rendezvous)
