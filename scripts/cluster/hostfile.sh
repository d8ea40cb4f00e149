#!/bin/bash
# hostfile.sh HOSTFILE [flags of train_mlp]: trains on hosts that sshd runs on, without a batch system.
#
#   printf 'node1 slots=2\nnode2 slots=2\n' >hosts && scripts/cluster/hostfile.sh hosts --data fashion-mnist
#
# slots is the number of ranks on a host. All hosts need: this directory under the same path (NFS, or a copy of build/), Open
# MPI, its ports open between them, and an sshd that lets the caller in without a password. Ends with mpirun's exit code.
# After a failure, call it again: it continues from the newest checkpoint. On a host that is lost, take its line out of HOSTFILE.
set -euo pipefail

case ${1:-} in -h | --help) sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0" && exit ;; esac
if [ ! -r "${1:-}" ]; then
  echo "hostfile: expected a hostfile that can be read, got '${1:-}'" >&2
  exit 2
fi
hostfile=$1
shift
threads=${BRIGADE_THREADS:-1} # per rank; mpirun knows no number for it

flags=(
  --hostfile "$hostfile" # without -np: as many ranks as slots
  # One rank after the other on a host, as the hierarchical all-reduce and the ranks' numbers expect.
  --map-by slot --bind-to none
  # ssh: fails instead of asking, tries again if a host has only just started, notices a host that is gone after 30 s.
  --mca plm_rsh_args "-o BatchMode=yes -o ConnectionAttempts=10 -o ServerAliveInterval=10 -o ServerAliveCountMax=3"
  # Interfaces that exist on every host with the same address connect nothing.
  --mca btl_tcp_if_exclude "lo,docker0,virbr0" --mca oob_tcp_if_exclude "lo,docker0,virbr0"
  # mpirun would wait for ever for a host whose link is down.
  --mca oob_tcp_keepalive_time 10 --mca oob_tcp_keepalive_intvl 5 --mca oob_tcp_keepalive_probes 4
  -x "OPENBLAS_NUM_THREADS=$threads" -x "OMP_NUM_THREADS=$threads"
)
exec mpirun "${flags[@]}" "${BRIGADE_TRAIN:-$PWD/build/cpu-release/bin/train_mlp}" --threads "$threads" \
  --out runs/hostfile --checkpoint-every 1m --resume latest "$@"
