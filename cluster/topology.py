"""Order and grouping of nodes by where they stand, so that a measurement depends on the nodes and never on luck.

Ranks follow this order everywhere: a ring in it crosses every boundary as seldom as it can (kubernetes.md, "Ranks
follow the topology").
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from cluster.model import Node

_DIGITS = re.compile(r"(\d+)")


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key under which `node-9` comes before `node-10`."""
    parts = _DIGITS.split(name)
    return tuple((1, int(part), part) if part.isdigit() else (0, 0, part) for part in parts if part)


def topology_order(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """Nodes sorted by domain path (outermost first), NVLink domain, then name, numbers in names by value."""
    return tuple(
        sorted(
            nodes,
            key=lambda node: (
                tuple(natural(domain) for domain in node.path),
                natural(node.nvlink_domain),
                natural(node.name),
            ),
        )
    )
