#!/usr/bin/env bash
# netlab.sh: pretend hosts on one Linux machine, joined by rate-limited links (needs root).
#
# Every host is a network namespace and a UTS namespace (its own host name h1, h2, ...) with one
# interface eth0 (10.77.0.K/24), plugged into a switch that lives in a namespace of its own.
# Rate: a token bucket on the host's side (uplink) and on the switch's side (downlink).
# Delay, loss: a user-space switch (delaybox.c) instead of the bridge, since kernels may lack netem.
#
#  netlab.sh run [lab flags] [run flags] -- PROG ARGS   mpirun PROG over the hosts (Open MPI); with no
#                                                       lab up, brings one up and takes it down again
#  netlab.sh up [lab flags]                             a lab that stays
#  netlab.sh rate RATE|none                             change the rate of a lab that is up
#  netlab.sh env [run flags] -- PROG ARGS               start PROG without MPI: RANK, WORLD_SIZE, MASTER_ADDR
#  netlab.sh exec K -- CMD                              run a command on host K
#  netlab.sh check                                      measure the rate with a TCP transfer
#  netlab.sh down                                       kill what runs inside, remove everything
#
#  lab flags: --hosts 2  --rate 1gbit|none  --delay 0|2ms  --loss 0 (percent)  --mtu 1500  --burst 128kb  --cc reno
#  run flags: -np N (default: one rank per host)  --pin core|none  --mpi "more mpirun arguments"
#  NETLAB=name lets several labs coexist.
#
#  scripts/netlab.sh run --hosts 2 --rate 500mbit -- build/cpu-release/bin/train_mlp --mode overlap
set -euo pipefail

self=$(readlink -f "$0")
# shellcheck source=scripts/common.sh
. "$(dirname "$self")/common.sh"
lab=${NETLAB:-nl}
state=/tmp/netlab.$lab # configuration, hosts file and helpers of a lab that is up
call=netlab.sh # how to call this script for this lab, in messages
[ "$lab" = nl ] || call="NETLAB=$lab $call"

# Defaults of a lab; a lab that is up keeps its own in $state/conf.
hosts=2 rate=1gbit delay=0 loss=0 mtu=1500 burst=128kb cc=reno
lab_flags_given=no
# Defaults of a run.
np="" pin=core mpi_flags="" program=()
job="" # process id of what runs in the lab

is_up() {
  [ -f "$state/conf" ]
}

load() {
  load_state "$state" "lab '$lab' is not up ($call up)"
}

on_host() { # K COMMAND...: in the network of host K
  ip netns exec "$lab-h$1" "${@:2}"
}

namespaces() {
  ip netns list | awk '{print $1}' | grep -E "^$lab-(h[0-9]+|sw)$" || true
}

# ---- bringing a lab up and down -------------------------------------------------------------------

# `replace` and not `del`, then `add`: a rate that tc refuses leaves the link as it was.
set_rate() { # NAMESPACE DEVICE RATE
  if [ "$3" = none ]; then
    ip netns exec "$1" tc qdisc del dev "$2" root 2>/dev/null || true
  else
    ip netns exec "$1" tc qdisc replace dev "$2" root handle 1: tbf rate "$3" burst "$burst" limit 4mb
  fi
}

shape() { # RATE: both directions of every link
  local k
  for k in $(seq "$hosts"); do
    set_rate "$lab-h$k" eth0 "$1"
    set_rate "$lab-sw" "p$k" "$1"
  done
}

# Stock Linux TCP settings, whatever the machine's own are, so that figures compare between machines.
set_tcp() { # K
  # Not every congestion control is allowed inside a namespace; reno always is.
  # shellcheck disable=SC2016  # expanded by the inner shell
  on_host "$1" sh -c 'cd /proc/sys/net
    for name in "$1" reno; do echo "$name" > ipv4/tcp_congestion_control && break; done 2>/dev/null
    echo 4096 131072 6291456 > ipv4/tcp_rmem
    echo 4096 16384 4194304 > ipv4/tcp_wmem
    [ ! -e ipv6/conf/all/disable_ipv6 ] || echo 1 > ipv6/conf/all/disable_ipv6' sh "$cc" ||
    echo "netlab: TCP settings of h$1 not set" >&2
}

check_cc() {
  local used
  used=$(on_host 1 cat /proc/sys/net/ipv4/tcp_congestion_control)
  [ "$used" != "$cc" ] || return 0
  echo "netlab: --cc: congestion control '$cc' cannot be set here, $used is used instead" >&2
  cc=$used
  sed -i "s/^cc=.*/cc=$cc/" "$state/conf"
}

add_host() { # K
  echo "10.77.0.$1 h$1" >>"$state/hosts"
  ip netns add "$lab-h$1"
  ip link add eth0 mtu "$mtu" netns "$lab-h$1" type veth peer name "p$1" mtu "$mtu" netns "$lab-sw"
  ip -n "$lab-h$1" link set lo up
  ip -n "$lab-h$1" addr add "10.77.0.$1/24" dev eth0
  ip -n "$lab-h$1" link set eth0 up
  set_tcp "$1"
  ip -n "$lab-sw" link set "p$1" up
}

add_bridge() {
  local k
  ip -n "$lab-sw" link add br0 type bridge
  ip -n "$lab-sw" link set br0 up
  for k in $(seq "$hosts"); do
    ip -n "$lab-sw" link set "p$k" master br0
  done
}

start_delaybox() {
  local ports
  gcc -O2 -o "$state/delaybox" "$root/scripts/delaybox.c" || die "cannot compile delaybox.c"
  mapfile -t ports < <(seq -f 'p%g' "$hosts")
  ip netns exec "$lab-sw" "$state/delaybox" "$delay" "$loss" "${ports[@]}" </dev/null >"$state/delaybox.log" 2>&1 &
}

# rsh is mpirun's way to the other hosts. pin gives every rank a core of its own: each pretend host
# believes it owns all cores, so mpirun's binding would put the first rank of every host on core 0.
write_launchers() {
  cat >"$state/rsh" <<SCRIPT
#!/bin/sh
host=\$1; shift
NETLAB=$lab exec "$self" _in "\${host#h}" sh -c "\$*"
SCRIPT
  cat >"$state/pin" <<'SCRIPT'
#!/bin/sh
rank=${OMPI_COMM_WORLD_RANK:-${RANK:-0}}
# NETLAB_NICE=-20 raises the job's weight in the scheduler, for measuring on a machine in use.
[ -z "$NETLAB_NICE" ] || echo "$NETLAB_NICE" > /proc/self/autogroup
exec taskset -c $((rank % $(nproc --all))) "$@"
SCRIPT
  chmod +x "$state/rsh" "$state/pin"
}

# Before the trap is set: an error in here must not take down somebody's running lab.
need_no_lab() {
  [ ! -e "$state" ] || die "lab '$lab' is already up ($call down removes it)"
}

up() {
  local k
  mkdir -m 755 "$state"
  printf '%s\n' "hosts=$hosts" "rate=$rate" "delay=$delay" "loss=$loss" "mtu=$mtu" "burst=$burst" "cc=$cc" >"$state/conf"
  echo "127.0.0.1 localhost" >"$state/hosts"
  write_launchers
  ip netns add "$lab-sw"
  ip -n "$lab-sw" link set lo up
  for k in $(seq "$hosts"); do
    add_host "$k"
  done
  check_cc
  if [ "$delay" = 0 ] && [ "$loss" = 0 ]; then
    add_bridge
  else
    start_delaybox
  fi
  shape "$rate"
  sleep 0.3 # until the switch has seen its links come up
  echo "netlab '$lab': $hosts hosts, rate $rate, delay $delay, loss $loss %, mtu $mtu, cc $cc" >&2
}

signal_all() { # SIGNAL
  local ns pid
  for ns in $(namespaces); do
    for pid in $(ip netns pids "$ns"); do
      kill "-$1" "$pid" 2>/dev/null || true
    done
  done
}

down() {
  local ns
  signal_all TERM
  sleep 0.1
  signal_all KILL
  for ns in $(namespaces); do
    ip netns del "$ns"
  done
  rm -rf "$state"
}

# Takes the lab down however this script ends: by an error, Ctrl-C or kill.
down_at_exit() {
  trap 'trap "" INT TERM HUP; down' EXIT
  trap 'trap "" INT TERM HUP; let_job_end; exit 130' INT # Ctrl-C has reached the job as well
  trap 'trap "" INT TERM HUP; kill "$job" 2>/dev/null; let_job_end; exit 143' TERM HUP
}

# mpirun ends its ranks in order when it has 2 s for that; cut off, it leaves a page of complaints.
let_job_end() {
  local _
  for _ in $(seq 40); do
    kill -0 "$job" 2>/dev/null || return 0
    sleep 0.1
  done
}

# ---- running in a lab -----------------------------------------------------------------------------

# A command as host K: own host name, own /etc/hosts (private mounts, gone with the process).
enter() {
  local k=$1
  shift
  # shellcheck disable=SC2016  # expanded by the inner shell
  exec ip netns exec "$lab-h$k" unshare -u sh -c \
    'hostname "$1"; mount --bind "$2/hosts" /etc/hosts; shift 2; exec "$@"' sh "h$k" "$state" "$@"
}

pinned() { # puts the program to start, with its pin, into `program`
  case $pin in
    core) program=("$state/pin" "${program[@]}") ;;
    none) ;;
    *) die "--pin is core or none, not $pin" ;;
  esac
}

run_mpi() {
  local per_host list
  per_host=$(((np + hosts - 1) / hosts))
  list=$(seq -s, -f "h%g:$per_host" "$hosts")
  # shellcheck disable=SC2086  # mpi_flags is a list of words
  enter 1 mpirun --allow-run-as-root --host "$list" -np "$np" --bind-to none --map-by slot \
    --mca plm_rsh_agent "$state/rsh" --mca orte_tmpdir_base "$state" --mca oob_tcp_if_include eth0 \
    --mca btl tcp,self --mca btl_tcp_if_include eth0 ${NETLAB_NICE:+-x NETLAB_NICE} \
    $mpi_flags "${program[@]}"
}

end_ranks() { # PID...: in order, or by force after 2 s
  local _
  kill "$@" 2>/dev/null || return 0
  for _ in $(seq 20); do
    kill -0 "$@" 2>/dev/null || return 0
    sleep 0.1
  done
  kill -KILL "$@" 2>/dev/null || true
}

run_env() { # rank r runs on host r % hosts + 1
  local rank clock pids=() status=0 port=$((20000 + RANDOM % 20000))
  for rank in $(seq 0 $((np - 1))); do
    (
      export RANK=$rank LOCAL_RANK=$((rank / hosts)) WORLD_SIZE=$np
      export MASTER_ADDR=h1 MASTER_PORT=$port GLOO_SOCKET_IFNAME=eth0
      enter $((rank % hosts + 1)) "${program[@]}"
    ) &
    pids+=($!)
  done
  # The first rank to fail ends the others, which would wait for it. Each is asked in turn, since `wait -n` overlooks
  # one that a signal has killed before; `read` is a pause that starts no process beside the ranks.
  exec {clock}<> <(:)
  while [ ${#pids[@]} -gt 0 ]; do
    for rank in "${!pids[@]}"; do
      kill -0 "${pids[rank]}" 2>/dev/null && continue
      wait "${pids[rank]}" || status=$?
      if [ "$status" != 0 ]; then
        echo "netlab: rank $rank ended with status $status: the others are stopped" >&2
        end_ranks "${pids[@]}"
        return "$status"
      fi
      unset "pids[rank]"
    done
    read -r -t 0.2 -u "$clock" || true
  done
}

# Runs `$1` in the lab that is up, or in one that lives only as long as the run.
run() {
  if is_up; then
    [ "$lab_flags_given" = no ] ||
      die "lab '$lab' is up with its own hosts and rate: drop those flags, or $call down first"
    load
  else
    need_no_lab
    down_at_exit
    up
  fi
  np=${np:-$hosts}
  pinned
  # In the background, so that a signal ends the wait at once and the trap can clean up.
  "$1" <&0 &
  job=$!
  wait "$job"
}

check() {
  [ "$hosts" -ge 2 ] || die "check: expected a lab of 2 hosts or more, got $hosts"
  # Not by on_host: $! has to be the receiver itself, for the trap to end it.
  ip netns exec "$lab-h2" python3 - <<'SCRIPT' &
import socket, time
connection, _ = socket.create_server(("10.77.0.2", 5999)).accept()
buffer, received, begin = bytearray(1 << 20), 0, None
while count := connection.recv_into(buffer):
    if begin is None:
        begin = time.time()  # the first piece has paid for the connection's start
    else:
        received += count
rate = received * 8e-6 / (time.time() - begin)
print("netlab check: h1 -> h2 %.1f Mbit/s of payload over %.1f MB" % (rate, received / 1e6))
SCRIPT
  job=$!
  trap 'kill "$job" 2>/dev/null' EXIT # a receiver nobody has reached would keep its port
  on_host 1 python3 - <<'SCRIPT'
import socket, sys, time
end = time.time() + 10  # on a busy machine the receiver takes a while to start
while True:
    try:
        connection = socket.create_connection(("10.77.0.2", 5999))
        break
    except OSError as error:
        if time.time() > end:
            sys.exit("netlab: check: h1 cannot reach the receiver on h2: %s" % error)
        time.sleep(0.1)
end = time.time() + 2
while time.time() < end:
    connection.sendall(bytes(1 << 20))
SCRIPT
  wait "$job"
  trap - EXIT
}

# ---- command line ---------------------------------------------------------------------------------

need_value() { # FLAG [VALUE...]
  [ -n "${2:-}" ] || die "$1: expected a value, got nothing"
}

check_rate() { # RATE
  local number='^([0-9]+(\.[0-9]*)?|\.[0-9]+)([kmgt]i?)?(bit|bps)$' # as tc reads it
  [[ $1 = none || (${1,,} =~ $number && $1 = *[1-9]*) ]] || die "rate: expected none or a rate like 500mbit, got '$1'"
}

# Before anything is created. A host's number is the last part of its address.
check_flags() {
  [[ $hosts =~ ^[1-9][0-9]{0,2}$ && $hosts -le 254 ]] || die "--hosts: expected 1 to 254, got '$hosts'"
  [[ $np =~ ^([1-9][0-9]{0,3})?$ ]] || die "-np: expected 1 to 9999, got '$np'"
  [[ $delay =~ ^[0-9]{1,9}(\.[0-9]+)?(us|ms|s)?$ ]] ||
    die "--delay: expected a number, alone (milliseconds) or with us, ms or s, got '$delay'"
  [[ $loss =~ ^[0-9]{1,2}$ ]] || die "--loss: expected 0 to 99 percent, got '$loss'"
  check_rate "$rate"
}

parse_flags() {
  while [ $# -gt 0 ]; do
    case $1 in
      --)
        program=("${@:2}")
        break
        ;;
      -h | --help) print_help && exit ;;
      --hosts | --rate | --delay | --loss | --mtu | --burst | --cc)
        need_value "$@"
        printf -v "${1#--}" %s "$2"
        lab_flags_given=yes
        ;;
      -np | -n | --np) need_value "$@" && np=$2 ;;
      --pin) need_value "$@" && pin=$2 ;;
      --mpi) need_value "$@" && mpi_flags=$2 ;;
      *) die "unknown flag $1 (write -- before the program; see netlab.sh --help)" ;;
    esac
    shift 2
  done
  check_flags
}

need_program() {
  [ ${#program[@]} -gt 0 ] || die "no program given (netlab.sh --help)"
}

main() {
  local command=${1:-}
  [ $# -eq 0 ] || shift
  case $command in
    -h | --help) print_help && exit ;;
    up | rate | run | env | exec | _in | check | down) ;;
    *) print_help >&2 && exit 2 ;;
  esac
  [ "$(id -u)" = 0 ] || die "needs root for network namespaces: run it with sudo"
  case $command in
    up)
      parse_flags "$@"
      need_no_lab
      down_at_exit
      up
      trap - EXIT
      ;;
    rate)
      load
      check_rate "${1:-}"
      shape "$1"
      sed -i "s/^rate=.*/rate=$1/" "$state/conf"
      ;;
    run)
      parse_flags "$@"
      need_program
      run run_mpi
      ;;
    env)
      parse_flags "$@"
      need_program
      run run_env
      ;;
    exec)
      load
      parse_flags "${@:2}"
      need_program
      enter "$1" "${program[@]}"
      ;;
    _in) # what rsh calls
      load
      enter "$@"
      ;;
    check)
      load
      check
      ;;
    down) down ;;
  esac
}

main "$@"
