#!/bin/sh
# apply_solution.sh STARTER PATCH SOLUTION: writes the patched starter of an exercise to the file SOLUTION.
starter=$1 patch=$2 solution=$3

if ! command -v patch >/dev/null; then
  echo "labs: needs the program patch; scripts/setup.sh installs it" >&2
  exit 1
fi
if ! patch --quiet --force --fuzz=0 --reject-file=- --output="$solution.tmp" "$starter" "$patch" >/dev/null 2>&1; then
  rm -f "$solution.tmp"
  exercise=$(basename "$solution" _solution.cpp)_exercise
  echo "$patch does not apply to $starter, which has changed: if you are solving the exercise, build" \
    "--target $exercise alone; if the starter itself is new, make a new patch with diff -U1" >&2
  exit 1
fi
mv "$solution.tmp" "$solution"
