# Sourced by train.sh: runs a training again from its newest checkpoint when it fails.
# shellcheck shell=bash

newest_checkpoint() { # DIR: its step; 0 without one
  local newest
  newest=$(find "$1/checkpoints" -maxdepth 1 -name 'step-*[0-9]' 2>/dev/null | sort | tail -n 1)
  echo $((10#$(basename "${newest:-step-0}" | tr -dc 0-9)))
}

seconds_since_checkpoint() { # DIR MOST: the age of its newest checkpoint, at most MOST
  local newest age
  newest=$(find "$1/checkpoints" -maxdepth 1 -name 'step-*[0-9]' 2>/dev/null | sort | tail -n 1)
  age=$([ -z "$newest" ] && echo "$2" || echo $(($(date +%s) - $(stat -c %Y "$newest"))))
  echo $((age < $2 ? age : $2))
}

last_step() { # DIR: of the last line of metrics; 0 without one
  local step
  step=$(tail -n 1 "$1/metrics.jsonl" 2>/dev/null | grep -o '"step":[0-9]*' | tr -dc 0-9)
  echo "${step:-0}"
}

# The last complaint of a rank, without the reports of checkpoints and warnings.
complaint_in() { # FILE
  grep -E '^\[rank [0-9]+\]' "$1" | grep -vE '\] (checkpoint:|warning:|WARNING)' | tail -n 1 || true
}

# run_with_restarts DIR RANKS MOST LEAST COMMAND...: COMMAND gets the number of ranks and flags behind it. After a failure it runs
# again with --resume latest, at most MOST times, with one rank fewer (but LEAST) where the last run has made no checkpoint.
# Ends at once where a restart cannot help: wrong usage (2), replicas that differ (3), a signal (4), the same complaint twice.
run_with_restarts() {
  local directory=$1 ranks=$2 most=$3 least=$4 restart=0 code before complaint earlier="" began lost errors
  shift 4
  errors=$(mktemp)
  trap 'rm -f "$errors"' RETURN
  while :; do
    before=$(newest_checkpoint "$directory")
    began=$SECONDS
    code=0
    { "$@" "$ranks" --resume latest 2>&1 >&3 | tee "$errors" >&2 || code=${PIPESTATUS[0]}; } 3>&1
    complaint=$(complaint_in "$errors")
    case $code in
      0 | 2 | 3 | 4) return "$code" ;;
    esac
    # mpirun has an exit code of its own when the signal was sent to it (Ctrl-C).
    case $complaint in
      *"a signal has ended the training"*) return 4 ;;
    esac
    if [ -n "$complaint" ] && [ "$complaint" = "$earlier" ]; then
      echo "restart: the same failure twice, so a third try would fail, too: $complaint" >&2
      return "$code"
    fi
    if [ "$restart" -ge "$most" ]; then
      echo "restart: failed with exit code $code after $restart restarts (--max-restarts $most)" >&2
      return "$code"
    fi
    earlier=$complaint
    restart=$((restart + 1))
    if [ "$(newest_checkpoint "$directory")" -le "$before" ] && [ "$ranks" -gt "$least" ]; then
      ranks=$((ranks - 1))
    fi
    lost=$(($(last_step "$directory") - $(newest_checkpoint "$directory")))
    echo "restart $restart of $most: exit code $code after $((SECONDS - began)) s; $ranks ranks continue after step" \
      "$(newest_checkpoint "$directory"); lost: at least $((lost > 0 ? lost : 0)) steps," \
      "$(seconds_since_checkpoint "$directory" "$((SECONDS - began))") s" >&2
  done
}
