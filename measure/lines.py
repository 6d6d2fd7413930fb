"""Bytes to lines: what launchers, pods and terminals put around a program's own words is taken off here, once.

A log reaches us behind time stamps, rank tags, pod names and colours, with CR instead of LF, with NULs and bad UTF-8,
and its last line is often half a line. A `Line` keeps the body without those prefixes, the tag that tells two writers
apart (`source`), and whether its end was seen (`whole`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

BLOCK = 1 << 18
"""Bytes read at once: large enough that per-block work is cheap, small enough to stay in the cache."""
LONGEST_LINE = 1 << 24
"""A line longer than this is no log line (16 MiB hold the final JSON line of about 100,000 ranks); it is dropped."""

_ANSI = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]{0,512}(?:\x07|\x1b\\)|[@-Z\\^_]|[ -/][0-~])|[\x00\x08]"
)

_ENDLESS = re.compile(r"\d{100,}")
"""No number: what prints a hundred digits is no log line of ours, and Python refuses to read 4,300 of them."""

_PREFIX = re.compile(
    r"""(?:
      \ufeff
    | \d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)(?:[ \t]|$)      # kubectl logs --timestamps
    | (?:std(?:out|err)[ ][FP][ ])                                                      # CRI log files
    | (?P<mpi>\[\d+,\d+\])(?:<std(?:out|err|diag)>)?:[ ]?                               # mpirun --tag-output
    | (?P<ray>\([^()\n]{0,80}(?:rank|pid|ip|node)=?[^()\n]{0,80}\))[ ]                  # Ray, SkyPilot
    | (?P<rank>\[[A-Za-z_.-]*\d+\]):[ ]?                                                # [rank0]: [default7]:
    | (?P<pod>\[pod/[^\]\n]{1,200}\])[ ]                                                # kubectl logs --prefix
    | (?P<srun>\d{1,6}):[ ](?=[ \d#A-Za-z\[{(|]|$)                                      # srun --label
    | (?P<host>(?=[\w.-]*[\d.-])[A-Za-z][\w.-]{0,120})(?::[ ]|[ ]\|[ ])                 # pdsh, docker compose
    | (?P<stream>[\w.-]{1,120}[ ]\[std(?:out|err)\][ ])
    )""",
    re.VERBOSE,
)


class Line:
    """One line of a log without what was put around it."""

    __slots__ = ("body", "source", "whole")

    def __init__(self, body: str, source: str, whole: bool) -> None:
        self.body = body
        self.source = source
        self.whole = whole


def parse(raw: bytes, whole: bool) -> Line:
    """Decode one raw line and take off all its prefixes; tags that name a writer become the line's `source`."""
    text = raw.decode("utf-8", "replace")
    if text.startswith('{"log":"'):
        text = _docker(text)
    sources: list[str] = []
    at = 0
    while match := _PREFIX.match(text, at):
        if match.lastgroup:
            sources.append(match.group(match.lastgroup))
        at = match.end()
    body = text[at:]
    if len(body) > 100 and _ENDLESS.search(body):
        body = _ENDLESS.sub("#", body)
    return Line(body, " ".join(sources), whole)


def _docker(text: str) -> str:
    """The line inside a record of Docker's json-file log driver."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return text
    inner = record.get("log") if isinstance(record, dict) else None
    return inner.rstrip("\r\n") if isinstance(inner, str) and "\n" not in inner.rstrip("\r\n") else text


def clean(block: bytes) -> bytes:
    """A block with one kind of line end and without terminal codes; free where there are none."""
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if b"\x1b" in block or b"\x00" in block or b"\x08" in block:
        block = _ANSI.sub(b"", block)
    return block


def blocks(data: bytes | Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Blocks of whole lines in order; only the last one may be `False`: its last line has no end.

    Memory is bounded by `BLOCK` and `LONGEST_LINE`, whatever the length of the log.
    """
    rest: list[bytes] = []
    held = 0
    for piece in _pieces(data):
        # A CR that ends a piece may be the first half of CR LF: its line is kept until the other half is there.
        cut = max(piece.rfind(b"\n"), piece.rfind(b"\r", 0, max(len(piece) - 1, 0)))
        if cut < 0:
            rest.append(piece)
            held += len(piece)
            if held > LONGEST_LINE:
                yield clean(b"".join(rest)[:256] + b"\n"), True
                rest, held = [], 0
            continue
        rest.append(piece[: cut + 1])
        yield clean(b"".join(rest)), True
        rest, held = [piece[cut + 1 :]], len(piece) - cut - 1
    last = b"".join(rest)
    if last:
        last = clean(last)
        if last.endswith(b"\n"):
            yield last, True
        elif last:
            yield last, False


def _pieces(data: bytes | Iterable[bytes]) -> Iterator[bytes]:
    """Pieces of about `BLOCK` bytes, from one buffer or from many small ones."""
    if isinstance(data, bytes | bytearray | memoryview):
        whole = bytes(data)
        for at in range(0, len(whole), BLOCK):
            yield whole[at : at + BLOCK]
        return
    held: list[bytes] = []
    size = 0
    for piece in data:
        held.append(piece)
        size += len(piece)
        if size >= BLOCK:
            yield b"".join(held)
            held, size = [], 0
    if size:
        yield b"".join(held)
