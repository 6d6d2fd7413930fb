"""Where workloads run: the `Cluster` protocol, the plain data it speaks in, and the clusters `local` and `simulated`.

`kubernetes`, the third kind, has a room of its own (`k8s/`).
"""

from cluster.model import Excluded, Inventory, Node, NodeEvent, RankExit, Run, RunState, Workload
from cluster.protocol import Cluster, ClusterError, Progress, Stop
from cluster.topology import natural, topology_order

__all__ = [
    "Cluster",
    "ClusterError",
    "Excluded",
    "Inventory",
    "Node",
    "NodeEvent",
    "Progress",
    "RankExit",
    "Run",
    "RunState",
    "Stop",
    "Workload",
    "natural",
    "topology_order",
]
