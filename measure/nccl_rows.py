"""Rows and headers of nccl-tests and rccl-tests tables of every generation.

Columns come from the header, so that old tables (`error`, no `root`), `-I` statistics, CPU time and time stamps are one
case; without a header only the known shapes count. A row that is torn never counts: its fields must be whole, its size
must be a multiple of its count, and its time and algorithm bandwidth must agree (algbw = size / time, nccl-tests
doc/PERFORMANCE.md).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from measure.model import Cell, Row
from measure.numbers import is_number, number, whole_number

TYPE_BYTES: Final = {
    "int8": 1, "uint8": 1, "char": 1, "int32": 4, "uint32": 4, "int": 4, "int64": 8, "uint64": 8, "half": 2,
    "float16": 2, "bfloat16": 2, "float": 4, "float32": 4, "double": 8, "float64": 8, "f8e4m3": 1, "f8e5m2": 1,
    "fp8_e4m3": 1, "fp8_e5m2": 1, "fp8e4m3": 1, "fp8e5m2": 1,
}  # fmt: skip
_ROW = re.compile(
    r"(?<![\w.,:/-])(\d{1,20})[ \t]+(\d{1,20})[ \t]+("
    + "|".join(sorted(TYPE_BYTES, key=len, reverse=True))
    + r")\b(.*)"
)
_TOKEN = re.compile(r"\S+")
_TIME = frozenset({"time", "cputime"})
_STATISTIC = {"i_min": "i_min_us", "i_max": "i_max_us", "i_p99": "i_p99_us", "i_cv%": "i_cv_percent"}
_COLUMNS = _TIME | {"algbw", "busbw", "wrong", "error"} | _STATISTIC.keys()
_ERROR = re.compile(r"N/A|nan|inf|\d+(?:\.\d+)?e[-+]\d{2,3}", re.IGNORECASE)
_CELLS: Final = 4
"""Cells of one half without statistics: time, algbw, busbw, #wrong (or error)."""
_BLANK_HALF: Final = 25
"""Blanks that stand where the out-of-place half was not run (nccl-tests prints 32)."""


@dataclass(frozen=True, slots=True)
class Header:
    """The columns of a table: those before the numbers, and the names of each half's cells."""

    lead: tuple[str, ...]
    halves: tuple[tuple[str, ...], ...]
    end: int
    """How far behind `type` its last column ends: nccl-tests aligns rows and header to the right."""
    timestamp: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """A row, how far behind its type it ends, and whether something else stands behind it in the same line."""

    row: Row
    end: int
    glued: bool


@dataclass(frozen=True, slots=True)
class Torn:
    """A line that begins like a row and is none."""

    why: str


def header(body: str) -> Header | None:
    """The columns a header line names, or None where the line is no whole header of nccl-tests."""
    words = body.replace("#wrong", "wrong").strip("# \t").split()
    if words[:3] != ["size", "count", "type"] or "algbw" not in words:
        return None
    first = next((at for at, word in enumerate(words) if word in _TIME), len(words))
    halves: list[list[str]] = []
    timestamp = False
    for word in words[first:]:
        if word in _TIME:
            halves.append([])
        if word == "timestamp":
            timestamp = True
        else:
            halves[-1].append(word)
    known = all(column in _COLUMNS for half in halves for column in half)
    whole = halves and known and all({"algbw", "busbw"} <= set(half) and len(half) == len(halves[0]) for half in halves)
    if not whole:
        return None
    end = len(body.rstrip()) - body.index("type") - len("type")
    return Header(tuple(words[3:first]), tuple(map(tuple, halves)), end, timestamp)


def row(body: str, columns: Header | None) -> Found | Torn | None:
    """The row of a line; `Torn` where it is broken, None where it is none."""
    match = _ROW.search(body)
    if not match:
        return None
    tokens = [(token.group(), token.start(), token.end()) for token in _TOKEN.finditer(match.group(4))]
    redop, root, cells = _lead(tokens, columns)
    halves = columns.halves if columns else _guess_halves([text for text, _, _ in cells])
    if halves is None or not cells:
        return Torn(f"{len(cells)} numbers, which is no known shape")
    wanted = sum(map(len, halves))
    taken = _unglue(cells, wanted, columns)
    blank = columns is not None and len(halves) > 1 and cells[0][1] - _end_of_lead(tokens, cells) >= _BLANK_HALF
    if blank and len(taken) == len(halves[-1]):
        halves = ((), halves[-1])
    elif len(taken) != wanted:
        return Torn(f"{len(taken)} of {wanted} numbers")
    done = _cells([text for text, _, _ in taken], halves)
    size, count = int(match.group(1)), int(match.group(2))
    why = _disagrees(size, count, match.group(3), done)
    if why or done is None:
        return Torn(why or "")
    made = Row(
        size=size,
        count=count,
        type=match.group(3),
        redop=redop,
        root=root,
        out_of_place=done[0],
        in_place=done[1] if len(done) > 1 else None,
    )
    end = taken[-1][2]
    return Found(made, end, glued=bool(match.group(4)[end:].strip()) and not (columns and columns.timestamp))


_Token = tuple[str, int, int]


def _lead(tokens: list[_Token], columns: Header | None) -> tuple[str | None, int | None, list[_Token]]:
    """Operation and root, and the tokens behind them. Old all-to-all tables name a redop column and leave it blank."""
    redop: str | None = None
    root: int | None = None
    at = 0
    if tokens and tokens[0][0].isalpha() and tokens[0][0].lower() not in {"nan", "inf"}:
        redop, at = tokens[0][0], 1
    has_root = "root" in columns.lead if columns else _looks_rooted([text for text, _, _ in tokens[at:]])
    if has_root and at < len(tokens) and re.fullmatch(r"-?\d+", tokens[at][0]):
        root, at = int(tokens[at][0]), at + 1
    return redop, root, tokens[at:]


def _looks_rooted(texts: list[str]) -> bool:
    """Without a header: an integer in front of two halves, or of the first number with a decimal point."""
    if not texts or not re.fullmatch(r"-?\d+", texts[0]):
        return False
    return len(texts) % _CELLS == 1 or texts[0].startswith("-")


def _guess_halves(texts: list[str]) -> tuple[tuple[str, ...], ...] | None:
    """The shape of a row without header: two halves of four cells; the last is an error where it says `e`."""
    count = 0
    for text in texts:
        if not is_number(re.split(r"(?<=\d)(?=[A-Za-z\[(#])(?![eE][-+]?\d)", text)[0]):
            break
        count += 1
    if count != 2 * _CELLS:
        # One half alone may be what a tear left of two.
        return None
    last = "error" if "e" in texts[_CELLS - 1] or "." in texts[_CELLS - 1] else "wrong"
    return (("time", "algbw", "busbw", last),) * 2


def _unglue(cells: list[_Token], wanted: int, columns: Header | None) -> list[_Token]:
    """The first `wanted` tokens; what is glued behind the last one is another writer's line, unless it is a number."""
    taken = cells[:wanted]
    if len(taken) < wanted:
        return taken
    text, start, end = taken[-1]
    if not is_number(text):
        match = re.match(r"(\d+|N/A)(?=[A-Za-z\[(#])", text)
        if match:
            taken[-1] = (match.group(1), start, start + match.end())
        return taken
    rest = cells[wanted:]
    if rest and is_number(rest[0][0]) and not (columns and columns.timestamp):
        return [*taken, rest[0]]
    del end
    return taken


def _end_of_lead(tokens: list[_Token], cells: list[_Token]) -> int:
    """Where the last token before the numbers ends, counted like the tokens."""
    at = len(tokens) - len(cells)
    return tokens[at - 1][2] if at else 0


def _cells(texts: list[str], halves: tuple[tuple[str, ...], ...]) -> list[Cell | None] | None:
    """The cells of each half, in the order of the header; None where a field is no number."""
    if not all(map(is_number, texts)):
        return None
    out: list[Cell | None] = []
    at = 0
    for names in halves:
        values = dict(zip(names, texts[at : at + len(names)], strict=True))
        at += len(names)
        out.append(_cell(values) if values else None)
    return out


def _cell(values: dict[str, str]) -> Cell:
    error = values.get("error")
    return Cell(
        time_us=number(values.get("time", values.get("cputime"))),
        algbw=number(values.get("algbw")),
        busbw=number(values.get("busbw")),
        wrong=whole_number(values.get("wrong")),
        error_raw=error,
        statistics={name: number(values[column]) for column, name in _STATISTIC.items() if column in values},
    )


def _disagrees(size: int, count: int, kind: str, cells: list[Cell | None] | None) -> str | None:
    """What shows that digits are missing: a size that is no multiple of its count, a time that contradicts algbw."""
    if cells is None:
        return "a field is no number"
    if count and size % (count * TYPE_BYTES[kind]):
        return "its size is no multiple of its count"
    for cell in cells:
        if cell is None:
            continue
        if cell.wrong is not None and cell.wrong < 0:
            return "its count of wrong elements is negative"
        if cell.error_raw is not None and not _ERROR.fullmatch(cell.error_raw):
            return "its error is cut"
        if cell.time_us and cell.algbw and cell.algbw >= 1:
            implied = size / cell.time_us / 1e3
            if not 0.8 < implied / cell.algbw < 1.25:
                return "its time and bandwidth contradict each other"
    return None
