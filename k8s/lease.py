"""One Lease a node, in the suite's namespace, so that no two sessions ever measure on the same node at once.

Sets are taken in sorted order, all or nothing, by compare-and-swap on the resource version: no hold-and-wait, no
deadlock. Whether a holder is alive is judged by *observed change* on the local monotonic clock, never by comparing
clocks (client-go's elections do the same). Taking over is not owning: what the old holder left on the node is removed
first. A lease that could not be renewed in time is lost, and its runs end at once.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime

from cluster import ClusterError, Stop
from k8s import names
from k8s.gateway import ApiError, Gateway, Json

LOG = logging.getLogger(__name__)
SIDE_BY_SIDE = 8
"""Requests at once, so that a thousand leases take seconds and a busy server is not flooded."""
GROUP = "coordination.k8s.io/v1"


def micro_time(now: datetime) -> str:
    """Exactly six fractional digits: the API server parses MicroTime by a fixed layout."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@dataclass(slots=True)
class Held:
    """A lease that is ours: the version of the last write, and when that was."""

    version: str
    renewed: float
    transitions: int


@dataclass(slots=True)
class Seen:
    """Another's lease as last observed: a change of holder or version starts the clock again."""

    holder: str
    version: str
    since: float


class Leases:
    """The leases that this runner holds; renewed by a thread that runs while there are any."""

    def __init__(self, gateway: Gateway, namespace: str, holder: str, duration_s: float) -> None:
        self._gateway, self._namespace, self.holder, self._duration_s = gateway, namespace, holder, duration_s
        self._held: dict[str, Held] = {}
        self._seen: dict[str, Seen] = {}
        self._lost: set[str] = set()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def acquire(
        self, nodes: Iterable[str], limit_s: float, stop: Stop, on_wait: Callable[[str], None] = lambda _: None
    ) -> str:
        """Take all of `nodes`, waiting for at most `limit_s`; empty when they are ours, else who holds what."""
        until = time.monotonic() + limit_s
        wanted = sorted(nodes)
        while True:
            holder, node = self._try(wanted)
            if not holder:
                return ""
            words = f"{node} is held by session {holder}"
            if stop or time.monotonic() >= until:
                return words
            on_wait(words)
            stop.wait(min(self._duration_s / 3, 2.0) * random.uniform(0.7, 1.3))

    def release(self, nodes: Iterable[str]) -> None:
        """Give nodes back: the Lease object goes, unless somebody else has it by now."""
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            list(pool.map(self._release, nodes))

    def _release(self, node: str) -> None:
        with self._lock:
            mine = self._held.pop(node, None)
            self._lost.discard(node)
        if mine is not None:
            try:
                self._gateway.delete(self._path(node), version=mine.version)
            except ApiError as error:
                LOG.debug("lease of %s: %s", node, error)

    def lost(self, nodes: Iterable[str]) -> list[str]:
        """Which of `nodes` are not ours any more."""
        with self._lock:
            return [node for node in nodes if node in self._lost]

    def close(self) -> None:
        """Give everything back."""
        self.release(list(self._held))

    # --- taking -----------------------------------------------------------------------------------------------------

    def _try(self, nodes: Sequence[str]) -> tuple[str, str]:
        """Take all, or none: (holder, node) of the first that cannot be had."""
        for k in range(0, len(nodes), SIDE_BY_SIDE):
            chunk = nodes[k : k + SIDE_BY_SIDE]
            with ThreadPoolExecutor(len(chunk)) as pool:
                holders = list(pool.map(self._take, chunk))
            refused = next(((holder, node) for holder, node in zip(holders, chunk, strict=True) if holder), None)
            if refused:
                self.release(nodes[: k + len(chunk)])
                return refused
        return "", ""

    def _take(self, node: str) -> str:
        """Empty when the lease is ours now, else its holder."""
        try:
            self._keep(node, self._gateway.create(names.grouped(GROUP, self._namespace, "leases"), self._body(node, 0)))
        except ApiError as error:
            if error.status == 404:
                raise ClusterError(
                    f"{error}. Create it (kubectl create namespace), or give another with --namespace"
                ) from None
            if error.status != 409:
                raise
        else:
            return ""
        there = self._gateway.get(self._path(node))
        if there is None:
            return "somebody who is just leaving"
        spec = there.get("spec") or {}
        holder = str(spec.get("holderIdentity") or "")
        if holder and holder != self.holder and not self._expired(node, holder, there, spec):
            return holder
        transitions = int(spec.get("leaseTransitions") or 0) + (holder != self.holder)
        body = self._body(node, transitions, str(there["metadata"]["resourceVersion"]))
        try:
            self._keep(node, self._gateway.replace(self._path(node), body))
        except ApiError as error:
            if error.status not in (404, 409):
                raise
            return holder or "somebody who was quicker"
        return ""

    def _expired(self, node: str, holder: str, there: Json, spec: Json) -> bool:
        version, now = str(there["metadata"]["resourceVersion"]), time.monotonic()
        seen = self._seen.get(node)
        if seen is None or (seen.holder, seen.version) != (holder, version):
            self._seen[node] = Seen(holder, version, now)
            return False
        return now - seen.since > float(spec.get("leaseDurationSeconds") or self._duration_s)

    def _keep(self, node: str, written: Json) -> None:
        with self._lock:
            transitions = int(written["spec"].get("leaseTransitions") or 0)
            self._held[node] = Held(str(written["metadata"]["resourceVersion"]), time.monotonic(), transitions)
            self._lost.discard(node)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._renew_for_ever, name="leases", daemon=True)
                self._thread.start()

    # --- keeping ----------------------------------------------------------------------------------------------------

    def _renew_for_ever(self) -> None:
        while not self._gateway.wait(self._duration_s / 6):
            with self._lock:
                if not self._held:
                    self._thread = None
                    return
                due = [
                    (node, held) for node, held in self._held.items()
                    if time.monotonic() - held.renewed > self._duration_s / 3
                ]  # fmt: skip
            for node, held in due:
                self._renew(node, held)

    def _renew(self, node: str, held: Held) -> None:
        late = time.monotonic() - held.renewed > self._duration_s
        written: Json | None
        try:
            written = self._gateway.replace(self._path(node), self._body(node, held.transitions, held.version))
        except ApiError as error:
            LOG.debug("lease of %s: %s", node, error)
            # A 409 may be the echo of our own write whose answer was lost on the way.
            written = self._still_ours(node) if error.status == 409 else None
            late = late or (error.status in (404, 409) and written is None)
        with self._lock:
            if self._held.get(node) is not held:
                return
            if written is not None:
                held.version, held.renewed = str(written["metadata"]["resourceVersion"]), time.monotonic()
            elif late:
                del self._held[node]
                self._lost.add(node)

    def _still_ours(self, node: str) -> Json | None:
        try:
            there = self._gateway.get(self._path(node))
        except ApiError:
            return None
        return there if there and there["spec"].get("holderIdentity") == self.holder else None

    def _path(self, node: str) -> str:
        return names.grouped(GROUP, self._namespace, "leases", node)

    def _body(self, node: str, transitions: int, version: str = "") -> Json:
        return {
            "apiVersion": GROUP,
            "kind": "Lease",
            "metadata": {
                "name": node,
                "namespace": self._namespace,
                "labels": {names.MANAGED_BY: names.US},
                **({"resourceVersion": version} if version else {}),
            },
            "spec": {
                "holderIdentity": self.holder,
                "leaseDurationSeconds": max(1, round(self._duration_s)),
                "renewTime": micro_time(datetime.now(UTC)),
                "leaseTransitions": transitions,
            },
        }
