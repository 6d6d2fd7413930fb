"""One run on the cluster, from launch to verified clean-up.

The order matters more than anything else here: nodes are leased before anything is created; objects are created so
that a runner killed in between leaves nothing that does not vanish by itself; evidence is read before anything is
removed; and nodes are given back only when no pod of the run is left on them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from cluster import NodeEvent, Progress, RankExit, Run, RunState, Stop, Workload
from k8s import kinds, logs, names
from k8s.course import Course, Ending
from k8s.gateway import ApiError, Gateway, Json
from k8s.guard import Guard
from k8s.health import Watcher
from k8s.kinds import Kind
from k8s.lease import Leases
from k8s.logs import Follower
from k8s.plan import Plan, lacking
from k8s.pods import Pod, pod_of
from k8s.settings import Settings
from k8s.watch import View

POLL_S = 0.5
"""A stop and the nodes are looked at this often when no pod changes."""
SAID_S = 2.0
CLOCKS_S = 1.0
"""How far the clocks of two nodes may differ."""
CREATED_S = 5.0
"""A controller creates pods at once; after this long it is asked why it did not."""
REFUSED = ("FailedCreate", "JobCreationFailed", "CreateFailed")
"""Reasons of the events with which a controller says that it may not create pods or Jobs."""
UNREACHED_S = 180.0
"""How long the API server may be away before a run is given up."""


@dataclass(frozen=True, slots=True)
class Room:
    """What all runs of a session share."""

    gateway: Gateway
    settings: Settings
    namespace: str
    nodes: View
    pods: View
    leases: Leases
    watcher: Watcher
    stop_on_unhealthy: bool = True


class Execution:
    """One workload being run."""

    def __init__(self, room: Room, plan: Plan, kind: Kind, stop: Stop, progress: Progress) -> None:
        self._room, self._plan, self._kind, self._stop, self._progress = room, plan, kind, stop, progress
        self._workload: Workload = plan.workload
        self._begun = time.monotonic()
        self._wall = time.time()
        self._course = Course(self._workload, self._begun)
        self._follower: Follower | None = None
        self._events: list[NodeEvent] = []
        self._asked = 0
        self._said = ""
        self._said_at = 0.0

    def run(self) -> Run:
        """The whole story; whatever happens to the workload is in the `Run`."""
        nodes = self._workload.nodes
        short = lacking(self._plan, {name: thing for name in nodes if (thing := self._room.nodes.get(name))})
        if short:
            return self._refused(RunState.UNSCHEDULABLE, short)
        held = self._room.leases.acquire(nodes, self._workload.start_limit_s, self._stop, self._say)
        if held:
            state = RunState.CANCELLED if self._stop else RunState.UNSCHEDULABLE
            return self._refused(state, self._stop.reason or held)
        try:
            try:
                self._evict_strangers()
                # The limits of queue and run begin now, not when we began to wait for another session.
                self._course.begun = time.monotonic()
                root = self._launch()
            except ApiError as error:
                if error.status not in (400, 403, 404, 409, 422):
                    raise
                self._clean_up()
                remedy = f"; {self._kind.remedy}" if error.status == 404 and self._kind.remedy else ""
                return self._refused(RunState.LAUNCH_FAILED, f"{error}{remedy}")
            ending = self._watch(root)
            return self._gather(ending)
        finally:
            if self._follower is not None:
                self._follower.close()
            self._room.leases.release(nodes)

    # --- launch -----------------------------------------------------------------------------------------------------

    def _launch(self) -> Json:
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
                    self._adopt(there)
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

    def _adopt(self, there: Json) -> None:
        """Go on with a run that an earlier runner launched; its clock began then."""
        created = datetime.fromisoformat(str(there["metadata"]["creationTimestamp"]))
        age = max(0.0, (datetime.now(UTC) - created).total_seconds())
        if age > 2:
            self._say("adopted")
        self._course.begun -= age
        self._begun -= age
        self._wall -= age

    def _evict_strangers(self) -> None:
        """Taking over is not owning: remove what another session, or a dead lane of ours, left on these nodes."""
        room, mine = self._room, set(self._workload.nodes)
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
                self._remove(run)
            asked |= runs
            room.pods.wait(room.pods.version, 1.0)

    def _remove(self, run: str) -> None:
        """Delete another session's run; it may have been launched in another way."""
        for kind in (self._kind, *(kind for kind in kinds.KINDS.values() if kind is not self._kind)):
            try:
                if self._room.gateway.delete(kind.path(self._room.namespace, run)):
                    return
            except ApiError as error:
                if kind is self._kind or error.status not in (403, 404):
                    raise

    # --- while it runs ----------------------------------------------------------------------------------------------

    def _watch(self, root: Json) -> Ending:
        room, course = self._room, self._course
        guard = Guard(room.gateway, room.nodes, room.watcher, self._workload.nodes)
        seen = -1
        while True:
            now = time.monotonic()
            pods = [pod_of(item) for item in room.pods.under(self._plan.name)]
            ending = course.see(pods, root, now)
            if ending is not None and ending.state is not RunState.SUCCEEDED:
                # A node that died fails its peers' ranks first: what is known of the nodes explains more.
                ending = guard.look(now) or ending
            ending = ending or self._outside(guard, now)
            if ending is not None:
                return ending
            self._say(self._words())
            self._follow()
            root = self._ask(now) or root
            seen = room.pods.wait(seen, POLL_S)

    def _outside(self, guard: Guard, now: float) -> Ending | None:
        """What ends a run besides its pods: a stop, the nodes, silence, a lost lease, a server that is away."""
        if self._stop:
            return Ending(RunState.CANCELLED, self._stop.reason)
        trouble = guard.look(now)
        if trouble is not None and (trouble.state is not RunState.UNHEALTHY or self._room.stop_on_unhealthy):
            return trouble
        if trouble is not None:
            self._events = list(trouble.events)
        silent = now - self._follower.last if self._follower else 0.0
        if self._follower and "started" in self._course.times and silent > self._workload.stall_limit_s:
            return Ending(RunState.STALLED, f"no output for {silent:.0f} s")
        lost = self._room.leases.lost(self._workload.nodes)
        if lost:
            return Ending(RunState.LOST, f"the lease of {', '.join(lost[:8])} went to another session")
        away, why = self._room.pods.stale()
        if away > UNREACHED_S:
            raise ApiError(0, "watch", f"silent for {away:.0f} s: {why}")
        return None

    def _words(self) -> str:
        note = self._follower.note if self._follower else ""
        return f"{self._course.phase}{', ' + note if note else ''}"

    def _say(self, words: str) -> None:
        """Pass changes on; counts within one phase no more often than anybody can read."""
        same_phase = words.split(" ")[0] == self._said.split(" ")[0] and "busbw" not in words
        now = time.monotonic()
        if words != self._said and (not same_phase or now - self._said_at > SAID_S):
            self._said, self._said_at = words, now
            self._progress(words)

    def _leader(self) -> Pod | None:
        return next((pod for pod in self._course.pods.values() if pod.node == self._workload.nodes[0]), None)

    def _follow(self) -> None:
        leader = self._leader()
        if self._follower is None and leader is not None and leader.running:
            silence = max(30.0, self._workload.stall_limit_s / 2)
            self._follower = Follower(self._room.gateway, self._room.namespace, leader.name, silence)

    def _ask(self, now: float) -> Json | None:
        """When pods do not come: the root object and the events about it, a few times only."""
        course = self._course
        if not course.missing or self._asked > 4 or now - course.begun < CREATED_S * 2**self._asked:
            return None
        self._asked += 1
        room = self._room
        events, _ = room.gateway.items(names.core(room.namespace, "events"), [("fieldSelector", "type=Warning")])
        # Whoever makes the pods (the Job, or the Job of a JobSet of a TrainJob) is called after the run.
        mine = [event for event in events if _about(event, "name").startswith(self._plan.name)]
        refusals = [str(event.get("message", "")) for event in mine if event.get("reason") in REFUSED]
        course.refused = refusals[-1] if refusals else course.refused
        return room.gateway.get(self._kind.path(room.namespace, self._plan.name))

    # --- evidence and clean-up --------------------------------------------------------------------------------------

    def _gather(self, ending: Ending) -> Run:
        room, course = self._room, self._course
        notes: list[str] = []
        log = b""
        tails: dict[str, str] = {}
        dead: dict[str, str] = {}
        if ending.state is RunState.UNSCHEDULABLE and not ending.events:
            ending = self._with_scheduler_words(ending)
        leader = self._leader()
        if leader is not None and (leader.started or leader.over):
            try:
                log, gap = logs.whole(room.gateway, room.namespace, leader)
                notes.append(gap)
            except ApiError as error:
                log = bytes(self._follower.text) if self._follower else b""
                notes.append(f"the leader's log is as far as it was followed: {error}")
        if ending.state not in (RunState.SUCCEEDED, RunState.UNSCHEDULABLE, RunState.CANCELLED):
            wanted = [pod for pod in course.pods.values() if pod.started and pod.code != 0]
            known_lost = {event.node for event in ending.events if event.kind != "health"}
            wanted = [pod for pod in wanted if pod.node not in known_lost]
            tails, dead = logs.tails(room.gateway, room.namespace, sorted(wanted, key=lambda pod: pod.finished or 1e12))
        if dead and ending.state in (RunState.FAILED, RunState.STALLED, RunState.TIMED_OUT):
            events = tuple(
                NodeEvent(node, "lost", f"its kubelet does not answer: {text}") for node, text in dead.items()
            )
            ending = Ending(RunState.LOST, f"{', '.join(sorted(dead))} went away ({ending.message})", events)
        leftovers = self._clean_up()
        ended = time.time()
        origin = min((pod.started for pod in course.pods.values() if pod.started), default=0.0)
        message = "; ".join(part for part in (ending.message, *notes) if part)
        at = ended - self._wall
        return Run(
            workload=self._workload,
            state=ending.state,
            message=message,
            exits=self._exits(tails, origin),
            log=log,
            tails=tails,
            events=tuple(replace(event, at=event.at or at) for event in (*self._events, *ending.events)),
            started=self._wall,
            ended=ended,
            durations=self._durations(),
            versions=self._versions(),
            leftovers=leftovers,
        )

    def _with_scheduler_words(self, ending: Ending) -> Ending:
        """The events know more than the last condition."""
        room = self._room
        try:
            fields = ("fieldSelector", "reason=FailedScheduling")
            events, _ = room.gateway.items(names.core(room.namespace, "events"), [fields])
        except ApiError:
            return ending
        pods = set(self._course.pods)
        self._course.scheduler_words += [
            str(event.get("message", "")) for event in events if _about(event, "name") in pods
        ]
        return self._course.unscheduled()

    def _exits(self, tails: Mapping[str, str], origin: float) -> tuple[RankExit, ...]:
        """One entry a rank where the launcher left its code, else one for the pod's first rank; failures have tails."""
        places = {node: k for k, node in enumerate(self._workload.nodes)}
        pods = [pod for pod in self._course.pods.values() if pod.node in places and (pod.started or pod.over)]
        earliest = min((pod.ended() for pod in pods if pod.code), default=0.0)
        exits = []
        for pod in pods:
            first = places[pod.node] * self._workload.ranks_per_node
            reason = pod.reason if pod.reason not in ("Completed", "Error") else str(pod.digest().get("what", ""))
            codes: Mapping[int, int | None] = pod.exits() or {first: pod.code}
            for rank, code in codes.items():
                tail = tails.get(pod.node, "") if code != 0 else ""
                # What the kernel killed ended before the ranks that missed it; nodes' clocks are not that exact.
                cause = pod.killed and code not in (0, None) and pod.ended(rank) - earliest < CLOCKS_S
                end = earliest if cause else pod.ended(rank) + (0.001 if code else 0)
                at = max(0.0, end - origin) if code is not None else 0.0
                exits.append(RankExit(rank, pod.node, code, reason if code else "", tail, round(at, 3)))
        return tuple(sorted(exits, key=lambda item: item.rank))

    def _durations(self) -> dict[str, float]:
        """Seconds by phase, by when we saw it begin."""
        times = self._course.times
        marks = [
            ("queued", self._begun, times.get("scheduled")),
            ("pulling", times.get("scheduled"), times.get("started")),
            ("running", times.get("started"), time.monotonic()),
        ]
        return {name: round(end - begin, 3) for name, begin, end in marks if begin is not None and end is not None}

    def _versions(self) -> dict[str, str]:
        images = sorted({pod.image_id for pod in self._course.pods.values() if pod.image_id})
        versions = {"image": self._plan.image, "launchKind": self._kind.name}
        if images:
            versions["imageID"] = ", ".join(images[:4])
        if self._plan.patch.applied:
            versions["platformRules"] = "; ".join(f"{rule}: {what}" for rule, what in self._plan.patch.applied)
        return versions

    def _clean_up(self) -> tuple[str, ...]:
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

    def _refused(self, state: RunState, message: str) -> Run:
        return Run(self._workload, state, message, started=self._wall, ended=time.time())


def _about(event: Json, part: str) -> str:
    return str((event.get("involvedObject") or {}).get(part, ""))
