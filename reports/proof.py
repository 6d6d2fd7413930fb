"""What the nodes said of themselves during a run: counters that moved, identities, and whose parts differ.

Our own programs gather it from every node into their result line (`workloads/proof.py`). Here it is put by node: for
the case the counters that changed, the throttled clocks and what differs from most other nodes of the run; for the node
the identities that a repair needs. What a node's machine does not have is absent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from measure import Measurement

CHANGED = ("moved", "throttled")
"""Shown for the nodes where there is anything; bytes that were moved as they should be are not news."""


def counters(measurement: Measurement) -> dict[str, dict[str, Any]]:
    """By node: `moved` counters, `throttled` GPUs with reasons, and under `differs` what other nodes have otherwise."""
    proof = _proof(measurement)
    found: dict[str, dict[str, Any]] = {}
    for key in CHANGED:
        for node, changed in _mapping(proof.get(key)).items():
            if changed:
                found.setdefault(str(node), {})[key] = changed
    for node, differing in _odd(proof.get("shapes")):
        found.setdefault(node, {})["differs"] = differing
    return found


def identities(measurement: Measurement) -> dict[str, dict[str, Any]]:
    """By node: what each device is called for good (UUID, serial, PCI address, GUID)."""
    said = _mapping(_proof(measurement).get("identity"))
    return {str(node): dict(devices) for node, devices in said.items() if isinstance(devices, Mapping) and devices}


def _proof(measurement: Measurement) -> Mapping[str, Any]:
    return _mapping(_mapping(measurement.details.get("result")).get("proof"))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _odd(shapes: Any) -> Iterator[tuple[str, list[str]]]:
    """The nodes outside the largest group of equal ones, where that is most of them."""
    groups = [each for each in shapes if isinstance(each, Mapping)] if isinstance(shapes, Sequence) else []
    named = [[str(node) for node in each.get("nodes") or ()] for each in groups]
    if len(groups) < 2 or 2 * len(named[0]) <= sum(map(len, named)):
        return
    usual = _flat(groups[0].get("shape"))
    for group, nodes in zip(groups[1:], named[1:], strict=True):
        has = _flat(group.get("shape"))
        differing = [
            f"{key}: {has.get(key, 'absent')}, most others {usual.get(key, 'absent')}"
            for key in dict.fromkeys((*usual, *has))
            if has.get(key) != usual.get(key)
        ]
        yield from ((node, differing) for node in nodes)


def _flat(shape: Any) -> dict[str, Any]:
    """`{device: {key: value}}` as `{"device key": value}`."""
    return {
        f"{device} {key}": value for device, facts in _mapping(shape).items() for key, value in _mapping(facts).items()
    }
