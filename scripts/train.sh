#!/usr/bin/env bash
# train.sh [N] [flags of train_mlp...]: installs what is missing, builds, trains on N ranks (default 2).
#
# Without flags it trains a 784-512-512-10 network on Fashion-MNIST, global batch 128, for 2 epochs.
# Your flags come after these and win. With --config FILE the program's own defaults apply instead. Where there is a GPU
# driver and nvcc, the CUDA build is used.
#
#   scripts/train.sh                         2 ranks, the default job
#   scripts/train.sh 4 --mode naive          4 ranks, compute first and communicate afterwards
#   scripts/train.sh 4 --max-restarts 3      after a failure continues from the newest checkpoint
#   scripts/train.sh 4 --on-failure shrink   after a failure of one rank the others go on
#   scripts/train.sh 1 --epochs 10 --loss cross_entropy --optimizer adam --lr 0.001
#
# --max-restarts R [--min-ranks M] makes checkpoints every minute (or as --checkpoint-every says) and starts the training again
# when it fails, at most R times; where a run has made no checkpoint, with fewer ranks that divide the global batch, but at
# least M (default: N).
#
# Environment: BRIGADE_PRESET=cpu-release|cuda-release chooses the build,
#              BRIGADE_SKIP_SETUP=1 installs nothing.
# All flags of the program: build/<preset>/bin/train_mlp --help
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "$0")/common.sh"

read_ranks "$@"
shift "$given"

restarts=0
fewest=$ranks
directory=""
total="" # global batch
config=""
flags=()
while [ $# -gt 0 ]; do
  case $1 in
    --max-restarts=* | --min-ranks=* | --out=* | --global-batch=* | --config=*)
      set -- "${1%%=*}" "${1#*=}" "${@:2}"
      continue
      ;;
    --max-restarts | --min-ranks)
      [[ ${2:-} =~ ^[0-9]{1,4}$ ]] || { echo "train: $1: expected a number, got '${2:-}'" >&2 && exit 2; }
      if [ "$1" = --max-restarts ]; then restarts=$((10#$2)); else fewest=$((10#$2)); fi
      shift
      ;;
    --out) directory=${2:-} && flags+=("$1") ;;
    --global-batch) total=${2:-} && flags+=("$1") ;;
    --config) config=${2:-} && flags+=("$1") ;;
    *) flags+=("$1") ;;
  esac
  shift
done
set -- ${flags[@]+"${flags[@]}"}
if [ "$fewest" -lt 1 ] || [ "$fewest" -gt "$ranks" ]; then
  echo "train: --min-ranks: expected from 1 to $ranks, got $fewest" >&2 && exit 2
fi
if [ "$restarts" = 0 ] && [ "$fewest" != "$ranks" ]; then
  echo "train: --min-ranks: expected --max-restarts with it" >&2 && exit 2
fi

batch=$(((128 + ranks / 2) / ranks)) # per rank: the global batch is 128, or the nearest multiple of N
batch=$((batch > 0 ? batch : 1))
defaults=(--data fashion-mnist --epochs 2 --loss mse --hidden "512,512" --batch "$batch")
case " $* " in
  *" --optimizer adam"* | *" --optimizer=adam"*) ;; # has a momentum of its own
  *) defaults+=(--momentum 0.9) ;;
esac
[ -z "$config" ] || defaults=() # flags win against the file

case " $* " in
  *" --on-failure shrink"* | *" --on-failure=shrink"*)
    [ "$restarts" = 0 ] ||
      { echo "train: --max-restarts: expected no --on-failure shrink, with which mpirun always returns 0" >&2 && exit 2; }
    export OMPI_MCA_orte_enable_recovery=1 # what mpirun --enable-recovery sets
    ;;
esac

if [ "$restarts" = 0 ]; then
  build_and_run train_mlp "$ranks" "${defaults[@]}" "$@"
fi

per_rank=no # the batch, or maybe, so that the number of ranks must stay
case " $* " in
  *" --resume"*) echo "train: --max-restarts: expected no --resume, as it continues the run in --out by itself" >&2 && exit 2 ;;
  *" --batch"*) per_rank=yes ;;
  *" --config "*) [ -n "$total" ] || per_rank=yes ;;
esac
[ "$per_rank" = no ] || [ "$fewest" = "$ranks" ] ||
  { echo "train: --min-ranks: expected --global-batch, and no --batch, which is per rank" >&2 && exit 2; }

# shellcheck source=scripts/restarts.sh
. "$root/scripts/restarts.sh"
ensure_setup
preset=$(choose_preset)
configure "$preset"
build "$preset" --target train_mlp
allow_mpi_anywhere
[ "$per_rank" = yes ] || defaults+=(--global-batch "${total:=$((batch * ranks))}")
grep -qs '^[[:blank:]]*checkpoint-every' "$config" || defaults+=(--checkpoint-every 1m)
if [ -z "$directory" ]; then
  mkdir -p runs
  directory=$(mktemp -d runs/restarts-XXXXXX)
fi

train_once() { # RANKS FLAGS...
  local ranks=$1 place
  shift
  read -ra place <<<"$(placement "$ranks")"
  exec mpirun -np "$ranks" "${place[@]}" "$root/build/$preset/bin/train_mlp" "${defaults[@]}" "${flags[@]}" --out "$directory" "$@"
}
run_with_restarts "$directory" "$ranks" "$restarts" "$fewest" "${total:-$ranks}" train_once
