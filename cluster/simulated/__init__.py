"""A model of a fabric with injected faults and a virtual clock, behind the same protocol as a real cluster.

For tests, for benches over thousands of nodes, and for planning a run. The model answers only with what a real run
leaves: log text, exits, events. Nothing but the model reads the fault list.
"""

from cluster.simulated.cluster import SimulatedCluster

__all__ = ["SimulatedCluster"]
