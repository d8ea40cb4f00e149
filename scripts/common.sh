# Sourced by the other scripts: where things are, and the environment that MPI needs.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

die() {
  echo "$(basename "$0" .sh): $*" >&2
  exit 1
}

# The comment block at the head of a script is its --help.
print_help() {
  sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0"
}

# read_ranks [N] ...: sets `ranks` to N (2), and `given` to whether the first argument was one, to be shifted. Or prints
# the help.
read_ranks() {
  ranks=2 given=0
  case ${1:-} in
    -h | --help) print_help && exit ;;
  esac
  [[ ${1:-} =~ ^[0-9]+$ ]] || return 0
  [[ $1 =~ ^0*[1-9][0-9]{0,3}$ ]] || { echo "$(basename "$0" .sh): N must be from 1 to 9999, got $1" >&2 && exit 2; }
  # shellcheck disable=SC2034
  ranks=$((10#$1)) given=1
}

# load_state DIR MESSAGE: reads DIR/conf, the settings of a lab that is up; dies with MESSAGE where there is none.
load_state() {
  [ -f "$1/conf" ] || die "$2"
  # Any user may create files in /tmp: read only what root wrote.
  if ! [ -O "$1" ] || ! [ -O "$1/conf" ]; then
    die "$1 does not belong to root"
  fi
  # shellcheck disable=SC1091
  . "$1/conf"
}

# Prints the path of nvcc; the toolkit's installer leaves it outside PATH.
find_nvcc() {
  command -v "${CUDACXX:-nvcc}" || command -v /usr/local/cuda/bin/nvcc
}

gpu_driver_present() {
  [ -e /dev/nvidiactl ] || { PATH=$PATH:/sbin ldconfig -p 2>/dev/null | grep 'libcuda\.so\.1' >/dev/null; }
}

# Physical cores this process may use: hyperthreads add nothing to a matrix product.
usable_cores() {
  local physical allowed
  physical=$(lscpu -p=Core,Socket | grep -v '^#' | sort -u | wc -l)
  allowed=$(nproc)
  echo $((physical < allowed ? physical : allowed))
}

# mpirun refuses to run as root, and to start more ranks than cores, unless told that this is meant.
allow_mpi_anywhere() {
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
}

# Installs what is missing. BRIGADE_SKIP_SETUP=1 trusts the machine as it is.
ensure_setup() {
  [ -n "${BRIGADE_SKIP_SETUP:-}" ] || "$root/scripts/setup.sh"
}

# configure PRESET [-D...]: once; later changes of a CMakeLists.txt are noticed by the build itself.
configure() {
  local preset=$1 nvcc
  shift
  if [ $# -gt 0 ] || [ ! -f "$root/build/$preset/build.ninja" ]; then
    if nvcc=$(find_nvcc); then
      export CUDACXX=$nvcc
    fi
    (cd "$root" && cmake --preset "$preset" "$@")
  fi
}

build() {
  local preset=$1
  shift
  (cd "$root" && cmake --build --preset "$preset" "$@")
}

# The build where the programs are: CUDA where there is a GPU and a compiler for it.
choose_preset() {
  if [ -n "${BRIGADE_PRESET:-}" ]; then
    echo "$BRIGADE_PRESET"
  elif gpu_driver_present && find_nvcc >/dev/null; then
    echo cuda-release
  else
    echo cpu-release
  fi
}

# Each rank gets its own share of the cores and uses as many threads. With more ranks than cores
# binding would pile several ranks on one core while others idle.
placement() {
  local ranks=$1 cores
  cores=$(usable_cores)
  if [ "$ranks" -gt "$cores" ]; then
    echo "--bind-to none"
  elif [ $((cores / ranks)) -gt 1 ]; then
    echo "--map-by slot:PE=$((cores / ranks)) --bind-to core"
  else
    echo "--map-by slot --bind-to core"
  fi
}

# build_and_run PROGRAM RANKS FLAGS...: installs what is missing, builds the program, replaces this shell by mpirun.
build_and_run() {
  local program=$1 ranks=$2 preset place
  shift 2
  ensure_setup
  preset=$(choose_preset)
  configure "$preset"
  build "$preset" --target "$program"
  allow_mpi_anywhere
  read -ra place <<<"$(placement "$ranks")"
  exec mpirun -np "$ranks" "${place[@]}" "$root/build/$preset/bin/$program" "$@"
}
