"""Gang schedulers as data (`gangs.yaml`): all pods of a run are placed together or none is.

What differs between them is a scheduler's name, some labels and an object; every pod of a run is opted in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from catalog import Strict, check, nearest, read_yaml
from cluster import ClusterError
from k8s import names
from k8s.gateway import Json
from k8s.settings import Gang

TABLE = Path(__file__).with_name("gangs.yaml")


class Resource(Strict):
    """Where the group's object goes."""

    group: str
    plural: str
    kind: str


class Scheduler(Strict):
    """One line of `gangs.yaml`."""

    name: str
    scheduler_name: str = ""
    default_queue: str = ""
    queue_label: str = ""
    queue_on: Literal["pods", "job"] = "pods"
    pod_labels: Mapping[str, str] = Field(default_factory=dict)
    pod_annotations: Mapping[str, str] = Field(default_factory=dict)
    resource: Resource | None = None
    spec: Mapping[str, str] = Field(default_factory=dict)
    source: str = ""


class Table(Strict):
    """The file."""

    gangs: tuple[Scheduler, ...]


@dataclass(frozen=True, slots=True)
class Grouping:
    """What a run must carry to be placed as a whole."""

    scheduler: str = ""
    pod_labels: Mapping[str, str] = field(default_factory=dict)
    pod_annotations: Mapping[str, str] = field(default_factory=dict)
    job_labels: Mapping[str, str] = field(default_factory=dict)
    objects: tuple[tuple[str, Json], ...] = ()
    """(collection, object), created before the pods."""


@lru_cache(maxsize=1)
def schedulers() -> Mapping[str, Scheduler]:
    """The schedulers that the suite knows, by name."""
    return {gang.name: gang for gang in check(Table, read_yaml(TABLE), str(TABLE)).gangs}


def wanted(settings: Gang | None, extra: Mapping[str, Any]) -> Gang | None:
    """The settings', or the certification's `gangScheduler: {schedulerName, queue, queueLabelKey}`."""
    written = extra.get("gangScheduler")
    if not written:
        return settings
    if isinstance(written, str):
        return Gang(written)
    name = str(written.get("schedulerName", ""))
    known = next((one.name for one in schedulers().values() if name in (one.name, one.scheduler_name)), name)
    queue, key = str(written.get("queue", "")), str(written.get("queueLabelKey", ""))
    return Gang(known, queue, name if name != known else "", key)


def grouping(gang: Gang | None, namespace: str, name: str, count: int) -> Grouping:
    """What `gang` needs for a run of `count` pods. Raises `ClusterError` for a scheduler nobody described."""
    if gang is None:
        return Grouping()
    known = schedulers().get(gang.name)
    if known is None and gang.queue_label:
        known = Scheduler(name=gang.name, scheduler_name=gang.name, queue_label=gang.queue_label)
    if known is None:
        guess = nearest(gang.name, schedulers())
        hint = f"; did you mean {guess}?" if guess else ""
        raise ClusterError(
            f"gang scheduler {gang.name!r}: expected one of {', '.join(schedulers())}{hint}, or give queueLabelKey too"
        )
    queue = gang.queue or known.default_queue
    words = {"name": name, "count": str(count), "queue": queue}
    key = gang.queue_label or known.queue_label
    queued = {key: queue} if key and queue else {}
    labels = {label: value.format(**words) for label, value in known.pod_labels.items()}
    return Grouping(
        scheduler=gang.scheduler_name or known.scheduler_name,
        pod_labels=labels | (queued if known.queue_on == "pods" else {}),
        pod_annotations={label: value.format(**words) for label, value in known.pod_annotations.items()},
        job_labels=queued if known.queue_on == "job" else {},
        objects=_objects(known, namespace, words, queued),
    )


def _objects(
    known: Scheduler, namespace: str, words: Mapping[str, str], queued: Mapping[str, str]
) -> tuple[tuple[str, Json], ...]:
    if known.resource is None:
        return ()
    spec = {key: value.format(**words) for key, value in known.spec.items()}
    body = {
        "apiVersion": known.resource.group,
        "kind": known.resource.kind,
        "metadata": {"name": words["name"], "namespace": namespace, "labels": {names.MANAGED_BY: names.US, **queued}},
        "spec": {key: int(value) if value.isdigit() else value for key, value in spec.items()},
    }
    return ((names.grouped(known.resource.group, namespace, known.resource.plural), body),)
