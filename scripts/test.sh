#!/usr/bin/env bash
# test.sh [ctest arguments...]: installs what is missing, builds, runs the whole test suite.
#
#   scripts/test.sh                  everything
#   scripts/test.sh -L mpi           only the tests that start several ranks
#   scripts/test.sh -R Reducer -V    by name, with output
#
# Environment: BRIGADE_PRESET=asan|tsan|cuda-release|... chooses another build than cpu-release,
#              BRIGADE_SKIP_SETUP=1 installs nothing.
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "$0")/common.sh"

case ${1:-} in
  -h | --help) print_help && exit ;;
esac
preset=${BRIGADE_PRESET:-cpu-release}

ensure_setup
configure "$preset"
build "$preset"
allow_mpi_anywhere
cd "$root"
exec ctest --preset "$preset" --output-on-failure --parallel "$(nproc)" "$@"
