#!/usr/bin/env python3
"""check_plan.py [--hosts 2,4,8] [--rates 200mbit,500mbit,1gbit] [--models NAME,...] [--gflops 8] [--json FILE]: how wrong is ddp_plan?

Pretend hosts on this machine (netlab.sh, needs root), one rank each. Products of matrices last as long as at --gflops, and the rank
sleeps for most of that (slow_products.c): so hosts that share this machine's cores do not slow each other down. --gflops 0 computes
on the cores alone; without it, x86-64 and libdnnl-dev are needed. The planner knows of each model a run with --mode naive on as
many hosts at the last rate, and of each rate one run on two hosts. From these it predicts every mode at every rate, and each is
measured. A row per prediction, then the median of |predicted - measured| / measured, and the value below which nine of ten lie. The
bars: 3 % and 8 %. Needs the build of cmake --preset cpu-release. Exit code 3 when a bar is missed, 2 for wrong flags."""
import argparse
import os
import re
import sys
import tempfile

from bench_common import BUILD, Shaped, run_json, slow_products
from common import ROOT, catch_signals, output_file, percentile, refuse, write

MODELS = {
    "mlp 4x512": ["train_mlp", "--depth", "4", "--width", "512", "--batch", "64"],
    "mlp 12x256": ["train_mlp", "--depth", "12", "--width", "256", "--batch", "128"],
    "mlp 6x384": ["train_mlp", "--depth", "6", "--width", "384", "--batch", "48"],
    "gpt 4x128": ["train_gpt", "--layers", "4", "--heads", "4", "--width", "128", "--context", "64", "--batch", "4", "--sample", "0",
                  "--text", os.path.join(ROOT, "nn")],
}
# Name -> flags of both programs.
MODES = {
    "naive": ["--mode", "naive"],
    "flat": ["--mode", "flat", "--bucket-mb", "1"],
    "per_param": ["--mode", "per_param"],
    "overlap": ["--mode", "overlap", "--bucket-mb", "1"],
    "overlap, one bucket": ["--mode", "overlap", "--bucket-mb", "25"],
    "overlap, bf16": ["--mode", "overlap", "--bucket-mb", "1", "--comm-hook", "bf16"],
    "cross-step": ["--mode", "overlap", "--bucket-mb", "1", "--cross-step"],
    "sharded": ["--mode", "overlap", "--bucket-mb", "1", "--shard-optimizer"],
    "no_sync": ["--mode", "no_sync", "--bucket-mb", "1", "--accum", "4"],
    "accum": ["--mode", "overlap", "--bucket-mb", "1", "--accum", "4"],
}
BARS = {"median": 0.03, "p90": 0.08}
STEPS = "20"


def train(lab, hosts, model, mode, directory, variables):
    """The step in ms; profile.json is in `directory`. Progress is not logged: the loss of a line is an all-reduce, which with
    --cross-step waits behind the gradients."""
    program, *flags = MODELS[model]
    command = [os.path.join(BUILD, program), *flags, *MODES[mode], "--steps", STEPS, "--warmup", "5", "--threads", "1",
               "--eval-every", "0", "--log-every", "1000", "--out", directory, "--json"]
    return run_json(lab.mpi(hosts, command), f"{model}, {mode}", variables)["step_ms"]


def predict(profile, network, ranks, mode):
    command = [os.path.join(BUILD, "ddp_plan"), profile, "--link", network, "--ranks", str(ranks), *MODES[mode], "--json"]
    return run_json(command, "ddp_plan")["rows"][0]["step_ms"]


def networks(rates, directory, variables):
    """Rate -> the profile of a run on two hosts."""
    profiles = {}
    with Shaped(rates[0], ["--hosts", "2"]) as lab:
        for rate in rates:
            lab.netlab("rate", rate)
            where = os.path.join(directory, f"network-{rate}")
            train(lab, 2, "mlp 4x512", "naive", where, variables)
            profiles[rate] = os.path.join(where, "profile.json")
    return profiles


def check_hosts(hosts, rates, models, profiles, directory, variables):
    rows = []
    with Shaped(rates[0], ["--hosts", str(hosts)]) as lab:
        for model in models:
            lab.netlab("rate", rates[-1])
            where = os.path.join(directory, f"{model}-{hosts}".replace(" ", "-"))
            train(lab, hosts, model, "naive", where, variables)
            for rate in rates:
                lab.netlab("rate", rate)
                for mode in MODES:
                    predicted = predict(os.path.join(where, "profile.json"), profiles[rate], hosts, mode)
                    measured = train(lab, hosts, model, mode, os.path.join(directory, "run"), variables)
                    error = predicted / measured - 1
                    rows.append({"model": model, "hosts": hosts, "rate": rate, "mode": mode, "predicted_ms": predicted,
                                 "measured_ms": measured, "error": error})
                    print(f"{model:<12}{hosts:>6}{rate:>9}  {mode:<20}{predicted:>10.2f}{measured:>10.2f}{100 * error:>+8.1f} %", flush=True)
    return rows


def main():
    catch_signals()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", default="2,4,8")
    parser.add_argument("--rates", default="200mbit,500mbit,1gbit")
    parser.add_argument("--models", default="mlp 4x512,mlp 12x256,gpt 4x128")
    parser.add_argument("--gflops", type=float, default=8.0)
    parser.add_argument("--json", type=output_file)
    arguments = parser.parse_args()
    models = arguments.models.split(",")
    rates = arguments.rates.split(",")
    if not set(models) <= set(MODELS) or not all(re.fullmatch(r"[1-9]\d*", each) for each in arguments.hosts.split(",")):
        refuse(f"expected --models of {', '.join(MODELS)} and --hosts of numbers above 0")
    rows = []
    with tempfile.TemporaryDirectory() as directory:
        # A rank that polls in MPI's barrier would keep others on its core from beginning their step.
        variables = {"OMPI_MCA_mpi_yield_when_idle": "1", **slow_products(arguments.gflops, directory)}
        profiles = networks(rates, directory, variables)
        print(f"{'model':<12}{'hosts':>6}{'rate':>9}  {'mode':<20}{'predicted':>10}{'measured':>10}{'error':>10}")
        for hosts in arguments.hosts.split(","):
            rows += check_hosts(int(hosts), rates, models, profiles, directory, variables)
    if arguments.json:
        write(rows, arguments.json)
    errors = [abs(row["error"]) for row in rows]
    median, p90 = percentile(errors, 0.5), percentile(errors, 0.9)
    print(f"error of {len(errors)} predictions: median {100 * median:.1f} %, p90 {100 * p90:.1f} %, worst {100 * max(errors):.1f} %; "
          f"bars {100 * BARS['median']:.0f} % and {100 * BARS['p90']:.0f} %")
    sys.exit(3 if median > BARS["median"] or p90 > BARS["p90"] else 0)


if __name__ == "__main__":
    main()
