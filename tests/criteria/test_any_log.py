"""The judge gives a verdict on whatever the readers make of a log, and passes none that is not whole."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import measure
from criteria import explain
from tests.criteria.runs import CATALOG, cell, conditions, judge

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**40) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KEYS = (
    "collective", "world_size", "nodes", "sizes", "requested_sizes", "complete", "cycles", "per_rank", "versions",
    "transport", "wall_s", "precision", "startup_s",
)  # fmt: skip
INNER = (
    "rank", "node", "wrong", "rows", "size", "busbw", "algbw", "time_us", "net_plugin", "devices", "fallback_nodes",
    "fallback_to_socket", "gemmTFLOPs", "local_rank", "collnet_sharp",
)  # fmt: skip
PART = st.dictionaries(st.sampled_from(INNER), JSON, max_size=6)
ROWS = st.lists(PART | JSON, max_size=3)
RESULT = st.dictionaries(
    st.sampled_from(KEYS),
    JSON | PART | ROWS | st.lists(st.fixed_dictionaries({"rows": ROWS}), max_size=2),
    max_size=len(KEYS),
)


WHOLE: dict[str, Any] = {
    "schema": "clusterproof.result/v1", "program": "collectives", "backend": "nccl",
    "collective": "all_reduce", "world_size": 32, "complete": True,
    "nodes": [f"node-{number}" for number in range(4)], "sizes": [8, 2**34], "requested_sizes": [8, 2**34],
    "cycles": [{"cycle": 0, "rows": [{"size": size, **cell(size, 370.0, 0)} for size in (8, 2**34)]}],
    "per_rank": [{"rank": rank, "node": f"node-{rank // 8}", "wrong": 0} for rank in range(32)],
    "transport": {"net_plugin": "IB", "fallback_to_socket": False},
}  # fmt: skip


def log(result: dict[str, Any]) -> bytes:
    return f"CLUSTERPROOF-RESULT {json.dumps(result)}\n".encode()


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(result=RESULT, collective=st.sampled_from(["all_reduce", None]), backend=st.sampled_from(["nccl", "gloo"]))
def test_no_result_line_makes_the_judge_fail_otherwise_than_by_a_verdict(
    result: dict[str, Any], collective: str | None, backend: str
) -> None:
    given_conditions = conditions(collective=collective, backend=backend)
    verdict = judge(measure.read(log({"schema": "clusterproof.result/v1", **result})), given_conditions)
    assert verdict.message
    assert verdict.outcome != "passed"
    explain(verdict, given_conditions, CATALOG)


def test_the_whole_result_passes() -> None:
    assert judge(measure.read(log(WHOLE)), conditions(sizes=(8, 2**34))).passed


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(result=RESULT, inner=PART, where=st.sampled_from(["cycles", "per_rank", "transport"]))
def test_no_change_of_a_whole_result_makes_the_judge_fail_otherwise_than_by_a_verdict(
    result: dict[str, Any], inner: dict[str, Any], where: str
) -> None:
    changed = json.loads(json.dumps(WHOLE))
    at = {"cycles": lambda: changed["cycles"][0]["rows"][1], "per_rank": lambda: changed["per_rank"][3]}
    at.get(where, lambda: changed["transport"])().update(inner)
    given_conditions = conditions(sizes=(8, 2**34))
    for document in (changed, {**changed, **dict(list(result.items())[:2])}):
        verdict = judge(measure.read(log(document)), given_conditions)
        explain(verdict, given_conditions, CATALOG)
        assert verdict.message


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_pass(data: bytes) -> None:
    assert judge(measure.read(data)).outcome == "failed"
