"""A run of our own program counts only with one final line, of this very run, of every rank and cycle, as its table."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import measure
from criteria import Reason, Verdict
from tests.criteria.runs import cell, conditions, ended, judge
from workloads.collectives import figure

NODES = ("node-0", "node-1", "node-2", "node-3")
SIZES = (2**20, 2**30, 2**34)
CYCLES = (370.0, 372.0)
GIVEN = conditions(node_names=NODES, sizes=SIZES, cycles=len(CYCLES), dtype="float")
MARK = "CLUSTERPROOF-RESULT "
HEADER = """\
# Collective test starting: all_reduce_perf
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
"""
FOOTER = """\
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 370
#
# Collective test concluded: all_reduce_perf
#
"""
Line = dict[str, Any]
Change = Callable[[Line], object]


def row(size: int, busbw: float) -> Line:
    """One size of a cycle, rounded as the program rounds it."""
    return {"size": size, **rounded(size, busbw), "in_place": rounded(size, busbw / 2)}


def rounded(size: int, busbw: float) -> Line:
    digits = {"time_us": 3, "algbw": 6, "busbw": 6, "wrong": 0}
    return {name: round(value, digits[name]) for name, value in cell(size, busbw, 0).items()}


def line(speeds: Sequence[float] = CYCLES) -> Line:
    """The final line of a healthy run, `speeds` GB/s in its cycles."""
    return {
        "schema": "clusterproof.result/v1", "program": "collectives", "collective": "all_reduce", "backend": "nccl",
        "world_size": 32, "nodes": list(NODES), "dtype": "float", "iters": 20, "sizes": list(SIZES),
        "requested_sizes": list(SIZES), "complete": True,
        "cycles": [{"cycle": at, "rows": [row(size, busbw) for size in SIZES]} for at, busbw in enumerate(speeds)],
        "per_rank": [{"rank": rank, "node": NODES[rank // 8], "time_us": 9.0, "wrong": 0} for rank in range(32)],
        "versions": {}, "transport": {"net_plugin": "IB"},
    }  # fmt: skip


def table(speeds: Sequence[float] = CYCLES) -> str:
    """The table of the same run: the mean time of its cycles, printed as the program prints it."""
    rows = ""
    for size in SIZES:
        rows += f"{size:12d}  {size // 4:12d}     float     sum      -1"
        for share in (1, 2):
            cells = [cell(size, busbw / share, 0) for busbw in speeds]
            time_us = sum(each["time_us"] for each in cells) / len(cells)
            algbw = size / 1e3 / time_us
            rows += f"  {figure(time_us, 7)}  {figure(algbw, 6)}  {figure(algbw * 31 / 16, 6)}       0"
        rows += "\n"
    return HEADER + rows + FOOTER


def log(document: Line | None = None, text: str | None = None) -> str:
    return (table() if text is None else text) + MARK + json.dumps(line() if document is None else document) + "\n"


def verdict(text: str, **changes: Any) -> Verdict:
    return judge(measure.read(text.encode()), replace(GIVEN, **changes))


def refused(text: str, words: str, **changes: Any) -> None:
    found = verdict(text, **changes)
    assert found.outcome == "failed", found.message
    assert found.reason is Reason.NO_MEASUREMENT
    assert words in found.message


@pytest.mark.parametrize(
    "text",
    [
        log(),
        log(text=""),
        log().replace("\n", "\r\n"),
        log().replace(MARK, "[rank0]: " + MARK),
        log().rstrip() + "W1201 from another rank\n",
        log() + "W1201 12:00:00 destroy_process_group() was not called\n",
        log().replace(MARK, "a word on CLUSTERPROOF-RESULT {lines}\n" + MARK),
    ],
    ids=["whole", "no table", "CRLF", "known prefix", "glued behind", "more behind", "quoted as well"],
)
def test_what_a_healthy_run_prints_passes(text: str) -> None:
    assert verdict(text).passed, verdict(text).message


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-6, 4), min_size=1, max_size=4))
def test_nothing_but_rounding_lies_between_table_and_line_at_any_speed(exponents: list[float]) -> None:
    """From a day for a message to more than any fabric carries: the columns then show few digits, or powers of ten."""
    speeds = [10**each for each in exponents]
    run = measure.read(log({**line(speeds), "backend": "gloo"}, table(speeds)).encode())
    found = judge(run, replace(GIVEN, backend="gloo", cycles=len(speeds)))
    assert found.passed, found.message


def last(change: dict[str, Any]) -> Change:
    """Change the largest size of the last cycle."""
    return lambda document: document["cycles"][-1]["rows"][-1].update(change)


def inside(change: dict[str, Any]) -> Change:
    return lambda document: document["cycles"][-1]["rows"][-1]["in_place"].update(change)


def says(**change: Any) -> Change:
    return lambda document: document.update(change)


def lacks(*keys: str) -> Change:
    return lambda document: [document.pop(key) for key in keys]


def ranks(change: Callable[[int], dict[str, Any]]) -> Change:
    return lambda document: [each.update(change(each["rank"])) for each in document["per_rank"]]


ANOTHER = "the final line is of another run: "
SILENT = "the final line does not say its "
SPOILT: dict[str, tuple[Change, str]] = {
    "other nodes": (says(nodes=["x-0", "x-1", "node-2", "node-3"]), ANOTHER + "nodes x-0, x-1; asked node-0, node-1"),
    "fewer nodes": (says(nodes=list(NODES[:2])), ANOTHER + "nodes node-0, node-1; asked node-2, node-3"),
    "nodes in another order": (says(nodes=list(reversed(NODES))), ANOTHER + "nodes node-3, node-2"),
    "a node twice": (says(nodes=[*NODES, NODES[0]]), ANOTHER + "nodes"),
    "no nodes": (says(nodes=[]), SILENT + "nodes; asked node-0, node-1, node-2, node-3"),
    "nodes null": (says(nodes=None), SILENT + "nodes"),
    "nodes unsaid": (lacks("nodes"), SILENT + "nodes"),
    "other collective": (says(collective="broadcast"), "asked for all_reduce, the log is of broadcast"),
    "collective unsaid": (lacks("collective"), SILENT + "collective"),
    "other backend": (says(backend="gloo"), ANOTHER + "backend gloo; asked nccl"),
    "other world size": (says(world_size=64), ANOTHER + "world size 64; asked 32"),
    "world size a truth": (says(world_size=True), ANOTHER + "world size True"),
    "other type": (says(dtype="half"), ANOTHER + "dtype half; asked float"),
    "other sizes asked": (says(requested_sizes=[8 * size for size in SIZES]), ANOTHER + "requested sizes"),
    "sizes unsaid": (lacks("sizes"), "does not list its sizes"),
    "sizes as words": (says(sizes=[str(size) for size in SIZES]), "does not list its sizes"),
    "fewer sizes": (says(sizes=list(SIZES[:2])), "2 sizes for 3 that were asked for"),
    "other schema": (says(schema="other/v9"), ANOTHER + "schema other/v9"),
    "other program": (says(program="probe"), ANOTHER + "program probe"),
    "nothing but complete": (lacks(*sorted(line().keys() - {"complete"})), SILENT + "nodes"),
    "not complete": (says(complete=False), "the log stops before its end"),
    "complete as a word": (says(complete="true"), "the log stops before its end"),
    "no ranks": (says(per_rank=[]), "says nothing of any rank"),
    "ranks null": (says(per_rank=None), "says nothing of any rank"),
    "ranks by node": (
        says(per_rank=[], per_node=[{"node": node, "ranks": 8, "wrong": 0} for node in NODES]),
        "says nothing of any rank",
    ),
    "a rank short": (lambda document: document["per_rank"].pop(), "31 of 32 ranks are in the log"),
    "a rank twice": (lambda document: document["per_rank"].append(document["per_rank"][0]), "33 ranks are in the log"),
    "a rank that is none": (lambda document: document["per_rank"].append(5), "the log stops before its end"),
    "ranks of a larger run": (ranks(lambda rank: {"rank": rank + 100}), "0 of 32 ranks"),
    "ranks below 0": (ranks(lambda rank: {"rank": -1 - rank}), "0 of 32 ranks"),
    "rank a truth": (ranks(lambda rank: {"rank": rank or False}), "missing 0"),
    "ranks elsewhere": (ranks(lambda _: {"node": "node-9"}), "ranks on other nodes than asked"),
    "ranks on swapped nodes": (ranks(lambda rank: {"node": NODES[3 - rank // 8]}), "ranks on other nodes than asked"),
    "rank's wrong null": (ranks(lambda _: {"wrong": None}), "does not count the wrong result elements of 0, 1"),
    "rank's wrong a list": (ranks(lambda _: {"wrong": []}), "does not count the wrong result elements of 0, 1"),
    "rank's wrong below 0": (ranks(lambda _: {"wrong": -1}), "does not count the wrong result elements of 0, 1"),
    "no cycles": (says(cycles=[]), "0 of 2 cycles"),
    "cycles unsaid": (lacks("cycles"), "0 of 2 cycles"),
    "cycles are numbers": (says(cycles=[1, 2]), "0 of 2 cycles"),
    "a cycle short": (lambda document: document["cycles"].pop(), "1 of 2 cycles"),
    "a cycle twice": (lambda document: document["cycles"][1].update(cycle=0), "every cycle once"),
    "a cycle without rows": (lambda document: document["cycles"][1].update(rows=[]), "cycle 1 of the final line"),
    "rows that are a word": (lambda document: document["cycles"][1].update(rows="abc"), "cycle 1 of the final line"),
    "a row short": (lambda document: document["cycles"][1]["rows"].pop(), "every size once: 16G is missing"),
    "no size": (last({"size": None}), "every size once: 16G is missing"),
    "busbw null": (last({"busbw": None}), "not a number"),
    "busbw nan": (last({"busbw": float("nan")}), "not a number"),
    "busbw inf": (last({"busbw": float("inf")}), "not a number"),
    "busbw a word": (last({"busbw": "370"}), "not a number"),
    "busbw a truth": (last({"busbw": True}), "not a number"),
    "busbw below 0": (last({"busbw": -1.0}), "not a number"),
    "busbw 0": (last({"busbw": 0.0}), "do not belong together"),
    "busbw too good": (last({"busbw": 1e9}), "do not belong together"),
    "time 0": (last({"time_us": 0.0}), "do not belong together"),
    "no time": (last({"time_us": 5e-324}), "do not belong together"),
    "wrong null": (last({"wrong": None}), "were not counted at 16G"),
    "wrong below 0": (last({"wrong": -3}), "were not counted at 16G"),
    "wrong a word": (last({"wrong": "0"}), "were not counted at 16G"),
    "wrong a truth": (last({"wrong": False}), "were not counted at 16G"),
    "in place not counted": (inside({"wrong": None}), "were not counted at 16G in place"),
    "in place a word": (last({"in_place": "abc"}), "no measurement at 16G in place"),
    "in place left out": (last({"in_place": None}), "disagree at 16G in place: one of them has no measurement"),
    "not the table's cycle": (last(row(SIZES[-1], 380.0)), "disagree at 16G out of place: time_us"),
}


@pytest.mark.parametrize("name", SPOILT)
def test_a_line_that_leaves_something_open_or_is_of_another_run_is_no_measurement(name: str) -> None:
    change, words = SPOILT[name]
    document = line()
    change(document)
    refused(log(document), words)


LAST = next(each for each in table().splitlines(keepends=True) if each.strip().startswith(str(SIZES[-1])))
GOOD = MARK + json.dumps(line()) + "\n"
BAD = MARK + json.dumps({**line(), "complete": False}) + "\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (table(), "the program's final line is missing"),
        (table() + GOOD[: len(GOOD) // 2], "the program's final line is missing"),
        (table() + f"KeyError: '{GOOD}", "the program's final line is missing"),
        (table() + f"[rank1] foo {GOOD}", "the program's final line is missing"),
        (table() + BAD + GOOD, "2 result lines are in the log"),
        (table() + GOOD + BAD, "2 result lines are in the log"),
        (table() + GOOD + GOOD, "2 result lines are in the log"),
        (table() + GOOD.strip() + GOOD, "2 result lines are in the log"),
        (log() + log(), "2 result lines are in the log"),
        (table()[:-400] + "\n" + log(), "2 tables are in the log"),
        (log() + 'CLUSTERPROOF-ERROR {"rank": 2, "node": "node-0", "what": "boom"}\n', "beside the final line: boom"),
        (log().strip() + 'CLUSTERPROOF-ERROR {"rank": 2, "what": "boom"}\n', "beside the final line: boom"),
        (log() + 'CLUSTERPROOF-ERROR {"rank": 2, "no', "the log stops before its end"),
        (log(text=table().replace("all_reduce", "broadcast")), "the table is of broadcast"),
        (log(text=table().replace("float", " half")), "type half; asked float"),
        (log(text=table().replace("372", "900").replace("371", "900").replace("370.9", "900.9")), "busbw 900"),
        (log(text=table().replace(LAST, LAST + LAST)), "the table does not have the sizes"),
        (log(text=table().replace(LAST, LAST + LAST.replace(" 17179869184", " 34359738368"))), "(3 rows read)"),
        (log(text=table().replace(LAST, "")), "the table does not have the sizes"),
    ],
)
def test_a_log_that_is_not_of_one_run_is_no_measurement(text: str, words: str) -> None:
    refused(text, words)


@pytest.mark.parametrize("cut", range(20, len(log()) - 2, 211))
def test_no_beginning_of_a_log_passes(cut: int) -> None:
    assert not verdict(log()[:cut]).passed


def test_above_a_thousand_ranks_the_line_has_every_node_once() -> None:
    names = [f"node-{number}" for number in range(256)]
    by_node = [{"node": name, "ranks": 8, "wrong": 0} for name in names]
    many = {
        "node_names": tuple(names),
        "nodes": 256,
        "ranks": 2048,
        "backend": "gloo",
        "ended": replace(ended(), exits=()),
    }
    whole = {**line(), "world_size": 2048, "nodes": names, "backend": "gloo", "per_rank": []}
    for cycle in whole["cycles"]:
        for each in cycle["rows"]:
            each.update(cell(each["size"], each["busbw"], 0, 2048), in_place=None)

    def judged(people: list[dict[str, Any]]) -> Verdict:
        return verdict(log({**whole, "per_node": people}, text=""), **many)

    assert judged(by_node).passed, judged(by_node).message
    for spoilt, words in (
        (by_node[:-1], "every node once"),
        ([*by_node, by_node[0]], "every node once"),
        ([*by_node[:-1], {"node": "x", "ranks": 8, "wrong": 0}], "every node once: x; asked node-255"),
        ([*by_node[:-1], {**by_node[-1], "ranks": 7}], "8 ranks of every node"),
        ([*by_node[:-1], {**by_node[-1], "wrong": None}], "wrong result elements of node-255"),
    ):
        assert judged(spoilt).reason is Reason.NO_MEASUREMENT
        assert words in judged(spoilt).message


@pytest.mark.parametrize(
    "text",
    [
        log().replace("values : 0 OK", "values : 0 FAILED"),
        log(text="")
        .replace('"in_place": {"time_us"', '"in_place": {"wrong": 7, "x"', 1)
        .replace('"wrong": 0', '"wrong": 3', 1),
    ],
    ids=["bounds without a count", "one cycle"],
)
def test_wrong_elements_anywhere_are_corruption(text: str) -> None:
    assert verdict(text).reason is Reason.DATA_CORRUPTION


def test_wrong_in_place_in_one_cycle_is_corruption() -> None:
    document = line()
    inside({"wrong": 7})(document)
    assert verdict(log(document)).reason is Reason.DATA_CORRUPTION


def test_a_run_that_broke_off_says_so_and_not_that_its_line_is_missing() -> None:
    found = verdict(table(), ended=ended("failed"))
    assert found.reason is Reason.WORKLOAD_FAILED
    assert "final line" not in found.message


def test_other_programs_prove_themselves_as_before() -> None:
    assert verdict(table(), program="all_reduce_perf", ranks=32).message.startswith("the log does not say how many")
    assert verdict(log(text="").replace("node-", "host-"), program="mine.py").passed
