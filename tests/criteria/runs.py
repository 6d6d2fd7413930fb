"""Measurements and conditions for the tests of this room, built as the readers build them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from catalog import Catalog, Threshold, load
from criteria import Conditions, Ended, Exit, Judge, Verdict
from measure import Cell, Measurement, Row, Table

CATALOG: Catalog = load()
G = 2**30
SIZES = (8, 2**20, 2**30, 16 * 2**30)


def measured(
    busbw: float | None = 370.0,
    *,
    sizes: Sequence[int] = SIZES,
    wrong: Mapping[int, int | None] | None = None,
    cycles: Sequence[float | None] = (),
    ranks: int = 32,
    nodes: int = 4,
    **changes: Any,
) -> Measurement:
    """A whole all-reduce log of `ranks` ranks with `busbw` at the largest size and less below it."""
    by_size = {size: None if busbw is None else busbw * size / (size + 2**20) for size in sizes}
    by_size[max(sizes)] = busbw
    spoilt = wrong or {}
    rows = tuple(
        Row(size=size, out_of_place=Cell(10.0, value, value, spoilt.get(size, 0))) for size, value in by_size.items()
    )
    repeats = tuple(
        {"cycle": number, "rows": [{"size": max(sizes), "time_us": 10.0, "algbw": value, "busbw": value, "wrong": 0}]}
        for number, value in enumerate(cycles)
    )
    usual: dict[str, Any] = {
        "file": "run", "format": "clusterproof", "complete": True, "collective": "all_reduce", "ranks": ranks,
        "nodes": nodes, "tables": (Table(rows=rows, out_of_bounds=0, complete=True, collective="all_reduce"),),
        "per_rank": tuple(
            {"rank": rank, "node": f"node-{rank * nodes // ranks}", "wrong": 0} for rank in range(ranks)
        ),
        "cycles": repeats, "result_line": True,
    }  # fmt: skip
    return Measurement(**{**usual, **changes})


def conditions(product: str = "h100", **changes: Any) -> Conditions:
    """Four nodes of the product on its usual fabric, all-reduce, ended well."""
    acc = CATALOG.accelerators.get(product)
    usual = Conditions(
        entry="nccl-all-reduce",
        collective="all_reduce",
        layer="fabric",
        nodes=4,
        gpus_per_node=8,
        ranks=32,
        backend="nccl",
        accelerator=acc,
        sizes=SIZES,
        rails=acc.rails if acc else 0,
        gbps=acc.gbps if acc else 0.0,
        ended=ended(),
    )
    return replace(usual, **changes)


def ended(state: str = "succeeded", codes: Mapping[int, int | None] | None = None, **changes: Any) -> Ended:
    """Four nodes of eight ranks; `codes` by rank where one did not exit 0."""
    exits = tuple(
        Exit(rank=rank, node=f"node-{rank // 8}", code=(codes or {}).get(rank, 0), at=100.0 + rank)
        for rank in range(32)
    )
    return Ended(**{"state": state, "exits": exits, **changes})


def judge(measurement: Measurement | None, given: Conditions | None = None, *thresholds: Threshold) -> Verdict:
    """The verdict with the shipped catalog."""
    return Judge(CATALOG, thresholds).judge(measurement, given or conditions())
