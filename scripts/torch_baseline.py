#!/usr/bin/env python3
"""torch_baseline.py --widths 512,512,10 | --gpt 4x128x4x128 [...]: times PyTorch on one GPU or CPU.

The counterpart of `train_mlp --json` (--widths: Linear and ReLU, MSE, SGD) and of `train_gpt --json` (--gpt LAYERSxWIDTHx
HEADSxCONTEXT: GPT-2 with scaled_dot_product_attention, AdamW in one pass, gradients clipped): same layers, loss,
optimizer and batch, float32, eager unless told otherwise.
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
    network = parser.add_mutually_exclusive_group(required=True)
    network.add_argument("--widths", help="of all layers, input first")
    network.add_argument("--gpt", metavar="LxWxHxT", help="layers, width, heads and context of a GPT-2")
    parser.add_argument("--vocabulary", type=int, default=256, help="of the GPT-2")
    parser.add_argument("--autocast", action="store_true", help="products in bf16, weights and gradients in float32")
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
    parser.add_argument("--matmul-precision", choices=["highest", "high", "medium"], default="highest",
                        help="of float32 products: torch.set_float32_matmul_precision")
    parser.add_argument("--bucket-mb", type=float, default=25.0, help="bucket_cap_mb of DistributedDataParallel")
    parser.add_argument("--set-to-none", action=argparse.BooleanOptionalAction, default=None,
                        help="drop the gradients' memory after every step, as PyTorch does by default; default here: on a GPU. "
                        "Which is faster on a CPU depends on the network: bench_compute.py tries both")
    args = parser.parse_args()
    if args.gpt and not re.fullmatch(r"[1-9]\d*(x[1-9]\d*){3}", args.gpt):
        parser.error(f"--gpt: expected LAYERSxWIDTHxHEADSxCONTEXT, got {args.gpt}")
    if args.widths and not re.fullmatch(r"[1-9]\d*(,[1-9]\d*)+", args.widths):
        parser.error(f"--widths: expected at least two numbers with commas between them, got {args.widths}")
    if min(args.batch, args.steps, args.threads) < 1 or args.warmup < 0:
        parser.error("expected --batch, --steps and --threads of at least 1 and --warmup of at least 0")
    if args.set_to_none is None:
        args.set_to_none = args.device == "cuda"
    if args.cuda_graph and (args.device != "cuda" or int(os.environ.get("WORLD_SIZE", "1")) > 1):
        parser.error("--cuda-graph: expected one rank on --device cuda")
    return args


class Mlp:
    """The network of train_mlp, its data, loss and optimizer."""

    def __init__(self, torch, args, widths):
        self.torch, self.args = torch, args
        self.network = build(torch, widths, not args.no_bias).to(args.device)
        self.x = torch.rand(args.batch, widths[0], device=args.device)
        self.target = torch.rand(args.batch, widths[-1], device=args.device)

    def loss(self, network):
        return self.torch.nn.functional.mse_loss(network(self.x), self.target)

    def optimizer(self):
        return self.torch.optim.SGD(self.network.parameters(), lr=0.01, momentum=self.args.momentum)

    def clip(self):
        pass


class Gpt:
    """Those of train_gpt."""

    def __init__(self, torch, args, shape):
        self.torch = torch
        self.network = gpt2(torch, *shape, args.vocabulary).to(args.device)
        self.x, self.target = (torch.randint(args.vocabulary, (args.batch, shape[3]), device=args.device) for _ in range(2))

    def loss(self, network):
        return self.torch.nn.functional.cross_entropy(network(self.x).flatten(0, 1), self.target.flatten())

    def optimizer(self):
        parameters = list(self.network.parameters())
        return self.torch.optim.AdamW([{"params": [p for p in parameters if p.dim() > 1], "weight_decay": 0.1},
                                       {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0}],
                                      lr=1e-3, fused=True)

    def clip(self):
        self.torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)


def gpt2(torch, layers, width, heads, context, vocabulary):
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attention, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            q, k, v = (part.unflatten(2, (heads, -1)).transpose(1, 2)
                       for part in self.attention(self.ln_1(x)).split(width, 2))
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
            x = x + self.projection(y)
            return x + self.down(functional.gelu(self.up(self.ln_2(x)), approximate="tanh"))

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
            self.blocks, self.ln = nn.ModuleList(Block() for _ in range(layers)), nn.LayerNorm(width)

        def forward(self, tokens):
            x = self.tokens(tokens) + self.positions.weight
            for block in self.blocks:
                x = block(x)
            return functional.linear(self.ln(x), self.tokens.weight)

    return Network()


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


def make(torch, args, tiny=False):
    if args.gpt:
        return Gpt(torch, args, [1, 8, 1, 8] if tiny else [int(n) for n in args.gpt.split("x")])
    return Mlp(torch, args, [8, 8, 8] if tiny else [int(width) for width in args.widths.split(",")])


def touch_code(torch, args):
    """One step of a tiny network: libraries load much of their code on first use, and that is no model's memory."""
    job = make(torch, args, tiny=True)
    job.loss(job.network).backward()
    job.optimizer().step()


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
    torch.set_float32_matmul_precision(args.matmul_precision)
    torch.set_num_threads(args.threads)
    now = time.thread_time if args.cpu_time else time.perf_counter
    start = timer(torch, args.device, now)
    touch_code(torch, args)
    resident_before = start_of_growth()
    job = make(torch, args)
    model = job.network
    if args.compile:
        model = torch.compile(model, mode=args.compile)
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    if ranks > 1:
        torch.distributed.init_process_group("gloo")
        # Gradients that are views of the buckets: without this PyTorch copies each twice.
        model = torch.nn.parallel.DistributedDataParallel(
            model, bucket_cap_mb=args.bucket_mb, gradient_as_bucket_view=True
        )
    optimizer = job.optimizer()

    def train():
        with torch.autocast(args.device, dtype=torch.bfloat16, enabled=args.autocast):
            loss = job.loss(model)
        loss.backward()
        job.clip()
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
