#!/usr/bin/env bash
# train.sh [N] [flags of train_mlp...]: installs what is missing, builds, trains on N ranks (default 2).
#
# Without flags it trains a 784-512-512-10 network on Fashion-MNIST, global batch 128, for 2 epochs.
# Your flags come after these and win. Where there is a GPU driver and nvcc, the CUDA build is used.
#
#   scripts/train.sh                         2 ranks, the default job
#   scripts/train.sh 4 --mode naive          4 ranks, compute first and communicate afterwards
#   scripts/train.sh 1 --epochs 10 --loss cross_entropy --optimizer adam --lr 0.001
#
# Environment: BRIGADE_PRESET=cpu-release|cuda-release chooses the build,
#              BRIGADE_SKIP_SETUP=1 installs nothing.
# All flags of the program: build/<preset>/bin/train_mlp --help
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "$0")/common.sh"

case ${1:-} in
  -h | --help) print_help && exit ;;
esac
ranks=2
if [[ ${1:-} =~ ^[0-9]+$ ]]; then
  [[ $1 =~ ^0*[1-9][0-9]{0,3}$ ]] || { echo "train: N must be from 1 to 9999, got $1" >&2 && exit 2; }
  ranks=$((10#$1))
  shift
fi

batch=$(((128 + ranks / 2) / ranks)) # per rank: the global batch is 128, or the nearest multiple of N
defaults=(--data fashion-mnist --epochs 2 --loss mse --hidden "512,512" --batch $((batch > 0 ? batch : 1)))
case " $* " in
  *" --optimizer adam"* | *" --optimizer=adam"*) ;; # has a momentum of its own
  *) defaults+=(--momentum 0.9) ;;
esac

build_and_run train_mlp "$ranks" "${defaults[@]}" "$@"
