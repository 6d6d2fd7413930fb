"""Healthy figures have an origin, obey physics and follow the shape they are asked for."""

import itertools

import pytest

from catalog import Accelerator, FigureRow, fabric_bound, healthy_busbw, load, scale_up_bound
from catalog.words import COLLECTIVES

G = 2**30
CATALOG = load()
ROWS = [(acc, row) for acc in CATALOG.accelerators.values() for row in acc.figures]


def h100(**shape: object) -> float:
    usual = {
        "collective": "all_reduce", "layer": "fabric", "nodes": 4, "gpus_per_node": 8, "size": 16 * G, "rails": 8,
        "gbps": 400.0,
    }  # fmt: skip
    figure = healthy_busbw(CATALOG.accelerators["h100"], **{**usual, **shape})  # type: ignore[arg-type]
    assert figure is not None
    return figure.value


@pytest.mark.parametrize(("acc", "row"), ROWS, ids=lambda item: item.name if isinstance(item, Accelerator) else "")
def test_every_row_says_where_it_comes_from_and_lies_within_the_bound(acc: Accelerator, row: FigureRow) -> None:
    assert row.unit == "GB/s"
    assert all((row.source, row.conditions, row.date, row.kind))
    assert row.collective is not None
    if row.layer == "scale-up":
        ranks = row.nodes * row.gpus_per_node
        bound = scale_up_bound(acc, collective=row.collective, ranks=ranks, algorithm=row.algorithm)
        assert row.value <= bound or acc.nvlink_gbps == 0
    else:
        assert row.value <= fabric_bound(
            collective=row.collective,
            nodes=row.nodes,
            gpus_per_node=row.gpus_per_node,
            rails=row.rails,
            gbps=row.gbps,
            nvlink_domain=row.nvlink_domain,
        )


def test_a_published_figure_is_given_back_for_its_own_shape() -> None:
    figure = healthy_busbw(
        CATALOG.accelerators["h200"], collective="all_reduce", layer="fabric", nodes=4, gpus_per_node=8, size=16 * G,
        rails=8, gbps=400,
    )  # fmt: skip
    assert figure is not None
    assert (figure.value, figure.kind) == (369.1, "measured")
    assert "ml-engineering" in figure.source


def test_another_shape_is_derived_and_says_so() -> None:
    figure = healthy_busbw(
        CATALOG.accelerators["h200"], collective="all_reduce", layer="fabric", nodes=64, gpus_per_node=8, size=16 * G,
        rails=8, gbps=200,
    )  # fmt: skip
    assert figure is not None
    assert figure.kind == "derived"
    assert "ratio of bounds" in figure.formula
    assert figure.value < 369.1 / 2


def test_what_nobody_published_is_provisional_and_says_so() -> None:
    figure = healthy_busbw(
        CATALOG.accelerators["b300"], collective="broadcast", layer="fabric", nodes=4, gpus_per_node=8, size=16 * G,
        rails=8, gbps=800,
    )  # fmt: skip
    assert figure is not None
    assert figure.kind == "provisional"
    assert "nobody published" in figure.conditions


@pytest.mark.parametrize(
    ("collective", "layer", "nodes", "name"),
    [
        (collective, layer, nodes, name)
        for collective, layer, nodes in itertools.product(COLLECTIVES, ("scale-up", "fabric"), (1, 2, 5, 64, 4096))
        for name in ("h100", "gb200", "mi300x", "a100")
        if layer == "fabric" or nodes == 1
    ],
)
def test_no_healthy_figure_breaks_physics_or_grows_with_latency(
    collective: str, layer: str, nodes: int, name: str
) -> None:
    acc = CATALOG.accelerators[name]
    sizes = [8, 2**20, G, 16 * G]
    values = []
    for size in sizes:
        figure = healthy_busbw(
            acc, collective=collective, layer=layer, nodes=nodes, gpus_per_node=acc.gpus_per_node, size=size,
            rails=acc.rails, gbps=acc.gbps,
        )  # fmt: skip
        assert figure is not None
        values.append(figure.value)
    assert values == sorted(values)
    if layer == "fabric":
        bound = fabric_bound(
            collective=collective, nodes=nodes, gpus_per_node=acc.gpus_per_node, rails=acc.rails, gbps=acc.gbps
        )
        assert 0 < values[-1] <= bound


def test_alltoall_and_all_reduce_over_the_same_nics_have_different_bounds() -> None:
    shape = {"nodes": 2, "gpus_per_node": 8, "rails": 8, "gbps": 400.0}
    assert fabric_bound(collective="all_reduce", **shape) == pytest.approx(400)  # type: ignore[arg-type]
    assert fabric_bound(collective="alltoall", **shape) == pytest.approx(93.75)  # type: ignore[arg-type]
    assert fabric_bound(collective="all_reduce", algorithm="tree", **shape) == pytest.approx(750)  # type: ignore[arg-type]


def test_one_rail_of_eight_carries_an_eighth() -> None:
    assert h100(rails=1) == pytest.approx(h100() / 8, rel=0.01)


def test_a_loopback_is_bound_by_the_gpus_own_nics() -> None:
    assert 0.5 * 50 < h100(nodes=1) < 50


def test_nothing_is_said_of_one_rank_or_of_unknown_nics() -> None:
    acc = CATALOG.accelerators["h100"]
    shape = {"collective": "all_reduce", "size": G}
    assert healthy_busbw(acc, layer="scale-up", nodes=1, gpus_per_node=1, **shape) is None  # type: ignore[arg-type]
    assert healthy_busbw(acc, layer="fabric", nodes=4, gpus_per_node=8, **shape) is None  # type: ignore[arg-type]
    assert healthy_busbw(None, layer="scale-up", nodes=1, gpus_per_node=8, **shape) is None  # type: ignore[arg-type]


def test_the_nics_alone_bound_an_unknown_product() -> None:
    figure = healthy_busbw(
        None, collective="all_reduce", layer="fabric", nodes=4, gpus_per_node=8, size=16 * G, rails=8, gbps=400
    )
    assert figure is not None
    assert figure.kind == "provisional"
    assert "unknown product" in figure.conditions


@pytest.mark.parametrize(
    ("product", "name"),
    [
        ("NVIDIA-H100-80GB-HBM3", "h100"),
        ("NVIDIA-H100-NVL", "h100-nvl"),
        ("NVIDIA H200", "h200"),
        ("NVIDIA-GH200-480GB", "gh200"),
        ("NVIDIA-B200", "b200"),
        ("nvidia-gb200", "gb200"),
        ("NVIDIA-GB300", "gb300"),
        ("NVIDIA-B300-SXM6-AC", "b300"),
        ("NVIDIA-A100-SXM4-80GB", "a100"),
        ("NVIDIA-A100-PCIE-40GB", "a100-pcie"),
        ("NVIDIA-L40S", "l40s"),
        ("NVIDIA-L40", "l40"),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "rtxpro6000"),
        ("AMD_Instinct_MI300X_OAM", "mi300x"),
    ],
)
def test_the_label_names_the_product(product: str, name: str) -> None:
    found = CATALOG.accelerator_for(product)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize("product", ["", "Tesla-T4", "NVIDIA-H1000"[:9]])
def test_an_unknown_label_names_nothing(product: str) -> None:
    assert CATALOG.accelerator_for(product) is None


def test_h200_at_250_nodes_is_near_what_its_users_call_typical() -> None:
    figure = healthy_busbw(
        CATALOG.accelerators["h200"], collective="all_reduce", layer="fabric", nodes=248, gpus_per_node=8, size=16 * G,
        rails=8, gbps=400,
    )  # fmt: skip
    assert figure is not None
    assert figure.value == pytest.approx(350, rel=0.03)  # "~350 typical", nccl-tests issue 283
