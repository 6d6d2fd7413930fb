"""Text that came from machines, made safe to show and to store.

Log tails, condition messages and error texts carry terminal escapes, NUL bytes, half-decoded UTF-8. The same text goes
into JSON, XML, HTML and a terminal, and each breaks in its own way on such characters; so they are escaped once, where
text enters the record, and every projection of the record is safe by construction.
"""

from __future__ import annotations

import re

# C0 without tab and newline, DEL, C1, lone surrogates (undecodable bytes), bidirectional overrides (they reorder what a
# reader sees), and the two code points that XML 1.0 forbids.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069\ufffe\uffff]")

STYLES = {
    "passed": "green",
    "failed": "bold red",
    "error": "magenta",
    "inconclusive": "yellow",
    "skipped": "dim",
    "unclear": "yellow",
    "invalid": "dim",
    "PASSED": "bold green",
    "FAILED": "bold red",
    "INCOMPLETE": "bold yellow",
}
"""Verdicts, outcomes and results as the terminal colours them."""


def printable(text: object) -> str:
    r"""`text` with control characters written as `\x1b` or `\u202e`; CR LF and lone CR become a new line."""
    if isinstance(text, str) and text.isprintable():
        return text  # nearly all text there is; none of the characters above is printable in Python's sense
    unified = str(text).replace("\r\n", "\n").replace("\r", "\n")
    return _UNSAFE.sub(_escaped, unified)


def one_line(text: object, limit: int = 0) -> str:
    """`text` on one line, shortened to `limit` characters (0 = as it is) with an ellipsis."""
    line = " ".join(printable(text).split())
    return line if not limit or len(line) <= limit else line[: max(0, limit - 1)].rstrip() + "…"


def fold(names: list[str], most: int = 6) -> str:
    """`node-1, node-2, …` for few, `node-1, node-2, … and 60 more` for many."""
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[: most - 1])} … and {len(names) - most + 1} more"


def number(value: float | None, unit: str = "") -> str:
    """A figure as people write it: three significant digits or more, thousands kept whole; `–` for none."""
    if value is None:
        return "–"
    size = abs(value)
    digits = 0 if size >= 1000 or value == int(value) else 1 if size >= 10 else 2 if size >= 1 else 3
    return f"{value:.{digits}f} {unit}".rstrip()


def size(count: int) -> str:
    """Bytes as nccl-tests writes them on its command line: `8B`, `512K`, `16G` (powers of 1024)."""
    for power, letter in ((40, "T"), (30, "G"), (20, "M"), (10, "K")):
        if count >= 1 << power and count % (1 << power) == 0:
            return f"{count >> power}{letter}"
    for power, letter in ((40, "T"), (30, "G"), (20, "M"), (10, "K")):
        if count >= 1 << power:
            return f"{count / (1 << power):.1f}{letter}"
    return f"{count}B"


def duration(seconds: float) -> str:
    """`0.4 s`, `12 s`, `3 min 05 s`, `2 h 07 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def plural(count: int, noun: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _escaped(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
