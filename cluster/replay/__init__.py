"""Raw logs kept beside a session's reports, and the cluster that answers from them instead of running anything.

`RawLogs` writes one log and one description a run; `ReplayCluster` gives the same runs back, so that stored logs can be
judged again with other criteria where no cluster is at hand.
"""

from cluster.replay.cluster import NOT_STORED, ReplayCluster
from cluster.replay.store import FOLDER, INVENTORY, RawLogs, Session

__all__ = ["FOLDER", "INVENTORY", "NOT_STORED", "RawLogs", "ReplayCluster", "Session"]
