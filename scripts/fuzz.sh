#!/usr/bin/env bash
# fuzz.sh [SECONDS] [TARGET...]: feeds the parsers of bytes from outside whatever breaks them (tests/fuzz/README.md).
#
# Builds the targets with clang, runs each for SECONDS (20), as many at once as there are cores, and prints a table.
# Exit code 1 if one crashed, hung or leaked: the line names the file that does it; put it into tests/fuzz/corpus/TARGET.
# New inputs that reach new code collect under build/fuzz/found/ and are used by the next run.
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "$0")/common.sh"

case ${1:-} in
  -h | --help) print_help && exit ;;
esac
seconds=20
if [[ ${1:-} =~ ^[1-9][0-9]*$ ]]; then
  seconds=$1
  shift
fi
found=$root/build/fuzz/found

statistic() { # NAME LOG
  sed -n "s/^stat::$1: *//p" "$2"
}

# A parser that needs 25 s or 2 GiB for a KiB is an error, too.
run_target() { # NAME
  mkdir -p "$found/$1"
  "$root/build/fuzz/bin/fuzz_$1" -max_total_time="$seconds" -max_len=1024 -timeout=25 -rss_limit_mb=2048 \
    -print_final_stats=1 -artifact_prefix="$found/$1-" "$found/$1" "$1" >"$found/$1.log" 2>&1 ||
    touch "$found/$1.failed"
}

print_result() { # NAME
  local log=$found/$1.log crashes=0
  if [ -e "$found/$1.failed" ]; then
    crashes="1: $(sed -n 's/.*Test unit written to //p' "$log" | head -1)"
  fi
  printf '%-18s%14s%10s  %s\n' "$1" "$(statistic number_of_executed_units "$log")" \
    "$(statistic average_exec_per_sec "$log")" "$crashes"
}

ensure_setup
configure fuzz
build fuzz --target fuzz_targets -- --quiet
cd "$root/tests/fuzz/corpus"
all=(*)
targets=("${@:-${all[@]}}")
for target in "${targets[@]}"; do
  [ -d "$target" ] || die "no target $target; there are: ${all[*]}"
done
mkdir -p "$found"
rm -f "$found"/*.failed
# Stacks of allocations cost a fifth of the speed; ASAN_OPTIONS= with the file that crashes shows them.
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 ASAN_OPTIONS=malloc_context_size=0
for target in "${targets[@]}"; do
  while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do
    wait -n
  done
  run_target "$target" &
done
wait
printf '%-18s%14s%10s  %s\n' target executions exec/s crashes
for target in "${targets[@]}"; do
  print_result "$target"
done
printf '%-18s%14s\n' "all ${#targets[@]}" "$(for target in "${targets[@]}"; do
  statistic number_of_executed_units "$found/$target.log"
done | awk '{ sum += $1 } END { printf "%d", sum }')"
if compgen -G "$found/*.failed" >/dev/null; then
  die "at least one target failed; its output is in $found/TARGET.log"
fi
