#!/usr/bin/env python3
"""jax_baseline.py --widths 512,512,10 [--batch 64]: times a jitted JAX training step on one thread of the CPU.

The counterpart of torch_baseline.py: Linear and ReLU layers, mean squared error, plain SGD, float32. Forward, backward
and update are one compiled function whose old weights are given back (donated). Prints one JSON object."""

import argparse
import json
import os
import statistics
import time


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--widths", required=True, help="of all layers, input first")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--warmup", type=int, default=10)
    return parser.parse_args()


def main():
    args = parse()
    os.environ["JAX_PLATFORMS"] = "cpu"
    # One thread, as for the others. The caller binds the process to a core as well, because XLA has other pools.
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    import jax
    import jax.numpy as jnp

    widths = [int(width) for width in args.widths.split(",")]
    keys = jax.random.split(jax.random.PRNGKey(0), len(widths) + 1)
    bound = [(1.0 / width) ** 0.5 for width in widths]
    weights = [
        (jax.random.uniform(key, (fan_out, fan_in), minval=-limit, maxval=limit), jnp.zeros(fan_out))
        for key, fan_in, fan_out, limit in zip(keys, widths, widths[1:], bound)
    ]
    x = jax.random.uniform(keys[-1], (args.batch, widths[0]))
    target = jax.random.uniform(keys[-2], (args.batch, widths[-1]))

    def loss(weights, x, target):
        for w, b in weights[:-1]:
            x = jax.nn.relu(x @ w.T + b)
        w, b = weights[-1]
        return jnp.mean((x @ w.T + b - target) ** 2)

    def step(weights, x, target):
        value, gradients = jax.value_and_grad(loss)(weights, x, target)
        return jax.tree.map(lambda w, g: w - 0.01 * g, weights, gradients), value

    train = jax.jit(step, donate_argnums=0)
    times = []
    for number in range(args.warmup + args.steps):
        begin = time.perf_counter()
        weights, value = train(weights, x, target)
        jax.block_until_ready((weights, value))
        if number >= args.warmup:
            times.append(1e3 * (time.perf_counter() - begin))
    print(json.dumps({"jax": jax.__version__, "step_ms": statistics.median(times), "step_ms_min": min(times)}))


if __name__ == "__main__":
    main()
