"""What a session used, and what it ran on, added up case by case."""

from __future__ import annotations

from importlib import metadata

from reports.record import Budget, CaseRecord, Versions

DISTRIBUTION = "clusterproof"
NAMED = ("driver", "cuda", "nccl", "torch")
"""Versions that the programs on the nodes report and that have a field of their own."""


class Spending:
    """Running totals over finished cases."""

    def __init__(self) -> None:
        self._probes = 0
        self._node_seconds = 0.0
        self._first: float | None = None
        self._last = 0.0
        self._versions: dict[str, dict[str, None]] = {name: {} for name in NAMED}

    def add(self, case: CaseRecord) -> None:
        """Take in one finished case."""
        probes = case.isolation.probes if case.isolation is not None else []
        self._probes += len(probes)
        for probe in probes:
            if probe.started is not None and probe.ended is not None:
                self._node_seconds += len(probe.nodes) * (probe.ended - probe.started)
        if case.started is not None and case.ended is not None:
            self._first = case.started if self._first is None else min(self._first, case.started)
            self._last = max(self._last, case.ended)
            self._node_seconds += len(case.nodes) * (first_end(case) - case.started)
        if case.measurement is not None:
            for name, seen in self._versions.items():
                if value := case.measurement.versions.get(name):
                    seen[str(value)] = None

    def budget(self, planned: Budget) -> Budget:
        """The planned budget with what was used of it."""
        used = {
            "used_probes": self._probes,
            "used_node_seconds": round(self._node_seconds, 3),
            "used_wall_seconds": round(self._last - (self._first or 0.0), 3),
        }
        return planned.model_copy(update=used)

    def versions(self, known: Versions) -> Versions:
        """The known versions, completed by what the runs reported; several in one cluster stand side by side."""
        reported = {name: ", ".join(seen) for name, seen in self._versions.items() if seen and not getattr(known, name)}
        suite = known.suite or metadata.version(DISTRIBUTION)
        return known.model_copy(update={"suite": suite, **reported})


def first_end(case: CaseRecord) -> float:
    """When the first run of a case ended (seconds of the session); the rest of its time went to isolation."""
    started, ended = case.started or 0.0, case.ended or 0.0
    ran = sum(getattr(case.durations, phase) for phase in type(case.durations).model_fields)
    return min(started + ran, ended) if ran else ended
