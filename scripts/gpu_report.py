#!/usr/bin/env python3
"""gpu_report.py: the JSON file of gpu_check.sh, from what each of its parts has printed.

WORK has parts.tsv, a line per part (name, exit code or why it did not run, seconds, command), and of each part that ran
NAME.out and NAME.err. Exit code 1 if the modes end with different weights, or one of them was not reduced by NCCL."""
import argparse
import json
import statistics
import sys
from pathlib import Path

PEERS = ("torch", "torch-graph", "torch-compile", "torch-compile-graph")


def text(path):
    return path.read_text(errors="replace") if path.exists() else ""


def parsed(output):
    try:
        return json.loads(output)
    except ValueError:
        return None


def read_parts(work):
    parts = {}
    for line in (work / "parts.tsv").read_text().splitlines():
        part, rc, seconds, command = line.split("\t")
        entry = {"rc": int(rc) if rc.isdigit() else rc, "seconds": int(seconds), "command": command}
        output = text(work / f"{part}.out")
        summary = parsed(output)
        if summary is not None:
            entry["result"] = summary
        elif part.startswith("tests") or part in ("memcheck", "racecheck") or rc != "0":
            entry["output_tail"] = (output + text(work / f"{part}.err"))[-3000:]  # the whole is in the archive
        parts[part] = entry
    return parts


def mode_facts(parts):
    """What the runs in every mode have shown; None where there were none."""
    modes = {part.removeprefix("mode-"): entry.get("result") or {} for part, entry in parts.items() if part.startswith("mode-")}
    comms = {mode: result.get("comm") for mode, result in modes.items()}
    # Not no_sync, which adds its micro-batches up in another order and rounds differently.
    hashes = {mode: modes.get(mode, {}).get("params_hash") for mode in ("naive", "flat", "per_param", "overlap")}
    return {"params_hash_by_mode": hashes, "comm_by_mode": comms,
            "nccl_in_all_modes": all("NCCL" in (comm or "") for comm in comms.values()) if modes else None,
            "same_weights_in_all_modes": None not in hashes.values() and len(set(hashes.values())) == 1 if modes else None}


def steps(parts, bench, who):
    """The ms of a step in each round."""
    found = [parts.get(f"bench-{bench}-{who}-{i}", {}).get("result", {}).get("step_ms") for i in range(1, 10)]
    return [step for step in found if step]


def speed_of(parts, bench):
    every = {who: steps(parts, bench, who) for who in ("brigade", *PEERS)}
    speed = {f"{who}_step_ms": statistics.median(some) if some else None for who, some in every.items()}
    speed["spread_ms"] = {who: [min(some), max(some)] for who, some in every.items() if some}
    ours = speed["brigade_step_ms"]
    for peer in PEERS:
        theirs = speed[f"{peer}_step_ms"]
        speed[f"brigade_over_{peer}"] = ours / theirs if ours and theirs else None
    return speed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", metavar="WORK", type=Path)
    parser.add_argument("result", metavar="RESULT.json", type=Path)
    parser.add_argument("--gpu", required=True, help="name, driver, memory in MiB and compute capability, with commas between")
    parser.add_argument("--nvcc", required=True, help="its version")
    parser.add_argument("--commit", required=True)
    parser.add_argument("--seconds", type=int, required=True, help="how long the whole check took")
    parser.add_argument("--failed", choices=("yes", "no"), required=True, help="whether a part has failed")
    options = parser.parse_args()
    name, driver, memory, capability = (field.strip() for field in options.gpu.split(","))
    parts = read_parts(options.work)
    facts = mode_facts(parts)
    same_weights, all_nccl = facts["same_weights_in_all_modes"], facts["nccl_in_all_modes"]
    benches = sorted({part.split("-brigade")[0].removeprefix("bench-") for part in parts if "-brigade" in part})
    report = {
        "gpu": {"name": name, "driver": driver, "memory_mib": int(memory) if memory.isdigit() else None, "compute_capability": capability},
        "nvcc": options.nvcc,
        "commit": options.commit,
        "seconds": options.seconds,
        "passed": options.failed == "no" and same_weights is not False and all_nccl is not False,
        **facts,
        "speed": {bench: speed_of(parts, bench) for bench in benches},
        "parts": parts,
    }
    options.result.parent.mkdir(parents=True, exist_ok=True)
    options.result.write_text(json.dumps(report, indent=1) + "\n")
    print(f"gpu_check: wrote {options.result}")
    if same_weights is False:
        sys.exit("gpu_check: the modes do not end with the same weights")
    if all_nccl is False:
        sys.exit("gpu_check: not every mode was reduced by NCCL; the rest went through the host")


if __name__ == "__main__":
    main()
