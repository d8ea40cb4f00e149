#!/usr/bin/env python3
"""signal_restarts.py INT|TERM SOURCE: a job under scripts/restarts.sh is told to stop, and must not be started again.

SIGINT goes to all processes, as Ctrl-C in a terminal does, SIGTERM to the script alone. The job ends as mpirun does, with
exit code 1. Uses the files d, ranks and started in the current directory.
"""

import os
import signal
import subprocess
import sys
import time

JOB = """
import signal, sys, time
for each in (signal.SIGINT, signal.SIGTERM):
    signal.signal(each, lambda *_: sys.exit(1))
open("started", "w").close()
time.sleep(60)
"""
SCRIPT = """
. "$1/scripts/restarts.sh"
job() { echo "$1" >>ranks; exec python3 -c "$JOB"; }
run_with_restarts d 4 5 1 128 job
"""


def main():
    kind, source = sys.argv[1:]
    script = subprocess.Popen(["bash", "-euo", "pipefail", "-c", SCRIPT, "script", source], start_new_session=True,
                              env={**os.environ, "JOB": JOB})
    while not os.path.exists("started"):
        time.sleep(0.05)
    if kind == "INT":
        os.killpg(script.pid, signal.SIGINT)
    else:
        script.terminate()
    code = script.wait(timeout=20)
    with open("ranks", encoding="utf-8") as file:
        tries = file.read().split()
    if code != 4 or tries != ["4"]:
        sys.exit(f"expected exit code 4 after one try, got {code} after {tries}")


if __name__ == "__main__":
    main()
