#!/usr/bin/env bash
# gpu_check.sh [--tests | --speed | --large] [RESULT.json]: everything that needs a GPU, in under 9 minutes, as one JSON.
#
# Builds preset cuda-release for this machine's GPU; runs the tests of label gpu; trains with every mode on 2 ranks that
# share one GPU; runs compute-sanitizer; times training against PyTorch eager, torch.compile and PyTorch's CUDA graphs
# where python3 has torch. It names each part that had no time left. Three runs of 9 minutes do all parts: --tests does
# all but the timing, --speed times a memory-bound and a narrow network, --large times other batches and precisions.
# RESULT.json is tests/gpu_results/<date>-<gpu>[-tests|...].json by default, all output is beside it in RESULT.logs.tar.gz.
# Exit codes: 0 all passed, 1 something failed, 77 no GPU.
#
# Environment: BRIGADE_DEBS=DIR   .deb files of scripts/ompi-prefix.sh, for a machine without mpirun and apt
#              BRIGADE_LIMIT=540  seconds for everything
#              BRIGADE_PRESET=cuda-emulated  a dry run over tests/cuda_emulator; needs an nvidia-smi that answers
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "$0")/common.sh"

only=""
case ${1:-} in
  -h | --help) print_help && exit ;;
  --tests | --speed | --large) only=${1#--} && shift ;;
  -*) echo "gpu_check: unknown flag $1 (see --help)" >&2 && exit 2 ;;
esac
[ $# -le 1 ] || { echo "gpu_check: expected one RESULT.json behind the flag, got $* (see --help)" >&2 && exit 2; }

preset=${BRIGADE_PRESET:-cuda-release}
bin=$root/build/$preset/bin
limit=${BRIGADE_LIMIT:-540}
failed=no

gpu_query() {
  nvidia-smi --id=0 --query-gpu="$1" --format=csv,noheader,nounits
}

require_gpu() {
  if ! command -v nvidia-smi >/dev/null || ! gpu_query name >/dev/null 2>&1; then
    echo "gpu_check: no usable GPU on this machine (nvidia-smi is missing or finds none); nothing was checked"
    exit 77
  fi
}

# mpirun and the libraries: the machine's own, a private prefix, or apt.
prepare_libraries() {
  if command -v mpirun >/dev/null; then
    return
  fi
  if [ -n "${BRIGADE_DEBS:-}" ]; then
    # shellcheck source=scripts/ompi-prefix.sh
    . "$root/scripts/ompi-prefix.sh" "$root/build/prefix" "$BRIGADE_DEBS" # the build refers to it: it must stay
  else
    ensure_setup || die "no mpirun and no way to install it: set BRIGADE_DEBS (see --help)"
  fi
}

# pip installs NCCL where CMake does not look.
find_pip_nccl() {
  local toolkit found
  toolkit=$(dirname "$(dirname "$CUDACXX")")
  if [ -z "${NCCL_ROOT:-}" ] && [ ! -e "$toolkit/include/nccl.h" ] && [ ! -e /usr/include/nccl.h ] &&
    found=$(python3 -c \
      'import importlib.util as u; print(u.find_spec("nvidia.nccl").submodule_search_locations[0])' 2>/dev/null); then
    export NCCL_ROOT=$found
  fi
}

# part NAME SECONDS COMMAND...: runs one part, at most SECONDS and what is left of the whole; notes how it ended, and in
# last_rc for who goes on from there.
part() {
  local name=$1 seconds=$2 begin=$SECONDS rc=0 left
  shift 2
  last_rc=1
  left=$((limit - SECONDS))
  if [ "$left" -lt 5 ]; then
    printf '%s\tno time left\t0\t%s\n' "$name" "$*" >>"$work/parts.tsv"
    echo "gpu_check: $name: no time left"
    [[ $name == bench-* ]] || failed=yes # speed comes last, in order of interest
    return
  fi
  # In the background: timeout has a process group of its own, where Ctrl-C would not reach it (interrupted() does).
  timeout --kill-after=5 $((seconds < left ? seconds : left)) "$@" >"$work/$name.out" 2>"$work/$name.err" &
  job=$!
  wait "$job" || rc=$?
  job=""
  last_rc=$rc
  local ended="exit $rc"
  if [ "$rc" = 124 ] && [ "$left" -lt "$seconds" ] && [[ $name == bench-* ]]; then
    rc="no time left" ended="no time left" # it was given less than it may need
  fi
  printf '%s\t%s\t%s\t%s\n' "$name" "$rc" $((SECONDS - begin)) "$*" >>"$work/parts.tsv"
  echo "gpu_check: $name: $ended after $((SECONDS - begin)) s"
  if [ "$rc" != 0 ] && [ "$rc" != "no time left" ]; then
    [[ $name == bench-*-torch* ]] || failed=yes # what PyTorch cannot do is no failure of ours
    tail -n 15 "$work/$name.out" "$work/$name.err" | sed 's/^/    /'
  fi
}

interrupted() {
  [ -z "$job" ] || kill "$job" 2>/dev/null || true
  exit 130
}

skip_part() {
  printf '%s\tskipped: %s\t0\t\n' "$1" "$2" >>"$work/parts.tsv"
  echo "gpu_check: $1: skipped: $2"
}

check_build() {
  local architecture
  architecture=$(gpu_query compute_cap | tr -d ' .')-real
  cd "$root"
  part configure 60 cmake --preset "$preset" -DCMAKE_CUDA_ARCHITECTURES="$architecture"
  [ "$last_rc" = 0 ] || return 0
  # Only what the parts below run: all there is takes minutes more.
  part build 240 cmake --build --preset "$preset" --parallel "$(nproc)" \
    --target train_mlp brigade_gpu_tests gpu_tests_alone data_parallel_on_one_gpu steady_state_test
  [ "$last_rc" != 0 ] || built=yes # else there may be programs of an earlier state
}

# in_shards PROGRAM: all its tests in four processes. ctest would start one per test, and each spends a second on
# starting CUDA. What failed is printed last, where the report shows it.
in_shards() {
  local each shards=() bad=()
  trap 'tail -n 3 "$work"/tests-shard-*.out; exit 1' TERM # out of time
  for each in 0 1 2 3; do
    GTEST_TOTAL_SHARDS=4 GTEST_SHARD_INDEX=$each "$1" >"$work/tests-shard-$each.out" 2>&1 &
    shards+=($!)
  done
  for each in 0 1 2 3; do
    if wait "${shards[each]}"; then
      cat "$work/tests-shard-$each.out"
    else
      bad+=("$work/tests-shard-$each.out")
    fi
  done
  [ ${#bad[@]} -gt 0 ] || return 0
  cat "${bad[@]}"
  grep -h '^\[  FAILED  \]' "${bad[@]}" # nothing if a program ended in another way
  return 1
}
export -f in_shards

check_tests() {
  local of_gpu=(ctest --preset "$preset" -L gpu --output-on-failure)
  local alone='Programs|WithoutAGpu|OnBoth|FreeMemory' # suites of gpu_tests_alone
  # Alone and first: what everything else is for. --verbose, as of ranks that hang nothing is printed at their end.
  export NCCL_DEBUG=${NCCL_DEBUG:-WARN}
  local ranks
  for ranks in nccl_2 mpi_2 nccl_3 mpi_3; do
    part "tests-ranks-$ranks" 60 "${of_gpu[@]}" -R "data_parallel_$ranks" --verbose
  done
  # shellcheck disable=SC2016  # bash -c expands it
  part tests 240 bash -c 'in_shards "$0"' "$bin/brigade_gpu_tests"
  part tests-steady 60 "${of_gpu[@]}" -R SteadyState
  part tests-alone 150 "${of_gpu[@]}" -R "$alone"
  # Tests skip themselves where CUDA does not work. Here nvidia-smi sees a GPU, so that would be a failure in disguise,
  # unless a test needs two and there is one.
  if awk -v gpus="$(nvidia-smi -L | wc -l)" '/\(Skipped\)|\[  SKIPPED \] [A-Z]/ && (gpus > 1 || !/OnTwoGpus/) {found = 1} END {exit !found}' \
    "$work"/tests*.out; then
    echo "gpu_check: tests were skipped although there is a GPU; run brigade_gpu_tests and gpu_tests_alone in" \
      "build/$preset/bin to see why"
    failed=yes
  fi
}

check_modes() {
  local flags=(--device cuda --data synthetic --hidden "512,512" --steps 60 --bucket-mb 0.5 --json) mode
  local -A of=([naive]="--mode naive" [flat]="--mode flat" [per_param]="--mode per_param" [overlap]="--mode overlap"
    [no_sync]="--mode no_sync --batch 16 --accum 4" [optimizer-overlap]=--optimizer-overlap [cross-step]=--cross-step
    [bf16]="--dtype bf16")
  for mode in naive flat per_param overlap no_sync optimizer-overlap cross-step bf16; do
    # shellcheck disable=SC2086  # several flags
    part "mode-$mode" 45 mpirun -np 2 --bind-to none "$bin/train_mlp" ${of[$mode]} "${flags[@]}" --out "$work/run-$mode"
  done
}

check_sanitizer() {
  local tool lack=""
  if ! tool=$(command -v compute-sanitizer || command -v "$(dirname "$CUDACXX")/compute-sanitizer"); then
    lack="no compute-sanitizer"
  else
    timeout 30 "$tool" "$bin/brigade_gpu_tests" --gtest_filter='ElementwiseOnGpu/0.FillWrites*' \
      >"$work/sanitizer.out" 2>&1 || true # what it cannot do it says
    if grep -q 'Device not supported' "$work/sanitizer.out"; then
      lack="compute-sanitizer does not support this machine"
    fi
  fi
  if [ -n "$lack" ]; then
    skip_part memcheck "$lack"
    skip_part racecheck "$lack"
    return
  fi
  # What calls return is checked by ourselves, and a library may call to find out what there is.
  part memcheck 150 "$tool" --tool memcheck --report-api-errors no --error-exitcode 9 "$bin/brigade_gpu_tests" \
    --gtest_filter='*OnGpu/0.*:TrainingOnGpu.Gradients*'
  # Kernels with shared memory: sums and maxima.
  part racecheck 150 "$tool" --tool racecheck --error-exitcode 9 "$bin/brigade_gpu_tests" \
    --gtest_filter='GemmOnGpu/0.ColumnSum*:LossesOnGpu/0.Mse*:LossesOnGpu/0.CrossEntropyEquals*:OptimizersOnGpu/0.Clipping*:ReduceOnGpu/0.Sum*:ReduceOnGpu/0.Max*:LayersOnGpu/0.*LayerNorm*'
}

# bench NAME BATCH DEPTH WIDTH [flags of both]: alternately ours and PyTorch's, in ROUNDS (2) rounds, so that both see the
# same clocks. torch.compile has one turn by itself and one as a CUDA graph, where COMPILE is yes: it compiles for longer
# than all else takes.
bench() {
  local name=$1 batch=$2 depth=$3 width=$4 widths round
  shift 4
  widths=$(printf "$width,%.0s" $(seq "$depth"))$width
  local ours=("$bin/train_mlp" --device cuda --data synthetic --train-samples $((4 * batch)) --depth "$depth"
    --width "$width" --batch "$batch" --lr 0.01 --steps 50 --warmup 10 --eval-every 0 --json "$@")
  local theirs=(python3 "$root/scripts/torch_baseline.py" --widths "$widths" --batch "$batch" --steps 40
    --warmup 10 "$@")
  for round in $(seq "${ROUNDS:-2}"); do
    part "bench-$name-brigade-$round" 60 "${ours[@]}" --out "$work/bench-$name-$round"
    if [ "$has_torch" = yes ]; then
      part "bench-$name-torch-$round" 60 "${theirs[@]}"
      part "bench-$name-torch-graph-$round" 60 "${theirs[@]}" --cuda-graph
    fi
  done
  if [ "$has_torch" = yes ] && [ "${COMPILE:-no}" = yes ]; then
    part "bench-$name-torch-compile-1" 90 "${theirs[@]}" --compile
    part "bench-$name-torch-compile-graph-1" 90 "${theirs[@]}" --compile --cuda-graph
  fi
}

find_torch() {
  has_torch=no
  if python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
    has_torch=yes
  else
    skip_part bench-torch "python3 has no torch with CUDA"
  fi
}

check_speed() {
  ROUNDS=5 COMPILE=yes bench 40x4096x64-tf32 64 40 4096 --no-bias --matmul-precision high
  ROUNDS=5 COMPILE=yes bench 40x256x64 64 40 256
}

check_large() {
  bench 40x4096x64 64 40 4096 --no-bias
  bench 40x4096x1024-tf32 1024 40 4096 --matmul-precision high
  bench 40x4096x4096-tf32 4096 40 4096 --matmul-precision high
}

write_result() {
  python3 "$root/scripts/gpu_report.py" "$work" "$result" --seconds $SECONDS --failed "$failed" \
    --gpu "$(gpu_query name,driver_version,memory.total,compute_cap)" --nvcc "$("$CUDACXX" --version | tail -n 2 | head -n 1)" \
    --commit "$(git -C "$root" rev-parse HEAD 2>/dev/null || echo unknown)"
}

require_gpu
command -v python3 >/dev/null || die "needs python3"
result=${1:-$root/tests/gpu_results/$(date +%F)-$(gpu_query name | tr ' /' '--')${only:+-$only}.json}
result=$(realpath -m "$result")
mkdir -p "$(dirname "$result")" 2>/dev/null || true
if [ -d "$result" ] || [ ! -w "$(dirname "$result")" ]; then
  die "cannot write $result"
fi
work=$(mktemp -d)
export work
trap 'rm -rf "$work"' EXIT
job="" built=no last_rc=0
trap interrupted INT TERM
SECONDS=0
CUDACXX=$(find_nvcc) || die "no nvcc: install the CUDA toolkit"
export CUDACXX
prepare_libraries
find_pip_nccl
allow_mpi_anywhere
check_build
if [ "$built" = yes ]; then
  case $only in
    "" | tests)
      check_tests
      check_modes
      check_sanitizer
      ;;
  esac
  [ "$only" = tests ] || find_torch
  case $only in "" | speed) check_speed ;; esac
  case $only in "" | large) check_large ;; esac
fi
tar -czf "${result%.json}.logs.tar.gz" -C "$work" --exclude='run-*' --wildcards --exclude='bench-*/*' . ||
  echo "gpu_check: not all output could be kept"
write_result
[ "$failed" = no ]
