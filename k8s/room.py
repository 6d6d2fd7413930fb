"""What all runs of a session share."""

from __future__ import annotations

from dataclasses import dataclass

from k8s.gateway import Gateway
from k8s.health import Watcher
from k8s.lease import Leases
from k8s.settings import Settings
from k8s.watch import View


@dataclass(frozen=True, slots=True)
class Room:
    """One connection, one view of nodes and one of the suite's pods, and the leases of this runner."""

    gateway: Gateway
    settings: Settings
    namespace: str
    nodes: View
    pods: View
    leases: Leases
    watcher: Watcher
