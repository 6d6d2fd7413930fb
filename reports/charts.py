"""The pictures of a case and of a session.

Every chart has units on its axes and a title that says what it shows, so that it can be read alone, in a ticket or on
a page that somebody printed in grey. One module a chart; each takes records and gives PNG bytes, or None where there
is nothing to draw. Importing this module imports matplotlib.
"""

from __future__ import annotations

from collections.abc import Iterator

from reports.chart_bandwidth import bandwidth
from reports.chart_isolation import isolation_in_time
from reports.chart_nodes import nodes_among_peers
from reports.chart_pairs import matrix, pairs_of_cases, pairs_of_probes
from reports.chart_scaling import scaling_ladder
from reports.record import CaseRecord, Record

MOST_CASES = 60
"""Cases of a session that get charts of their own; failing ones first."""


def of_case(case: CaseRecord) -> Iterator[tuple[str, bytes]]:
    """(title, PNG) of the charts of one case."""
    if picture := isolation_in_time(case):
        yield "isolation over time", picture
    if picture := bandwidth(case):
        yield "bandwidth over message size", picture
    if picture := scaling_ladder(case):
        yield "scaling over nodes", picture
    if case.isolation is not None and (picture := matrix(case.entry, pairs_of_probes(case.isolation))):
        yield "pairs", picture


def of_session(record: Record) -> Iterator[tuple[str, bytes]]:
    """(file stem, PNG) of all charts of a session."""
    groups: dict[tuple[str, str], list[CaseRecord]] = {}
    for case in record.cases:
        groups.setdefault((case.entry, case.scale), []).append(case)
    several = sorted(
        (case for case in record.cases if len(case.nodes) > 1 or case.failing), key=lambda c: not c.failing
    )
    for case in several[:MOST_CASES]:
        for title, picture in of_case(case):
            yield f"{case.id}-{title.split()[0]}", picture
    for (entry, scale), cases in groups.items():
        if peers := nodes_among_peers(f"{entry} {scale}", cases):
            yield f"{entry}-{scale}-nodes", peers
        if pairs := matrix(f"{entry} {scale}", pairs_of_cases(cases)):
            yield f"{entry}-{scale}-pairs", pairs
