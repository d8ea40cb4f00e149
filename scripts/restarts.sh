# Sourced by train.sh: runs a training again from its newest checkpoint when it fails.
# shellcheck shell=bash

newest_path() { # DIR: its newest checkpoint; nothing without one
  find "$1/checkpoints" -maxdepth 1 -name 'step-*[0-9]' 2>/dev/null | sort | tail -n 1
}

newest_checkpoint() { # DIR: the step of that; 0 without one
  local newest
  newest=$(newest_path "$1")
  echo $((10#$(basename "${newest:-step-0}" | tr -dc 0-9)))
}

# DIR MOST: the age in seconds of its newest checkpoint, at most MOST.
seconds_since_checkpoint() {
  local newest age=$2
  newest=$(newest_path "$1")
  [ -z "$newest" ] || age=$(($(date +%s) - $(stat -c %Y "$newest")))
  echo $((age < $2 ? age : $2))
}

last_step() { # DIR: of the last line of metrics; 0 without one
  local step
  step=$(tail -n 1 "$1/metrics.jsonl" 2>/dev/null | grep -o '"step":[0-9]*' | tr -dc 0-9)
  echo "${step:-0}"
}

# The last complaint of a rank that has ended the job.
complaint_in() { # FILE
  grep -E '^\[rank [0-9]+\]' "$1" | grep -vE '\] (checkpoint:|warning:|WARNING)' |
    grep -vE '\] watch: .*[^)]$' | tail -n 1 || true
}

# The largest number of ranks below RANKS, but LEAST, that divides BATCH; RANKS if there is none.
fewer_ranks() { # RANKS LEAST BATCH
  local ranks
  for ((ranks = $1 - 1; ranks >= $2; ranks--)); do
    if [ $((10#$3 % ranks)) = 0 ]; then
      echo "$ranks" && return
    fi
  done
  echo "$1"
}

# run_with_restarts DIR RANKS MOST LEAST BATCH COMMAND...: COMMAND gets the number of ranks and flags behind it, and must end as
# the program that it starts (exec). After a failure it runs again, at most MOST times; with fewer ranks, but LEAST, where the last
# run has made no checkpoint. Ends at once where a restart cannot help: wrong usage (2), replicas that differ (3), a signal (4), the
# same complaint twice with no checkpoint in between.
run_with_restarts() {
  local directory=$1 ranks=$2 most=$3 least=$4 batch=$5 restart=0 stopped="" code before complaint earlier="" began child errors
  shift 5
  errors=$(mktemp)
  # shellcheck disable=SC2064 # the name of now: the variable is gone at the end
  trap "rm -f '$errors'" EXIT
  trap 'stopped=yes' INT                                     # mpirun has it, too
  trap 'stopped=yes; kill -TERM "$child" 2>/dev/null' TERM   # it went to this script alone
  while :; do
    before=$(newest_checkpoint "$directory")
    began=$SECONDS
    "$@" "$ranks" --resume latest 2> >(trap '' INT TERM; exec tee "$errors" >&2) &
    child=$!
    code=0
    wait "$child" || code=$?
    while kill -0 "$child" 2>/dev/null; do # a signal has ended `wait`, not the job
      code=0
      wait "$child" || code=$?
    done
    sleep 0.2 # for tee
    complaint=$(complaint_in "$errors")
    case $code in
      0 | 2 | 3 | 4) return "$code" ;;
    esac
    if [ -n "$stopped" ]; then
      return 4
    fi
    if [ "$(newest_checkpoint "$directory")" -gt "$before" ]; then
      earlier=""
    else
      ranks=$(fewer_ranks "$ranks" "$least" "$batch")
    fi
    if [ -n "$complaint" ] && [ "$complaint" = "$earlier" ]; then
      echo "restart: the same failure twice, so a third try would fail, too: $complaint" >&2
      return "$code"
    fi
    earlier=$complaint
    if [ "$restart" -ge "$most" ]; then
      echo "restart: failed with exit code $code after $restart restarts (--max-restarts $most)" >&2
      return "$code"
    fi
    restart=$((restart + 1))
    local lost=$(($(last_step "$directory") - $(newest_checkpoint "$directory")))
    echo "restart $restart of $most: exit code $code after $((SECONDS - began)) s; $ranks ranks continue after step" \
      "$(newest_checkpoint "$directory"); lost: at least $((lost > 0 ? lost : 0)) steps," \
      "$(seconds_since_checkpoint "$directory" "$((SECONDS - began))") s" >&2
  done
}
