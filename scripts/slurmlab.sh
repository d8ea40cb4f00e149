#!/usr/bin/env bash
# slurmlab.sh: a pretend Slurm cluster on one Linux machine (needs root).
#
# The nodes h1, h2, ... and one login host are hosts of netlab.sh: each has its own address, host name and /dev/shm.
# All share the machine's files and cores. The login host runs slurmctld, each node a slurmd.
#
#  slurmlab.sh up --nodes N [--cpus C] [--rate RATE]   start it; C CPUs per node (2), links of RATE (none; 500mbit)
#  slurmlab.sh run COMMAND...                          a command on the login host: sbatch, srun, squeue, ...
#  slurmlab.sh on K COMMAND...                         a command on node K, which sees the node's mounts
#  slurmlab.sh kill K                                  pull the plug of node K
#  slurmlab.sh boot K                                  start node K again
#  slurmlab.sh down                                    kill what runs inside, remove everything
#
#  SLURMLAB=name lets several labs coexist. State and logs: ${TMPDIR:-/tmp}/slurmlab.<name>
#
#  scripts/slurmlab.sh up --nodes 3 && scripts/slurmlab.sh run sbatch scripts/cluster/train.sbatch
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname "$0")/common.sh"

lab=${SLURMLAB:-lab}
state=${TMPDIR:-/tmp}/slurmlab.$lab
export NETLAB=slurm-$lab SLURM_CONF=$state/slurm.conf
netlab=$root/scripts/netlab.sh
nodes="" cpus=2 rate=none

need_number() { # FLAG VALUE MOST
  [[ $2 =~ ^[1-9][0-9]{0,3}$ && $2 -le $3 ]] || die "$1: expected 1 to $3, got '$2'"
}

parse_flags() {
  while [ $# -gt 0 ]; do
    case $1 in
      --nodes | --cpus | --rate)
        [ $# -gt 1 ] || die "$1: expected a value, got nothing"
        printf -v "${1#--}" %s "$2"
        ;;
      *) die "unknown flag $1 (see --help)" ;;
    esac
    shift 2
  done
  [ -n "$nodes" ] || die "up: expected --nodes N"
  need_number --nodes "$nodes" 100
  need_number --cpus "$cpus" 1024
}

need_slurm() {
  local program
  for program in slurmctld slurmd sbatch ip; do
    command -v "$program" >/dev/null || die "$program is not installed: scripts/setup.sh installs it"
  done
  # Slurm's plugin opens libpmix.so, a name that only the development package has.
  PATH=$PATH:/sbin ldconfig -p | grep 'libpmix\.so ' >/dev/null || die "libpmix-dev is not installed: scripts/setup.sh installs it"
}

load() {
  load_state "$state" "lab '$lab' is not up (slurmlab.sh up --nodes N)"
}

check_node() { # K
  need_number "node" "${1:-}" "$nodes"
}

# ---- Slurm's configuration ------------------------------------------------------------------------

# The hosts form a network of their own, so nobody needs credentials. A node is down after 5 s of silence. cred_expire
# is how long a job waits after a requeue; Slurm's own value is 120 s.
write_conf() {
  local login=$((nodes + 1)) k
  cat >"$SLURM_CONF" <<CONF
ClusterName=$lab
SlurmctldHost=h$login(10.77.0.$login)
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
AuthInfo=cred_expire=5
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
StateSaveLocation=$state/ctld
SlurmdSpoolDir=$state/spool.%n
TmpFS=$state/tmp.%n
SlurmctldPidFile=$state/slurmctld.pid
SlurmdPidFile=$state/slurmd.%n.pid
SlurmctldLogFile=$state/slurmctld.log
SlurmdLogFile=$state/slurmd.%n.log
EnforcePartLimits=ANY
SlurmdTimeout=5
MessageTimeout=5
KillWait=10
ReturnToService=2
SlurmdParameters=config_overrides
SchedulerParameters=bf_interval=1,sched_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
PartitionName=all Nodes=h[1-$nodes] Default=YES MaxTime=INFINITE State=UP
CONF
  # The namespaces see no cgroups, and only this plugin starts without.
  echo "CgroupPlugin=cgroup/v1" >"$state/cgroup.conf"
  for k in $(seq "$nodes"); do
    echo "NodeName=h$k NodeAddr=10.77.0.$k CPUs=$cpus"
  done >>"$SLURM_CONF"
}

# ---- up and down ----------------------------------------------------------------------------------

start_controller() {
  "$netlab" exec $((nodes + 1)) -- setsid slurmctld -D </dev/null >>"$state/slurmctld.out" 2>&1 &
}

# Shared memory ends at the node's edge, as between machines: Open MPI's and Brigade's ranks find only those of their node.
start_node() { # K
  mkdir -p "$state/tmp.h$1" "$state/spool.h$1"
  # shellcheck disable=SC2016  # expanded by the inner shell
  "$netlab" exec "$1" -- sh -c 'mount -t tmpfs tmpfs /dev/shm && exec setsid slurmd -D -N "$1"' sh "h$1" \
    </dev/null >>"$state/slurmd.h$1.out" 2>&1 &
}

idle_nodes() {
  "$netlab" exec $((nodes + 1)) -- sinfo -h -N -o '%N %t' 2>/dev/null | grep -c ' idle$' || true
}

await_nodes() {
  local deadline=$((SECONDS + 60))
  until [ "$(idle_nodes)" = "$nodes" ]; do
    [ $SECONDS -lt $deadline ] || die "not all nodes are idle after 60 s: $(tail -qn 2 "$state"/slurmctld.{out,log} | tr '\n' ' ')"
    sleep 0.3
  done
}

up() {
  local k said
  mkdir -m 755 "$state"
  mkdir "$state/ctld"
  printf '%s\n' "nodes=$nodes" "cpus=$cpus" >"$state/conf"
  said=$("$netlab" up --hosts $((nodes + 1)) --rate "$rate" 2>&1) || die "${said##*netlab: }"
  write_conf
  start_controller
  for k in $(seq "$nodes"); do
    start_node "$k"
  done
  await_nodes
  echo "slurmlab '$lab': $nodes nodes with $cpus CPUs, links $rate; slurmlab.sh run sbatch ..." >&2
}

down() {
  "$netlab" down
  rm -rf "$state"
}

# Without its link first: nobody must hear the connections of the dead close.
kill_node() { # K
  local pids
  ip -n "$NETLAB-sw" link set "p$1" down
  mapfile -t pids < <(ip netns pids "$NETLAB-h$1")
  [ ${#pids[@]} = 0 ] || kill -KILL "${pids[@]}" 2>/dev/null || true
}

main() {
  local command=${1:-}
  [ $# -eq 0 ] || shift
  case $command in
    -h | --help) print_help && exit ;;
    up | run | on | kill | boot | down) ;;
    *) print_help >&2 && exit 2 ;;
  esac
  [[ $lab =~ ^[a-z0-9]{1,20}$ ]] || die "SLURMLAB: expected letters and digits, got '$lab'"
  [ "$(id -u)" = 0 ] || die "needs root for pretend hosts: run it with sudo"
  case $command in
    up)
      parse_flags "$@"
      need_slurm
      [ ! -e "$state" ] || die "lab '$lab' is already up (slurmlab.sh down removes it)"
      trap 'trap "" INT TERM HUP; down' EXIT
      up
      trap - EXIT
      ;;
    run)
      load
      [ $# -gt 0 ] || die "run: expected a command"
      export OMPI_MCA_mpi_yield_when_idle=1 # ranks of all nodes share the cores, and srun does not tell Open MPI
      exec "$netlab" exec $((nodes + 1)) -- "$@"
      ;;
    on)
      load
      check_node "${1:-}"
      [ $# -gt 1 ] || die "on: expected a command"
      exec nsenter -t "$(cat "$state/slurmd.h$1.pid")" -m -u -n --wdns="$PWD" "${@:2}"
      ;;
    kill)
      load
      check_node "${1:-}"
      kill_node "$1"
      ;;
    boot)
      load
      check_node "${1:-}"
      ip -n "$NETLAB-sw" link set "p$1" up
      start_node "$1"
      ;;
    down) down ;;
  esac
}

main "$@"
