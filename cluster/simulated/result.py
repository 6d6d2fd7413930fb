"""The final line of a run, `CLUSTERPROOF-RESULT {json}`, as workloads/collectives.py writes it.

Above a thousand ranks the entries a rank give way to entries a node (`per_node`), so that the line stays small.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from cluster.simulated.chance import Chance
from cluster.simulated.exposure import Exposure, Situation
from cluster.simulated.sweep import Cell, Row
from cluster.simulated.transcript import (
    MOST_RANKS_LISTED,
    VERSIONS,
    device,
    devices_of,
    network_of,
    networks_used,
    uses_mnnvl,
    uses_nvls,
)

JITTER = 0.001
"""Relative spread of the ranks' own times: they wait for each other, so it is small."""
SKEW = 0.08
"""How much longer than the mean the rank of a slow GPU measures: the others wait for it, and measure most of it too."""


def result_line(run: Situation, rows: Sequence[Row], exposed: Exposure, chance: Chance) -> str:
    """The whole line."""
    work = run.workload
    per_rank = work.world_size <= MOST_RANKS_LISTED
    people = _per_rank(run, rows, exposed, chance) if per_rank else _per_node(run, rows, exposed, chance)
    content = {
        "schema": "clusterproof.result/v1",
        "program": "collectives",
        "collective": work.collective,
        "backend": work.backend,
        "world_size": work.world_size,
        "nodes": list(work.nodes),
        "dtype": str(work.options.get("dtype", "float")),
        "iters": int(work.options.get("numIterations", 20)),
        "sizes": [row.size.nbytes for row in rows],
        "requested_sizes": [row.size.requested for row in rows],
        "complete": True,
        "cycles": [
            {"cycle": cycle, "rows": [_cycle_row(row, cycle) for row in rows]} for cycle in range(len(exposed.factors))
        ],
        "per_rank": people if per_rank else [],
        **({} if per_rank else {"per_node": people}),
        "versions": dict(VERSIONS),
        "transport": _transport(run, exposed),
    }
    return f"CLUSTERPROOF-RESULT {json.dumps(content, allow_nan=False, separators=(',', ':'))}"


def _number(value: float, digits: int) -> float | None:
    return None if math.isnan(value) else round(value, digits)


def _values(cell: Cell) -> dict[str, Any]:
    return {
        "time_us": _number(cell.time_us, 3),
        "algbw": _number(cell.algbw, 6),
        "busbw": _number(cell.busbw, 6),
        "wrong": cell.wrong,
    }


def _cycle_row(row: Row, cycle: int) -> dict[str, Any]:
    in_place = _values(row.in_place[cycle]) if row.in_place else None
    return {"size": row.size.nbytes, **_values(row.out_of_place[cycle]), "in_place": in_place}


def _wrong(rows: Sequence[Row], ranks: int) -> int | None:
    """Wrong elements of each rank: what one spoils, all of them receive."""
    counts = [cell.wrong for row in rows for cell in (*row.out_of_place, *row.in_place)]
    return None if None in counts else sum(count for count in counts if count) // ranks


def _time(rows: Sequence[Row]) -> float:
    """Mean time of the largest size over all repeats, µs."""
    cells = rows[-1].out_of_place
    return sum(cell.time_us for cell in cells) / len(cells)


def _per_rank(run: Situation, rows: Sequence[Row], exposed: Exposure, chance: Chance) -> list[dict[str, Any]]:
    work = run.workload
    draw, time_us, wrong = chance.of("ranks"), _time(rows), _wrong(rows, work.world_size)
    late = {
        run.position[fault.node] * work.ranks_per_node + fault.gpu
        for fault in exposed.gpus
        if fault.gpu < work.ranks_per_node
    }
    early = 1 - SKEW * len(late) / max(1, work.world_size - len(late))
    return [
        {
            "rank": rank,
            "node": work.node_of(rank),
            "host": work.node_of(rank),
            "pid": 4000 + rank % work.ranks_per_node,
            "device": device(run, rank),
            "time_us": _number(time_us * (1 + SKEW if rank in late else early) * draw.gauss(1, JITTER), 3),
            "wrong": wrong,
        }
        for rank in range(work.world_size)
    ]


def _per_node(run: Situation, rows: Sequence[Row], exposed: Exposure, chance: Chance) -> list[dict[str, Any]]:
    """One entry a node: means over its ranks."""
    work = run.workload
    draw, time_us, wrong = chance.of("ranks"), _time(rows), _wrong(rows, work.world_size)
    late = {fault.node for fault in exposed.gpus}
    share = SKEW / work.ranks_per_node
    return [
        {
            "node": node,
            "ranks": work.ranks_per_node,
            "time_us": _number(time_us * (1 + share if node in late else 1) * draw.gauss(1, JITTER), 3),
            "wrong": wrong,
        }
        for node in work.nodes
    ]


def _transport(run: Situation, exposed: Exposure) -> dict[str, Any]:
    """What NCCL said on all ranks: the majority's words, and the nodes that differ (`merge` in workloads/proof.py)."""
    if run.workload.backend != "nccl":
        return {"backend": run.workload.backend, "interface": None}
    fallen, most_fell = list(exposed.sockets), 2 * len(exposed.sockets) > len(run.workload.nodes)
    others = [node for node in run.workload.nodes if node not in exposed.sockets]
    differ = others if most_fell else fallen
    return {
        "backend": "nccl",
        "interface": None,
        "nccl_version": f"{VERSIONS['nccl']}+cuda{VERSIONS['cuda']}",
        "net_plugin": "Socket" if most_fell else network_of(run).name,
        "devices": ["eth0"] if most_fell else devices_of(run),
        **({"gdr": not most_fell} if run.leaves_nvlink else {}),
        "nvls": uses_nvls(run),
        "mnnvl": uses_mnnvl(run),
        "coll_channels": 16,
        "networks_used": networks_used(run, exposed),
        "fallback_to_socket": bool(fallen),
        "fallback_nodes": fallen,
        **({"differs": {"net_plugin": differ, "devices": differ, "gdr": differ}} if differ else {}),
    }
