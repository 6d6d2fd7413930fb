from __future__ import annotations

import struct

import pytest

from reports import charts
from reports.chart_nodes import nodes_among_peers
from reports.chart_pairs import Pair, matrix
from reports.chart_scaling import scaling_ladder
from reports.record import CaseRecord
from tests.reports.sessions import cases, story


def dimensions(picture: bytes) -> tuple[int, int]:
    assert picture.startswith(b"\x89PNG\r\n")
    width, height = struct.unpack(">II", picture[16:24])
    return width, height


def test_a_session_has_a_chart_for_each_question_and_the_same_bytes_every_time() -> None:
    drawn = dict(charts.of_session(story()))
    assert list(drawn) == ["nccl-all-reduce-full-scale-isolation", "nccl-all-reduce-full-scale-bandwidth"]
    for picture in drawn.values():
        width, height = dimensions(picture)
        assert width == 1350
        assert 400 < height < 1700
    assert dict(charts.of_session(story())) == drawn


@pytest.mark.parametrize("count", [3, 8, 300])
def test_nodes_are_drawn_among_their_peers_few_or_many(count: int) -> None:
    single = cases()[1]
    group = [
        single.model_copy(update={"nodes": [f"n{index}"], "value": 450.0 - 200 * (index == 1)})
        for index in range(count)
    ]
    picture = nodes_among_peers("nccl-loopback intra-node", group)
    assert picture is not None
    dimensions(picture)


def test_slow_processes_of_one_machine_are_not_called_out_of_line(monkeypatch: pytest.MonkeyPatch) -> None:
    titles: list[str] = []

    def draw(_title: str, _unit: str, _measured: object, poor: set[str]) -> bytes:
        titles.append(",".join(sorted(poor)))
        return b""

    monkeypatch.setattr("reports.chart_nodes._draw", draw)
    single = cases()[1]
    group = [
        single.model_copy(update={"nodes": [f"n{index}"], "value": 100.0 + 300 * (index > 0)}) for index in range(4)
    ]
    nodes_among_peers("x", group)
    nodes_among_peers("x", [case.model_copy(update={"backend": "gloo"}) for case in group])
    assert titles == ["n0", ""]


def test_runs_of_several_sizes_make_a_ladder() -> None:
    case = cases()[0]
    assert case.isolation is not None
    assert scaling_ladder(case) is None
    probes = [
        case.isolation.probes[2].model_copy(update={"nodes": case.nodes[:count], "outcome": outcome})
        for count, outcome in ((2, "passed"), (4, "unclear"), (6, "failed"))
    ]
    searched = case.model_copy(
        update={"isolation": case.isolation.model_copy(update={"probes": probes, "suspects": []})}
    )
    picture = scaling_ladder(searched)
    assert picture is not None
    dimensions(picture)


def test_nothing_is_drawn_from_nothing() -> None:
    bare = CaseRecord(id="a", verdict="failed", nodes=["n1", "n2"])
    assert list(charts.of_case(bare)) == []
    assert nodes_among_peers("x", [bare]) is None
    assert matrix("x", []) is None


def test_pairs_are_drawn_as_a_matrix() -> None:
    names = [f"n{index}" for index in range(60)]
    pairs = [Pair(first, second, 380.0, failed=second == "n7") for first in names[:4] for second in names[4:]]
    picture = matrix("nccl-sendrecv pairs", pairs)
    assert picture is not None
    dimensions(picture)
