#!/usr/bin/env bash
# setup.sh [--check]: installs the Debian packages needed to build, test and train.
#
# Does nothing, in one line, when everything is there. Needs root or sudo otherwise.
# CUDA is optional and never installed here: the last line says what was found of it.
#   --check   only report; exit 1 when something is missing
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "$0")/common.sh"

# reason: packages
groups=(
  "compiler and build: g++ cmake ninja-build ccache pkg-config git patch"
  "ranks and collectives: openmpi-bin libopenmpi-dev"
  "matrix products: libopenblas-pthread-dev libdnnl-dev"
  "flags, text, files, random numbers, hashes: libcli11-dev libfmt-dev nlohmann-json3-dev zlib1g-dev librandom123-dev libxxhash-dev libpcre2-dev"
  "tests: libgtest-dev libgmock-dev"
  "tests of the CUDA code without a GPU: libboost-context-dev"
  "measurements of the framework itself (optional): libbenchmark-dev"
  "images to train on: dataset-fashion-mnist"
  "format and lint checks: clang-format clang-tidy"
  "fuzzing, with libFuzzer's library: clang libclang-rt-dev"
  "pretend hosts and check scripts: iproute2 python3"
  "a pretend Slurm cluster: slurm-wlm munge libpmix-dev"
)

all_packages() {
  printf '%s\n' "${groups[@]#*: }" | tr ' ' '\n'
}

# Prints those of the arguments that are not installed.
missing_of() {
  local installed
  # dpkg-query fails when it does not know a package; what it does know is still printed.
  installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "$@" 2>/dev/null | sed -n 's/^installed //p' || true)
  comm -23 <(printf '%s\n' "$@" | sort -u) <(sort -u <<<"$installed")
}

nccl_present() {
  local toolkit=$1 dir
  for dir in "${NCCL_ROOT:-}" "${NCCL_HOME:-}" "$toolkit" /usr /usr/local; do
    if [ -n "$dir" ] && [ -e "$dir/include/nccl.h" ]; then
      return
    fi
  done
  return 1
}

describe_cuda() {
  local nvcc version driver="no GPU driver: programs run on the CPU"
  if gpu_driver_present; then
    driver="GPU driver found: train.sh uses the GPU"
  fi
  if ! nvcc=$(find_nvcc); then
    echo "CUDA: no nvcc: CPU builds only (a CUDA toolkit would add the GPU)"
    return
  fi
  version=$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p')
  if nccl_present "$(dirname "$(dirname "$(readlink -f "$nvcc")")")"; then
    echo "CUDA: nvcc $version, NCCL found, $driver"
  else
    echo "CUDA: nvcc $version, no NCCL (GPU ranks exchange gradients through MPI), $driver"
  fi
}

print_missing() {
  local group missing
  for group in "${groups[@]}"; do
    # shellcheck disable=SC2086  # a list of names
    missing=$(missing_of ${group#*: })
    if [ -n "$missing" ]; then
      echo "  ${group%%: *}: $(tr '\n' ' ' <<<"$missing")"
    fi
  done
}

# How to become root: nothing, or sudo; fails when neither works.
root_prefix() {
  if [ "$(id -u)" = 0 ]; then
    return
  fi
  command -v sudo >/dev/null || return 1
  if [ -t 0 ]; then
    echo "sudo" # may ask for a password
  else
    sudo -n true 2>/dev/null && echo "sudo -n"
  fi
}

install_packages() {
  local prefix
  prefix=$(root_prefix) || die "needs root to install: run it as root or through sudo, or ask for: apt-get install -y $*"
  # shellcheck disable=SC2086  # the prefix is zero, one or two words
  $prefix apt-get update -q || die "apt-get update failed: is there a network?"
  # shellcheck disable=SC2086
  $prefix env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -q --no-install-recommends -o DPkg::Lock::Timeout=120 "$@" ||
    die "apt-get could not install: $*"
}

main() {
  local check=no packages missing
  case ${1:-} in
    "") ;;
    --check) check=yes ;;
    -h | --help) print_help && exit ;;
    *) echo "setup: unknown flag $1 (see --help)" >&2 && exit 2 ;;
  esac
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "setup: not a Debian system, nothing installed; scripts/README.md lists what a build needs" >&2
    exit 0
  fi
  mapfile -t packages < <(all_packages)
  mapfile -t missing < <(missing_of "${packages[@]}")
  if [ ${#missing[@]} = 0 ]; then
    echo "setup: all ${#packages[@]} packages are installed. $(describe_cuda)"
    exit 0
  fi
  echo "setup: ${#missing[@]} of ${#packages[@]} packages are missing:"
  print_missing
  if [ "$check" = yes ]; then
    describe_cuda
    exit 1
  fi
  install_packages "${missing[@]}"
  echo "setup: done. $(describe_cuda)"
}

main "$@"
