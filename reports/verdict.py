"""From the cases of a session to its one result and its exit code.

The rules are few and each fails closed: interrupted is never passed, skipped is never passed, a node that the target
asked for and that nobody tested is never passed.
"""

from __future__ import annotations

from collections.abc import Iterator

from reports.record import Record, SessionResult

EXIT_PASSED = 0
EXIT_FAILED = 1
EXIT_STOPPED = 2
EXIT_INCOMPLETE = 6


def because(record: Record) -> tuple[SessionResult, list[str]]:
    """The result by what is in the record, and the list behind it: failures, else what is missing, else nothing."""
    if failures := list(_failures(record)):
        return "FAILED", failures
    if gaps := list(_gaps(record)):
        return "INCOMPLETE", gaps
    return "PASSED", []


def result(record: Record, *, allow_incomplete: bool = False) -> tuple[SessionResult, int]:
    """The session's result and exit code (0 passed, 1 failed, 2 stopped early, 6 incomplete).

    `allow_incomplete` turns 6 into 0, but only where something ran: a session of skips proves nothing.
    """
    verdict, _ = because(record)
    if record.run_state in {"interrupted", "deadline"}:
        return verdict, EXIT_STOPPED
    if verdict == "FAILED":
        return verdict, EXIT_FAILED
    if verdict == "PASSED" or (allow_incomplete and any(case.verdict == "passed" for case in record.cases)):
        return verdict, EXIT_PASSED
    return verdict, EXIT_INCOMPLETE


def _failures(record: Record) -> Iterator[str]:
    for case in record.cases:
        if case.failing:
            yield f"{case.id}: {case.verdict}" + (f" ({case.reason})" if case.reason else "")
    for node in record.nodes:
        if node.verdict == "lost":
            yield f"{node.name}: lost while the session ran"


def _gaps(record: Record) -> Iterator[str]:
    if record.run_state in {"interrupted", "deadline"}:
        yield f"the session was stopped early ({record.run_state})"
    if not any(case.verdict == "passed" for case in record.cases):
        yield "no case ran"
    for excluded in record.excluded:
        if not excluded.waived:
            yield f"{excluded.node}: excluded, {excluded.reason}"
    for node in record.nodes:
        if node.verdict == "untested":
            yield f"{node.name}: not exercised by any case"
