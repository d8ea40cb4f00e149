#!/usr/bin/env bash
# bench.sh [--python PYTHON] [--jax PYTHON] [--quick]: every comparison of speed, as ratios from alternating runs.
#
# In this order: a step on one CPU thread against PyTorch (and torch.compile, JAX) over a grid of networks, with the share
# of the GEMMs, the floor and the memory; a GPT-2; the cost per node, of DataParallel with one rank and of recording what a step does; all-reduces against Open MPI's; two ranks in
# every mode against PyTorch DDP, on this machine with three networks and, as root, over a shaped link.
#
#   --python PYTHON   can import torch; left out: each section with PyTorch says so and measures Brigade by itself
#   --jax PYTHON      can import jax
#   --quick           two networks instead of the grid, which takes two hours, and one instead of three on two ranks
#
# Results go to runs/bench, as JSON; of wrapper_cost, span_cost and bench_all_reduce, what they print.
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "$0")/common.sh"
allow_mpi_anywhere

python="" jax="" cells=grid pairs=8x1024x256,40x256x128,4x4096x32
while [ $# -gt 0 ]; do
  case $1 in
    --python | --jax)
      [ $# -gt 1 ] || { echo "bench: $1: expected a Python interpreter, got nothing" >&2 && exit 2; }
      found=$(command -v "$2") || die "$1: expected a Python interpreter, got $2"
      printf -v "${1#--}" %s "$(realpath -s "$found")" # not through links: that would leave a virtual environment
      shift 2
      ;;
    --quick) cells=8x1024x128,40x256x32 pairs=8x1024x256 && shift ;;
    -h | --help) print_help && exit ;;
    *) echo "bench: unknown flag $1 (see --help)" >&2 && exit 2 ;;
  esac
done
for pair in "torch:$python" "jax:$jax"; do
  [ -z "${pair#*:}" ] || [ "$("${pair#*:}" -c "import ${pair%%:*}; print(1)" | tail -n 1)" = 1 ] || die "${pair#*:} cannot import ${pair%%:*}"
done
cd "$root"

title() {
  printf '\n== %s\n' "$1"
}

say_without_torch() {
  [ -n "$python" ] || echo "SKIPPED: PyTorch (no --python that can import torch); Brigade by itself:"
}

configure cpu-release
build cpu-release
bin=build/cpu-release/bin
out=runs/bench
mkdir -p "$out"

title "one rank, one thread, against PyTorch"
say_without_torch
compute=(--alone)
if [ -n "$python" ]; then
  compute=(--python "$python")
  # torch.compile needs a C++ compiler and more of Python than every installation has.
  if "$python" -c 'import torch; torch.compile(torch.nn.ReLU())(torch.ones(2))' >/dev/null 2>&1; then
    compute+=(--compile)
  else
    echo "torch.compile does not work with $python: left out"
  fi
fi
scripts/bench_compute.py "${compute[@]}" ${jax:+--jax "$jax"} --cells "$cells" --json "$out/compute.json"

title "a GPT-2, one rank and two"
if [ -n "$python" ]; then
  scripts/bench_gpt.py --python "$python" --json "$out/gpt.json"
  scripts/bench_gpt.py --python "$python" --unshaped --json "$out/gpt-ddp.json"
else
  echo "SKIPPED: it compares with PyTorch alone (no --python)"
fi

title "cost per node, of DataParallel with one rank, of recording a step"
if [ -x $bin/framework_bench ]; then
  $bin/framework_bench --benchmark_min_time=0.3 --benchmark_out="$out/framework.json" --benchmark_out_format=json
else
  echo "SKIPPED: framework_bench was not built (no libbenchmark-dev)"
fi
OPENBLAS_NUM_THREADS=1 taskset -c 0 $bin/wrapper_cost 8 1024 128 31 | tee "$out/wrapper_cost.txt"
taskset -c 0 $bin/span_cost 40 256 32 1001 | tee "$out/span_cost.txt"

title "all-reduce, two ranks of this machine, against Open MPI"
mpirun -np 2 --bind-to core $bin/bench_all_reduce -b 1M -e 64M -f 4 --comm mpi,shared |
  tee "$out/all_reduce.txt"

peer=(${python:+--python "$python"})
title "two ranks of this machine"
say_without_torch
scripts/bench_ddp.py --unshaped --cells "$pairs" "${peer[@]}" --json "$out/ddp.json"

title "two ranks over a link of 2 Gbit/s"
probe=probe$$ # a name of its own: a lab that is up is no reason to skip this
if [ "$(id -u)" = 0 ] && NETLAB=$probe scripts/netlab.sh up --hosts 2 --rate 2gbit >/dev/null 2>&1; then
  NETLAB=$probe scripts/netlab.sh down
  say_without_torch
  scripts/bench_ddp.py --rate 2gbit --depth 8 "${peer[@]}" --json "$out/ddp-2gbit.json"
else
  echo "SKIPPED: pretend hosts need root, and network namespaces that work (scripts/netlab.sh up says what is missing)"
fi
