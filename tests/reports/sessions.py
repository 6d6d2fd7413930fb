"""Records that the tests of this room share: the story of eight nodes, as a session would have left it."""

from __future__ import annotations

from reports.record import (
    Budget,
    CaseRecord,
    Cell,
    CertifiedRest,
    Criterion,
    Durations,
    Event,
    Evidence,
    Excluded,
    IsolationRecord,
    MeasurementRecord,
    Metric,
    NodeRecord,
    Platform,
    ProbeRecord,
    Record,
    Row,
    Session,
    SuspectRecord,
    Table,
    Versions,
)
from reports.verdict import because

NODES = [f"gpu-node-{index:02d}" for index in range(5, 13)]
GOOD = [name for name in NODES if name not in {"gpu-node-07", "gpu-node-12"}]


def measurement(plateau: float) -> MeasurementRecord:
    rows = []
    for power in range(23, 35, 1):
        size = 1 << power
        busbw = round(plateau * size / (size + 6.0e7), 2)
        cell = Cell(time_us=round(size / busbw / 1e3 * 1.75, 1), algbw=round(busbw / 1.75, 2), busbw=busbw, wrong=0)
        rows.append(
            Row(size=size, count=size // 4, type="float", redop="sum", root=-1, out_of_place=cell, in_place=cell)
        )
    table = Table(rows=rows, avg_busbw=rows[-1].out_of_place.busbw if rows[-1].out_of_place else None, out_of_bounds=0)
    return MeasurementRecord(
        format="nccl-tests",
        complete=True,
        collective="all_reduce",
        ranks=64,
        nodes=8,
        tables=[table],
        metrics={"busBandwidthGBps": Metric(value=rows[-1].out_of_place.busbw or 0.0, unit="GB/s")}
        if rows[-1].out_of_place
        else {},
    )


def criterion(value: float, expected: float = 389.0) -> Criterion:
    floor = round(0.8 * expected, 1)
    return Criterion(
        metric="busBandwidthGBps",
        value=value,
        unit="GB/s",
        expected=expected,
        floor=floor,
        tolerance=0.8,
        source="h100 fabric, derived",
        margin=round(value / floor - 1, 3),
        ok=value >= floor,
        reason="" if value >= floor else "ThresholdViolation",
        text=f"busbw {value} {'>=' if value >= floor else '<'} {floor} GB/s (0.8 x {expected}, h100 fabric, derived)",
    )


def probe(number: int, nodes: list[str], value: float, began: float, *, round_: int = 1, **more: object) -> ProbeRecord:
    return ProbeRecord.model_validate(
        {
            "id": number,
            "nodes": nodes,
            "outcome": "passed" if value > 300 else "failed",
            "value": value,
            "expected": 389.0,
            "unit": "GB/s",
            "started": began,
            "ended": began + 40.0,
            "round": round_,
            **more,
        }
    )


def isolation() -> IsolationRecord:
    return IsolationRecord(
        verdict="found",
        headline="suspects: gpu-node-07, gpu-node-12",
        rounds=3,
        probes=[
            probe(1, [*GOOD[:2], "gpu-node-07", *GOOD[2:3]], 187.2, 100, purpose="half"),
            probe(2, [*GOOD[3:], "gpu-node-12"], 0.0, 100, purpose="half", reason="HardwareFailureDetected"),
            probe(3, GOOD[:2], 388.1, 145, round_=2, purpose="pair"),
            probe(4, ["gpu-node-07", "gpu-node-08"], 186.0, 145, round_=2, purpose="pair"),
            probe(5, ["gpu-node-06", "gpu-node-07"], 187.0, 190, round_=3, purpose="confirm", alone=True, lane=0),
            probe(6, GOOD, 387.4, 240, round_=4, purpose="certify the rest"),
        ],
        suspects=[
            SuspectRecord(
                node="gpu-node-07",
                layer="fabric",
                rail=3,
                confidence=0.99,
                evidence=["failed with gpu-node-06 and gpu-node-08, 187 GB/s of 389; passes alone"],
                reason="ThresholdViolation",
                value=186.0,
                expected=389.0,
                unit="GB/s",
            ),
            SuspectRecord(
                node="gpu-node-12",
                layer="node",
                confidence=0.95,
                evidence=["condition GpuUnhealthy: Xid 79, GPU has fallen off the bus"],
                reason="HardwareFailureDetected",
            ),
        ],
        certified_rest=CertifiedRest(nodes=GOOD, value=387.4, expected=389.0, unit="GB/s"),
        nodes={"suspect": ["gpu-node-07", "gpu-node-12"], "cleared": GOOD},
        story=[
            "gpu-node-12 showed a hardware fault while the first run was on; it is tested apart.",
            "gpu-node-07 failed with gpu-node-06 and with gpu-node-08, which pass together.",
            "The other six passed together, 387 GB/s.",
        ],
    )


def cases() -> list[CaseRecord]:
    first = CaseRecord(
        id="nccl-all-reduce-full-scale",
        domain="communication",
        entry="nccl-all-reduce",
        scale="full-scale",
        nodes=NODES,
        verdict="failed",
        reason="HardwareFailureDetected",
        message="suspects: gpu-node-07, gpu-node-12 | GpuUnhealthy: Xid 79, GPU has fallen off the bus",
        value=187.0,
        expected=389.0,
        unit="GB/s",
        layer="fabric",
        backend="nccl",
        durations=Durations(queued=1.5, starting=12.0, running=48.0),
        started=10.0,
        ended=290.0,
        lane=0,
        measurement=measurement(187.6),
        criteria=[criterion(187.0)],
        tiers_loaded=["leaf"],
        evidence=[
            Evidence(
                rank=56, node="gpu-node-12", exit_code=-9, reason="Killed", tail="line\x1b[31m red\x00\nlast", at=41
            )
        ],
        events=[Event(node="gpu-node-12", kind="health", message="GpuUnhealthy: Xid 79", at=41)],
        isolation=isolation(),
    )
    second = CaseRecord(
        id="nccl-loopback-intra-node-0001",
        domain="communication",
        entry="nccl-loopback",
        scale="intra-node",
        nodes=["gpu-node-06"],
        verdict="passed",
        value=455.0,
        expected=460.0,
        unit="GB/s",
        layer="scale-up",
        backend="nccl",
        started=300.0,
        ended=330.0,
        lane=1,
        measurement=measurement(455.0),
        criteria=[criterion(455.0, 460.0)],
    )
    return [first, second]


def story() -> Record:
    verdicts = dict.fromkeys(GOOD, "cleared") | {"gpu-node-07": "suspect", "gpu-node-12": "suspect"}
    reasons = {
        "gpu-node-07": ["nccl-all-reduce-full-scale: ThresholdViolation, busbw 186.0 of 389.0 GB/s"],
        "gpu-node-12": ["nccl-all-reduce-full-scale: HardwareFailureDetected, GpuUnhealthy: Xid 79"],
    }
    record = Record(
        session=Session(
            id="2026-12-01-a1b2",
            started="2026-12-01T15:00:00+00:00",
            ended="2026-12-01T15:06:00+00:00",
            spec_hash="sha256:0123",
            command=["pytest", "-m", "communication"],
        ),
        run_state="finished",
        versions=Versions(suite="0.1.0", nccl="2.27.3", cuda="12.9", driver="575.57"),
        platform=Platform(name="onprem", detected_by="no provider ID", cluster="simulated"),
        nodes=[
            NodeRecord.model_validate(
                {
                    "name": name,
                    "verdict": verdicts[name],
                    "reasons": reasons.get(name, []),
                    "topology": {"block": "block-0", "rack": f"rack-{index // 4}"},
                    "product": "NVIDIA-H100-80GB-HBM3",
                    "accelerators": 8,
                    "metrics": {"busBandwidthGBps": {"best": 387.4, "worst": 186.0, "unit": "GB/s", "runs": 3}},
                    "identity": {"systemUUID": f"0000-{index}"},
                }
            )
            for index, name in enumerate(NODES)
        ],
        excluded=[Excluded(node="gpu-node-13", reason="cordoned")],
        cases=cases(),
        budget=Budget(used_probes=6, used_node_seconds=2080, used_wall_seconds=360),
    )
    outcome, reasons_behind = because(record)
    return record.model_copy(update={"result": outcome, "because": reasons_behind})
