"""The planner's face: a state machine that gives probes and takes results until the failure is explained.

It has no clock, no threads and does no I/O; whoever drives it runs the probes. Every probe that `ready` gives out must
be given back with `record`, unless the search was stopped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from isolate.course import course
from isolate.evidence import Evidence
from isolate.explain import findings
from isolate.model import Case, Findings, Limits, Probe, Result, Topology
from isolate.search import Search
from isolate.topology import Map


class Isolation:
    """One isolation of one failing case on one group.

    Args:
        group: the nodes that failed together.
        topology: where they, and possible partners outside the group, stand.
        limits: what the search may cost.
        evidence: what the session knows; this isolation adds to it.
        case: what kind of case failed.
        first: the failing run (round 0).
    """

    def __init__(  # noqa: PLR0917 - the agreed face of the planner
        self,
        group: Iterable[str],
        topology: Topology,
        limits: Limits,
        evidence: Evidence,
        case: Case,
        first: Result,
    ) -> None:
        members = tuple(dict.fromkeys(group))
        if not members:
            raise ValueError("isolation needs at least one node: the group is empty")
        proven = evidence.nodes(case) if limits.borrow else frozenset()
        mapped = Map((*members, *sorted(proven - set(members))), topology)
        self._search = Search(members, mapped, limits=limits, evidence=evidence, case=case, first=first)
        self._limits = limits
        self._node_seconds = 0.0
        self._out: set[int] = set()
        self._findings: Findings | None = None
        self._done = False
        for node in first.lost:
            if node in mapped.rank:
                self._search.ledger.lose(node)
        self._search.scheduler.start(course(self._search))

    @property
    def done(self) -> bool:
        """Whether the search has ended."""
        return self._done or self._search.scheduler.finished

    def ready(self, running: Collection[Probe] = ()) -> list[Probe]:
        """Probes that may start now, disjoint from each other and from `running`."""
        if self.done:
            return []
        limit = self._exhausted()
        if limit:
            if not self._out:
                self.stop(limit)
            return []
        left = None if self._limits.max_probes is None else self._limits.max_probes - self._search.scheduler.made
        probes = self._search.scheduler.ready(running, left)
        self._out.update(probe.id for probe in probes)
        return probes

    def record(self, probe: Probe, result: Result) -> None:
        """Take the result of a probe.

        Raises:
            ValueError: the probe is not one of those that are out.
        """
        if probe.id not in self._out:
            raise ValueError(f"probe {probe.id} is not out: it was never given, or its result was recorded before")
        self._out.discard(probe.id)
        search = self._search
        self._node_seconds += len(probe.nodes) * result.seconds
        outcome = search.judge(result)
        alone = search.scheduler.land(probe)
        search.ledger.record(probe, result, passed=outcome == "passed", alone=alone, told=_told(result, outcome))
        if self.done:
            return
        search.scheduler.settle(probe, result, outcome)
        if result.lost:
            search.say(f"Lost while a probe ran: {search.names(result.lost)}; nobody is accused, the search goes on.")
            search.scheduler.drop_lost()

    def stop(self, reason: str) -> None:
        """End the search now; what is known so far is reported as inconclusive."""
        if not self.done:
            self._search.limit = reason
            self._search.say(f"The search ended early: {reason}.")
            self._done = True

    @property
    def findings(self) -> Findings:
        """What is concluded; before `done`, what would be said if the search ended now."""
        if not self.done:
            return findings(self._search)
        if self._findings is None:
            self._findings = findings(self._search)
            if self.done:
                for node, accused in self._search.suspects.items():
                    self._search.evidence.suspect(
                        node, f"{accused.kind} in {self._search.case.name or 'an earlier case'}"
                    )
        return self._findings

    def _exhausted(self) -> str:
        limits = self._limits
        if limits.max_probes is not None and self._search.scheduler.made >= limits.max_probes:
            return f"limit of {limits.max_probes} probes reached"
        if limits.max_node_seconds is not None and self._node_seconds >= limits.max_node_seconds:
            return f"limit of {limits.max_node_seconds:g} node-seconds reached"
        return ""


def _told(result: Result, outcome: str) -> str:
    words = outcome if outcome == result.outcome else f"{outcome} against the common level"
    if result.value is not None and result.expected is not None:
        words += f", {result.value:.4g} of {result.expected:.4g}"
    return words + (f" ({result.reason})" if result.reason and outcome != "passed" else "")
