#!/usr/bin/env bash
# train_gpt.sh [N] [flags of train_gpt...]: installs what is missing, builds, trains a small GPT-2 on N ranks (default 2).
#
# Without flags: 4 layers of width 128, context 128, global batch 16 sequences, once through the sources of this project; in
# the end the model writes a few lines itself; timeline.html in the run's directory has the loss curve. Your flags come
# after these and win. With --config FILE the program's own defaults apply instead.
#
#   scripts/train_gpt.sh                                  2 ranks, the default job
#   scripts/train_gpt.sh 2 --text book.txt --epochs 5     your own text
#   scripts/train_gpt.sh 2 --save gpt/model.safetensors   after `mkdir gpt`, for transformers:
#                                                         GPT2LMHeadModel.from_pretrained("gpt")
#
# Environment: BRIGADE_PRESET=cpu-release|cuda-release chooses the build,
#              BRIGADE_SKIP_SETUP=1 installs nothing.
# All flags of the program: build/<preset>/bin/train_gpt --help
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "$0")/common.sh"

read_ranks "$@"
shift "$given"
batch=$(((16 + ranks / 2) / ranks)) # per rank: the global batch is 16, or the nearest multiple of N
defaults=(--epochs 1 --batch $((batch > 0 ? batch : 1)) --lr 0.002 --schedule cosine --lr-warmup 50 --trace --sample 500)
case " $* " in
  *" --config"[\ =]*) defaults=() ;; # flags win against the file
esac
build_and_run train_gpt "$ranks" "${defaults[@]}" "$@"
