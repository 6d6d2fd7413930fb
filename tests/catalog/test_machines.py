"""Machine types and expected networks, as a platform's nodes name them."""

import pytest

from catalog import load

CATALOG = load()


@pytest.mark.parametrize(
    ("platform", "kind", "nics"),
    [
        ("aws", "p5.48xlarge", (32, 100)),
        ("aws", "p5en.48xlarge", (8, 400)),
        ("gcp", "a3-megagpu-8g", (8, 200)),
        ("azure", "Standard_ND96isr_H100_v5", (8, 400)),
        ("azure", "standard_nd96isr_h200_v5", (8, 400)),
        ("azure", "Standard_ND96amsr_A100_v4", (8, 200)),
        ("oci", "BM.GPU.B4.8", (16, 100)),
    ],
)
def test_a_machine_type_tells_its_nics(platform: str, kind: str, nics: tuple[int, float]) -> None:
    machine = CATALOG.machine_for(platform, kind)
    assert machine is not None
    assert (machine.rails, machine.gbps) == nics


@pytest.mark.parametrize(("platform", "kind"), [("aws", ""), ("aws", "m5.large"), ("onprem", "p5.48xlarge")])
def test_an_unknown_machine_tells_nothing(platform: str, kind: str) -> None:
    assert CATALOG.machine_for(platform, kind) is None


def test_the_network_of_a_product_is_its_platforms() -> None:
    rule = CATALOG.expected_network("aws", "gb300")
    assert rule is not None
    assert rule.allows("IB")
    assert not rule.allows("Socket")
    assert CATALOG.expected_network("onprem", "h100") is None


def test_networks_and_machines_speak_of_known_products() -> None:
    for rule in CATALOG.networks.values():
        assert set(rule.accelerators) <= set(CATALOG.accelerators)
