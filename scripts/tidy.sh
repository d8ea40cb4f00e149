#!/usr/bin/env bash
# tidy.sh [--changed [REF]]: clang-tidy over the library and the programs (not the tests), all cores.
#
#   --changed [REF]   only what differs from REF (default HEAD): changed .cpp files, the .cpp beside a
#                     changed header, new files
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "$0")/common.sh"

rooms=(core autograd nn optim dist apps)

# Every .cpp of the product, or those behind a change.
select_files() {
  if [ "$changed" = no ]; then
    git ls-files --cached --others --exclude-standard -- "${rooms[@]/%//*.cpp}"
  else
    {
      git diff --name-only "$ref" -- "${rooms[@]}" &&
        git ls-files --others --exclude-standard -- "${rooms[@]}"
    } | sed -n 's/\.\(h\|cpp\)$/.cpp/p' | sort -u
  fi
}

changed=no ref=HEAD
case ${1:-} in
  "") ;;
  --changed) changed=yes ref=${2:-HEAD} ;;
  -h | --help) print_help && exit ;;
  *) echo "tidy: unknown flag $1 (see --help)" >&2 && exit 2 ;;
esac

cd "$root"
configure cpu-release
database=build/cpu-release/compile_commands.json
# Files that this configuration does not compile (the NCCL communicator, say) cannot be parsed either.
selected=$(select_files) # not in the next line, which would hide that git has failed
mapfile -t files < <(while read -r file; do
  [ ! -f "$file" ] || ! grep -F "\"$root/$file\"" "$database" >/dev/null || echo "$file"
done <<<"$selected")
if [ ${#files[@]} = 0 ]; then
  echo "tidy: nothing to check"
  exit 0
fi
# One process per file. The compile commands are g++'s: clang may not know every warning flag in them. The analyzer may
# look at 20,000 states of a function instead of 225,000, which took it 30 of the 50 s of apps/flags/options.cpp.
printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" \
  clang-tidy -p build/cpu-release --quiet --extra-arg=-Wno-unknown-warning-option --extra-arg=-Xclang --extra-arg=-analyzer-config \
  --extra-arg=-Xclang --extra-arg=max-nodes=20000 2>&1 |
  sed '/^[0-9]* warnings\? generated\.$/d' || # counts what the checks above have filtered out
  die "clang-tidy found something in the files above"
echo "tidy: ${#files[@]} files"
