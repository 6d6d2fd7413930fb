"""Watches over the nodes of a running group: hardware evidence, nodes that go away, whatever else makes a run void.

The rules are CEL (`health.yaml`) over the node now and as it was when the run began, so that an old condition does not
end a new run. A node that is not Ready gets a short grace, because a kubelet that restarts looks the same.
"""

from __future__ import annotations

from collections.abc import Iterable

from cluster import NodeEvent, RunState
from k8s.course import Ending
from k8s.gateway import Gateway, Json
from k8s.health import Hit, Watcher
from k8s.watch import View

GRACE_S = 10.0
STATES = {"health": RunState.UNHEALTHY, "lost": RunState.LOST, "invalid": RunState.LOST}
ORDER = ("health", "lost", "invalid")


class Guard:
    """The nodes of one run."""

    def __init__(self, gateway: Gateway, view: View, watcher: Watcher, nodes: Iterable[str]) -> None:
        self._gateway, self._view, self._watcher = gateway, view, watcher
        self._before: dict[str, Json] = {name: thing for name in nodes if (thing := view.get(name))}
        self._last = dict(self._before)
        self._hits: dict[str, list[Hit]] = {}
        self._since: dict[str, float] = {}
        self._seen = -1

    def look(self, now: float) -> Ending | None:
        """The ending that the nodes' state calls for, worst evidence first; None while all is well."""
        version = self._view.version
        if version != self._seen:
            self._seen = version
            for name in self._before:
                self._update(name, now)
        found = [
            (ORDER.index(hit.kind), name, hit)
            for name, hits in self._hits.items()
            for hit in hits
            if hit.kind != "lost" or now - self._since[name] > GRACE_S
        ]
        if not found:
            return None
        kind = ORDER[min(found)[0]]
        same = [(name, hit) for _, name, hit in sorted(found, key=lambda item: item[:2]) if hit.kind == kind]
        words = "; ".join(f"{name}: {hit.text}" for name, hit in same[:8])
        return Ending(STATES[kind], words, tuple(NodeEvent(name, kind, hit.text) for name, hit in same))

    def _update(self, name: str, now: float) -> None:
        thing = self._view.get(name)
        if thing is None:
            # A miss in the cache is no proof.
            gone = not self._gateway.items("/api/v1/nodes", [("fieldSelector", f"metadata.name={name}")])[0]
            self._hits[name] = [Hit("gone", "invalid", "the Node object was deleted")] if gone else []
            return
        if thing is self._last.get(name):
            return
        self._last[name] = thing
        hits = self._watcher.news(thing, self._before[name])
        if hits:
            self._since.setdefault(name, now)
            self._hits[name] = hits
        else:
            self._since.pop(name, None)
            self._hits.pop(name, None)
