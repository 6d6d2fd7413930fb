"""Whether the data went over the network that this platform's accelerators are meant to use.

Applies where the traffic leaves the NVLink domain. A fall-back to TCP sockets is silent in NCCL and ruins a cluster,
so it fails with those words even where the bandwidth would pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from catalog import Catalog
from criteria.model import Check, Conditions, Hint, Reason
from measure import Measurement


def expected_transport(measurement: Measurement, conditions: Conditions, catalog: Catalog) -> Iterator[Check]:
    """The transport check of a case on GPUs over the fabric, where the log says what was used."""
    if conditions.backend != "nccl" or conditions.layer != "fabric" or not conditions.collective:
        return
    used = measurement.transport
    network = used.get("net_plugin")
    product = conditions.accelerator.name if conditions.accelerator else ""
    rule = catalog.expected_network(conditions.platform, product)
    named = f"{network} on {conditions.platform}" if network else f"sockets on {conditions.platform}"
    if used.get("fallback_to_socket") and not (rule and rule.allows("Socket")):
        nodes = fallen_back(measurement)
        where = f" on {', '.join(nodes[:8])}" + (" …" if len(nodes) > 8 else "") if nodes else ""
        yield _missed(f"silent fall-back to TCP sockets{where}", rule.networks if rule else ())
    elif network and rule and not rule.allows(str(network)):
        yield _missed(f"the network used is {named}", rule.networks)
    elif network:
        source = rule.source if rule else "always on"
        yield Check("transport", ok=True, text=f"network {named}, no fall-back to TCP sockets", source=source)
    yield from _devices(used.get("devices"), str(network or ""), conditions)


def _devices(devices: Any, network: str, conditions: Conditions) -> Iterator[Check]:
    """Whether NCCL uses as many NICs as the node has.

    Only where its list is one of NICs: the plugin of EFA lists groups of them. A device fused of several (`a+b`)
    counts as those.
    """
    if not network.upper().startswith("IB") or not conditions.rails or not isinstance(devices, list | tuple):
        return
    used = [port for device in devices for port in str(device).split("+")]
    if 0 < len(used) < conditions.rails:
        yield _missed(f"NCCL uses {len(used)} of the node's {conditions.rails} NICs ({', '.join(used[:16])})", ())


def _missed(text: str, networks: tuple[str, ...]) -> Check:
    expected = " or ".join(networks) or "the accelerator fabric"
    return Check(
        "transport",
        ok=False,
        text=f"{text}, expected {expected}",
        expected=expected,
        source="always on",
        reason=Reason.THRESHOLD_VIOLATION,
    )


def fallen_back(measurement: Measurement) -> list[str]:
    """Nodes whose own log says that they fell back, where the run gathered that."""
    nodes = measurement.transport.get("fallback_nodes")
    return [str(node) for node in nodes] if isinstance(nodes, list | tuple) else []


def hints(measurement: Measurement, conditions: Conditions) -> Iterator[Hint]:
    """The nodes that fell back, where others did not."""
    nodes = fallen_back(measurement)
    if 0 < len(nodes) < conditions.nodes:
        for node in nodes:
            yield Hint(node, "fell back to TCP sockets, the others did not")
