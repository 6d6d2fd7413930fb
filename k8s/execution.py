"""One run on the cluster, from launch to verified clean-up.

The order matters more than anything else here: nodes are leased before anything is created; objects are created so
that a runner killed in between leaves nothing that does not vanish by itself; evidence is read before anything is
removed; and nodes are given back only when no pod of the run is left on them.
"""

from __future__ import annotations

import time
from dataclasses import replace

from cluster import NodeEvent, Progress, Run, RunState, Stop, Workload
from k8s import evidence, logs, names
from k8s.course import Course, Ending
from k8s.gateway import ApiError, Json
from k8s.guard import Guard
from k8s.kinds import Kind
from k8s.launching import Launch
from k8s.logs import Follower
from k8s.plan import Plan, lacking
from k8s.pods import Pod, pod_of
from k8s.room import Room

POLL_S = 0.5
"""A stop and the nodes are looked at this often when no pod changes."""
SAID_S = 2.0
"""Counts within one phase are told no more often than this."""
CREATED_S = 5.0
"""A controller creates pods at once; after this long it is asked why it did not."""
REFUSED = ("FailedCreate", "JobCreationFailed", "CreateFailed")
"""Reasons of the events with which a controller says that it may not create pods or Jobs."""
UNREACHED_S = 180.0
"""How long the API server may be away before a run is given up."""


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
        self._over = 0.0
        self._launch = Launch(room, plan, kind, stop, self._say)

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
                self._launch.evict_strangers()
                # The limits of queue and run begin now, not when we began to wait for another session.
                self._course.begun = time.monotonic()
                root = self._launch.create()
                self._grow_older(self._launch.age_s)
            except ApiError as error:
                if error.status not in (400, 403, 404, 409, 422):
                    raise
                self._launch.remove()
                remedy = f"; {self._kind.remedy}" if error.status == 404 and self._kind.remedy else ""
                return self._refused(RunState.LAUNCH_FAILED, f"{error}{remedy}")
            ending = self._watch(root)
            self._over = time.monotonic()
            return self._gather(ending)
        finally:
            if self._follower is not None:
                self._follower.close()
            self._room.leases.release(nodes)

    def _grow_older(self, seconds: float) -> None:
        """An adopted run began when its first runner launched it."""
        self._course.begun -= seconds
        self._begun -= seconds
        self._wall -= seconds

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
        if trouble is not None and (trouble.state is not RunState.UNHEALTHY or self._room.settings.stop_on_unhealthy):
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
        same_phase = words.split(" ", maxsplit=1)[0] == self._said.split(" ")[0] and "busbw" not in words
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
        leftovers = self._launch.remove()
        ended = time.time()
        message = "; ".join(part for part in (ending.message, *notes) if part)
        at = ended - self._wall
        return Run(
            workload=self._workload,
            state=ending.state,
            message=message,
            exits=evidence.exits(course, tails),
            log=log,
            tails=tails,
            events=tuple(replace(event, at=event.at or at) for event in (*self._events, *ending.events)),
            started=self._wall,
            ended=ended,
            durations=evidence.durations(course, self._begun, self._over),
            versions=evidence.versions(course, self._plan, self._kind.name),
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

    def _refused(self, state: RunState, message: str) -> Run:
        return Run(self._workload, state, message, started=self._wall, ended=time.time())


def _about(event: Json, part: str) -> str:
    return str((event.get("involvedObject") or {}).get(part, ""))
