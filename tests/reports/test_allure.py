from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import allure_commons
import pytest
from allure_commons import model2
from allure_commons.model2 import Label, Parameter

from reports import allure
from reports.allure_files import environment, write_allure_files
from reports.record import CaseRecord
from tests.reports.sessions import cases, story

START = 1_700_000_000_000


class Store:
    """Takes attachments as allure's file logger does."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    @allure_commons.hookimpl
    def report_attached_data(self, body: bytes, file_name: str) -> None:
        self.files[file_name] = body


@pytest.fixture
def store() -> Iterator[Store]:
    plugin = Store()
    allure_commons.plugin_manager.register(plugin)
    yield plugin
    allure_commons.plugin_manager.unregister(plugin)


@pytest.fixture
def no_charts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures have tests of their own, and take their time."""
    monkeypatch.setattr("reports.charts.of_case", lambda _case: iter(()))


def completed(case: CaseRecord, **fields: Any) -> model2.TestResult:
    result = model2.TestResult(
        name="test_case[x]", fullName="suites.test_communication#test_case", start=START, stop=START + 5,
        labels=[Label("thread", "MainThread"), Label("tag", "communication")],
        parameters=[Parameter("workload", "a long text")], **fields,
    )  # fmt: skip
    allure.complete(result, case, session_start_ms=START)
    return result


def labels(result: model2.TestResult, name: str) -> list[str]:
    return [label.value for label in result.labels if label.name == name]


def test_every_suspect_is_a_label_and_the_case_is_sorted_by_domain_and_scale(store: Store, no_charts: None) -> None:
    result = completed(cases()[0])
    assert labels(result, "suspect") == ["gpu-node-07", "gpu-node-12"]
    assert labels(result, "suspects") == ["gpu-node-07, gpu-node-12"]
    assert labels(result, "feature") == ["communication"]
    assert labels(result, "story") == ["full-scale"]
    assert labels(result, "thread") == ["lane 00"]
    assert labels(result, "tag") == ["communication"]


def test_probes_are_steps_under_their_round_with_true_times_and_outcomes(store: Store, no_charts: None) -> None:
    result = completed(cases()[0])
    assert (result.start, result.stop) == (START + 10_000, START + 290_000)
    first, *rounds, last = result.steps
    assert first.name == "run on 8 nodes: 187 of 389 GB/s"
    assert (first.start, first.stop) == (START + 10_000, START + 71_500)
    assert [len(step.steps) for step in rounds] == [2, 2, 1, 1]
    probe = rounds[1].steps[1]
    assert (probe.status, probe.start, probe.stop) == ("failed", START + 145_000, START + 185_000)
    assert rounds[3].status == "passed"
    assert last.name.startswith("suspects: gpu-node-07, gpu-node-12; the other 6 nodes passed together")


def test_the_history_follows_the_case_and_not_its_nodes(store: Store, no_charts: None) -> None:
    case = cases()[1]
    moved = case.model_copy(update={"nodes": ["another"]})
    first, second = completed(case), completed(moved)
    assert first.historyId == second.historyId
    other = completed(cases()[0])
    assert other.historyId != first.historyId
    assert other.testCaseId != first.testCaseId
    assert other.fullName.endswith("[nccl-all-reduce-full-scale]")
    assert all(parameter.excluded for parameter in first.parameters)
    assert "workload" not in {parameter.name for parameter in first.parameters}


def test_tables_charts_tails_and_conditions_are_attached(store: Store) -> None:
    result = completed(cases()[0])
    kinds = {each.name: each for each in result.attachments}
    assert store.files[kinds["measurement"].source].startswith(b"table,size B,count")
    assert store.files[kinds["isolation over time"].source].startswith(b"\x89PNG")
    assert store.files[kinds["bandwidth over message size"].source].startswith(b"\x89PNG")
    assert b"\\x1b[31m red" in store.files[kinds["log tails"].source]
    assert b"Xid 79" in store.files[kinds["node conditions"].source]
    assert {each.source for each in result.attachments} == set(store.files)


def test_a_passing_case_gets_its_table_and_no_pictures(store: Store) -> None:
    assert [each.name for each in completed(cases()[1]).attachments] == ["measurement", "criteria"]


@pytest.mark.parametrize(
    ("verdict", "status"),
    [
        ("passed", "passed"),
        ("failed", "failed"),
        ("inconclusive", "failed"),
        ("error", "broken"),
        ("skipped", "skipped"),
    ],
)
def test_a_missed_threshold_is_failed_and_what_could_not_run_is_broken(store: Store, verdict: str, status: str) -> None:
    case = CaseRecord.model_validate({"id": "a", "verdict": verdict, "message": f"{verdict}: because", "nodes": ["n1"]})
    result = completed(case)
    assert result.status == status
    assert result.start == START
    if verdict != "passed":
        assert result.statusDetails.message == f"{verdict}: because"


def test_a_single_node_that_fails_is_its_own_suspect(store: Store) -> None:
    case = CaseRecord(id="a", verdict="failed", nodes=["n1"])
    assert labels(completed(case), "suspect") == ["n1"]


def test_the_environment_is_written_as_properties(tmp_path: Path) -> None:
    record = story()
    write_allure_files(tmp_path, record)
    text = (tmp_path / "environment.properties").read_text(encoding="ascii")
    assert "NCCL = 2.27.3\n" in text
    assert "Result = FAILED\n" in text
    assert json.loads((tmp_path / "categories.json").read_text())[0]["name"] == "Inconclusive"
    odd = record.model_copy(update={"session": record.session.model_copy(update={"command": ["pytest", "a=é\\"]})})
    assert "Command = pytest a=\\u00e9\\\\\n" in environment(odd)
