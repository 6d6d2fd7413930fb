"""`python -m measure FILE…`: one JSON document a file, one a line; `-` is standard input.

Exit code 0 when every file was read whole, 3 when one was incomplete or unreadable, 2 for a wrong command line.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from measure.lines import BLOCK
from measure.model import Measurement
from measure.reading import read


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the named files and print what they say."""
    parser = argparse.ArgumentParser(prog="python -m measure", description="Read logs of runs; print JSON lines.")
    parser.add_argument("files", nargs="+", metavar="FILE", help="log to read; - is standard input")
    options = parser.parse_args(arguments)
    code = 0
    for name in options.files:
        measurement = _measure(name)
        if not measurement.complete:
            code = 3
        print(json.dumps(measurement.to_json(), ensure_ascii=True, allow_nan=False))
    return code


def _measure(name: str) -> Measurement:
    try:
        if name == "-":
            return read(_pieces(sys.stdin.buffer), file=name)
        with Path(name).open("rb") as stream:
            return read(_pieces(stream), file=name)
    except OSError as error:
        return Measurement(file=name, format="unreadable", warnings=(f"cannot be read: {error.strerror or error}",))


def _pieces(stream: BinaryIO) -> Iterator[bytes]:
    while piece := stream.read(BLOCK):
        yield piece


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:
        sys.exit(3)
