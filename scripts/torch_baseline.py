#!/usr/bin/env python3
"""torch_baseline.py --widths 512,512,10 [...]: times PyTorch eager on a Linear+ReLU network, one GPU.

The counterpart of `train_mlp --json` with one rank: same layers, loss, optimizer and batch, float32 without TF32.
Prints one JSON object; step_ms is the median time from the start of forward to the end of the optimizer.
"""

import argparse
import json
import statistics


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--widths", required=True, help="of all layers, input first")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--no-bias", action="store_true")
    parser.add_argument("--momentum", type=float, default=0.0)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--warmup", type=int, default=10)
    return parser.parse_args()


def build(torch, widths, bias):
    layers = []
    for inputs, outputs in zip(widths, widths[1:]):
        layers += [torch.nn.Linear(inputs, outputs, bias=bias), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1]).cuda()


def main():
    args = parse()
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    widths = [int(width) for width in args.widths.split(",")]
    model = build(torch, widths, not args.no_bias)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=args.momentum)
    loss_function = torch.nn.MSELoss()
    x = torch.rand(args.batch, widths[0], device="cuda")
    target = torch.rand(args.batch, widths[-1], device="cuda")
    times = []
    for step in range(args.warmup + args.steps):
        torch.cuda.synchronize()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        loss = loss_function(model(x), target)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        end.record()
        torch.cuda.synchronize()
        if step >= args.warmup:
            times.append(begin.elapsed_time(end))
    print(json.dumps({"torch": torch.__version__, "step_ms": statistics.median(times), "step_ms_min": min(times)}))


if __name__ == "__main__":
    main()
