"""When and how one run ends, in virtual seconds since its launch.

Everything that could end the run is a candidate with its moment, and the earliest wins: the last row, the time limit, a
node that is lost or turns unhealthy, a crash, silence. So two faults in one group need no rule of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cluster.model import NodeEvent, RankExit, RunState, Workload
from cluster.simulated.exposure import Exposure, Situation
from cluster.simulated.spec import Fault, HealthFault, LostFault, NodeFault, UnschedulableFault

QUEUED_S = 2.0
STARTING_S = 18.0
STARTED_S = QUEUED_S + STARTING_S
"""From launch to the head of the table: pods scheduled, image there, PyTorch imported, ranks joined."""
STRIKES_AT = 0.3
"""The part of the sweep after which a crash or a hang without a moment of its own strikes."""
FOLLOW_S = 3.0
"""How long the other ranks take to notice that one is gone."""
CRASH = "RuntimeError: CUDA error: unspecified launch failure"
REMOTE = (
    "DistBackendError: NCCL error: remote process exited or there was a network error, ncclRemoteError: A call failed "
    "possibly due to a network error or a remote process exiting prematurely."
)


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended. Times are virtual seconds since its launch."""

    at: float
    state: RunState
    message: str = ""
    log_until: float = float("inf")
    """The last moment at which rank 0 wrote something by itself."""
    crashed: tuple[str, ...] = ()
    events: tuple[NodeEvent, ...] = ()


def ending(run: Situation, faults: Iterable[Fault], exposed: Exposure, start: float, sweep_s: float) -> Ending:
    """The ending of a run launched at virtual second `start`, whose sweep takes `sweep_s` when nothing happens."""
    mine = [fault for fault in faults if getattr(fault, "node", None) in run.position]
    pending = [fault for fault in mine if isinstance(fault, UnschedulableFault)]
    if pending:
        return _unschedulable(run.workload, pending)
    happened = sorted(
        (_event(fault, start) for fault in mine if isinstance(fault, LostFault | HealthFault)),
        key=lambda event: (event.at, event.kind),
    )
    candidates = [*_by_limit(run.workload), *_by_program(run, exposed, start, sweep_s), *_by_event(happened)]
    first = min(candidates, key=lambda candidate: candidate.at)
    events = tuple(event for event in happened if event.at <= first.at)
    return Ending(first.at, first.state, first.message, first.log_until, first.crashed, events)


def _unschedulable(work: Workload, pending: list[UnschedulableFault]) -> Ending:
    names = [fault.node for fault in pending]
    others = len(work.nodes) - len(names)
    unmatched = f", {others} node(s) didn't match Pod's node affinity/selector" if others else ""
    none = f"0/{len(work.nodes)} nodes are available"
    words = (
        f"{none}: {len(names)} Insufficient nvidia.com/gpu{unmatched}. "
        f"preemption: {none}: {len(work.nodes)} Preemption is not helpful for scheduling."
    )
    at = work.start_limit_s
    return Ending(
        at=at,
        state=RunState.UNSCHEDULABLE,
        message=f"pods for {', '.join(names)} still Pending after {at:.0f} s: {words}",
        log_until=-1.0,
        events=tuple(NodeEvent(name, "invalid", f"pod Pending: {words}", at) for name in names),
    )


def _event(fault: LostFault | HealthFault, start: float) -> NodeEvent:
    at = max(0.0, fault.at - start)
    if isinstance(fault, LostFault):
        return NodeEvent(fault.node, "lost", "NodeNotReady: Kubelet stopped posting node status.", at)
    message = f"{fault.condition}: {fault.message}" if fault.message else fault.condition
    return NodeEvent(fault.node, "health", message, at)


def _by_event(happened: list[NodeEvent]) -> Iterator[Ending]:
    for event in happened:
        state = RunState.LOST if event.kind == "lost" else RunState.UNHEALTHY
        yield Ending(event.at, state, f"{event.node}: {event.message}", event.at)


def _by_limit(work: Workload) -> Iterator[Ending]:
    at = QUEUED_S + work.time_limit_s
    yield Ending(at, RunState.TIMED_OUT, f"not finished after {work.time_limit_s:.0f} s", at)


def _by_program(run: Situation, exposed: Exposure, start: float, sweep_s: float) -> Iterator[Ending]:
    end, strikes = STARTED_S + sweep_s, STARTED_S + STRIKES_AT * sweep_s
    crashed = tuple(dict.fromkeys(fault.node for fault in exposed.effect("crash")))
    if crashed:
        rank = run.position[crashed[0]] * run.workload.ranks_per_node
        yield Ending(
            at=strikes + FOLLOW_S + 1.0,
            state=RunState.FAILED,
            message=f"rank {rank} on {crashed[0]} exited with code 1: {CRASH}",
            log_until=strikes,
            crashed=crashed,
        )
    silent = min((_hangs_at(fault, start, strikes) for fault in exposed.effect("hang")), default=end)
    if silent < end:
        limit = run.workload.stall_limit_s
        yield Ending(silent + limit, RunState.STALLED, f"no new output for {limit:.0f} s", silent)
    elif not crashed:
        yield Ending(end, RunState.SUCCEEDED)


def _hangs_at(fault: NodeFault, start: float, strikes: float) -> float:
    return strikes if fault.at is None else max(STARTED_S, fault.at - start)


def exits(run: Situation, end: Ending) -> tuple[RankExit, ...]:
    """How every rank ended; none where nothing was started."""
    work = run.workload
    if end.state in {RunState.UNSCHEDULABLE, RunState.LAUNCH_FAILED, RunState.CANCELLED}:
        return ()
    if end.state is RunState.SUCCEEDED:
        return _alike(work, 0, "", end.at)
    if end.state is not RunState.FAILED:
        return _alike(work, None, "still running when the run was ended", end.at)
    crashed = set(end.crashed)
    return tuple(
        _own_crash(work, rank, end) if work.node_of(rank) in crashed else _followed(work, rank, end)
        for rank in range(work.world_size)
    )


def _alike(work: Workload, code: int | None, reason: str, at: float) -> tuple[RankExit, ...]:
    local = work.ranks_per_node
    return tuple(
        RankExit(index * local + offset, node, code, reason, "", at)
        for index, node in enumerate(work.nodes)
        for offset in range(local)
    )


def _own_crash(work: Workload, rank: int, end: Ending) -> RankExit:
    at = end.log_until + 0.01 * (rank % work.ranks_per_node)
    return RankExit(rank, work.node_of(rank), 1, CRASH, error_lines(work, rank, CRASH), at)


def _followed(work: Workload, rank: int, end: Ending) -> RankExit:
    at = end.log_until + FOLLOW_S + 0.5 * rank / work.world_size
    return RankExit(rank, work.node_of(rank), 1, REMOTE, error_lines(work, rank, REMOTE), at)


def error_lines(work: Workload, rank: int, what: str) -> str:
    """What a rank writes before it ends (`complain` in workloads/collectives.py)."""
    node = work.node_of(rank)
    content = f'{{"schema": "clusterproof.error/v1", "rank": {rank}, "node": "{node}", "what": "{what}"}}'
    return f"collectives.py: rank {rank} on {node}: {what}\nCLUSTERPROOF-ERROR {content}"


def peer_lines(run: Situation, end: Ending) -> Iterator[str]:
    """NCCL's warning on rank 0, where its neighbour in the ring is gone."""
    work = run.workload
    for node in end.crashed:
        if node != work.nodes[0] and run.uses_edge(work.nodes[0], node):
            yield (
                f"\n{work.nodes[0]}:4000:4012 [0] misc/socket.cc:50 NCCL WARN socketProgress: "
                f"Connection closed by remote peer {node}<50912>\n"
            )
