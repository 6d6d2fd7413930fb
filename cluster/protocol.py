"""The one protocol that every cluster implements, and the one stop flag that every wait polls.

Small on purpose: the engine launches a workload, waits for its run and cancels it; everything else (logs, health,
clean-up, virtual time) is the cluster's own business and comes back inside the `Run`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from cluster.model import Inventory, Run, Workload

Progress = Callable[[str], None]
"""Called with one short line at each change of phase: `pulling`, `running 4/4`, `busbw 391.2 GB/s at 8G`."""


class ClusterError(Exception):
    """The cluster cannot be used as asked: what, where, remedy. A user's mistake, never a verdict on a node."""


class Stop:
    """One flag for Ctrl-C, SIGTERM, the deadline and `-x`: set once, with the reason; the first reason stays."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._reason = ""

    def set(self, reason: str) -> None:
        """Ask everything to stop; `reason` is what reports will say."""
        if not self._event.is_set():
            self._reason = reason
            self._event.set()

    def __bool__(self) -> bool:
        return self._event.is_set()

    @property
    def reason(self) -> str:
        """Why, or the empty string while nothing asked to stop."""
        return self._reason

    def wait(self, seconds: float) -> bool:
        """Sleep for at most `seconds`; True as soon as a stop was asked for."""
        return self._event.wait(seconds)


@runtime_checkable
class Cluster(Protocol):
    """A place where workloads run. All methods but `nodes` may be called from several threads at once."""

    name: str

    def nodes(self) -> Inventory:
        """The snapshot: nodes that can be tested, in topology order, and the excluded ones with their reasons.

        Raises `ClusterError` where the cluster cannot be read.
        """

    def run(self, workload: Workload, stop: Stop, progress: Progress) -> Run:
        """Launch, wait for the end, gather logs and exits, remove what was launched.

        Returns a `Run` for whatever happens to the workload, `CANCELLED` when `stop` was set in the middle; raises
        `ClusterError` only when the cluster itself cannot be reached any more.
        """

    def close(self) -> None:
        """Remove what is left and end what was started."""
