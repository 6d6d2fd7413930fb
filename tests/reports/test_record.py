from __future__ import annotations

import json
import math
from typing import Any

import jsonschema
import pytest

from reports import contract
from reports.record import CaseRecord, Cell, Record, Session
from reports.verdict import because, result
from tests.reports.sessions import story


def test_the_published_schema_is_current() -> None:
    assert contract.FILE.read_text(encoding="utf-8") == contract.text(), "run: python -m reports.contract"


@pytest.mark.parametrize("record", [story(), Record(session=Session(id="x", started="2026-12-01T00:00:00Z"))])
def test_a_record_is_valid_against_the_published_schema_and_reads_back(record: Record) -> None:
    jsonschema.validate(json.loads(record.to_json()), contract.document())
    assert Record.model_validate_json(record.to_json()) == record


def test_nothing_in_the_json_is_null_and_lists_are_always_there() -> None:
    def walk(node: Any) -> None:
        assert node is not None
        for item in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            walk(item)

    document = json.loads(story().to_json())
    walk(document)
    bare = json.loads(CaseRecord(id="a", verdict="skipped").to_json())
    assert bare["criteria"] == bare["evidence"] == bare["nodes"] == bare["tiers_loaded"] == []
    assert "isolation" not in bare
    assert "measurement" not in bare
    assert document["cases"][0]["isolation"]["systemic"] is False


def test_what_is_not_a_number_is_absent() -> None:
    assert Cell(time_us=math.nan, busbw=math.inf, wrong=0).to_json() == '{"wrong":0}'


def test_control_characters_are_escaped_where_text_enters_the_record() -> None:
    tail = story().cases[0].evidence[0].tail
    assert tail == "line\\x1b[31m red\\x00\nlast"
    odd = CaseRecord(id="a", verdict="error", message="a\udc80b\u202ec\x9bd\r\ne")
    assert odd.message == "a\\udc80b\\u202ec\\x9bd\ne"
    odd.to_json().encode("utf-8")


def finished(**changes: Any) -> Record:
    passed = CaseRecord(id="a", verdict="passed", nodes=["n0"])
    base = Record.model_validate(
        {
            "session": {"id": "x", "started": "2026-12-01T00:00:00Z"},
            "run_state": "finished",
            "nodes": [{"name": "n0", "verdict": "passed"}],
            "cases": [passed],
        }
    )
    return Record.model_validate({**base.model_dump(), **changes})


@pytest.mark.parametrize(
    ("changes", "allow", "expected"),
    [
        ({}, False, ("PASSED", 0)),
        ({"cases": [CaseRecord(id="a", verdict="failed")]}, True, ("FAILED", 1)),
        ({"cases": [CaseRecord(id="a", verdict="error")]}, True, ("FAILED", 1)),
        ({"cases": [CaseRecord(id="a", verdict="inconclusive")]}, True, ("FAILED", 1)),
        ({"nodes": [{"name": "n0", "verdict": "lost"}]}, True, ("FAILED", 1)),
        ({"excluded": [{"node": "n1", "reason": "cordoned"}]}, False, ("INCOMPLETE", 6)),
        ({"excluded": [{"node": "n1", "reason": "cordoned"}]}, True, ("INCOMPLETE", 0)),
        ({"excluded": [{"node": "n1", "reason": "in repair", "waived": True}]}, False, ("PASSED", 0)),
        ({"nodes": [{"name": "n0", "verdict": "untested"}]}, False, ("INCOMPLETE", 6)),
        ({"cases": [CaseRecord(id="a", verdict="skipped")]}, True, ("INCOMPLETE", 6)),
        ({"cases": []}, True, ("INCOMPLETE", 6)),
        ({"run_state": "interrupted"}, True, ("INCOMPLETE", 2)),
        ({"run_state": "deadline", "cases": [CaseRecord(id="a", verdict="failed")]}, False, ("FAILED", 2)),
    ],
)
def test_result_and_exit_code(changes: dict[str, Any], allow: bool, expected: tuple[str, int]) -> None:
    assert result(finished(**changes), allow_incomplete=allow) == expected


def test_the_result_carries_the_list_behind_it() -> None:
    assert because(story()) == ("FAILED", ["nccl-all-reduce-full-scale: failed (HardwareFailureDetected)"])
    gaps = because(finished(excluded=[{"node": "n1", "reason": "cordoned"}]))
    assert gaps == ("INCOMPLETE", ["n1: excluded, cordoned"])
