#!/usr/bin/env bash
# ompi-prefix.sh: the libraries Brigade needs, unpacked into a folder, for a machine without root, apt or network.
#
#   scripts/ompi-prefix.sh download DIR     on a Debian 12 machine: fetches the .deb files
#   . scripts/ompi-prefix.sh PREFIX DEBDIR  on the target (x86-64, glibc 2.36 or newer): unpacks them once, then exports
#                                           the environment in which mpirun, mpicxx and cmake find them
#   scripts/ompi-prefix.sh check            in that environment: says which files are really used
#
# Fashion-MNIST for train_mlp: --data-dir PREFIX/usr/share/datasets/fashion-mnist
# Leaves a machine that has its own mpirun alone unless OMPI_PREFIX_FORCE=1.

ompi_prefix_packages=(
  libopenmpi3 libopenmpi-dev openmpi-bin openmpi-common libpmix2 libhwloc15 libevent-core-2.1-7
  libevent-pthreads-2.1-7 libmunge2 zlib1g zlib1g-dev libudev1
  libopenblas0-pthread libopenblas-pthread-dev libgfortran5 libquadmath0
  libfmt9 libfmt-dev libcli11-dev nlohmann-json3-dev librandom123-dev libxxhash0 libxxhash-dev libpcre2-dev libpcre2-8-0
  libgtest-dev libgmock-dev dataset-fashion-mnist)

ompi_prefix_download() {
  mkdir -p "$1" &&
    (cd "$1" && apt-get -o APT::Sandbox::User=root download "${ompi_prefix_packages[@]}") && du -sh "$1"
}

# dpkg -x, or ar and tar where there is no dpkg.
ompi_prefix_extract() {
  if command -v dpkg >/dev/null 2>&1; then
    dpkg -x "$1" "$2"
    return
  fi
  local parts rc
  parts=$(mktemp -d) || return 1
  (cd "$parts" && ar x "$1" && tar -C "$2" -xf data.tar.*)
  rc=$?
  rm -rf "$parts"
  return $rc
}

# Plugins whose libraries (UCX, libfabric, verbs, PSM, munge, slurm, OpenSHMEM) are not carried.
ompi_prefix_drop_plugins() {
  local lib=$1 plugins=$1/openmpi/lib/openmpi3
  rm -f "$plugins"/mca_{btl_openib,btl_ofi,btl_uct,mtl_ofi,mtl_psm,mtl_psm2,pml_ucx,osc_ucx,atomic_ucx}.so \
    "$plugins"/mca_{spml_ucx,sshmem_ucx,sshmem_mmap,sshmem_sysv,scoll_basic,scoll_mpi,memheap_buddy}.so \
    "$plugins"/mca_{memheap_ptmalloc,atomic_basic,reachable_netlink,schizo_slurm,schizo_jsm,schizo_flux}.so \
    "$plugins"/mca_{pmix_flux,plm_slurm,ras_slurm,ess_slurm,ras_gridengine}.so \
    "$lib"/openmpi/lib/libmca_common_{ucx,ofi,verbs}.so "$lib"/pmix2/lib/pmix/*psec_munge.so
}

ompi_prefix_unpack() {
  local prefix debs deb name
  debs=$(cd "$2" && pwd) || return 1
  if ! compgen -G "$debs/*.deb" >/dev/null; then
    echo "ompi-prefix: expected .deb files, got none in $debs (ompi-prefix.sh download fetches them)" >&2
    return 1
  fi
  mkdir -p "$1/fallback" || return 1
  prefix=$(cd "$1" && pwd) || return 1
  for deb in "$debs"/*.deb; do
    case ${deb##*/} in
      zlib1g_* | libudev1_* | libgfortran5_* | libquadmath0_*)
        ompi_prefix_extract "$deb" "$prefix/fallback" || return 1
        ;;
      *) ompi_prefix_extract "$deb" "$prefix" || return 1 ;;
    esac
  done
  ompi_prefix_drop_plugins "$prefix/usr/lib/x86_64-linux-gnu"
  # Debian's development link points to /lib of the machine it is installed on.
  ln -sf "$prefix/fallback/lib/x86_64-linux-gnu/libz.so.1" "$prefix/usr/lib/x86_64-linux-gnu/libz.so" || return 1
  # What update-alternatives would have made.
  for name in mpirun mpiexec; do
    ln -sf orterun "$prefix/usr/bin/$name" || return 1
  done
  for name in mpicc mpicxx mpic++ mpiCC; do
    ln -sf opal_wrapper "$prefix/usr/bin/$name" || return 1
  done
  touch "$prefix/.ready"
}

# Folders of the libraries that this machine lacks. Ours must not shadow newer ones it has: LD_LIBRARY_PATH would hand an
# older zlib or libgfortran to every program.
ompi_prefix_fallbacks() {
  local prefix=$1 known name dirs=
  known=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null)
  for name in libz.so.1 libudev.so.1 libgfortran.so.5 libquadmath.so.0; do
    if ! grep -q "$name " <<<"$known"; then
      dirs=:$prefix/fallback/lib/x86_64-linux-gnu:$prefix/fallback/usr/lib/x86_64-linux-gnu
    fi
  done
  echo "$dirs"
}

ompi_prefix_env() {
  local prefix lib libraries
  prefix=$(cd "$1" && pwd) || return 1
  lib=$prefix/usr/lib/x86_64-linux-gnu
  export OMPI_PRIVATE=$prefix
  libraries=$lib:$lib/openblas-pthread$(ompi_prefix_fallbacks "$prefix")
  export PATH=$prefix/usr/bin:$PATH
  export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  # Debian built Open MPI with prefix /usr and sysconfdir /etc/openmpi, and PMIx with a prefix of its own.
  export OPAL_PREFIX=$prefix/usr OPAL_SYSCONFDIR=$prefix/etc/openmpi
  export PMIX_PREFIX=$lib/pmix2 PMIX_INSTALL_PREFIX=$lib/pmix2 PMIX_LIBDIR=$lib/pmix2/lib
  export PMIX_PKGLIBDIR=$lib/pmix2/lib/pmix PMIX_DATADIR=$lib/pmix2/share PMIX_PKGDATADIR=$lib/pmix2/share/pmix
  export PMIX_SYSCONFDIR=$prefix/etc HWLOC_PLUGINS_PATH=$prefix/no-hwloc-plugins
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader,tcp OMPI_MCA_osc=^ucx
  export OMPI_MCA_btl_vader_single_copy_mechanism=none
  export OMPI_MCA_plm=isolated OMPI_MCA_oob_tcp_if_include=lo OMPI_MCA_btl_tcp_if_include=lo
  export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
  export OMPI_MCA_mca_base_component_show_load_errors=0
  export PMIX_MCA_psec=native PMIX_MCA_pcompress_base_silence_warning=1
  # For CMake: FindMPI asks the wrapper; the others are found below the prefix.
  export MPI_HOME=$prefix/usr OPENBLAS_ROOT=$prefix/usr
  export CMAKE_PREFIX_PATH=$prefix/usr${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}
  export CPATH=$prefix/usr/include${CPATH:+:$CPATH} LIBRARY_PATH=$lib${LIBRARY_PATH:+:$LIBRARY_PATH}
}

ompi_prefix_check() {
  local launcher
  launcher=$(command -v mpirun) || return 1
  echo "mpirun: $launcher -> $(readlink -f "$launcher")"
  mpirun --version | head -1
  ldd "$(readlink -f "$launcher")" | awk '/=>/ {print "  " $1, $3}'
  mpicxx -showme:compile
  mpicxx -showme:link
  # shellcheck disable=SC2016  # each rank's own variables
  mpirun -np 2 sh -c 'echo "rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE"'
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  case ${1:-} in
    download) ompi_prefix_download "${2:?directory}" ;;
    check) ompi_prefix_check ;;
    *)
      sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0"
      [[ ${1:-} == -h || ${1:-} == --help ]] || exit 2
      ;;
  esac
elif command -v mpirun >/dev/null 2>&1 && [ -z "${OMPI_PREFIX_FORCE:-}" ] && [ -z "${OMPI_PRIVATE:-}" ]; then
  echo "ompi-prefix: this machine has $(command -v mpirun); nothing done (OMPI_PREFIX_FORCE=1 to override)" >&2
elif [ -z "${1:-}" ] || { [ ! -e "$1/.ready" ] && [ -z "${2:-}" ]; }; then
  # Not ${1:?...}: that would end the shell that sources this.
  echo "ompi-prefix: expected PREFIX and a DEBDIR to unpack, got '${1:-}' and '${2:-}'" >&2
  return 1
else
  # A return of its own, since the caller's shell need not have set -e.
  [ -e "$1/.ready" ] || ompi_prefix_unpack "$1" "$2" || return 1
  ompi_prefix_env "$1"
fi
