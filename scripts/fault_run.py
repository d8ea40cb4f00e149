"""A training under mpirun to which something can be done while it runs. For faults.py, kill_loop.py and shrink_loop.py."""

import atexit
import ctypes
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

# A small network, whose steps take less than a millisecond. All that happens within a step can be waited for.
WORK = "--hidden 16,8 --batch 8 --train-samples 160 --threads 1 --log-every 1 --out run"
POLL = 0.004  # seconds


def work_directory(prefix):
    """For jobs. Removed when this script ends, after the jobs have been killed: atexit begins with what came last."""
    path = tempfile.mkdtemp(prefix=prefix)
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return Path(path)


class Job:
    """mpirun and its ranks, in a directory of its own. The training writes to `run` in there."""

    def __init__(self, directory, program, flags, ranks=2, culprit=1, setup="", rank_flags="", launcher=()):
        """`setup` are shell commands that rank `culprit` runs before the training; `rank_flags` are flags for it alone."""
        self.directory, self.ranks = Path(directory), ranks
        self.gone = None  # when the last rank had ended
        self.hung = []  # ranks that lived when wait() had waited for long enough
        self.directory.mkdir(parents=True, exist_ok=True)
        for old in self.directory.glob("pid.*"):
            old.unlink()
        script = self.directory / "rank.sh"
        script.write_text(
            "echo $$ >pid.$OMPI_COMM_WORLD_RANK.new && mv pid.$OMPI_COMM_WORLD_RANK.new pid.$OMPI_COMM_WORLD_RANK\n"
            f'if [ "$OMPI_COMM_WORLD_RANK" = {culprit} ]; then set -- "$@" {rank_flags}\n{setup}\nfi\nexec "$@"\n',
            encoding="utf-8")
        command = list(launcher) or ["mpirun", "-np", str(ranks), "--bind-to", "none"]
        environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                       "OMPI_MCA_rmaps_base_oversubscribe": "1", "OPENBLAS_NUM_THREADS": "1"}
        with open(self.directory / "out", "wb") as out, open(self.directory / "err", "wb") as err:
            self.began = time.monotonic()
            self.mpirun = subprocess.Popen([*command, "sh", str(script), str(Path(program).absolute()), *shlex.split(flags)],
                                           cwd=self.directory, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                           env=environment, start_new_session=True)
        atexit.register(self.kill_all)

    def pid(self, rank):
        """0 before the rank has begun."""
        try:
            return int((self.directory / f"pid.{rank}").read_text())
        except FileNotFoundError:
            return 0

    def lives(self, rank):
        """A process of this number that is no zombie and works in the job's directory."""
        try:
            return self.pid(rank) > 0 and os.path.samefile(f"/proc/{self.pid(rank)}/cwd", self.directory)
        except OSError:
            return False

    def send(self, number, *ranks):
        for rank in ranks:
            if self.lives(rank):
                os.kill(self.pid(rank), number)

    def step(self):
        """Of the last line of metrics; 0 before the first."""
        try:
            with open(self.directory / "run/metrics.jsonl", "rb") as file:
                file.seek(0, os.SEEK_END)
                file.seek(max(0, file.tell() - 1000))
                steps = re.findall(rb'"step":(\d+).*\n', file.read())
        except FileNotFoundError:
            return 0
        return int(steps[-1]) if steps else 0

    def wait_for(self, condition, seconds):
        """Whether it came true before the job's end, and within `seconds`."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.ended():
            if condition():
                return True
            time.sleep(POLL)
        return False

    def ended(self):
        """mpirun and all ranks. mpirun may sleep for a second after the last rank has ended."""
        alive = any(self.lives(rank) for rank in range(self.ranks))
        if alive or not all(self.pid(rank) for rank in range(self.ranks)):
            self.gone = None
        elif self.gone is None:
            self.gone = time.monotonic()
        return self.mpirun.poll() is not None and not alive

    def wait(self, seconds):
        """Its exit code once all of it has ended; None if it has not within `seconds`, and then it is killed."""
        self.wait_for(lambda: False, seconds)
        if self.ended():
            atexit.unregister(self.kill_all)
            return 128 - self.mpirun.returncode if self.mpirun.returncode < 0 else self.mpirun.returncode
        self.hung = [rank for rank in range(self.ranks) if self.lives(rank)]
        self.kill_all()
        return None

    def kill_all(self):
        """SIGKILL to all ranks and mpirun."""
        self.send(signal.SIGKILL, *range(self.ranks))
        if self.mpirun.poll() is None:
            os.killpg(self.mpirun.pid, signal.SIGKILL)
        self.mpirun.wait()
        self.wait_for(lambda: False, 5)
        atexit.unregister(self.kill_all)

    def said(self):
        return "".join((self.directory / name).read_text(errors="replace") for name in ("err", "out"))

    def summary(self):
        """{} without one."""
        try:
            return json.loads((self.directory / "run/summary.json").read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return {}


def checkpoints(directory):
    """{step: path}: those that have a name, which calls them good."""
    found = Path(directory).glob("run/checkpoints/step-*[0-9]")
    return {int(path.name[len("step-"):]): path for path in found}


def _xxh3(data):
    library = ctypes.CDLL("libxxhash.so.0")
    library.XXH3_64bits.restype = ctypes.c_uint64
    library.XXH3_64bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    return library.XXH3_64bits(data, len(data))


def defect_of(checkpoint):
    """What is wrong with a checkpoint, read independently of the program that wrote it; "" for a good one."""
    try:
        info = json.loads((checkpoint / "checkpoint.json").read_text())
        for name, expected in info["files"].items():
            data = (checkpoint / name).read_bytes()
            if len(data) != expected["bytes"] or _xxh3(data) != expected["xxh3"]:
                return f"{checkpoint.name}/{name} has other bytes than checkpoint.json says"
        missing = {"model.safetensors", "optimizer.safetensors"} - set(info["files"])
        return f"{checkpoint.name} lacks {missing}" if missing else ""
    except (OSError, ValueError, KeyError) as error:
        return f"{checkpoint.name}: {error!r}"
