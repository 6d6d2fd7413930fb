"""A run of our own program counts only with its final line, of these nodes, of every rank and cycle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from criteria import Reason
from measure import Measurement, Table
from tests.criteria.runs import SIZES, conditions, judge, measured

GIVEN = conditions(final_line=True, cycles=2, node_names=("node-0", "node-1", "node-2", "node-3"))


def cell(busbw: Any = 370.0, wrong: Any = 0) -> dict[str, Any]:
    """A half of a cycle's row."""
    return {"time_us": 10.0, "algbw": busbw, "busbw": busbw, "wrong": wrong}


def cycles(**last: Any) -> tuple[dict[str, Any], ...]:
    """Two whole cycles; `last` changes the last row of the second one."""
    return tuple(
        {
            "cycle": number,
            "rows": [
                {"size": size, **cell(), "in_place": cell(), **(last if (number, size) == (1, SIZES[-1]) else {})}
                for size in SIZES
            ],
        }
        for number in range(2)
    )


def good(**changes: Any) -> Measurement:
    """A run that proves itself, but for the changes."""
    return replace(measured(), cycles=cycles(), **changes)


def test_a_whole_line_passes() -> None:
    """Nothing is left open."""
    assert judge(good(), GIVEN).outcome == "passed"


def test_many_ranks_stand_by_node() -> None:
    """Above a thousand ranks the line has an entry a node."""
    by_node = [{"node": name, "ranks": 8, "wrong": 0} for name in GIVEN.node_names]
    assert judge(good(per_rank=(), details={"result": {"per_node": by_node}}), GIVEN).outcome == "passed"
    assert judge(good(per_rank=(), details={"result": {"per_node": by_node[:3]}}), GIVEN).outcome == "failed"
    assert judge(good(per_rank=(), details={"result": {"per_node": [*by_node, by_node[0]]}}), GIVEN).outcome == "failed"


RANKS = good().per_rank
SPOILT: dict[str, Callable[[], Measurement]] = {
    "no final line": lambda: good(result_line=False),
    "two tables": lambda: good(tables=(*good().tables, Table(complete=True, collective="all_reduce"))),
    "other nodes": lambda: good(per_rank=tuple({**each, "node": f"other-{each['node']}"} for each in RANKS)),
    "a node of another run": lambda: good(per_rank=tuple({**each, "node": "node-9"} for each in RANKS[:8]) + RANKS[8:]),
    "no ranks": lambda: good(per_rank=()),
    "ranks of a larger run": lambda: good(per_rank=tuple({**each, "rank": each["rank"] + 100} for each in RANKS)),
    "a rank twice": lambda: good(per_rank=(*RANKS, RANKS[0])),
    "a rank that is no number": lambda: good(per_rank=({**RANKS[0], "rank": False}, *RANKS[1:])),
    "a rank that was not checked": lambda: good(per_rank=({**RANKS[0], "wrong": None}, *RANKS[1:])),
    "nodes that did not run": lambda: good(nodes=2),
    "a table of another collective": lambda: good(tables=(replace(good().tables[0], collective="broadcast"),)),
    "no cycles": lambda: replace(good(), cycles=()),
    "one cycle": lambda: replace(good(), cycles=cycles()[:1]),
    "a cycle without rows": lambda: replace(good(), cycles=(cycles()[0], {"cycle": 1, "rows": []})),
    "rows that are none": lambda: replace(good(), cycles=(cycles()[0], {"cycle": 1, "rows": "abc"})),
    **{
        f"a row with {name}": lambda last=last: replace(good(), cycles=cycles(**last))  # type: ignore[misc]
        for name, last in {
            "no size": {"size": None},
            "another size": {"size": 3},
            "busbw null": {"busbw": None},
            "busbw nan": {"busbw": float("nan")},
            "busbw negative": {"busbw": -1.0},
            "busbw a word": {"busbw": "370"},
            "wrong null": {"wrong": None},
            "wrong negative": {"wrong": -3},
            "wrong a word": {"wrong": "0"},
            "wrong a truth": {"wrong": False},
            "in-place not checked": {"in_place": cell(wrong=None)},
            "in-place a word": {"in_place": "abc"},
        }.items()
    },
}


@pytest.mark.parametrize("name", SPOILT)
def test_what_is_left_open_is_no_pass(name: str) -> None:
    """Each of these is no measurement (a negative bandwidth misses its floor as well)."""
    verdict = judge(SPOILT[name](), GIVEN)
    assert verdict.outcome == "failed"
    assert verdict.reason is Reason.NO_MEASUREMENT, verdict.message


def test_wrong_in_place_in_one_cycle_is_corruption() -> None:
    """The table shows sums; the cycle says it too."""
    verdict = judge(replace(good(), cycles=cycles(in_place=cell(wrong=7))), GIVEN)
    assert verdict.reason is Reason.DATA_CORRUPTION


def test_failed_bounds_without_a_count_are_corruption() -> None:
    """`Out of bounds values : 0 FAILED`."""
    table = replace(good().tables[0], out_of_bounds=0, out_of_bounds_status="FAILED")
    assert judge(good(tables=(table,)), GIVEN).reason is Reason.DATA_CORRUPTION


def test_a_run_that_broke_off_says_so_and_not_that_its_line_is_missing() -> None:
    """The consequence is no finding of its own."""
    verdict = judge(good(result_line=False), replace(GIVEN, ended=replace(GIVEN.ended, state="failed")))
    assert verdict.reason is Reason.WORKLOAD_FAILED
    assert "final line" not in verdict.message
