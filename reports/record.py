"""The one typed record of a session: everything that any report says is in here, and nowhere else.

Every format (JSON, JUnit, Allure, terminal, charts, certificate) is a projection of this record, so no two can
disagree. The JSON form is a public contract (`clusterproof.report/v1`, schema in `reports/schema/`): numbers are
numbers, lists are lists and always there, what was not found is absent or `false`, and nothing is ever null. Times
inside the session are seconds since its start, so that a session on virtual time reads like any other.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from reports.text import printable

SCHEMA: Literal["clusterproof.report/v1"] = "clusterproof.report/v1"

CaseVerdict = Literal["passed", "failed", "error", "skipped", "inconclusive"]
NodeVerdict = Literal["passed", "suspect", "intermittent", "cleared", "inconclusive", "untested", "lost"]
RunState = Literal["running", "finished", "interrupted", "deadline"]
SessionResult = Literal["PASSED", "FAILED", "INCOMPLETE"]


def _finite(value: Any) -> Any:
    """NaN and infinities are not numbers in JSON: what was not measured is absent."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _clean(value: Any) -> Any:
    """Free-form data made storable: nulls and non-finite numbers dropped, text escaped, containers made plain."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, (list, tuple, set, frozenset)):
        return [item for item in map(_clean, value) if item is not None]
    if hasattr(value, "items"):
        return {printable(key): item for key, item in ((k, _clean(v)) for k, v in value.items()) if item is not None}
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return _finite(value)
    return printable(value)


def _text(value: Any) -> Any:
    """Escape text, leave the rest for pydantic to refuse (or for another member of a union to take)."""
    return printable(value) if isinstance(value, str) else value


Number = Annotated[float | None, BeforeValidator(_finite)]
Text = Annotated[str, BeforeValidator(_text)]
Free = Annotated[dict[str, Any], BeforeValidator(_clean)]
"""Data whose keys another room owns (identities, counters, transport)."""


class Part(BaseModel):
    """Base of every part of the record: frozen, closed."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_by_name=True, validate_by_alias=True, serialize_by_alias=True
    )

    def to_json(self) -> str:
        """The part as compact JSON text, absent fields left out."""
        return self.model_dump_json(exclude_none=True)


class Session(Part):
    """The run of the suite itself."""

    id: Text
    started: Text
    """RFC 3339, with offset."""
    ended: Text = ""
    """RFC 3339, with offset; empty while it runs."""
    spec_hash: Text = ""
    """Hash of the certification file as it was resolved."""
    command: list[Text] = []
    replay_of: Text = ""
    """The session whose stored logs were judged again; empty: everything was run."""


class Versions(Part):
    """What the cluster and the suite are made of; empty text = not known."""

    suite: Text = ""
    kubernetes: Text = ""
    driver: Text = ""
    cuda: Text = ""
    nccl: Text = ""
    torch: Text = ""
    images: dict[Text, Text] = {}
    """Image reference → digest."""
    other: dict[Text, Text] = {}


class Platform(Part):
    """What kind of cluster it is, and how that was found out."""

    name: Text = ""
    detected_by: Text = ""
    cluster: Text = ""
    """`local`, `simulated` or `kubernetes`."""


class Span(Part):
    """The extremes of one metric over the runs that a node took part in."""

    best: float
    worst: float
    unit: Text = ""
    runs: int = 1


class NodeRecord(Part):
    """What the session says about one node, with what a repair needs to find it again."""

    name: Text
    verdict: NodeVerdict
    reasons: list[Text] = []
    topology: dict[Text, Text] = {}
    """Level → domain, outermost first."""
    nvlink_domain: Text = ""
    product: Text = ""
    accelerators: int = 0
    metrics: dict[Text, Span] = {}
    identity: Free = {}


class Excluded(Part):
    """A node that the target asked for and that was not tested."""

    node: Text
    reason: Text
    waived: bool = False
    """A waiver covers it: it does not make the session incomplete."""


class Durations(Part):
    """Seconds by phase of the first run of a case."""

    queued: float = 0.0
    pulling: float = 0.0
    starting: float = 0.0
    running: float = 0.0


class Cell(Part):
    """One timing of one size: in-place or out-of-place."""

    time_us: Number = None
    algbw: Number = None
    busbw: Number = None
    wrong: int | None = None


class Row(Part):
    """One message size of a collective's table."""

    size: int
    count: int | None = None
    type: Text | None = None
    redop: Text | None = None
    root: int | None = None
    out_of_place: Cell | None = None
    in_place: Cell | None = None


class Table(Part):
    """One table of a log, rows in the order of the file."""

    rows: list[Row] = []
    avg_busbw: Number = None
    out_of_bounds: int | None = None


class Metric(Part):
    """A figure with its unit."""

    value: float
    unit: Text = ""


class Spread(Part):
    """Least, middle and largest of several repeats."""

    min: float
    median: float
    max: float


class SizeSpread(Part):
    """The repeats of one message size: out-of-place time and bus bandwidth."""

    size: int
    repeats: int
    time_us: Spread | None = None
    busbw: Spread | None = None


UNITS = {"size": "B", "time_us": "us", "algbw": "GB/s", "busbw": "GB/s"}


class MeasurementRecord(Part):
    """What one run measured: every size, every figure with its unit (GB/s = 10^9 bytes a second)."""

    format: Text = ""
    complete: bool = False
    collective: Text = ""
    ranks: int = 0
    nodes: int = 0
    units: dict[str, str] = Field(default_factory=lambda: dict(UNITS))
    metrics: dict[Text, Metric] = {}
    tables: list[Table] = []
    per_rank: list[Free] = []
    spread: list[SizeSpread] = []
    """How the repeats inside the run differ, by size."""
    steps: list[Free] = []
    results: list[Free] = []
    warnings: list[Text] = []
    versions: Free = {}


class Criterion(Part):
    """One check of a verdict: what was measured, what was expected, where the expectation came from."""

    metric: Text
    value: Number = None
    unit: Text = ""
    expected: float | Text | None = None
    floor: Number = None
    tolerance: Number = None
    source: Text = ""
    margin: Number = None
    """value / floor − 1 for a lower bound: below 0 = missed."""
    ok: bool = False
    conclusive: bool = True
    """False: the check could not decide; `ok` is then false too."""
    size: int | None = None
    reason: Text = ""
    text: Text = ""


class Advice(Part):
    """What may be behind a missed criterion, and what to run to know."""

    metric: Text
    cause: Text
    command: Text
    sign: Text = ""
    """What the command's output shows where this is the cause."""


class Evidence(Part):
    """How one rank of a failed run ended."""

    rank: int
    node: Text
    exit_code: int | None = None
    """Absent: it was still running. Negative: the signal that ended it."""
    reason: Text = ""
    tail: Text = ""
    at: Number = None
    """Seconds since the start of the run."""


class Event(Part):
    """What happened to a node while the run was on."""

    node: Text
    kind: Text
    message: Text = ""
    at: Number = None
    """Seconds since the start of the run."""


class ProbeRecord(Part):
    """One rerun of the case on other nodes."""

    id: int
    nodes: list[Text]
    outcome: Literal["passed", "failed", "unclear", "invalid"]
    value: Number = None
    expected: Number = None
    floor: Number = None
    """What the value was held against."""
    unit: Text = ""
    started: Number = None
    """Seconds since the start of the session."""
    ended: Number = None
    alone: bool = False
    """No other probe ran in its leaf at the time."""
    round: int = 0
    purpose: Text = ""
    variant: Text = ""
    """`rail 3`, `all-pairs`, `NVLink off` …; empty: as the case."""
    reason: Text = ""
    told: Text = ""
    """What it told, in a few words."""
    lane: int | None = None


class SuspectRecord(Part):
    """A node that the probes name."""

    node: Text
    layer: Text = ""
    rail: int | None = None
    confidence: float | Text = ""
    evidence: list[Text] = []
    kind: Text = "suspect"
    alternatives: list[Text] = []
    """Not empty: it is this node or one of these; they cannot be told apart."""
    reason: Text = ""
    """`ThresholdViolation`, `HardwareFailureDetected` …"""
    value: Number = None
    """The worst value of a probe that names it."""
    expected: Number = None
    unit: Text = ""


class LinkRecord(Part):
    """A path between two nodes or two domains, `between` sorted."""

    between: list[Text] = Field(min_length=2, max_length=2)
    level: Text = ""
    confidence: float | Text = ""
    evidence: list[Text] = []


class DomainRecord(Part):
    """A leaf, rack or NVLink domain at fault as a whole."""

    name: Text
    level: Text = ""
    confidence: float | Text = ""
    evidence: list[Text] = []


class ScaleRecord(Part):
    """The group fails for its size: numbers of nodes."""

    smallest_failing: int | None = None
    largest_passing: int | None = None
    note: Text = ""


class CertifiedRest(Part):
    """The group without the suspects, that passed together."""

    nodes: list[Text]
    value: Number = None
    expected: Number = None
    unit: Text = ""


class IsolationRecord(Part):
    """How a failing group was searched, and what was found."""

    verdict: Text
    headline: Text = ""
    """The finding in a few words, as it begins the failure message."""
    rounds: int = 0
    probes: list[ProbeRecord] = []
    suspects: list[SuspectRecord] = []
    links: list[LinkRecord] = []
    domains: list[DomainRecord] = []
    sets: list[list[Text]] = []
    """"One of these": members that no probe could tell apart."""
    scale: ScaleRecord | None = None
    systemic: Text | Literal[False] = False
    transient: Text | Literal[False] = False
    certified_rest: CertifiedRest | None = None
    nodes: dict[NodeVerdict, list[Text]] = {}
    """Result → the nodes of the group that ended with it."""
    limit: Text | Literal[False] = False
    """The limit that ended the search early."""
    story: list[Text] = []
    """The search in sentences, in order."""


class CaseRecord(Part):
    """One case of the suite, with all its evidence."""

    id: Text
    domain: Text = ""
    entry: Text = ""
    scale: Text = ""
    nodes: list[Text] = []
    verdict: CaseVerdict
    reason: Text = ""
    message: Text = ""
    value: Number = None
    """The deciding figure of the first run …"""
    expected: Number = None
    """… and what it was held against."""
    unit: Text = ""
    layer: Text = ""
    backend: Text = ""
    durations: Durations = Durations()
    started: Number = None
    """Seconds since the start of the session."""
    ended: Number = None
    lane: int | None = None
    measurement: MeasurementRecord | None = None
    criteria: list[Criterion] = []
    advice: list[Advice] = []
    """Likely causes of what was missed, the likeliest first."""
    transport: Free = {}
    tiers_loaded: list[Text] = []
    counters: dict[Text, Free] = {}
    """By node: counters that moved, throttled clocks, and what differs from most other nodes of the run."""
    identities: dict[Text, Free] = {}
    """By node, on its way to `nodes[].identity`: empty in report.json."""
    platform_rules: list[Text] = []
    evidence: list[Evidence] = []
    events: list[Event] = []
    leftovers: list[Text] = []
    """What clean-up could not remove."""
    log: Text = ""
    """The raw log of the first run, relative to report.json; empty: not kept."""
    isolation: IsolationRecord | None = None

    @property
    def failing(self) -> bool:
        """True for what keeps a session from passing: failed, errored or inconclusive."""
        return self.verdict in {"failed", "error", "inconclusive"}


class Budget(Part):
    """What the session planned and used."""

    planned_probes: int = 0
    used_probes: int = 0
    planned_node_seconds: float = 0.0
    used_node_seconds: float = 0.0
    planned_wall_seconds: float = 0.0
    used_wall_seconds: float = 0.0


class Record(Part):
    """A whole session."""

    schema_: Literal["clusterproof.report/v1"] = Field(default=SCHEMA, alias="schema")
    session: Session
    run_state: RunState = "running"
    result: SessionResult = "INCOMPLETE"
    because: list[Text] = []
    """The cases or nodes that stand behind the result, each with its reason."""
    versions: Versions = Versions()
    platform: Platform = Platform()
    nodes: list[NodeRecord] = []
    excluded: list[Excluded] = []
    cases: list[CaseRecord] = []
    budget: Budget = Budget()
