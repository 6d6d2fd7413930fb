"""The objects of one run on the server: created or adopted, strangers removed before, everything removed after.

Objects are created so that a runner killed in between leaves nothing that does not vanish by itself, and a runner that
starts again finds by name what it launched before and goes on with it. Clean-up is verified: it ends when no pod of the
run is left on its nodes, and what is left is said.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

from cluster import Stop
from k8s import kinds, names
from k8s.gateway import ApiError, Json
from k8s.kinds import Kind
from k8s.plan import Plan
from k8s.pods import pod_of
from k8s.room import Room


class Launch:
    """One plan's objects."""

    def __init__(self, room: Room, plan: Plan, kind: Kind, stop: Stop, say: Callable[[str], None]) -> None:
        self._room, self._plan, self._kind, self._stop, self._say = room, plan, kind, stop, say
        self.age_s = 0.0
        """How long ago an earlier runner launched it; 0 for a launch of our own."""

    def create(self) -> Json:
        """Create everything, or adopt what an earlier runner of this session created; the root object."""
        room, plan, kind = self._room, self._plan, self._kind
        before = [(path, self._create_or_get(path, body)) for path, body in kinds.first(plan, kind)]
        root = self._create_or_adopt(kind.root(plan))
        for path, body in before:
            body["metadata"]["ownerReferences"] = [kinds.reference(root)]
            room.gateway.replace(f"{path}/{body['metadata']['name']}", body)
        for path, body in kinds.dependants(plan, kind, root):
            try:
                room.gateway.create(path, body)
            except ApiError as error:
                if error.status != 409:
                    raise
        return root

    def _create_or_get(self, path: str, body: Json) -> Json:
        """What is there by that name is ours: nobody else uses our names."""
        try:
            return self._room.gateway.create(path, body)
        except ApiError as error:
            if error.status != 409:
                raise
            there = self._room.gateway.get(f"{path}/{body['metadata']['name']}")
            return there or self._room.gateway.create(path, body)

    def _create_or_adopt(self, body: Json) -> Json:
        room, kind = self._room, self._kind
        path = kind.path(room.namespace, self._plan.name)
        until = time.monotonic() + room.settings.cleanup_s
        while True:
            try:
                return room.gateway.create(kind.collection(room.namespace), body)
            except ApiError as error:
                if error.status != 409:
                    raise
                there = room.gateway.get(path)
                if there is not None and self._same(there, body):
                    self._adopted(there)
                    return there
                if time.monotonic() > until:
                    raise
                if there is not None:
                    room.gateway.delete(path, uid=str(there["metadata"]["uid"]))
                self._stop.wait(0.5)

    def _same(self, there: Json, body: Json) -> bool:
        meta = there["metadata"]
        annotations = meta.get("annotations") or {}
        mine = body["metadata"]["annotations"][names.WORKLOAD]
        return "deletionTimestamp" not in meta and annotations.get(names.WORKLOAD) == mine

    def _adopted(self, there: Json) -> None:
        """Go on with a run that an earlier runner launched; its clock began then."""
        created = datetime.fromisoformat(str(there["metadata"]["creationTimestamp"]))
        self.age_s = max(0.0, (datetime.now(UTC) - created).total_seconds())
        if self.age_s > 2:
            self._say("adopted")

    def evict_strangers(self) -> None:
        """Taking over is not owning: remove what another session, or a dead lane of ours, left on these nodes."""
        room, mine = self._room, set(self._plan.workload.nodes)
        until = time.monotonic() + room.settings.cleanup_s
        asked: set[str] = set()
        while True:
            runs = {
                str(item["metadata"].get("labels", {}).get(names.RUN, ""))
                for item in room.pods.all()
                if item["spec"]["nodeName"] in mine and not pod_of(item).over
            } - {self._plan.name, ""}
            if not runs or time.monotonic() > until or self._stop:
                return
            for run in runs - asked:
                self._say(f"removing {run}, which an earlier session left")
                self._remove_run(run)
            asked |= runs
            room.pods.wait(room.pods.version, 1.0)

    def _remove_run(self, run: str) -> None:
        """Delete another session's run; it may have been launched in another way."""
        for kind in (self._kind, *(kind for kind in kinds.KINDS.values() if kind is not self._kind)):
            try:
                if self._room.gateway.delete(kind.path(self._room.namespace, run)):
                    return
            except ApiError as error:
                if kind is self._kind or error.status not in (403, 404):
                    raise

    def remove(self) -> tuple[str, ...]:
        """Remove the run and wait until no pod of it is left; what stays, in words."""
        room, name = self._room, self._plan.name
        try:
            room.gateway.delete(self._kind.path(room.namespace, name))
            for path, body in kinds.first(self._plan, self._kind):
                room.gateway.delete(f"{path}/{body['metadata']['name']}")
            until = time.monotonic() + room.settings.cleanup_s
            seen = -1
            while time.monotonic() < until:
                if not room.pods.under(name):
                    # The watch says so; the server has the last word.
                    left, _ = room.gateway.items(
                        names.core(room.namespace, "pods"), [("labelSelector", f"{names.RUN}={name}")]
                    )
                    if not left:
                        return ()
                alive = [item for item in room.pods.under(name) if not self._on_dead_node(item)]
                if not alive and room.pods.under(name):
                    break
                seen = room.pods.wait(seen, 1.0)
        except ApiError as error:
            return (f"clean-up of {name}: {error}",)
        left_over = [pod_of(item) for item in room.pods.under(name)]
        return tuple(f"pod {pod.name} is still on {pod.node}" for pod in left_over)

    def _on_dead_node(self, item: Json) -> bool:
        name = str(item["spec"]["nodeName"])
        node = self._room.nodes.get(name)
        if node is None:
            return bool(name)
        return not any(one["type"] == "Ready" and one["status"] == "True" for one in node["status"]["conditions"])
