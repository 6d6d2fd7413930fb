"""Where the simulated nodes stand: node objects, domains of every level, NVLink domains.

Everything that follows from the position of a node is worked out once, so that asking whether a fault shows in a run
costs a look-up and not a search: a bench asks that hundreds of thousands of times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from catalog import Accelerator
from cluster.model import Node
from cluster.simulated.spec import Simulation
from cluster.topology import topology_order


@dataclass(frozen=True)
class Layout:
    """The fabric without its faults."""

    nodes: tuple[Node, ...]
    """In topology order."""
    by_name: Mapping[str, Node]
    domains: Mapping[str, frozenset[str]]
    """Node → all domains it stands in, of every level."""
    members: Mapping[str, frozenset[str]]
    """Domain → nodes in it."""
    level: Mapping[str, str]
    """Domain → its level."""
    nvlink: Mapping[str, int]
    """Node → number of its NVLink domain."""
    nvlink_size: Mapping[str, int]
    """Node → how many nodes its NVLink domain really has (the last one may be short)."""
    spans_nodes: bool
    """NVLink domains are larger than a node, so that multi-node NVLink is on unless a run switches it off."""
    rails: int
    gbps: float


def build(spec: Simulation, accelerator: Accelerator | None) -> Layout:
    """The layout of `spec`; NICs come from the file, else from the accelerator's row in the catalog (0 = unknown)."""
    rails = spec.fabric.rails if spec.fabric else accelerator.rails if accelerator else 0
    gbps = spec.fabric.gbps if spec.fabric else accelerator.gbps if accelerator else 0.0
    path = {
        name: tuple((level, f"{level}-{index // size}") for level, size in spec.topology.items())
        for index, name in enumerate(spec.nodes)
    }
    members: dict[str, set[str]] = {}
    for name, places in path.items():
        for _, domain in places:
            members.setdefault(domain, set()).add(name)
    nvlink = {name: index // spec.nvlink_domain for index, name in enumerate(spec.nodes)}
    sizes: dict[int, int] = {}
    for number in nvlink.values():
        sizes[number] = sizes.get(number, 0) + 1
    nodes = topology_order(
        replace(_node(spec, index, name, path[name]), nics=int(rails), nic_gbps=float(gbps))
        for index, name in enumerate(spec.nodes)
    )
    return Layout(
        nodes=nodes,
        by_name={node.name: node for node in nodes},
        domains={name: frozenset(domain for _, domain in places) for name, places in path.items()},
        members={domain: frozenset(names) for domain, names in members.items()},
        level={domain: level for places in path.values() for level, domain in places},
        nvlink=nvlink,
        nvlink_size={name: sizes[number] for name, number in nvlink.items()},
        spans_nodes=spec.nvlink_domain > 1,
        rails=int(rails),
        gbps=float(gbps),
    )


def _node(spec: Simulation, index: int, name: str, path: tuple[tuple[str, str], ...]) -> Node:
    """One node object, with the labels and identity that its kubelet and GPU feature discovery would publish."""
    domain = f"nvlink-{index // spec.nvlink_domain}" if spec.nvlink_domain > 1 else ""
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": spec.product,
        "nvidia.com/gpu.count": str(spec.accelerators),
        **{f"network.topology.nvidia.com/{level}": place for level, place in path},
    }
    if domain:
        # The clique label carries the UUID of the NVLink domain and the clique's number in it.
        labels["nvidia.com/gpu.clique"] = f"{domain}.0"
    return Node(
        name=name,
        accelerators=spec.accelerators,
        product=spec.product,
        platform=spec.platform,
        topology=path,
        nvlink_domain=domain,
        identity={
            "providerID": f"simulated://{spec.seed}/{name}",
            "systemUUID": f"00000000-0000-4000-8000-{index:012x}",
            "kernelVersion": "6.8.0-simulated",
        },
        labels=labels,
    )
