"""Measurements and conditions for the tests of this room, built as the readers build them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from catalog import Catalog, Threshold, load
from criteria import Conditions, Ended, Exit, Judge, Verdict
from criteria.final_numbers import FACTORS
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
    names: Sequence[str] = (),
    backend: str = "nccl",
    collective: str = "all_reduce",
    details: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Measurement:
    """A whole log of `ranks` ranks with `busbw` at the largest size and less below it.

    `cycles` are the values of single repeats at the largest size, whose mean then is to be `busbw`.
    """
    by_size = {size: None if busbw is None else busbw * size / (size + 2**20) for size in sizes}
    by_size[max(sizes)] = busbw
    spoilt = wrong or {}
    named = names or [f"node-{number}" for number in range(nodes)]
    rows = tuple(
        Row(size, size // 4, "float", "sum", -1, Cell(**cell(size, value, spoilt.get(size, 0), ranks, collective)))
        for size, value in by_size.items()
    )
    repeats = tuple(
        {
            "cycle": number,
            "rows": [
                {
                    "size": size,
                    **cell(size, value if size == max(sizes) else usual, spoilt.get(size, 0), ranks, collective),
                }
                for size, usual in by_size.items()
            ],
        }
        for number, value in enumerate(cycles or (busbw,))
    )
    usual: dict[str, Any] = {
        "file": "run", "format": "clusterproof", "complete": True, "collective": collective, "ranks": ranks,
        "nodes": nodes, "tables": (Table(rows=rows, out_of_bounds=0, complete=True, collective=collective),),
        "per_rank": tuple(
            {"rank": rank, "node": named[rank * nodes // ranks], "wrong": 0} for rank in range(ranks)
        ),
        "cycles": repeats, "result_line": True,
        "details": {"result": {
            "schema": "clusterproof.result/v1", "program": "collectives", "collective": collective, "backend": backend,
            "world_size": ranks, "nodes": list(named),
            "dtype": "float", "sizes": list(sizes), "requested_sizes": list(sizes), "complete": True,
            **(details or {}).get("result", {}),
        }},
    }  # fmt: skip
    return Measurement(**{**usual, **changes})


def cell(
    size: int, busbw: float | None, wrong: int | None, ranks: int = 32, name: str = "all_reduce"
) -> dict[str, Any]:
    """What a collective of that bus bandwidth measures."""
    if not busbw:
        return {"time_us": 10.0, "algbw": busbw, "busbw": busbw, "wrong": wrong}
    algbw = busbw / (FACTORS[name](ranks) or 1.0)
    return {"time_us": size / 1e3 / algbw, "algbw": algbw, "busbw": busbw, "wrong": wrong}


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
