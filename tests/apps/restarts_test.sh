#!/usr/bin/env bash
# restarts_test.sh SOURCE: run_with_restarts of SOURCE/scripts/restarts.sh with jobs that are no trainings. Says what is wrong.
set -euo pipefail
# shellcheck source=scripts/restarts.sh
. "$1/scripts/restarts.sh"
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
cd "$work"

fail() {
  echo "FAILED: $*; it said:" >&2
  cat said >&2
  exit 1
}

# A job that makes a checkpoint of step 10 * (number of the try) if $checkpoints is set, prints $line and ends with
# $ends_with, but with 0 in try number $good. The number of ranks of each try goes to the file `ranks`.
job() { # RANKS FLAGS...
  local try
  echo "$1" >>ranks
  try=$(wc -l <ranks)
  [ "$2 $3" = "--resume latest" ] || exit 99
  if [ -n "$checkpoints" ]; then mkdir -p "d/checkpoints/step-0000000${try}0"; fi
  if [ "$try" = "$good" ]; then exit 0; fi
  if [ -n "$line" ]; then echo "$line" >&2; fi
  exit "$ends_with"
}

# NAME RANKS MOST LEAST BATCH, and what is expected: EXIT "RANKS OF EACH TRY"
expect() {
  local result=0
  rm -rf d ranks && mkdir d
  (run_with_restarts d "$2" "$3" "$4" "$5" job) 2>said || result=$?
  [ "$result" = "$6" ] || fail "$1: expected exit code $6, got $result"
  [ "$(xargs <ranks)" = "$7" ] || fail "$1: expected tries with $7 ranks, got $(xargs <ranks)"
}

checkpoints=yes line="" ends_with=137 good=3
expect "a job that succeeds in the third try" 4 5 1 128 0 "4 4 4"
expect "a job that may not be tried so often" 4 1 1 128 137 "4 4"
grep -q "after 1 restarts" said || fail "the end is not explained"
checkpoints=""
expect "a job without checkpoints loses ranks, as the batch allows" 8 5 2 128 0 "8 4 2"
expect "a batch with a zero in front" 8 5 2 08 0 "8 4 2"
expect "a job keeps its ranks where fewer are not allowed" 4 5 4 128 0 "4 4 4"
line="[rank 1] loss: not finite in step 12" ends_with=1
expect "the same complaint twice" 2 5 2 128 1 "2 2"
grep -q "same failure twice" said || fail "the end is not explained"
line="[rank 0] watch: rank 1 has not reached bucket_0; rank 0 waits"
expect "a warning is no complaint" 2 5 2 128 0 "2 2 2"
checkpoints=yes line="[rank 1] loss: not finite in step 12"
expect "the same complaint with progress in between" 2 5 2 128 0 "2 2 2"
line=""
for ends_with in 2 3 4; do
  expect "exit code $ends_with" 2 5 2 128 "$ends_with" "2"
done

for signal in INT TERM; do
  rm -rf d ranks started && mkdir d
  python3 "$here/signal_restarts.py" "$signal" "$1" 2>said || fail "SIG$signal"
done
rm -rf "$work"
echo "restarts: all as expected"
