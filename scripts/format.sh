#!/usr/bin/env bash
# format.sh [--check]: formats every C++ and CUDA file with clang-format; --check only says what differs.
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "$0")/common.sh"

case ${1:-} in
  "") mode=(-i) ;;
  --check) mode=(--dry-run -Werror) ;;
  -h | --help) print_help && exit ;;
  *) echo "format: unknown flag $1 (see --help)" >&2 && exit 2 ;;
esac

cd "$root"
# New files count too, ignored ones do not. A file deleted but not yet committed is still listed: skip it.
mapfile -t files < <(git ls-files --cached --others --exclude-standard -- '*.h' '*.cpp' '*.cu' '*.cuh' |
  while read -r file; do [ ! -f "$file" ] || echo "$file"; done)
[ ${#files[@]} -gt 0 ] || die "no source files found"
clang-format "${mode[@]}" "${files[@]}" || die "run scripts/format.sh"
echo "format: ${#files[@]} files"
