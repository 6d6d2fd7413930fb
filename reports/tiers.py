"""Which tiers of the fabric a case put load on: what it passed says nothing about the others.

A ring in topology order joins neighbours, so it crosses each boundary between leaves once and loads no spine to speak
of; traffic between all pairs loads every tier that the node set spans.
"""

from __future__ import annotations

from collections.abc import Sequence

from cluster import Node


def tiers_loaded(nodes: Sequence[Node], traffic: str, layer: str) -> list[str]:
    """`nvlink`, `leaf`, `spine`: the tiers under load for a case on `nodes` (unknown places count as one leaf)."""
    if layer != "fabric":
        return ["nvlink"]
    if len(nodes) < 2:
        return []
    leaves = {node.path for node in nodes}
    return ["leaf", "spine"] if traffic == "all-pairs" and len(leaves) > 1 else ["leaf"]
