from __future__ import annotations

import hashlib
import json
import threading
from pathlib import Path

import jsonschema
import junitparser
import pytest
from lxml import etree

from cluster import Node
from reports import contract
from reports.junit import nodes_xml
from reports.nodes import node_records
from reports.record import CaseRecord, Event, IsolationRecord, NodeRecord, Record, Session
from reports.writer import Writer
from tests.reports.sessions import NODES, cases, story

XSD = Path(__file__).parents[1] / "data" / "junit" / "nodes.xsd"
INVENTORY = [Node(name=name, accelerators=8, topology=(("rack", "rack-0"),)) for name in NODES]
HEAD = Record(session=Session(id="x", started="2026-12-01T00:00:00Z"))


def verdicts(*records: CaseRecord) -> dict[str, str]:
    return {node.name: node.verdict for node in node_records(INVENTORY, records) if node.verdict != "untested"}


def valid_junit(text: str) -> junitparser.JUnitXml:
    etree.XMLSchema(etree.parse(XSD)).assertValid(etree.fromstring(text.encode()))
    return junitparser.JUnitXml.fromstring(text.encode())


def test_isolation_decides_what_is_said_of_its_nodes() -> None:
    said = verdicts(*cases())
    assert {name for name, verdict in said.items() if verdict == "suspect"} == {"gpu-node-07", "gpu-node-12"}
    assert said["gpu-node-05"] == "cleared"


def test_a_group_that_was_not_searched_accuses_nobody() -> None:
    case = CaseRecord(id="a", verdict="failed", reason="ThresholdViolation", nodes=NODES[:2])
    assert verdicts(case) == {NODES[0]: "inconclusive", NODES[1]: "inconclusive"}


def test_a_single_node_that_fails_by_itself_is_the_suspect() -> None:
    case = CaseRecord(id="a", verdict="failed", reason="ThresholdViolation", message="slow", nodes=NODES[:1])
    assert verdicts(case) == {NODES[0]: "suspect"}
    assert verdicts(case.model_copy(update={"reason": "NoMeasurement"})) == {NODES[0]: "inconclusive"}


def test_hardware_evidence_names_its_node_and_not_the_group() -> None:
    event = Event(node=NODES[1], kind="health", message="Xid 79")
    gone = Event(node=NODES[2], kind="lost", message="not ready")
    case = CaseRecord(id="a", verdict="failed", nodes=NODES[:3], events=[event, gone])
    assert verdicts(case) == {NODES[0]: "inconclusive", NODES[1]: "suspect", NODES[2]: "lost"}


def test_an_error_or_a_skip_tests_no_node() -> None:
    assert verdicts(CaseRecord(id="a", verdict="error", nodes=NODES), CaseRecord(id="b", verdict="skipped")) == {}


def test_the_gravest_finding_stands_and_a_later_pass_does_not_wash_it_away() -> None:
    failed, passed = cases()
    assert verdicts(failed, passed.model_copy(update={"nodes": NODES}))["gpu-node-07"] == "suspect"


def test_best_and_worst_follow_the_unit() -> None:
    (node, *_) = node_records(INVENTORY, cases())
    span = node.metrics["nccl-all-reduce/busBandwidthGBps"]
    assert span.best > span.worst
    assert span.unit == "GB/s"


def test_junit_has_one_testcase_a_node_and_says_why() -> None:
    (suite,) = valid_junit(nodes_xml(story()))
    found = {case.name: case for case in suite}
    assert len(found) == len(NODES) + 1
    assert {case.classname for case in suite} == {"certification.nodes"}
    (failure,) = found["gpu-node-07"].result
    assert failure.message.startswith("suspect in 1 case: nccl-all-reduce-full-scale: ThresholdViolation")
    assert "186" in failure.text
    (skip,) = found["gpu-node-13"].result
    assert skip.message == "excluded: cordoned"
    assert found["gpu-node-05"].is_passed


@pytest.mark.parametrize("verdict", ["inconclusive", "lost", "untested", "intermittent"])
def test_junit_of_what_is_neither_good_nor_bad(verdict: str) -> None:
    node = NodeRecord.model_validate({"name": "n\x00<&", "verdict": verdict, "reasons": ["a: \x1b[31m]]>\x0c"]})
    (suite,) = valid_junit(nodes_xml(story().model_copy(update={"nodes": [node], "excluded": []})))
    (case,) = suite
    (result,) = case.result
    assert result.message.startswith({"untested": "not exercised"}.get(verdict, verdict))


def test_the_files_are_whole_after_every_case(tmp_path: Path) -> None:
    ticks = iter(range(1000))
    writer = Writer(tmp_path / "deep" / "results", HEAD, INVENTORY, clock=lambda: next(ticks) * 0.0)
    for count, case in enumerate(cases(), 1):
        writer.case(case)
        document = json.loads((writer.directory / "report.json").read_text(encoding="utf-8"))
        jsonschema.validate(document, contract.document())
        assert len(document["cases"]) == count
        assert document["run_state"] == "running"
        valid_junit((writer.directory / "junit-nodes.xml").read_text(encoding="utf-8"))
    closed = writer.close("finished", ended="2026-12-01T01:00:00Z")
    text = (writer.directory / "report.json").read_text(encoding="utf-8")
    assert Record.model_validate_json(text) == closed
    assert list(json.loads(text)) == list(json.loads(closed.to_json()))
    assert closed.result == "FAILED"
    names = ["certificate.html", "certificate.md", "junit-nodes.xml", "report.json"]
    assert sorted(path.name for path in writer.directory.iterdir()) == names
    digest = hashlib.sha256(text.encode()).hexdigest()
    assert all(digest in (writer.directory / name).read_text(encoding="utf-8") for name in names[:2])


def test_a_rewrite_waits_for_ten_times_the_cost_of_the_last_and_then_comes(tmp_path: Path) -> None:
    now = [0.0]

    def clock() -> float:
        now[0] += 0.01
        return now[0]

    writer = Writer(tmp_path, HEAD, INVENTORY, clock=clock)
    writer.case(cases()[0])
    assert json.loads((tmp_path / "report.json").read_text())["cases"] == []
    timer = writer._timer
    assert isinstance(timer, threading.Timer)
    timer.join(timeout=10)
    assert len(json.loads((tmp_path / "report.json").read_text())["cases"]) == 1
    writer.case(cases()[1])
    assert writer.close("interrupted").run_state == "interrupted"
    assert len(json.loads((tmp_path / "report.json").read_text())["cases"]) == 2


def test_what_becomes_known_later_is_checked_and_written(tmp_path: Path) -> None:
    writer = Writer(tmp_path, HEAD, INVENTORY)
    writer.update(versions={"nccl": "2.27"}, excluded=[{"node": "n9", "reason": "cordoned"}])
    assert writer.close("finished").versions.nccl == "2.27"
    with pytest.raises(ValueError, match="bogus"):
        writer.update(bogus=1)


def test_a_node_that_an_isolation_says_nothing_about_stays_inconclusive() -> None:
    found = IsolationRecord(verdict="inconclusive", nodes={"cleared": NODES[1:]})
    case = CaseRecord(id="a", verdict="inconclusive", nodes=NODES, isolation=found)
    assert verdicts(case) == dict.fromkeys(NODES, "cleared") | {NODES[0]: "inconclusive"}
