"""What the Python scripts share: types of flags for argparse, percentiles, results as JSON, and an end by a signal that cleans up."""

import argparse
import json
import math
import os
import signal
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAME = os.path.basename(sys.argv[0]).removesuffix(".py")  # begins every message
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


def refuse(message):
    """Wrong flags."""
    print(f"{NAME}: {message}", file=sys.stderr)
    sys.exit(2)


def positive(kind):
    """The type of a flag: an int or a float above 0."""
    def parse(text):
        try:
            if 0 < kind(text) < math.inf:
                return kind(text)
        except ValueError:
            pass
        raise argparse.ArgumentTypeError(f"expected {'a whole number' if kind is int else 'a number'} above 0, got '{text}'")
    return parse


def output_file(text):
    """The type of a flag: a file that can be written. So this fails before anything is measured."""
    path = os.path.realpath(text)
    if os.path.exists(path) and not os.path.isfile(path) or not os.access(os.path.dirname(path), os.W_OK):
        raise argparse.ArgumentTypeError(f"expected a file in a directory that can be written, got '{text}'")
    return text


def percentile(values, share):
    """A value with `share` of the values below it: 0.99 for the p99."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def write(results, path):
    """All or nothing: what ends us here must not cost the results that the file has."""
    path = os.path.realpath(path)  # a link stays one
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        json.dump(results, file, indent=1)
    os.replace(path + ".tmp", path)


def end_by_signal(number, _frame):
    """An exception, so that every `with` cleans up; a second signal must not cut that short."""
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    print(f"{NAME}: ended by {signal.Signals(number).name}", file=sys.stderr)
    raise SystemExit(128 + number)


def catch_signals():
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup
            signal.signal(number, end_by_signal)
