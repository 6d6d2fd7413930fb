"""Progress lines of training frameworks, read by the formats of `catalog/logformats`.

One record a step: what several ranks print of the same step counts once, what one rank prints in several lines is put
together, a record whose end is missing never counts. Where a log speaks two formats the first one in the catalog wins,
and one that only accompanies another (a line of throughput beside a progress line) is joined to it.
"""

from __future__ import annotations

import math
import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import zip_longest
from typing import Any, Final

from measure.draft import FACT, PASS, Draft
from measure.lines import Line
from measure.logformats import UNITS, Field, LogFormat, Part
from measure.model import Step

_OWN: Final = ("step", "time_s", "tflops_per_gpu", "loss", "tokens_per_s")
_SCALES: Final = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
_REMEMBERED: Final = 4096
"""Steps remembered to recognise what another rank prints of them."""
_MAX_RECORDS: Final = 2_000_000


@dataclass(slots=True)
class _Pending:
    """A record that goes on in the next line."""

    text: str
    source: str
    left: int


@dataclass(slots=True)
class Log:
    """What was read in one format."""

    format: LogFormat
    steps: list[Step] = field(default_factory=list)
    recent: OrderedDict[int, int] = field(default_factory=OrderedDict)
    first_source: str | None = None
    sources: dict[int, str] = field(default_factory=dict)
    furthest: int = -1
    pending: dict[str, _Pending] = field(default_factory=dict)
    cut: int = 0
    ended: bool = False
    runs: list[dict[str, Any]] = field(default_factory=list)
    nan: bool = False
    evals: list[dict[str, Any]] = field(default_factory=list)
    raw_line: re.Pattern[bytes] = field(init=False)

    def __post_init__(self) -> None:
        line = self.format.steps.line
        self.raw_line = re.compile(line.pattern.encode(), line.flags & ~re.UNICODE)

    def worth_reading(self, block: bytes, lines: Sequence[bytes]) -> list[bool]:
        """Which progress lines of a block may say something new.

        Thousands of ranks print every step; once its record is settled the others' lines are only counted by a search
        over the whole block, and none of them is decoded. `lines` are those of the block that have this format's shape.
        """
        found = self.raw_line.findall(block)
        if len(found) != len(lines):
            found = [(self.raw_line.findall(raw) or [b""])[0] for raw in lines]
        steps = {groups: self._number(groups) for groups in set(found)}
        out = [False] * len(lines)
        for groups, step in steps.items():
            if step is None:
                out = [worth or other == groups for worth, other in zip(out, found, strict=True)]
            elif step not in self.recent:
                out[found.index(groups)] = True
        tag = (self.first_source or "").rpartition(" ")[2].encode()
        unsettled = any(self.sources.get(step) != self.first_source for step in steps.values() if step is not None)
        if tag and unsettled and tag in block:
            out = [worth or tag in raw for worth, raw in zip(out, lines, strict=True)]
        return out

    def _number(self, groups: bytes | tuple[bytes, ...]) -> int | None:
        """The step in what a pattern found: it may have several groups, of which some are for the total."""
        found = (groups,) if isinstance(groups, bytes) else groups
        places = (at - 1 for name, at in self.raw_line.groupindex.items() if name.rstrip("_") == "step")
        text = next((found[at] for at in places if found[at]), b"")
        return int(text) if text and len(text) < 20 else None


class TrainingLogs:
    """Reader of training logs."""

    def __init__(self, draft: Draft, formats: Sequence[LogFormat]) -> None:
        self._draft = draft
        self._logs = [Log(made) for made in formats]
        self.marks = tuple(dict.fromkeys(mark for made in formats for mark in made.marks))
        self.took: Log | None = None
        """The log whose record the last line was, if it was one."""

    def feed(self, line: Line) -> int:
        """Take a line."""
        body = line.body
        self.took = None
        for log in self._logs:
            if log.pending and self._continues(log, line):
                return FACT
            made = log.format
            for mark in made.marks:
                if mark in body:
                    if taken := self._take(log, line):
                        return taken
                    break
        return PASS

    def _take(self, log: Log, line: Line) -> int:
        made, body = log.format, line.body
        if made.final and made.final.line.search(body):
            self._final(log, body)
        elif made.eval and (match := made.eval.line.search(body)):
            values, _ = _values(made.eval, body, match.groupdict())
            if line.whole and len(log.evals) < _MAX_RECORDS:
                log.evals.append(values)
        elif match := made.steps.line.search(body):
            # What stands before the record may be the end of another writer's line.
            self.took = log
            self._record(log, Line(body[match.start() :], line.source, line.whole))
        elif made.end and made.end.search(body):
            log.ended = True
        else:
            return PASS
        return FACT

    def _record(self, log: Log, line: Line) -> None:
        made = log.format
        if made.ends:
            done = made.ends.search(line.body)
            if not done:
                if made.wrapped and line.whole:
                    log.pending[line.source] = _Pending(line.body, line.source, made.wrapped)
                    self._draft.hold("training", waiting=True)
                else:
                    log.cut += 1
                return
        elif not line.whole:
            log.cut += 1
            return
        self._complete(log, line.body, line.source)

    def _continues(self, log: Log, line: Line) -> bool:
        """The next line of a wrapped record carries no tag of its own, or that of its writer."""
        key = line.source if line.source in log.pending else next(reversed(log.pending))
        pending = log.pending[key]
        if line.source not in ("", key) or log.format.steps.line.search(line.body):
            self._lost(log, key)
            return False
        pending.text = f"{pending.text.rstrip()} {line.body.lstrip()}"
        pending.left -= 1
        ends = log.format.ends
        if ends and ends.search(line.body):
            del log.pending[key]
            self._complete(log, pending.text, pending.source)
        elif pending.left <= 0 or not line.whole:
            self._lost(log, key)
        self._draft.hold("training", waiting=any(other.pending for other in self._logs))
        return True

    def _lost(self, log: Log, key: str) -> None:
        del log.pending[key]
        log.cut += 1
        self._draft.hold("training", waiting=any(other.pending for other in self._logs))

    def _complete(self, log: Log, text: str, source: str) -> None:
        match = log.format.steps.line.search(text)
        values, nans = _values(log.format.steps, text, match.groupdict() if match else {})
        if any(name not in values and name not in nans for name in log.format.required):
            log.cut += 1
            return
        log.nan = log.nan or bool(nans)
        if nans:
            values["nan"] = sorted(nans)
        extra = {key: value for key, value in values.items() if key not in _OWN}
        self._keep(log, Step(**{key: values.get(key) for key in _OWN}, extra=extra), source)

    def _keep(self, log: Log, step: Step, source: str) -> None:
        """Each step once: of the writer that was seen first, or of whoever is ahead of it."""
        if log.first_source is None:
            log.first_source = source
        number = step.step
        known = log.recent.get(number) if number is not None else None
        if known is not None and number is not None:
            if source == log.sources[number] and number == log.steps[-1].step:
                log.steps[known] = _join(log.steps[known], step)
                return
            if source != log.sources[number]:
                if source == log.first_source:
                    log.steps[known], log.sources[number] = step, source
                return
        if source != log.first_source and number is not None and number <= log.furthest:
            return
        if len(log.steps) >= _MAX_RECORDS:
            return
        log.steps.append(step)
        log.ended = False
        if number is not None:
            log.furthest = max(log.furthest, number)
            log.recent[number] = len(log.steps) - 1
            log.recent.move_to_end(number)
            log.sources[number] = source
            if len(log.recent) > _REMEMBERED:
                old, _ = log.recent.popitem(last=False)
                del log.sources[old]

    def _final(self, log: Log, body: str) -> None:
        final = log.format.final
        if final is None:
            return
        match = final.line.search(body)
        values, nans = _values(final, body, match.groupdict() if match else {})
        if len(log.runs) < _MAX_RECORDS:
            log.runs.append({"final": values, "nan": log.nan or bool(nans)})
        log.nan = False
        log.ended = True

    def finish(self) -> None:
        """The steps of the format that was spoken, with what accompanies them."""
        for log in self._logs:
            for key in list(log.pending):
                self._lost(log, key)
        spoken = [log for log in self._logs if log.steps or log.runs]
        if not spoken:
            self._only_cut()
            return
        main = next((log for log in spoken if not log.format.accompanies), spoken[0])
        draft = self._draft
        beside = next((log for log in spoken if log.format.accompanies == main.format.name), None)
        draft.formats.append(beside.format.name if beside else main.format.name)
        draft.steps.extend(_accompany(main.steps, beside.steps) if beside else main.steps)
        for key, value in (("runs", main.runs), ("eval", main.evals)):
            if value:
                draft.details[key] = value
        if main.cut:
            draft.cut(f"{main.cut} progress line(s) cut or torn")
        self._whole(main)

    def _only_cut(self) -> None:
        cut = next((log for log in self._logs if log.cut), None)
        if cut:
            self._draft.formats.append(cut.format.name)
            self._draft.cut("every progress line is cut")

    def _whole(self, log: Log) -> None:
        """Whether the training came to its end: only an end mark or the last step of those announced proves it."""
        last = log.steps[-1] if log.steps else None
        total = last.extra.get("of") if last else None
        number = last.step if last else None
        if log.ended or (isinstance(total, int) and number is not None and number >= total - log.format.zero_based):
            self._draft.closed = True
        elif isinstance(total, int):
            self._draft.cut(f"the log ends at step {number} of {total}")
        elif log.format.end or log.format.final:
            self._draft.cut(f"the end mark of {log.format.name} is missing")
        else:
            self._draft.cut(f"{log.format.name} prints no end mark: whether steps are missing cannot be known")


def _values(part: Part, text: str, groups: Mapping[str, str | None]) -> tuple[dict[str, Any], set[str]]:
    """The numbers of a record under their names, and the names of those printed as nan or inf."""
    out: dict[str, Any] = {}
    nans: set[str] = set()
    for name, printed in groups.items():
        if printed is not None:
            # Alternatives of one pattern need two names for one group: `step_` is `step`.
            out[name.rstrip("_")] = int(printed.replace(",", ""))
    for made in part.fields:
        value = _number(made, text, nans)
        if value is not None:
            out[made.name] = value
    return out, nans


def _number(made: Field, text: str, nans: set[str]) -> float | int | None:
    for pattern, unit in made.patterns:
        match = pattern.search(text)
        if not match:
            continue
        printed = match.group(1).replace(",", "")
        scale = _SCALES.get(printed[-1:], 1.0)
        try:
            value = float(printed[:-1] if scale != 1.0 else printed) * scale
        except ValueError:
            return None
        if not math.isfinite(value):
            nans.add(made.name)
            return None
        if made.integer and unit == "1":
            return int(value)
        if unit == "1/s":
            return 1.0 / value if value else None
        # In decimal, so that 5123.4 ms are 5.1234 s and not 5.123399999999999 s.
        return value if UNITS[unit] == 1 else float(Decimal(repr(value)) * UNITS[unit])
    return None


def _join(old: Step, new: Step) -> Step:
    """Two lines of one step: what the later one says counts, the rest stays."""
    values = {key: getattr(new, key) if getattr(new, key) is not None else getattr(old, key) for key in _OWN}
    return Step(**values, extra={**old.extra, **new.extra})


def _accompany(steps: Sequence[Step], beside: Sequence[Step]) -> list[Step]:
    """Each step with the figures printed beside it, which name no step: those whose times agree, in their order.

    A log may be cut between the two lines of a step, so that one more stands at its beginning or end.
    """
    for skipped in (0, -1, 1):
        theirs = [None] * -skipped + list(beside[max(skipped, 0) :])
        pairs = list(zip_longest(steps, theirs[: len(steps)]))
        if all(_agree(step, other) for step, other in pairs):
            return [_beside(step, other) for step, other in pairs if step]
    return list(steps)


def _agree(step: Step | None, other: Step | None) -> bool:
    if step is None or other is None or step.time_s is None or other.time_s is None:
        return step is not None
    return abs(step.time_s - other.time_s) <= 0.01 + 0.01 * step.time_s


def _beside(step: Step, other: Step | None) -> Step:
    if other is None:
        return step
    return replace(
        step,
        time_s=step.time_s if step.time_s is not None else other.time_s,
        tflops_per_gpu=step.tflops_per_gpu if step.tflops_per_gpu is not None else other.tflops_per_gpu,
    )
