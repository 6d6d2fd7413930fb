"""The failure text of a case: the finding first, then all that it rests on.

pytest prints it where a traceback would be, and JUnit keeps it as the text of `<failure>`: some consumers read only the
message, others only the text, so the text begins with the message. It is bounded (a log tail of thousands of ranks is
not for a terminal); everything is in report.json.
"""

from __future__ import annotations

from collections.abc import Iterator

from reports import words
from reports.record import CaseRecord
from reports.text import fold, plural

MOST_RANKS = 4
MOST_NODES = 16


def failure_text(case: CaseRecord) -> str:
    """Several lines, without a line break at the end."""
    return "\n".join(_lines(case))


def _lines(case: CaseRecord) -> Iterator[str]:
    yield case.message
    yield ""
    yield f"{case.entry} at {case.scale} on {plural(len(case.nodes), 'node')}: {fold(case.nodes, MOST_NODES)}"
    yield from _isolation(case)
    yield from _section("criteria", (f"{_sign(check.ok)} {words.criterion_line(check)}" for check in case.criteria))
    yield from _section("likely causes", words.advice_lines(case.advice))
    yield from _section("counters", words.counter_lines(case.counters))
    yield from _section("node events", (f"{event.node}: {event.message}" for event in case.events))
    shown = case.evidence[:MOST_RANKS]
    yield from _section("ranks", (line for evidence in shown for line in words.evidence_lines(evidence)))
    if len(case.evidence) > MOST_RANKS:
        yield f"  … and {len(case.evidence) - MOST_RANKS} more ranks in report.json"
    yield from _section("left behind", iter(case.leftovers))
    yield from _section("raw log", iter([case.log] if case.log else []))


def _isolation(case: CaseRecord) -> Iterator[str]:
    found = case.isolation
    if found is None:
        return
    yield from _section("suspects", (f"{each.node}: {words.suspect_line(each)}" for each in found.suspects))
    yield from _section("also found", (f"{what}: {text}" for what, text in words.other_findings(found)))
    if found.certified_rest is not None:
        yield from _section("certified", iter([words.certified_line(found)]))
    yield from _section(words.isolation_title(case.id, found), iter(found.story))


def _section(title: str, lines: Iterator[str]) -> Iterator[str]:
    filled = list(lines)
    if filled:
        yield ""
        yield f"{title}:"
        yield from (f"  {line}" for line in filled)


def _sign(ok: bool) -> str:
    return "ok    " if ok else "MISSED"
