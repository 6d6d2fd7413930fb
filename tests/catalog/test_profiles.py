"""Every shipped figure has unit, conditions, date, source and kind, obeys physics, and stands in docs/profiles.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from catalog import Accelerator, CatalogError, FigureRow, Profile, check, fabric_bound, load, scale_up_bound
from catalog.documenting import page

CATALOG = load()
ROWS = [
    pytest.param(profile, CATALOG.accelerators[name], row, id=f"{profile.name}-{number}-{name}")
    for profile in CATALOG.profiles.values()
    for name in profile.accelerators
    for number, row in enumerate(profile.rows)
]
UNITS = {
    "busBandwidthGBps": "GB/s",
    "hbmBandwidthGBps": "GB/s",
    "pcieBandwidthGBps": "GB/s",
    "rdmaBandwidthGbps": "Gb/s",
    "gemmTFLOPs": "TFLOP/s",
}


def bound(acc: Accelerator, row: FigureRow) -> float:
    """What physics allows for the row, in its unit."""
    if row.metric == "busBandwidthGBps":
        ranks = row.nodes * row.gpus_per_node
        inside = scale_up_bound(acc, collective=row.collective or "", ranks=ranks, algorithm=row.algorithm)
        if row.layer == "scale-up":
            return inside
        outside = fabric_bound(
            collective=row.collective or "", nodes=row.nodes, gpus_per_node=row.gpus_per_node, rails=row.rails,
            gbps=row.gbps, algorithm=row.algorithm if row.algorithm != "any" else "ring",
            nvlink_domain=row.nvlink_domain,
        )  # fmt: skip
        return min(inside, outside) if row.nvlink_domain > 1 else outside
    of_gpu = {
        "hbmBandwidthGBps": acc.hbm_gbytes_per_s,
        "pcieBandwidthGBps": acc.pcie_gbps / 8,
        "rdmaBandwidthGbps": row.gbps,
        "gemmTFLOPs": acc.fp8_tflops if row.precision == "fp8" else acc.bf16_tflops,
    }
    return of_gpu[row.metric]


@pytest.mark.parametrize(("profile", "acc", "row"), ROWS)
def test_every_row_is_complete_and_within_the_physical_bound(
    profile: Profile, acc: Accelerator, row: FigureRow
) -> None:
    assert row.unit == UNITS[row.metric]
    assert all((row.conditions, row.source, row.date, row.kind, profile.transport, profile.program))
    assert row.kind in {"measured", "published"} or row.formula
    assert 0 < row.value <= bound(acc, row)


@pytest.mark.parametrize(("profile", "acc", "row"), [each for each in ROWS if each.values[2].advisory])  # type: ignore[union-attr]
def test_only_two_node_figures_are_advisory(profile: Profile, acc: Accelerator, row: FigureRow) -> None:
    assert row.nodes == 2


def test_a_two_node_figure_above_the_line_rate_is_always_advisory() -> None:
    for profile in CATALOG.profiles.values():
        for row in profile.rows:
            line_rate = row.rails * row.gbps / 8
            if row.collective == "all_reduce" and row.layer == "fabric" and row.nvlink_domain == 1 and row.nodes == 2:
                assert row.advisory or row.value <= line_rate


def test_every_profile_is_of_a_known_product() -> None:
    for profile in CATALOG.profiles.values():
        assert set(profile.accelerators) <= set(CATALOG.accelerators)


def test_a_profile_has_one_fabric_class() -> None:
    row = {
        "collective": "all_reduce", "layer": "fabric", "nodes": 4, "gpusPerNode": 8, "size": "8G", "value": 100,
        "rails": 8, "gbps": 200, "kind": "measured", "conditions": "ours", "source": "ours", "date": "2026-12-01",
    }  # fmt: skip
    data = {"name": "p", "accelerators": ["h100"], "rails": 8, "gbps": 400, "transport": "IB", "rows": [row]}
    with pytest.raises(CatalogError, match="one fabric class"):
        check(Profile, data, "p.yaml")
    assert check(Profile, {**data, "gbps": 200}, "p.yaml").rows[0].gbps == 200


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"source": None}, "add the key 'source'|valid string"),
        ({"kind": "derived"}, "expected a formula with a derived figure"),
        ({"kind": "guessed"}, "expected one of measured"),
        ({"size": None}, "expected the message size"),
        ({"value": -1}, "greater than 0"),
    ],
)
def test_a_figure_without_its_origin_is_refused(change: dict[str, object], words: str) -> None:
    row = {
        "collective": "all_reduce", "layer": "scale-up", "gpusPerNode": 8, "size": "8G", "value": 100,
        "kind": "measured", "conditions": "ours", "source": "ours", "date": "2026-12-01",
    }  # fmt: skip
    with pytest.raises(CatalogError, match=words):
        check(FigureRow, {**row, **change}, "row")


def test_the_page_of_figures_is_up_to_date() -> None:
    written = Path(__file__).parents[2] / "docs" / "profiles.md"
    assert written.read_text(encoding="utf-8") == page(CATALOG), "run python -m catalog.documenting > docs/profiles.md"


def test_the_example_on_the_page_is_a_catalog(tmp_path: Path) -> None:
    example = page(CATALOG).split("```yaml\n")[1].split("```")[0]
    (tmp_path / "ours.yaml").write_text(example)
    catalog = load([tmp_path])
    assert catalog.profiles["our-h100"].rows[0].value == 372.5
    assert catalog.accelerator_for("ACME-X1-96GB") is catalog.accelerators["acme-x1"]
    assert catalog.machine_for("onprem", "gpu.h100.8x") is not None
