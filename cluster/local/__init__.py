"""This machine as a cluster: its GPUs as one node, or groups of CPU processes as several.

The first run on any machine, and the place where real ranks die, hang and miscount in tests. Nothing here knows what a
program measures; it starts ranks, keeps what they print, sees how they end and leaves no process behind.
"""

from cluster.local.cluster import LocalCluster
from cluster.local.gpus import Gpu, find_gpus

__all__ = ["Gpu", "LocalCluster", "find_gpus"]
