"""`python -m measure FILE…`: one JSON document a file, one a line; `-` is standard input.

Exit code 0 when every file was read whole, 3 when one was incomplete or unreadable, 2 for a wrong command line.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from measure.lines import BLOCK
from measure.logformats import LogFormat, LogFormatError, load
from measure.model import Measurement
from measure.reading import read


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the named files and print what they say."""
    parser = argparse.ArgumentParser(prog="python -m measure", description="Read logs of runs; print JSON lines.")
    parser.add_argument("files", nargs="+", metavar="FILE", help="log to read; - is standard input")
    parser.add_argument(
        "--catalog", action="append", default=[], metavar="DIR", help="more log formats: YAML files with logformats:"
    )
    options = parser.parse_args(arguments)
    try:
        formats = load(options.catalog)
    except LogFormatError as error:
        parser.error(str(error))
    code = 0
    for name in options.files:
        measurement = measure_file(name, formats)
        if not measurement.complete:
            code = 3
        print(json.dumps(measurement.to_json(), ensure_ascii=True, allow_nan=False))
    return code


def measure_file(name: str, formats: Sequence[LogFormat] | None = None) -> Measurement:
    """Read one file (or `-`) in constant memory; a file that cannot be opened is a measurement that says so."""
    try:
        if name == "-":
            return read(_pieces(sys.stdin.buffer), file=name, formats=formats)
        with Path(name).open("rb") as stream:
            return read(_pieces(stream), file=name, formats=formats)
    except OSError as error:
        return Measurement(file=name, format="unreadable", warnings=(f"cannot be read: {error.strerror or error}",))


def _pieces(stream: BinaryIO) -> Iterator[bytes]:
    while piece := stream.read(BLOCK):
        yield piece


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:
        # Whoever read our output has left; Python's own flush at the end must not complain about it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(3)
    except KeyboardInterrupt:
        sys.exit(130)
