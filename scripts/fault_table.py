"""The faults of faults.py: what happens, and what is expected of the training that it happens to."""

import dataclasses
import signal

from fault_actions import (
    BAD_DATA, GOOD_DATA, all_of, damage_all, disk, earlier_run, fashion_mnist, fewer_samples, file_in_place_of_out,
    flip_bit, foreign_file, free_space, kill_at_start, kill_in_checkpoint, link_down, memory_group, need_netlab, netlab,
    other_pixel, other_version, remove_group, remove_netlab, remove_out, shim, signal_to, sleep_for_a_while, to_mpirun,
    truncate, unmount, without_shared_memory,
)

TIMEOUT_S = 3  # --timeout of all trainings here

MODES = {
    "overlap": "", "naive": "--mode naive", "flat": "--mode flat", "per_param": "--mode per_param",
    "no_sync": "--mode no_sync --accum 2", "cross-step": "--cross-step",
}
# Ways to train: mode, --comm, ranks. EVERY has each mode and each --comm, with 2 to 4 ranks.
ONE = ("overlap shared 2",)
FEW = ("overlap shared 2", "naive mpi 3", "cross-step ring 4")
EVERY = (
    "overlap shared 2", "overlap mpi 3", "overlap ring 4", "overlap hierarchical 2", "naive shared 3", "naive mpi 2",
    "flat ring 2", "flat shared 4", "per_param mpi 4", "per_param hierarchical 3", "no_sync ring 3", "no_sync shared 2",
    "cross-step shared 3", "cross-step mpi 2", "cross-step ring 4", "overlap halving 4", "overlap tree 3",
)


@dataclasses.dataclass(frozen=True)
class Fault:
    name: str
    ways: tuple
    # What happens.
    flags: str = ""        # of all ranks
    rank_flags: str = ""   # of rank `culprit` alone
    setup: str = ""        # shell commands of rank `culprit` before it starts
    culprit: int = 1
    prepare: object = None   # called with the row before the start; may raise Skip
    launcher: object = None  # row -> a command in place of mpirun
    at: object = 10          # the fault happens after this step, at the "start", or is the culprit's "death"
    strike: object = None    # called with the row and the job at that moment
    repair: object = None    # called with the row when the job has ended, before the next run
    clean_up: object = None  # called with the row in the end
    checkpoints: bool = True
    steps: int = 1_000_000
    plain_flags: str = ""    # of the training without the fault, whose weights one that survives must have
    # What is expected.
    kind: str = ""           # "kill" and "stall" have bars of their own
    codes: tuple = (1,)
    line: str = ""           # regular expression; "" if there is no culprit
    seconds: float = 8
    lost: int = 10           # steps: a checkpoint every 5, and one may be in flight
    resumes: bool = True     # the next run must succeed, if this one had begun to train
    short: tuple = ()        # the ways of --short


SHIM = "export LD_PRELOAD={{cell}}/shim.so {}"
RESUME = "--resume latest"
# mpirun reads no output in the second before it passes a signal on. A thousand steps per second would fill the pipe.
SLOW = "--inject slow:rank=1,ms=100"
SILENT = "watch: rank {} does not answer for .* \\(stopped"
KILLED = r"process rank {} with PID \d+ on node .* exited on signal 9"

FAULTS = [
    # ---- processes
    Fault("kill rank 1", EVERY, strike=signal_to(signal.SIGKILL, 1), kind="kill", codes=(137,), line=KILLED.format(1),
          seconds=2.5, short=("naive mpi 3",)),
    Fault("kill rank 0", EVERY, strike=signal_to(signal.SIGKILL, 0), kind="kill", codes=(137,), line=KILLED.format(0),
          seconds=2.5),
    Fault("kill two ranks", ("overlap shared 4", "naive ring 3"), strike=signal_to(signal.SIGKILL, 1, 2), kind="kill",
          codes=(137,), line=KILLED.format("[12]"), seconds=2.5),
    Fault("kill in a checkpoint", FEW, strike=kill_in_checkpoint, kind="kill", codes=(137,), line=KILLED.format(0),
          seconds=2.5 + 5, short=ONE),
    # mpirun, which is the only one to know, names the rank in most cases only.
    Fault("kill during start", FEW, at="start", strike=kill_at_start, kind="kill", codes=(1, 137), seconds=2.5 + 5),
    Fault("kill mpirun", EVERY[::3], strike=to_mpirun(signal.SIGKILL), kind="kill", codes=(137,), seconds=2.5, short=ONE),
    # ---- ranks that stand still
    Fault("stop rank 1", EVERY, strike=signal_to(signal.SIGSTOP, 1), kind="stall", codes=(5,), line=SILENT.format(1),
          seconds=TIMEOUT_S + 1, short=("cross-step ring 4",)),
    Fault("stop rank 0", EVERY, strike=signal_to(signal.SIGSTOP, 0), kind="stall", codes=(5,), line=SILENT.format(0),
          seconds=TIMEOUT_S + 1),
    Fault("stop two ranks", ("overlap shared 4", "naive ring 3"), strike=signal_to(signal.SIGSTOP, 1, 2), kind="stall",
          codes=(5,), line="watch: ranks 1 and 2 do not answer", seconds=TIMEOUT_S + 1),
    Fault("stop and continue rank 1", FEW, "--timeout 20", strike=sleep_for_a_while(1), codes=(0,),
          line="watch: rank(s .*)?.*1 (.*not reached|does not answer)",
          steps=1000, seconds=30),
    Fault("stop and continue all ranks", FEW, "--timeout 20", strike=sleep_for_a_while(0, 1, 2, 3), codes=(0,), steps=1000,
          seconds=30),
    Fault("spin", EVERY, "--inject spin:rank=1,step=12", kind="stall", codes=(5,),
          line="rank 1 has not reached .* of step 12; it is in forward",
          seconds=TIMEOUT_S + 1, short=ONE),
    # --cross-step waits in the next forward, which counts as computing.
    Fault("slow", ("overlap shared 2", "naive mpi 3", "flat ring 4"), "--inject slow:rank=1,ms=20", codes=(0,),
          line="rank 1 is the slowest", steps=40, seconds=10, short=ONE),
    Fault("a disk that takes long", ONE, f"{GOOD_DATA} --prefetch off --stall-warn 1", prepare=all_of(fashion_mnist(), shim),
          setup=SHIM.format("FAULT_OPEN=1"), at="start", codes=(0,), steps=40, seconds=20, plain_flags=GOOD_DATA,
          line="watch: rank 1 has not reached the all-gather; it is in reading or writing files", short=ONE),
    # ---- memory, disks
    Fault("address space is limited", FEW, "--hidden 4096,4096", setup="ulimit -v 600000", at="start", codes=(1,),
          line=r"\[rank 1\].*out of (host )?memory", short=ONE),
    Fault("memory is limited (cgroup)", FEW, "--hidden 4096,4096", prepare=memory_group,
          setup="echo $$ >{cell}/group/cgroup.procs", clean_up=remove_group, at="death", codes=(137,), line=KILLED.format(1),
          kind="kill", seconds=2.5),
    Fault("no shared memory", FEW, launcher=without_shared_memory, steps=40, codes=(0,), seconds=10),
    Fault("too few file descriptors", ("overlap shared 2", "cross-step ring 4"), setup="ulimit -n 16", at="start",
          line=r"rank 1(\]| cannot)[^\n]*: Too many open files"),
    # The others wait 30 s for the rank's connection, then train without a watch.
    Fault("too few file descriptors, --comm mpi", ("naive mpi 3",), setup="ulimit -n 16", at="start", steps=40, codes=(0,),
          line=r"nobody watches[^\n]*rank 1: [^\n]*: Too many open files", seconds=45),
    Fault("disk full", FEW, "--keep 0", prepare=disk("size=64k"), repair=free_space, clean_up=unmount, at=10, steps=200,
          line="No space left on device.*cannot write run/metrics.jsonl: lines are missing", seconds=30, lost=200),
    Fault("file size is limited", ("naive mpi 3", "cross-step ring 4"), culprit=0, setup="trap '' XFSZ; ulimit -f 20",
          at="start", steps=200, line="cannot write run/metrics.jsonl: lines are missing"),
    Fault("--out is read-only", ONE, prepare=disk("ro"), clean_up=unmount, at="start", codes=(1, 2),
          line="run.*Read-only file system"),
    Fault("--out is a file", ONE, prepare=file_in_place_of_out, at="start", codes=(1, 2), line="run.*directory", short=ONE),
    Fault("--out is deleted", FEW, strike=remove_out, steps=1000, codes=(0,), seconds=30),
    # ---- hosts and networks
    # 137: the hosts of a lab share process numbers, so rank 1 may kill rank 0, which it takes for stopped.
    # 205: mpirun was first.
    Fault("link down", ("overlap ring 2", "naive mpi 2", "cross-step ring 2"), prepare=need_netlab, launcher=netlab(),
          strike=link_down, clean_up=remove_netlab, kind="stall", codes=(5, 137, 205),
          line="watch: rank 1 (has|does) not", seconds=TIMEOUT_S + 1),
    Fault("link loses 1 %", ("overlap ring 2", "naive mpi 2"), prepare=need_netlab, launcher=netlab("--loss", "1"),
          clean_up=remove_netlab, steps=300, codes=(0,), seconds=60),
    Fault("clock jumps forwards", FEW, prepare=shim, setup=SHIM.format("FAULT_CLOCK=100000"), steps=1000, codes=(0,),
          seconds=20),
    Fault("clock jumps backwards", FEW, prepare=shim, setup=SHIM.format("FAULT_CLOCK=-100000"), steps=1000, codes=(0,),
          seconds=20),
    Fault("ports taken, --comm ring", ("overlap ring 2",), prepare=shim, setup=SHIM.format("FAULT_PORTS=1"), at="start",
          codes=(1,), line=r"rank 1.*Address already in use", short=("overlap ring 2",)),
    Fault("ports taken, --comm shared", ("overlap shared 2", "naive mpi 3"), prepare=shim, setup=SHIM.format("FAULT_PORTS=1"),
          steps=40, codes=(0,), line="nobody watches.*rank 1: .*Address already in use", short=ONE),
    # ---- numbers
    Fault("NaN", FEW, "--inject nan:rank=1,step=12", line="nan in step 12 on rank 1", short=ONE),
    Fault("NaN, --check-finite", ("overlap shared 2", "naive mpi 3"), "--check-finite --inject nan:rank=1,step=12",
          line=r"\[rank 1\] finite check: .* step 12, bucket .*parameter"),
    Fault("bit flip, --verify-every 20", FEW, "--verify-every 20 --inject bit_flip:rank=1,step=12", codes=(3,),
          line="parameter '0.weight' of rank 1 differs", short=ONE),
    Fault("bit flip", FEW, "--inject bit_flip:rank=1,step=12", steps=100, codes=(3,),
          line="parameter '0.weight' of rank 1 differs", resumes=False),
    # ---- ranks that are not alike
    Fault("wrong seed", FEW, "--inject other_seed:rank=1", at="start", codes=(3,),
          line="parameter '0.weight' of rank 1 differs", short=ONE),
    Fault("wrong flags", FEW, rank_flags="--lr 0.2", at="start", codes=(3,), line="rank 1 has 'lr = 0.2'",
          short=("naive mpi 3",)),
    Fault("wrong network", FEW, rank_flags="--hidden 16,9", at="start", codes=(3,), line="rank 1 has 'hidden"),
    Fault("other version", FEW, prepare=other_version, setup='shift; set -- {cell}/other "$@"', at="start", codes=(3,),
          line="rank 1 has .*0.0.9", short=ONE),
    Fault("swapped buckets", FEW, "--bucket-mb 0.0005 --inject swap_buckets:rank=1", at="start", codes=(3,),
          line="rank 1 has 'bucket 0", short=ONE),
    Fault("skipped parameter", FEW, "--inject skip_param:rank=1", at="start", line="on rank 1: '0.weight'",
          short=("naive mpi 3",)),
    # ---- data
    Fault("data missing", FEW, GOOD_DATA, BAD_DATA,
          prepare=fashion_mnist(lambda folder: (folder / "train-images-idx3-ubyte.gz").unlink()), at="start", codes=(1, 2),
          line=r"\[rank 1\].*bad/train-images", short=ONE),
    Fault("data truncated", FEW, GOOD_DATA, BAD_DATA,
          prepare=fashion_mnist(lambda folder: truncate(folder / "train-images-idx3-ubyte.gz")), at="start", codes=(1, 2),
          line=r"\[rank 1\].*bad/train-images", short=ONE),
    Fault("fewer samples", ONE, GOOD_DATA, BAD_DATA, prepare=fashion_mnist(fewer_samples), at="start", codes=(2,),
          line=r"\[rank 1\] --train-samples: expected at most 120"),
    Fault("other pixel", ONE, GOOD_DATA, BAD_DATA, prepare=fashion_mnist(other_pixel), at="start", codes=(3,),
          line="data: .*rank 1 has 'training samples of checksum", short=ONE),
    # ---- checkpoints
    Fault("checkpoint truncated", FEW, RESUME,
          prepare=earlier_run(lambda folder: truncate(folder / "step-000000010/model.safetensors")), at="start", steps=20,
          codes=(0,), line="step 10 is refused.*after step 5", short=ONE),
    Fault("checkpoint with a flipped bit", FEW, RESUME,
          prepare=earlier_run(lambda folder: flip_bit(folder / "step-000000010/model.safetensors")), at="start", steps=20,
          codes=(0,), line="step 10 is refused.*after step 5"),
    Fault("checkpoint of other software", ONE, RESUME, prepare=earlier_run(foreign_file), at="start", steps=20, codes=(0,),
          line="step 10 is refused.*after step 5"),
    Fault("checkpoint of another network", ONE, RESUME, prepare=earlier_run(lambda folder: None, "--hidden 16,9"), at="start",
          codes=(2,), line="checkpoints/step-000000010.*expected", short=ONE),
    Fault("all checkpoints truncated", ONE, RESUME, prepare=earlier_run(damage_all), at="start", steps=20, codes=(0,),
          line="no checkpoint to continue from"),
    Fault("--resume without a checkpoint", ONE, RESUME, at="start", steps=20, codes=(0,),
          line="no checkpoint to continue from"),
    # ---- signals
    Fault("SIGTERM to rank 1", FEW, strike=signal_to(signal.SIGTERM, 1), codes=(4,),
          line="a signal has ended the training after step", lost=0, short=ONE),
    Fault("SIGTERM to mpirun", FEW, SLOW, at=5, strike=to_mpirun(signal.SIGTERM), codes=(1, 4, 143), line="signal", lost=0),
    Fault("SIGINT to mpirun", FEW, SLOW, at=5, strike=to_mpirun(signal.SIGINT), codes=(1, 4, 130), line="signal", lost=0),
    Fault("SIGINT twice", FEW, strike=to_mpirun(signal.SIGINT, 2), codes=(1, 4, 130)),
    Fault("SIGUSR1 to rank 1", FEW, "--checkpoint-every 1000000", strike=signal_to(signal.SIGUSR1, 1), steps=1000, codes=(0,),
          seconds=20),
    # ---- the command line
    Fault("unknown flag", ONE, "--modus flat", at="start", codes=(2,), line="--modus", seconds=4),
    Fault("wrong value", ONE, "--batch 0", at="start", codes=(2,), line="--batch", short=ONE),
    Fault("wrong value on rank 1", ONE, rank_flags="--batch -3", at="start", codes=(2,), line=r"\[rank 1\].*--batch"),
    Fault("stdout is closed", ONE, culprit=0, setup="exec >&-", steps=40, codes=(0, 1)),
]
