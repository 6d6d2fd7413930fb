"""Isolation: from a group that fails together to the node, NIC, link, leaf, size or configuration that is the cause.

A pure planner: `Isolation` says which probes may run now, takes their results and ends with `Findings`. It knows no
clock, no cluster and no pytest; whoever drives it runs the probes.
"""

from isolate.evidence import Evidence
from isolate.model import (
    Case,
    Certified,
    Domain,
    Findings,
    Hint,
    Limits,
    Link,
    NodeResult,
    Place,
    Probe,
    ProbeRecord,
    Result,
    ScaleFinding,
    Suspect,
    Topology,
    Variant,
)
from isolate.planner import Isolation

__all__ = [
    "Case",
    "Certified",
    "Domain",
    "Evidence",
    "Findings",
    "Hint",
    "Isolation",
    "Limits",
    "Link",
    "NodeResult",
    "Place",
    "Probe",
    "ProbeRecord",
    "Result",
    "ScaleFinding",
    "Suspect",
    "Topology",
    "Variant",
]
