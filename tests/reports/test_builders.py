from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pytest

from cluster import NodeEvent, RankExit, Run, RunState, Workload
from criteria import Check, Reason, Verdict
from isolate import Certified, Findings, Link, NodeResult, Probe, ProbeRecord, Result, Suspect, Variant
from measure import Cell, Measurement, Row, Table
from reports.cases import case_record
from reports.isolation import isolation_record
from reports.measurement import measurement_record
from reports.record import CaseRecord, IsolationRecord

NODES = ("n1", "n2", "n3", "n10")
WORKLOAD = Workload(
    name="w", case="c", entry="nccl-all-reduce", framework="torch", program="collectives.py", nodes=NODES,
    ranks_per_node=8, backend="nccl",
)  # fmt: skip
RUN = Run(WORKLOAD, RunState.SUCCEEDED, started=110.0, ended=150.0, durations={"running": 40.0, "odd": 1.0})
SLOW = Check("busBandwidthGBps", False, "busbw 10.0 < 90.0 GB/s", 10.0, "GB/s", 112.5, 90.0, 0.8, "h100", -0.9,
             size=1 << 34, reason=Reason.THRESHOLD_VIOLATION)  # fmt: skip
FAILED = Verdict("failed", Reason.THRESHOLD_VIOLATION, SLOW.text, (SLOW,), value=10.0, expected=112.5, unit="GB/s")


@dataclass(frozen=True)
class Ran:
    run: Run
    verdict: Verdict
    lane: int


def probe(number: int, nodes: tuple[str, ...], outcome: str, value: float | None, **variant: int) -> ProbeRecord:
    result = Result(outcome, value, 112.5, reason="" if outcome == "passed" else "ThresholdViolation")  # type: ignore[arg-type]
    return ProbeRecord(Probe(number, nodes, Variant(**variant), purpose="pin"), result, alone=True, told="so")  # type: ignore[arg-type]


FOUND = Findings(
    "isolated",
    rounds=2,
    probes=(
        probe(1, ("n1", "n2"), "failed", 9.0),
        probe(2, ("n2", "n3"), "failed", 8.0),
        probe(3, ("n1", "n3", "n10"), "passed", 111.0),
        probe(4, ("n2", "n3"), "failed", 1.0, rail=3),
    ),
    suspects=(Suspect("n2", "fabric", rail=3, evidence=("failed with n1 and n3",)),),
    links=(Link(("n9", "n10"), "node"),),
    certified_rest=Certified(("n1", "n3", "n10"), 111.0),
    nodes={name: NodeResult("suspect" if name == "n2" else "cleared") for name in NODES},
    sets=(frozenset({"n10", "n2"}),),
    story=("a", "b"),
)


def build(verdict: Verdict = FAILED, run: Run = RUN, isolation: IsolationRecord | None = None) -> CaseRecord:
    return case_record(
        id="c", domain="communication", entry="nccl-all-reduce", scale="full-scale", run=run, verdict=verdict,
        isolation=isolation, origin=100.0, lane=2,
    )  # fmt: skip


def test_findings_become_a_record_with_times_of_the_session() -> None:
    record = isolation_record(FOUND, runs={1: Ran(RUN, FAILED, lane=3)}, origin=100.0)
    first, second, *_ = record.probes
    assert (first.started, first.ended, first.lane, first.told, first.alone) == (10.0, 50.0, 3, "so", True)
    assert first.floor == 90.0
    assert second.started is None
    assert record.probes[3].variant == "rail 3"
    (suspect,) = record.suspects
    assert (suspect.node, suspect.layer, suspect.rail, suspect.value, suspect.expected) == (
        "n2",
        "fabric",
        3,
        8.0,
        112.5,
    )
    assert suspect.reason == "ThresholdViolation"
    assert suspect.evidence == ["failed with n1 and n3"]
    assert record.links[0].between == ["n10", "n9"]
    assert record.sets == [["n2", "n10"]]
    assert record.certified_rest is not None
    assert record.certified_rest.expected == 112.5
    assert record.nodes == {"suspect": ["n2"], "cleared": ["n1", "n3", "n10"]}
    assert record.systemic is False


def test_a_node_that_named_itself_is_a_suspect_with_its_own_words() -> None:
    lost = replace(FOUND, sets=(), links=(), nodes={**FOUND.nodes, "n10": NodeResult("lost")})
    record = isolation_record(lost, unhealthy={"n10": "GpuUnhealthy: Xid 79"})
    assert record.headline == "suspects: n2, n10"
    sick = record.suspects[1]
    assert (sick.node, sick.reason, sick.evidence) == ("n10", "HardwareFailureDetected", ["GpuUnhealthy: Xid 79"])
    assert sick.value is None
    assert record.nodes["suspect"] == ["n2", "n10"]
    assert "lost" not in record.nodes


def test_the_message_of_a_failed_case_starts_with_the_finding() -> None:
    found = isolation_record(replace(FOUND, sets=(), links=()))
    case = build(isolation=found)
    assert case.message == "suspects: n2 | busbw 10.0 < 90.0 GB/s"
    assert case.verdict == "failed"
    assert case.criteria[0].margin == -0.9
    assert (case.started, case.ended, case.durations.running, case.lane) == (10.0, 50.0, 40.0, 2)


@pytest.mark.parametrize(
    ("changes", "verdict", "begin"),
    [
        (
            {"transient": "passed in 8 runs", "verdict": "not-reproduced"},
            "inconclusive",
            "inconclusive: not reproduced:",
        ),
        ({"limit": "5 probes", "verdict": "inconclusive"}, "inconclusive", "inconclusive: 5 probes"),
        ({"systemic": "all at 3 GB/s", "verdict": "systemic"}, "failed", "systemic: all at 3 GB/s |"),
    ],
)
def test_a_failure_that_nothing_explains_is_inconclusive(changes: dict[str, str], verdict: str, begin: str) -> None:
    nothing = replace(FOUND, suspects=(), links=(), sets=(), certified_rest=None)
    case = build(isolation=isolation_record(replace(nothing, **changes)))  # type: ignore[arg-type]
    assert case.verdict == verdict
    assert case.message.startswith(begin)


def test_what_could_not_run_is_an_error_and_a_pass_says_nothing() -> None:
    assert build(Verdict("error", Reason.UNSCHEDULABLE, "no room")).message == "error: no room"
    assert build(Verdict("inconclusive", None, "no criterion")).message == "inconclusive: no criterion"
    passed = build(Verdict("passed", None, "fine"))
    assert (passed.message, passed.reason) == ("", "")


def test_ranks_that_failed_are_evidence_with_their_last_lines() -> None:
    run = replace(
        RUN,
        exits=(RankExit(0, "n1", 0), RankExit(9, "n2", -9, "Killed", at=5.0), RankExit(8, "n2", None)),
        tails={"n2": "the end\x1b[0m"},
        events=(NodeEvent("n2", "health", "Xid 79", 4.0),),
    )
    case = build(run=run)
    assert [(each.rank, each.exit_code, each.tail) for each in case.evidence] == [(9, -9, "the end\\x1b[0m")]
    stalled = build(run=replace(run, state=RunState.STALLED))
    assert [(each.rank, each.exit_code) for each in stalled.evidence] == [(9, -9), (8, None)]
    assert case.events[0].message == "Xid 79"


def test_a_measurement_keeps_every_size_and_drops_what_is_no_number() -> None:
    rows = tuple(
        Row(size=1 << power, out_of_place=Cell(10.0, 5.0, math.nan if power == 3 else 8.0, 0)) for power in (3, 4)
    )
    record = measurement_record(Measurement(collective="all_reduce", ranks=8, tables=(Table(rows, avg_busbw=8.0),)))
    assert [row.size for row in record.tables[0].rows] == [8, 16]
    assert '"busbw":8.0' in record.to_json()
    assert "null" not in record.to_json()
    assert record.metrics["busBandwidthGBps"].unit == "GB/s"


def test_repeats_are_kept_as_least_middle_and_largest() -> None:
    cycles = tuple(
        {"cycle": index, "rows": [{"size": 8, "busbw": value}]} for index, value in enumerate((3.0, 1.0, 2.0))
    )
    (spread,) = measurement_record(Measurement(cycles=cycles)).spread
    assert (spread.size, spread.repeats, spread.time_us) == (8, 3, None)
    assert spread.busbw is not None
    assert (spread.busbw.min, spread.busbw.median, spread.busbw.max) == (1.0, 2.0, 3.0)
