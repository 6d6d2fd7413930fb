"""Runs the steps of isolation as cooperating tasks and turns what they ask for into probes.

Nothing waits for a round to end: an ask starts as soon as its nodes and a lane are free, and a hanging probe holds its
own nodes only. Everything is deterministic: asks are placed in the order they were made, partners in topology order.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from isolate.ledger import Ledger
from isolate.model import Limits, Probe, Result
from isolate.partners import Partners
from isolate.requests import Answer, Ask, Gate, Turn, Wait
from isolate.topology import Map


class _Task:
    """A running step and where its return value goes."""

    __slots__ = ("index", "parent", "pending", "results", "steps")

    def __init__(self, steps: Generator[Any, Any, Any], parent: _Task | None, index: int) -> None:
        self.steps = steps
        self.parent = parent
        self.index = index
        self.pending = 0
        self.results: list[Any] = []


@dataclass(slots=True)
class _Waiting:
    """An ask that has not ended: tries so far and what they told."""

    ask: Ask
    task: _Task
    invalid: int = 0
    outcomes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Flight:
    """A probe that is out."""

    probe: Probe
    waiting: _Waiting
    partners: tuple[str, ...]
    about_leaves: frozenset[str]
    leaves: frozenset[str]
    shared: frozenset[str]
    alone: bool = True


class Scheduler:
    """Drives tasks, places asks, hands results back."""

    def __init__(self, mapped: Map, ledger: Ledger, limits: Limits, least: int) -> None:
        self._map = mapped
        self._ledger = ledger
        self._partners = Partners(mapped, ledger)
        self._limits = limits
        self._least = least
        self._queue: list[_Waiting] = []
        self._turns: list[_Task] = []
        self._flights: dict[int, _Flight] = {}
        self._made = 0
        self._known_round = 0
        self.share = 2
        """Lanes for each of the sets that are about to be split: at least two parts always."""
        self.finished = False

    def start(self, steps: Generator[Any, Any, Any]) -> None:
        """Begin with the root task."""
        self._step(_Task(steps, None, 0), None)

    @property
    def made(self) -> int:
        """Probes handed out so far."""
        return self._made

    @property
    def rounds(self) -> int:
        """The newest round of which a result is known."""
        return self._known_round

    # Tasks

    def _step(self, task: _Task, value: Any) -> None:
        while True:
            try:
                request = task.steps.send(value)
            except StopIteration as end:
                self._finish(task, end.value)
                return
            if isinstance(request, Ask):
                self._queue.append(_Waiting(request, task))
                return
            if isinstance(request, Turn):
                self._turns.append(task)
                return
            if isinstance(request, Wait):
                if not request.gate.opened:
                    request.gate.waiting.append(task)
                    return
                value = None
                continue
            if request.steps:
                self._fork(task, request.steps)
                return
            value = []

    def open(self, gate: Gate) -> None:
        """Let everybody through who waits at the gate."""
        gate.opened = True
        waiting, gate.waiting = gate.waiting, []
        for task in waiting:
            self._step(task, None)

    def _fork(self, task: _Task, steps: Sequence[Generator[Any, Any, Any]]) -> None:
        task.pending = len(steps)
        task.results = [None] * len(steps)
        for index, each in enumerate(steps):
            self._step(_Task(each, task, index), None)

    def _finish(self, task: _Task, value: Any) -> None:
        parent = task.parent
        if parent is None:
            self.finished = True
            return
        parent.results[task.index] = value
        parent.pending -= 1
        if not parent.pending:
            results, parent.results = parent.results, []
            self._step(parent, results)

    # Placing

    def ready(self, running: Collection[Probe], most: int | None = None) -> list[Probe]:
        """Everything that can start now, at most `most`."""
        outside = [probe for probe in running if probe.id not in self._flights]
        busy = {
            node for probe in (*outside, *(flight.probe for flight in self._flights.values())) for node in probe.nodes
        }
        started: list[Probe] = []
        while not self.finished:
            self._take_turns()
            waiting, self._queue = self._queue, []
            left: list[_Waiting] = []
            for each in waiting:
                lanes = self._limits.max_concurrent - len(self._flights) - len(outside)
                allowed = lanes > 0 and (most is None or len(started) < most)
                probe = self._place(each, busy) if allowed else None
                if probe is None:
                    left.append(each)
                else:
                    busy.update(probe.nodes)
                    started.append(probe)
            self._queue = left + self._queue
            if self._flights or outside or started:
                break
            if not self._turns and not self._give_up():
                break
        return started

    def _take_turns(self) -> None:
        while self._turns:
            turns, self._turns = self._turns, []
            free = self._limits.max_concurrent - len(self._flights) - len(self._queue)
            self.share = max(2, free // len(turns))
            for task in turns:
                self._step(task, None)

    def _give_up(self) -> bool:
        """Nothing runs and nothing can start: whoever waits for a partner will not get one."""
        stuck, self._queue = self._queue, []
        for each in stuck:
            self._answer(each, Answer("nobody", each.ask.core))
        return bool(stuck)

    def _place(self, waiting: _Waiting, busy: set[str]) -> Probe | None:
        ask = waiting.ask
        lost = self._ledger.lost
        core = tuple(node for node in ask.core if node not in lost)
        if not core or not busy.isdisjoint(core):
            return None
        need = 0 if ask.alone else max(ask.wish.least if ask.wish.kind != "none" else 0, self._least - len(core))
        partners = self._partners.choose(core, ask.wish, need, busy) if need > 0 else ()
        if partners is None:
            if not (ask.wish.optional and len(core) >= self._least):
                return None
            partners = ()
        nodes = self._map.order((*core, *partners))
        shared = frozenset() if ask.variant.mnnvl is False else self._map.shared_domains(nodes)
        about_leaves = frozenset(self._map.leaf[node] for node in core)
        leaves = frozenset(self._map.leaf[node] for node in nodes)
        if any(self._clash(flight, shared, leaves, about_leaves, quiet=ask.quiet) for flight in self._flights.values()):
            return None
        self._made += 1
        probe = Probe(self._made, nodes, ask.variant, ask.quiet, ask.purpose, self._known_round + 1, core)
        flight = _Flight(probe, waiting, partners, about_leaves, leaves, shared)
        for other in self._flights.values():
            if other.about_leaves & leaves:
                other.alone = False
            if about_leaves & other.leaves:
                flight.alone = False
        self._flights[probe.id] = flight
        return probe

    @staticmethod
    def _clash(
        flight: _Flight, shared: frozenset[str], leaves: frozenset[str], about: frozenset[str], *, quiet: bool
    ) -> bool:
        # One multi-node NVLink probe per NVLink domain (IMEX channels); nobody in the leaf of a quiet probe.
        return bool(
            (shared & flight.shared)
            or (quiet and about & flight.leaves)
            or (flight.probe.quiet and flight.about_leaves & leaves)
        )

    # Results

    def owns(self, probe: Probe) -> bool:
        """Whether the probe is out."""
        return probe.id in self._flights

    def land(self, probe: Probe) -> bool:
        """Take a probe out of flight; returns whether it ran alone in its leaf."""
        self._known_round = max(self._known_round, probe.round)
        return self._flights[probe.id].alone

    def settle(self, probe: Probe, result: Result, outcome: str) -> None:
        """Give the judged outcome to the step that asked, or run the probe once more."""
        flight = self._flights.pop(probe.id)
        waiting = flight.waiting
        ask = waiting.ask
        core = tuple(node for node in ask.core if node not in self._ledger.lost)
        if result.lost and outcome != "passed" and core:
            waiting.ask = replace(ask, core=core)
            self._queue.append(waiting)
            return
        if outcome == "invalid":
            waiting.invalid += 1
            if waiting.invalid > 1 or not core:
                self._answer(waiting, Answer("unknown", core, flight.partners, probe, result, flight.alone))
            else:
                self._queue.append(waiting)
            return
        waiting.outcomes.append(outcome)
        final = weigh(waiting.outcomes)
        if final is None:
            self._queue.append(waiting)
        else:
            self._answer(waiting, Answer(final, core, flight.partners, probe, result, flight.alone))

    def _answer(self, waiting: _Waiting, answer: Answer) -> None:
        self._step(waiting.task, answer)

    def drop_lost(self) -> None:
        """Asks whose every node is gone are answered: they will tell nothing."""
        lost = self._ledger.lost
        gone = [each for each in self._queue if all(node in lost for node in each.ask.core)]
        self._queue = [each for each in self._queue if each not in gone]
        for each in gone:
            self._answer(each, Answer("unknown", ()))


def weigh(outcomes: Sequence[str]) -> Literal["passed", "failed", "unclear"] | None:
    """Judge a probe that may have been repeated because its value lay in the grey band; None = once more.

    A clear first result stands. After an unclear one the probe runs twice more: any failure fails it, two passes pass
    it, everything else stays unclear.
    """
    if outcomes[0] != "unclear":
        return "failed" if outcomes[0] == "failed" else "passed"
    if "failed" in outcomes:
        return "failed"
    if len(outcomes) < 3:
        return None
    return "passed" if outcomes[1:] == ["passed", "passed"] else "unclear"
