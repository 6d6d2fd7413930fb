from __future__ import annotations

import re

import pytest

from cluster import Node
from reports import text, words
from reports.failure import failure_text
from reports.nodes import node_records
from reports.record import CaseRecord, Excluded, IsolationRecord, ProbeRecord, Record, ScaleRecord, Session
from reports.terminal import summary
from tests.reports.sessions import cases, story


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (0.0, "0"),
        (0.1234, "0.123"),
        (3.14159, "3.14"),
        (42.25, "42.2"),
        (391.0, "391"),
        (12345.6, "12346"),
    ],
)
def test_figures_keep_three_digits(value: float | None, shown: str) -> None:
    assert text.number(value) == shown


def test_sizes_are_written_as_nccl_tests_writes_them() -> None:
    assert [text.size(each) for each in (8, 1 << 19, 1 << 34, 1500)] == ["8B", "512K", "16G", "1.5K"]


def test_durations_are_for_people() -> None:
    assert [text.duration(each) for each in (0.42, 12, 185, 7620)] == ["0.4 s", "12 s", "3 min 05 s", "2 h 07 min"]


def test_many_names_are_folded() -> None:
    assert text.fold(list("abc")) == "a, b, c"
    assert text.fold([str(i) for i in range(66)], 3) == "0, 1 … and 64 more"


def test_the_failure_text_begins_with_the_message_and_holds_the_evidence() -> None:
    case = cases()[0]
    shown = failure_text(case)
    assert shown.startswith(case.message)
    for part in ("gpu-node-07: ThresholdViolation; 186 of 389 GB/s", "the other 6 nodes passed together", "rank 56 on"):
        assert part in shown
    assert "\x1b" not in shown


def test_the_summary_names_suspects_figures_rest_and_what_was_not_tested() -> None:
    shown = summary(story(), width=140, files=["results/report.json", "results/junit.xml"])
    for part in (
        "clusterproof FAILED",
        "gpu-node-07  ThresholdViolation; 186 of 389 GB/s; fabric, rail 3",
        "gpu-node-12  HardwareFailureDetected; the node itself; condition GpuUnhealthy",
        "the other 6 nodes passed together, 387.4 of 389 GB/s",
        "gpu-node-13  cordoned",
        "written to results: report.json, junit.xml",
        "187 GB/s",
    ):
        assert part in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_no_line_of_the_summary_is_wider_than_the_terminal(width: int) -> None:
    assert max(map(len, summary(story(), width=width).splitlines())) <= width


def test_the_summary_has_colour_only_where_asked_and_can_be_plain_ascii() -> None:
    assert "\x1b[" in summary(story(), color=True)
    assert summary(story(), ascii_only=True).isascii()


def test_the_summary_of_thousands_of_cases_fits_a_screen() -> None:
    first, single = cases()
    many = [first] + [
        single.model_copy(update={"id": f"nccl-loopback-intra-node-{index:04d}", "value": 450.0 + index % 10})
        for index in range(4096)
    ]
    probes = [
        ProbeRecord(
            id=index, nodes=["a", "b"], outcome="failed" if index % 3 else "passed", value=3.0, round=index // 40
        )
        for index in range(800)
    ]
    assert first.isolation is not None
    busy = first.model_copy(update={"isolation": first.isolation.model_copy(update={"probes": probes, "rounds": 20})})
    record = story().model_copy(update={"cases": [busy, *many]})
    shown = summary(record, width=120)
    assert len(shown.splitlines()) <= 50
    assert re.search(r"nccl-loopback intra-node +4096 passed +1 +450–459 GB/s", shown)


def test_skipped_excluded_and_untested_are_listed_with_their_reason() -> None:
    record = story().model_copy(
        update={
            "cases": [
                CaseRecord(id="a-full", entry="a", scale="full-scale", verdict="skipped", message="not run: deadline")
            ],
            "nodes": node_records([Node("n1"), Node("n2")], []),
            "excluded": [Excluded(node="n3", reason="in repair", waived=True)],
        }
    )
    shown = summary(record)
    for part in ("a-full  not run: deadline", "n1, n2  not exercised by any case", "n3      in repair (waived)"):
        assert part in shown


def test_every_kind_of_finding_has_words() -> None:
    found = IsolationRecord.model_validate(
        {
            "verdict": "isolated",
            "sets": [["n1", "n2"]],
            "links": [{"between": ["n1", "n50"], "level": "node"}],
            "domains": [{"name": "rack-5", "level": "rack", "evidence": ["every crossing fails"]}],
            "scale": ScaleRecord(smallest_failing=17, largest_passing=16).model_dump(),
            "systemic": "every probe fails at about 3 GB/s",
            "transient": "passed in 8 runs",
            "limit": "5 probes",
        }
    )
    assert dict(words.other_findings(found)) == {
        "one of": "n1, n2: no probe could tell them apart",
        "link": "n1–n50; between nodes",
        "rack": "rack-5; every crossing fails",
        "size": "fails from 17 nodes on, passes up to 16 nodes",
        "systemic": "every probe fails at about 3 GB/s",
        "not reproduced": "passed in 8 runs",
        "not settled": "5 probes",
    }


def test_an_empty_session_has_a_summary() -> None:
    record = Record.model_validate({"session": {"id": "x", "started": "2026-12-01T00:00:00Z"}})
    assert "no case ran" in summary(record)


def test_the_summary_of_cpu_collectives_says_that_no_gpu_is_certified() -> None:
    case = CaseRecord(id="nccl-all-reduce-full-scale", verdict="passed", backend="gloo")
    session = Session(id="s", started="2026-12-01T00:00:00+00:00")
    assert "certifies no GPU" in summary(Record(session=session, cases=[case]))
    assert "certifies no GPU" not in summary(
        Record(session=session, cases=[case.model_copy(update={"backend": "nccl"})])
    )
