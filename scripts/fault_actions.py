"""What happens to the trainings of faults.py, before they start and while they run, and how to undo it.

An action before the start, and one that undoes it, gets the row of the table (faults.Cell). One that strikes while the
training runs gets the row and its job (fault_run.Job).
"""

import gzip
import os
import shutil
import signal
import struct
import subprocess
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent


class Skip(Exception):
    """The fault cannot be made here; the text is the reason."""


def signal_to(number, *ranks):
    return lambda cell, job: job.send(number, *ranks)


def to_mpirun(number, times=1):
    def strike(_, job):
        for _ in range(times):
            job.mpirun.send_signal(number)
            time.sleep(0.1)
    return strike


def sleep_for_a_while(*ranks):
    """Stopped for longer than --stall-warn."""
    def strike(_, job):
        job.send(signal.SIGSTOP, *ranks)
        time.sleep(3)
        job.send(signal.SIGCONT, *ranks)
    return strike


def kill_in_checkpoint(_, job):
    job.wait_for(lambda: list(job.directory.glob("run/checkpoints/*.tmp/*")), 5)
    job.send(signal.SIGKILL, 0)


def kill_at_start(_, job):
    job.wait_for(lambda: job.pid(1), 5)
    job.send(signal.SIGKILL, 1)


# ---- files ----------------------------------------------------------------------------------------

def need_root():
    if os.geteuid() != 0:
        raise Skip("needs root")


def run_directory(cell):
    path = cell.directory / "job/run"
    path.mkdir(parents=True)
    return path


def disk(options):
    """--out is a disk of its own."""
    def prepare(cell):
        need_root()
        command = ["mount", "-t", "tmpfs", "-o", options, "none", run_directory(cell)]
        mounted = subprocess.run(command, capture_output=True, text=True)
        if mounted.returncode != 0:
            raise Skip(mounted.stderr.strip())
    return prepare


def free_space(cell):
    """For the next run, as a user would."""
    subprocess.run(["mount", "-o", "remount,size=16m", cell.directory / "job/run"], check=True)


def unmount(cell):
    subprocess.run(["umount", cell.directory / "job/run"], check=True)


def file_in_place_of_out(cell):
    run_directory(cell).rmdir()
    (cell.directory / "job/run").write_text("no directory")


def remove_out(_, job):
    shutil.rmtree(job.directory / "run", ignore_errors=True)


def fashion_mnist(damage=lambda folder: None):
    """Two folders, good/ and bad/, with the four files. `damage` is called with bad/."""
    def prepare(cell):
        for folder in (cell.directory / "good", cell.directory / "bad"):
            folder.mkdir()
            for part, count in (("train", 160), ("t10k", 20)):
                images = struct.pack(">IIII", 2051, count, 28, 28) + bytes(range(256)) * (count * 784 // 256 + 1)
                (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(images[:16 + count * 784], 1))
                labels = struct.pack(">II", 2049, count) + bytes(i % 10 for i in range(count))
                (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels, 1))
        damage(cell.directory / "bad")
    return prepare


def truncate(path, share=0.5):
    path.write_bytes(path.read_bytes()[:int(path.stat().st_size * share)])


def other_pixel(folder):
    path = folder / "train-images-idx3-ubyte.gz"
    data = bytearray(gzip.decompress(path.read_bytes()))
    data[1000] ^= 1
    path.write_bytes(gzip.compress(bytes(data), 1))


def fewer_samples(folder):
    for name in ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"):
        data = bytearray(gzip.decompress((folder / name).read_bytes()))
        data[4:8] = struct.pack(">I", 120)
        path = folder / name
        path.write_bytes(gzip.compress(bytes(data[:16 + 120 * 784] if "images" in name else data[:8 + 120]), 1))


GOOD_DATA = "--data fashion-mnist --data-dir ../good"
BAD_DATA = "--data-dir ../bad"


def earlier_run(damage, flags=""):
    """Checkpoints after steps 5 and 10; `damage` is called with their folder."""
    def prepare(cell):
        job = cell.job("job", f"--checkpoint-every 5 --steps 12 {flags}")
        if job.wait(60) != 0:
            raise RuntimeError(job.said())
        damage(cell.directory / "job/run/checkpoints")
    return prepare


def flip_bit(path):
    data = bytearray(path.read_bytes())
    data[-5] ^= 16
    path.write_bytes(bytes(data))


def damage_all(folder):
    for path in folder.glob("step-*/model.safetensors"):
        truncate(path)


def foreign_file(folder):
    (folder / "step-000000010/checkpoint.json").write_text('{"weights": [1, 2, 3]}')


# ---- the machine ----------------------------------------------------------------------------------

CGROUP = Path("/sys/fs/cgroup")


def memory_group(cell):
    """A cgroup of its own for the culprit, whose processes the kernel kills when they need more than 64 MiB."""
    need_root()
    group = CGROUP / ("memory" if (CGROUP / "memory").is_dir() else "") / cell.directory.name
    try:
        group.mkdir()
        limit = group / ("memory.limit_in_bytes" if (group / "memory.limit_in_bytes").exists() else "memory.max")
        limit.write_text(str(64 << 20))
    except OSError as error:
        raise Skip(f"no memory cgroup: {error}") from error
    (cell.directory / "group").symlink_to(group)


def remove_group(cell):
    os.rmdir(os.readlink(cell.directory / "group"))


def shim(cell):
    """Compiles fault_shim.c, which the culprit preloads."""
    command = ["cc", "-shared", "-fPIC", "-O1", "-o", cell.directory / "shim.so", HERE / "fault_shim.c", "-ldl"]
    compiled = subprocess.run(command, capture_output=True, text=True)
    if compiled.returncode != 0:
        raise Skip(f"cc: {compiled.stderr.strip()}")


def other_version(cell):
    """A copy of the program that calls itself another version."""
    program = cell.program.read_bytes()
    if program.count(b"\x000.1.0\x00") == 0:
        raise Skip("found no version in the program")
    copy = cell.directory / "other"
    copy.write_bytes(program.replace(b"\x000.1.0\x00", b"\x000.0.9\x00"))
    copy.chmod(0o755)


def without_shared_memory(cell):
    need_root()
    return ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=64k none /dev/shm && exec mpirun "$@"', "sh",
            "-np", str(cell.ranks), "--bind-to", "none"]


# mpirun waits for ever for a host that is gone, unless its own connections are probed.
KEEPALIVE = " ".join(f"--mca oob_tcp_keepalive_{name} {value}" for name, value in (("time", 1), ("intvl", 1), ("probes", 4)))


def netlab(*flags):
    """Two hosts of a lab that has the name of the row's directory."""
    def launcher(cell):
        return ["env", f"NETLAB={cell.directory.name}", HERE / "netlab.sh", "run", "--hosts", "2", "--rate", "none", *flags,
                "-np", str(cell.ranks), "--pin", "none", "--mpi", KEEPALIVE, "--"]
    return launcher


def need_netlab(cell):
    need_root()
    made = subprocess.run(["ip", "netns", "add", cell.directory.name], capture_output=True, text=True)
    if made.returncode != 0:
        raise Skip(f"no network namespaces: {made.stderr.strip()}")
    subprocess.run(["ip", "netns", "del", cell.directory.name], check=True)


def remove_netlab(cell):
    subprocess.run([HERE / "netlab.sh", "down"], env={**os.environ, "NETLAB": cell.directory.name}, check=True)


def link_down(cell, _):
    subprocess.run(["ip", "-n", f"{cell.directory.name}-h2", "link", "set", "eth0", "down"], check=True)


def all_of(*steps):
    return lambda cell: [step(cell) for step in steps]
