"""Completes the result that allure-pytest is about to write with what the record knows of the case.

allure-pytest sees a test function that ran for a moment; the record knows that it was a run on eight nodes and six
probes after it. So status, times, steps, labels and attachments come from the record. It is done once per case on the
finished result, never through `allure.step` and the like while the case runs: their state is per thread, and our
probes do not run in the test's thread.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator
from typing import Any

import allure_commons
from allure_commons.model2 import (
    Attachment,
    Label,
    Parameter,
    Status,
    StatusDetails,
    TestResult,
    TestStepResult,
)

from reports import attachments, words
from reports.failure import failure_text
from reports.record import CaseRecord, IsolationRecord, ProbeRecord
from reports.spending import first_end
from reports.text import fold, plural

STATUSES = {
    "passed": Status.PASSED,
    "failed": Status.FAILED,
    "inconclusive": Status.FAILED,
    "error": Status.BROKEN,
    "skipped": Status.SKIPPED,
}
PROBE_STATUSES = {
    "passed": Status.PASSED,
    "failed": Status.FAILED,
    "unclear": Status.BROKEN,
    "invalid": Status.SKIPPED,
}
"""Allure has no status for "could not tell": broken is yellow, skipped grey."""

OWNED_LABELS = frozenset({"feature", "story", "thread", "suspect", "suspects", "reason"})
DROPPED_PARAMETERS = frozenset({"workload"})
"""The test's own parameter is the case with its nodes: the id says the first, the parameter below the second."""


def complete(result: TestResult, case: CaseRecord, *, session_start_ms: int | None = None) -> None:
    """Edit `result` in place; called just before it is written.

    `session_start_ms` (since the epoch) places the case on the time line; else the case begins where the test did.
    """
    origin = session_start_ms
    if origin is None:
        origin = int((result.start or 0) - 1000 * (case.started or 0.0))
    result.name = case.id
    result.status = STATUSES[case.verdict]
    if case.verdict != "passed":
        result.statusDetails = StatusDetails(message=case.message, trace=failure_text(case) if case.failing else None)
    if case.started is not None:
        result.start = _ms(origin, case.started)
        result.stop = _ms(origin, case.ended if case.ended is not None else case.started)
    result.labels = [label for label in result.labels if label.name not in OWNED_LABELS] + list(labels(case))
    result.parameters = [each for each in result.parameters if each.name not in DROPPED_PARAMETERS]
    result.parameters += list(parameters(case))
    # History follows the case, not the nodes that it happened to run on. Allure 3 makes its own key from the test's
    # id and the parameters; cases of one parametrized function would be retries of each other.
    result.fullName = f"{result.fullName}[{case.id}]"
    result.testCaseId = result.historyId = hashlib.md5(result.fullName.encode(), usedforsecurity=False).hexdigest()
    result.steps = [*result.steps, *steps(case, origin)]
    result.attachments = [*result.attachments, *map(_attach, attachments.of(case))]


def labels(case: CaseRecord) -> Iterator[Label]:
    """What reports group by: domain and scale, one `suspect` a node or link, the lane as the time line's thread."""
    yield Label(name="feature", value=case.domain or "certification")
    yield Label(name="story", value=case.scale or "any scale")
    if case.lane is not None:
        yield Label(name="thread", value=f"lane {case.lane:02d}")
    if case.failing and case.reason:
        yield Label(name="reason", value=case.reason)
    accused = suspects(case)
    yield from (Label(name="suspect", value=name) for name in accused)
    if accused:
        # Allure 3 groups a test by one value of a label only: this one holds them all.
        yield Label(name="suspects", value=fold(accused, 8))


def suspects(case: CaseRecord) -> list[str]:
    """What a case accuses: its suspects, else links and domains; a failing case of one node accuses that node."""
    found = case.isolation
    if found is None:
        sick = [event.node for event in case.events if event.kind == "health"]
        return sick or (case.nodes if case.verdict == "failed" and len(case.nodes) == 1 else [])
    names = [suspect.node for suspect in found.suspects]
    names += [name for group in found.sets for name in group]
    names += ["–".join(link.between) for link in found.links] + [domain.name for domain in found.domains]
    return list(dict.fromkeys(names))


def parameters(case: CaseRecord) -> Iterator[Parameter]:
    """Figures a reader looks for first, all kept out of the history's key."""
    value, unit = words.deciding(case)
    shown = {
        "nodes": fold(case.nodes, 8),
        "measured": words.figure(value, None, unit),
        "expected": words.figure(case.expected, None, case.unit),
        "floor": words.figure(words.floor(case), None, case.unit),
        "backend": case.backend,
        "layer": case.layer,
    }
    yield from (Parameter(name=name, value=text, excluded=True) for name, text in shown.items() if text)


def steps(case: CaseRecord, origin: int) -> Iterator[TestStepResult]:
    """The first run, then every probe under its round, then what follows from them."""
    if case.started is None:
        return
    value, unit = words.deciding(case)
    first = f"run on {plural(len(case.nodes), 'node')}: {words.figure(value, case.expected, unit) or 'no measurement'}"
    end = first_end(case)
    yield _step(first, STATUSES[case.verdict], _ms(origin, case.started), _ms(origin, end))
    if case.isolation is not None:
        yield from _rounds(case.isolation, origin, _ms(origin, end))
        last = _ms(origin, case.ended if case.ended is not None else end)
        yield _step(words.conclusion(case.isolation), STATUSES[case.verdict], last, last)


def _rounds(found: IsolationRecord, origin: int, otherwise: int) -> Iterator[TestStepResult]:
    rounds: dict[int, list[ProbeRecord]] = {}
    for probe in found.probes:
        rounds.setdefault(probe.round, []).append(probe)
    for number, probes in sorted(rounds.items()):
        inner = [_probe_step(probe, origin, otherwise) for probe in probes]
        purposes = ", ".join(dict.fromkeys(probe.purpose for probe in probes if probe.purpose))
        passed = sum(probe.outcome == "passed" for probe in probes)
        title = f"round {number}: {purposes or 'probes'}, {passed} of {len(probes)} passed"
        outer = _step(title, Status.PASSED, min(step.start for step in inner), max(step.stop for step in inner))
        outer.status = Status.PASSED if passed == len(probes) else Status.FAILED
        outer.steps = inner
        yield outer


def _probe_step(probe: ProbeRecord, origin: int, otherwise: int) -> TestStepResult:
    start = otherwise if probe.started is None else _ms(origin, probe.started)
    stop = start if probe.ended is None else _ms(origin, probe.ended)
    step = _step(f"probe {probe.id}: {words.probe_line(probe)}", PROBE_STATUSES[probe.outcome], start, stop)
    details = {
        "nodes": ", ".join(probe.nodes),
        "purpose": probe.purpose,
        "variant": probe.variant,
        "alone in its leaf": "yes" if probe.alone else "",
        "lane": "" if probe.lane is None else str(probe.lane),
    }
    step.parameters = [Parameter(name=name, value=text) for name, text in details.items() if text]
    if probe.outcome != "passed" and (text := "; ".join(filter(None, [probe.reason, probe.told]))):
        step.statusDetails = StatusDetails(message=text)
    return step


def _step(name: str, status: str, start: int, stop: int) -> TestStepResult:
    return TestStepResult(name=name, status=status, stage="finished", start=start, stop=max(start, stop))


def _attach(attached: attachments.Attached) -> Attachment:
    file_name = f"{uuid.uuid4()}-attachment.{attached.extension}"
    hook: Any = allure_commons.plugin_manager.hook
    hook.report_attached_data(body=attached.body, file_name=file_name)
    return Attachment(name=attached.name, source=file_name, type=attached.type)


def _ms(origin: int, seconds: float) -> int:
    return origin + round(1000 * seconds)
