#!/usr/bin/env python3
"""bench_ddp.py: two ranks training together, every way of it and PyTorch DDP in turn, as ratios.

  sudo scripts/bench_ddp.py --rate 1.7gbit [--python PYTHON] [--rounds 5] [train_mlp flags...]
  scripts/bench_ddp.py --unshaped [...]

With --rate the ranks sit on two pretend hosts with one core each and a link of that rate between them
(scripts/netlab.sh, needs root). Without, both are on this machine, each bound to a core.

Per round each of these runs once, and the order turns by one from round to round:
  alone         one rank by itself, nothing to send; its update is a pass of its own, as it is on two ranks
  flat          backward, then one all-reduce per bucket; times computation and communication apart
  naive, per_param, overlap, optimizer (--optimizer-overlap), cross-step   as train_mlp has them
  torch CAP     PyTorch DDP over gloo with bucket_cap_mb CAP, for every --caps; PYTHON must import torch
All do the same work: Linear and ReLU layers, MSE, SGD, float32 (--precision: as bench_compute.py has it), one thread
per rank. Medians of the rounds. (So no_sync is not among them: with it both sides communicate once per K
micro-batches. --momentum X and --no-bias reach PyTorch, too; other flags of train_mlp are refused next to --python,
except those that leave the work as it is.)
--cells DEPTHxWIDTHxBATCH,... measures one network after the other and ends with the median of their ratios.

  compute    forward + backward + optimizer of the slower rank in `flat`: both compute, nothing travels meanwhile
  comm       all-reduce of all gradients in `flat`
  bound      the step of a perfect reducer, from measured parts: start_b = max(ready_b, end_(b-1)), end_b = start_b +
             T_b, bound = max(end of backward, end_last) + optimizer; ready_b as in `alone`, T_b as in `flat`
  efficiency (naive - overlap) / (naive - bound); no bar where naive is within 2 % of the bound

--json FILE keeps every number. Exit code 3 with --check when a bar of the last table is missed, 2 for wrong flags."""
import argparse
import os
import re
import statistics
import sys
import tempfile

from bench_common import BUILD, HERE, ONE_THREAD, PRECISIONS, Shaped, Unshaped, parse_cells, rotated, run_json, why_no_import
from common import catch_signals, output_file, positive, refuse, write

MODEL = {"depth": 16, "width": 1024, "batch": 256}
WARMUP, STEPS = 10, 20
BUCKETS = ["--bucket-mb", "4.1"]  # a layer of 1024 x 1024, or several of 256 x 256
MODES = {"alone": ["--mode", "overlap", *BUCKETS], "naive": ["--mode", "naive"],
         "per_param": ["--mode", "per_param"], "flat": ["--mode", "flat", *BUCKETS], "overlap": ["--mode", "overlap", *BUCKETS],
         "optimizer": ["--optimizer-overlap", *BUCKETS], "cross-step": ["--cross-step"]}
# Flags of train_mlp that every mode takes and that change how Brigade sends or runs, but not what it computes.
SAME_WORK = ["--bucket-mb", "--reduce", "--init-sync", "--comm", "--prefetch"]


def brigade(place, name, model, flags):
    with tempfile.TemporaryDirectory() as out:
        program = [os.path.join(BUILD, "train_mlp"), *MODES[name], "--json", "--out", out, "--threads", "1",
                   "--eval-every", "0", "--log-every", "100000", "--steps", str(WARMUP + STEPS),
                   "--warmup", str(WARMUP), "--train-samples", str(8 * model["batch"]), "--lr", "0.01"]
        for key, value in model.items():
            program += [f"--{key}", str(value)]
        return run_json(place.mpi(1 if name == "alone" else 2, program + flags), name)


def torch(place, python, cap, model, flags):
    program = [python, os.path.join(HERE, "torch_baseline.py"), "--device", "cpu", "--bucket-mb", cap,
               "--widths", ",".join([str(model["width"])] * (model["depth"] + 1)), "--batch", str(model["batch"]),
               "--steps", str(STEPS), "--warmup", str(WARMUP), *flags]
    return run_json(place.torch(program), f"torch {cap}", ONE_THREAD)


def bound(alone, flat, overlap):
    """The recurrence above, in ms. The buckets of all three runs are the same."""
    end = 0.0
    for computed, sent in zip(alone["buckets"], flat["buckets"], strict=True):
        end = max(computed["ready_ms"], end) + (sent["end_ms"] - sent["begin_ms"])
    return max(alone["forward_ms"] + alone["backward_ms"], end) + overlap["optimizer_ms"]


def measure(place, options, model, both, flags):
    """`both`: flags that train_mlp and torch_baseline.py know. `flags`: train_mlp alone."""
    names = list(MODES) + [f"torch {cap}" for cap in options.caps]
    rounds = []
    for number in range(options.rounds):
        result = {}
        for name in rotated(names, number):
            if name.startswith("torch"):
                result[name] = torch(place, options.python, name.split()[1], model, both + PRECISIONS[options.precision][1])
            else:
                result[name] = brigade(place, name, model, both + PRECISIONS[options.precision][0] + flags)
        print(f"round {number + 1}: " + "  ".join(f"{n} {result[n]['step_ms']:.1f}" for n in names), flush=True)
        rounds.append(result)
    return names, rounds


def report(options, names, rounds):
    def median(pick):
        return statistics.median(pick(r) for r in rounds)

    step = {name: median(lambda r, n=name: r[n]["step_ms"]) for name in names}
    print(f"\n{'':12} {'step ms':>9} {'fastest':>9} {'slowest':>9}")
    for name in names:
        every = [r[name]["step_ms"] for r in rounds]
        print(f"{name:12} {step[name]:9.1f} {min(every):9.1f} {max(every):9.1f}")
    compute = median(lambda r: max(r["flat"]["rank_compute_ms"]))
    comm = median(lambda r: r["flat"]["comm_ms"])
    ideal = median(lambda r: bound(r["alone"], r["flat"], r["overlap"]))
    print(f"compute {compute:.1f} ms, comm {comm:.1f} ms, bound {ideal:.1f} ms")

    bars = []
    if options.rate:
        if step["naive"] > 1.02 * ideal:
            hidden = (step["naive"] - step["overlap"]) / (step["naive"] - ideal)
            bars.append(("efficiency of overlap", hidden, ">=", 0.95))
        else:  # both differences are noise, or negative: a slower overlap would look better
            print(f"no efficiency: naive ({step['naive']:.1f} ms) is as fast as the bound, there was nothing to hide")
        bars.append(("cross-step / max(compute, comm)", step["cross-step"] / max(compute, comm), "<=", 1.10))
    if options.caps:
        default, best = f"torch {options.caps[0]}", min((n for n in names if n.startswith("torch")), key=step.get)
        bars.append((f"overlap / {default} (default cap)", step["overlap"] / step[default], "<=", 0.75))
        print(f"best cap: {best}")
        bars.append(("overlap / torch (best cap)", step["overlap"] / step[best], "<=", 0.97))
        if options.rate:
            bars.append(("cross-step / torch (best cap)", step["cross-step"] / step[best], "<=", 0.85))
    met = True
    for name, value, relation, bar in bars:
        good = value >= bar if relation == ">=" else value <= bar
        met = met and good
        print(f"{name:40} {value:6.3f}   {relation} {bar:.2f}  {'met' if good else 'MISSED'}")
    return {"step_ms": step, "compute_ms": compute, "comm_ms": comm, "bound_ms": ideal,
            "ratios": {name: value for name, value, _, _ in bars}}, met


def check_flags(options, flags):
    """Whatever is wrong is said before anything is measured."""
    if options.rate == "":
        refuse("--rate: expected a rate such as 2gbit, got nothing")
    if not all(re.fullmatch(r"\d+(\.\d+)?", cap) and float(cap) > 0 for cap in options.caps.split(",")):
        refuse(f"--caps: expected positive numbers of MB with commas between them, got '{options.caps}'")
    if options.python is None:
        return
    unequal = [flag for flag in flags if flag.startswith("-") and flag.split("=")[0] not in SAME_WORK]
    if unequal:
        refuse(f"--python: PyTorch would not do the work of train_mlp with {' '.join(unequal)}; expected only flags "
               f"that both know or that leave it as it is: --momentum --no-bias {' '.join(SAME_WORK)}")
    failure = why_no_import(options.python, "torch")
    if failure:
        refuse(f"--python: {failure}")


def main():
    catch_signals()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--rate", help="of the link, as tc has it: 2gbit, 500mbit")
    where.add_argument("--unshaped", action="store_true")
    parser.add_argument("--mtu", default="9000", help="of the link; a small one costs the cores that compute more")
    parser.add_argument("--python", help="to measure PyTorch with; left out: Brigade alone")
    parser.add_argument("--caps", default="25,4,1", help="bucket caps of PyTorch in MB, its default first")
    parser.add_argument("--rounds", type=positive(int), default=5)
    parser.add_argument("--cells", type=parse_cells("DEPTHxWIDTHxBATCH"), help="instead of --depth, --width and --batch")
    for key, value in MODEL.items():
        parser.add_argument(f"--{key}", type=int, default=value)
    parser.add_argument("--momentum", type=float, help="of the SGD of all")
    parser.add_argument("--no-bias", action="store_true", help="layers without bias, in all")
    parser.add_argument("--precision", choices=PRECISIONS, default="f32", help="of products, in all")
    parser.add_argument("--json", type=output_file)
    parser.add_argument("--check", action="store_true")
    options, flags = parser.parse_known_args()
    check_flags(options, flags)
    options.caps = options.caps.split(",") if options.python else []
    models = [{key: getattr(options, key) for key in MODEL}]
    if options.cells:
        models = [dict(zip(MODEL, cell)) for cell in options.cells]
    both = [] if options.momentum is None else ["--momentum", str(options.momentum)]
    both += ["--no-bias"] if options.no_bias else []
    results, all_met = [], True
    place = Shaped(options.rate, ["--mtu", options.mtu]) if options.rate else Unshaped()
    with place:
        for model in models:
            print("\n{depth} layers of {width}, batch {batch}".format(**model))
            names, rounds = measure(place, options, model, both, flags)
            summary, met = report(options, names, rounds)
            all_met = all_met and met
            results.append({"model": model, "rate": options.rate, "precision": options.precision, **summary, "rounds": rounds})
            if options.json:
                write(results, options.json)
    if len(results) > 1:
        print("\nmedian of the networks")
        for name in dict.fromkeys(name for result in results for name in result["ratios"]):
            values = [result["ratios"][name] for result in results if name in result["ratios"]]
            some = f"   of {len(values)} of {len(results)}" if len(values) < len(results) else ""
            print(f"{name:40} {statistics.median(values):6.3f}{some}")
    sys.exit(3 if options.check and not all_met else 0)


if __name__ == "__main__":
    main()
