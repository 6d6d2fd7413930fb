"""A healthy simulated fabric satisfies the real judge, for every product and shape, and a halved one never does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import measure
from catalog import healthy_busbw
from cluster import Node, Workload
from cluster.simulated import SimulatedCluster
from criteria import Judge, Verdict
from fixtures import judging
from fixtures.launching import WHOLE, Shape, layer_of
from tests.cluster.simulated.fabrics import cycles, fabric, names, run, shipped, workload

PRODUCTS = {
    "h100": "NVIDIA-H100-80GB-HBM3",
    "h200": "NVIDIA-H200",
    "b200": "NVIDIA-B200",
    "b300": "NVIDIA-B300",
    "gb200": "NVIDIA-GB200",
    "gb300": "NVIDIA-GB300",
    "a100": "NVIDIA-A100-SXM4-80GB",
    "mi300x": "AMD-Instinct-MI300X",
}
NO_MNNVL = Shape(mnnvl=False)


def cluster_of(product: str, faults: list[dict[str, Any]]) -> SimulatedCluster:
    row = shipped().accelerators[product]
    return fabric(
        20,
        faults,
        noise=0.01,
        product=PRODUCTS[product],
        accelerators=row.gpus_per_node,
        nvlink_domain=row.nvlink_domain,
    )


def shapes() -> Iterator[tuple[str, int, Shape]]:
    """(entry, nodes, shape) of everything the communication entries may run."""
    for entry in shipped().entries.values():
        if entry.collective:
            counts = (1,) if entry.max_nodes == 1 else (2, 3, 20)
            yield from ((entry.name, count, shape) for count in counts for shape in (WHOLE, NO_MNNVL))


def verdict(cluster: SimulatedCluster, entry_name: str, nodes: tuple[Node, ...], shape: Shape) -> Verdict:
    entry = shipped().entry(entry_name)
    work: Workload = workload(
        [node.name for node in nodes],
        entry_name,
        ranks_per_node=nodes[0].accelerators,
        options={"minBytes": "4G", "maxBytes": "16G", "stepFactor": 4},
        layer=layer_of(entry, nodes, shape),
        mnnvl=shape.mnnvl,
    )
    done = run(cluster, work)
    return Judge(shipped(), []).judge(measure.read(done.log), judging.conditions(done, nodes, shipped()))


@pytest.mark.parametrize("product", PRODUCTS)
def test_a_healthy_fabric_passes_and_a_halved_one_fails_in_every_shape(product: str) -> None:
    well, half = cluster_of(product, []), cluster_of(product, [{"kind": "systemic", "factor": 0.5}])
    nodes = well.nodes().nodes
    for entry, count, shape in shapes():
        case = f"{entry} on {count} nodes, {shape}"
        good, bad = (verdict(cluster, entry, nodes[:count], shape) for cluster in (well, half))
        assert good.outcome == "passed", f"{case}: {good.message}"
        assert bad.outcome == "failed", f"{case}: {bad.message}"


def test_a_product_nobody_knows_on_a_described_fabric_reaches_what_its_nics_allow() -> None:
    done = run(fabric(2, product="ACME-X1", fabric={"rails": 4, "gbps": 200}), workload(names([0, 1])))
    size = {"collective": "all_reduce", "layer": "fabric", "nodes": 2, "gpus_per_node": 8, "size": 512 << 20}
    figure = healthy_busbw(None, **size, rails=4, gbps=200.0)  # type: ignore[arg-type]
    assert figure is not None
    assert cycles(done)[0] == pytest.approx(figure.value)


def test_an_unknown_fabric_is_judged_inconclusive() -> None:
    cluster = fabric(4, product="ACME-X1")
    assert verdict(cluster, "nccl-all-reduce", cluster.nodes().nodes, WHOLE).outcome == "inconclusive"
