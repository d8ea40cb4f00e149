#!/usr/bin/env bash
# compare.sh [N] [flags of compare_modes...]: installs what is missing, builds, compares the modes on N ranks (default 2).
#
#   scripts/compare.sh                                       2 ranks on this machine
#   scripts/compare.sh 2 --emulate-link 50,0.6 --accum 4     as if a link were between them, no_sync included
#
# Environment: as for train.sh. All flags of the program: build/<preset>/bin/compare_modes --help
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "$0")/common.sh"

read_ranks "$@"
shift "$given"
build_and_run compare_modes "$ranks" "$@"
