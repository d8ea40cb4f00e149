#!/usr/bin/env python3
"""torch_baseline.py --widths 512,512,10 [...]: times PyTorch on a Linear+ReLU network, one GPU or CPU.

The counterpart of `train_mlp --json`: same layers, loss, optimizer and batch, float32, eager unless told otherwise.
With WORLD_SIZE above 1 in the environment (and RANK, MASTER_ADDR, MASTER_PORT) it is one rank of DistributedDataParallel over gloo.
Rank 0 prints one JSON object; step_ms is the median time from the start of forward, which all ranks begin together,
to the end of zero_grad() on the slowest rank; zero_grad_ms is the median of the last part of it (None on a GPU).
"""

import argparse
import ctypes
import json
import os
import re
import statistics
import sys
import time


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--widths", required=True, help="of all layers, input first")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--no-bias", action="store_true")
    parser.add_argument("--momentum", type=float, default=0.0)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--threads", type=int, default=1, help="of the CPU")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--warmup", type=int, default=10)
    parser.add_argument("--cpu-time", action="store_true", help="time by what this thread computed, not by the clock")
    parser.add_argument("--compile", nargs="?", const="default", metavar="MODE",
                        help="torch.compile the network, in MODE: reduce-overhead has CUDA graphs")
    parser.add_argument("--cuda-graph", action="store_true", help="the whole step as one CUDA graph; one rank")
    parser.add_argument("--tf32", action="store_true", help="products may round their factors to TF32")
    parser.add_argument("--bucket-mb", type=float, default=25.0, help="bucket_cap_mb of DistributedDataParallel")
    parser.add_argument("--set-to-none", action=argparse.BooleanOptionalAction, default=None,
                        help="drop the gradients' memory after every step, as PyTorch does by default; default here: on a GPU. "
                        "Which is faster on a CPU depends on the network: bench_compute.py tries both")
    args = parser.parse_args()
    if not re.fullmatch(r"[1-9]\d*(,[1-9]\d*)+", args.widths):
        parser.error(f"--widths: expected at least two numbers with commas between them, got {args.widths}")
    if min(args.batch, args.steps, args.threads) < 1 or args.warmup < 0:
        parser.error("expected --batch, --steps and --threads of at least 1 and --warmup of at least 0")
    if args.set_to_none is None:
        args.set_to_none = args.device == "cuda"
    if args.cuda_graph and (args.device != "cuda" or int(os.environ.get("WORLD_SIZE", "1")) > 1):
        parser.error("--cuda-graph: expected one rank on --device cuda")
    return args


def build(torch, widths, bias):
    layers = []
    for inputs, outputs in zip(widths, widths[1:]):
        layers += [torch.nn.Linear(inputs, outputs, bias=bias), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def timer(torch, device, now):
    """A function that gives a function that gives the milliseconds since it was made."""

    def on_cpu():
        begin = now()
        return lambda: 1e3 * (now() - begin)

    def on_gpu():
        torch.cuda.synchronize()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()

        def elapsed():
            end.record()
            torch.cuda.synchronize()
            return begin.elapsed_time(end)

        return elapsed

    return on_cpu if device == "cpu" else on_gpu


def resident(key):
    with open("/proc/self/status", encoding="ascii") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith(key))


def start_of_growth():
    """Resident bytes now, with what malloc keeps given back and the highest ever (VmHWM) reset to them. None where the
    C library or /proc does not let us: steps can be timed all the same."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
        with open("/proc/self/clear_refs", "w", encoding="ascii") as reset:
            reset.write("5")
        return resident("VmRSS")
    except (AttributeError, OSError):
        return None


def growth_since(start):
    return None if start is None else resident("VmHWM") - start


def touch_code(torch, device):
    """One step of a tiny network: libraries load much of their code on first use, and that is no model's memory."""
    model = build(torch, [8, 8, 8], True).to(device)
    torch.nn.MSELoss()(model(torch.rand(4, 8, device=device)), torch.rand(4, 8, device=device)).backward()
    torch.optim.SGD(model.parameters(), lr=0.01).step()


def captured(torch, step):
    """`step` as a CUDA graph, after the warm-up on a stream of its own that capturing needs."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def main():
    args = parse()
    import torch

    if args.device == "cuda" and not torch.cuda.is_available():
        sys.exit("torch_baseline: --device cuda: expected a GPU, but PyTorch finds none; add --device cpu")
    torch.backends.cuda.matmul.allow_tf32 = args.tf32
    torch.set_num_threads(args.threads)
    now = time.thread_time if args.cpu_time else time.perf_counter
    start = timer(torch, args.device, now)
    touch_code(torch, args.device)
    resident_before = start_of_growth()
    widths = [int(width) for width in args.widths.split(",")]
    model = build(torch, widths, not args.no_bias).to(args.device)
    if args.compile:
        model = torch.compile(model, mode=args.compile)
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    if ranks > 1:
        torch.distributed.init_process_group("gloo")
        # Gradients that are views of the buckets: without this PyTorch copies each twice.
        model = torch.nn.parallel.DistributedDataParallel(
            model, bucket_cap_mb=args.bucket_mb, gradient_as_bucket_view=True
        )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=args.momentum)
    loss_function = torch.nn.MSELoss()
    x = torch.rand(args.batch, widths[0], device=args.device)
    target = torch.rand(args.batch, widths[-1], device=args.device)

    def train():
        loss = loss_function(model(x), target)
        loss.backward()
        optimizer.step()

    def zero_grad():
        optimizer.zero_grad(set_to_none=args.set_to_none)

    if args.cuda_graph:
        eager, eager_zero = train, zero_grad

        def whole_step():
            eager()
            eager_zero()

        train, zero_grad = captured(torch, whole_step), lambda: None
    times, zeroing = [], []
    for step in range(args.warmup + args.steps):
        if ranks > 1:
            torch.distributed.barrier()
        elapsed = start()
        train()
        before = now()
        zero_grad()
        zeroed = 1e3 * (now() - before)
        taken = elapsed()
        if step >= args.warmup:
            times.append(taken)
            zeroing.append(zeroed)
    if ranks > 1:
        slowest = torch.tensor(times, dtype=torch.float64)
        torch.distributed.all_reduce(slowest, op=torch.distributed.ReduceOp.MAX)
        times = slowest.tolist()
    if int(os.environ.get("RANK", "0")) == 0:
        print(json.dumps({"torch": torch.__version__, "step_ms": statistics.median(times), "step_ms_min": min(times),
                          "zero_grad_ms": statistics.median(zeroing) if args.device == "cpu" else None,
                          "process_growth": growth_since(resident_before)}))
    if ranks > 1:
        # Without destroy_process_group(): tearing gloo down can deadlock (seen with PyTorch 1.13).
        sys.stdout.flush()
        torch.distributed.barrier()
        os._exit(0)


if __name__ == "__main__":
    main()
