"""What each platform needs of a pod: rules in order, merged by key (`platforms.yaml`, and the user's over it).

A rule changes or removes one variable, resource, volume or toleration by its name, it never replaces a list by
accident; the user's own values always win over all rules. The same table serves every entry. The run says which rules
applied and what each changed; a rule that matched and changed nothing is said too.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import Field

from catalog import CatalogError, Strict, check, read_yaml
from cluster import ClusterError

TABLE = Path(__file__).with_name("platforms.yaml")
NOTHING: Mapping[str, Any] = MappingProxyType({})


class When(Strict):
    """All that is given must match; several values are alternatives, shell patterns allowed."""

    platform: tuple[str, ...] = ()
    accelerator: tuple[str, ...] = ()
    framework: tuple[str, ...] = ()
    domain: tuple[str, ...] = ()
    backend: tuple[str, ...] = ()

    def matches(self, facts: Mapping[str, str]) -> bool:
        """Whether the rule is for this workload."""
        return all(
            not patterns or any(fnmatch.fnmatchcase(facts.get(key, ""), pattern) for pattern in patterns)
            for key, patterns in self
        )


class Change(Strict):
    """By name; a null takes the name away."""

    env: Mapping[str, str | None] = Field(default_factory=dict)
    resources: Mapping[str, str | None] = Field(default_factory=dict)
    volumes: Mapping[str, Mapping[str, Any] | None] = Field(default_factory=dict)
    mounts: Mapping[str, str | None] = Field(default_factory=dict)
    """Volume → path in the container."""
    annotations: Mapping[str, str | None] = Field(default_factory=dict)
    tolerations: Mapping[str, Mapping[str, str] | None] = Field(default_factory=dict)
    capabilities: tuple[str, ...] = ()
    image: str | None = None
    host_network: bool | None = None
    rails: tuple[str, ...] = ()
    """Names of the NICs by rail, as `NCCL_IB_HCA` wants them."""


class Rule(Strict):
    """One rule of the table."""

    name: str
    when: When
    set: Change
    source: str = ""
    """Where the values come from."""


class Table(Strict):
    """The file."""

    platforms: tuple[Rule, ...]


@dataclass(frozen=True, slots=True)
class Patch:
    """All matching rules put together."""

    env: Mapping[str, str | None] = field(default_factory=lambda: NOTHING)
    resources: Mapping[str, str | None] = field(default_factory=lambda: NOTHING)
    volumes: Mapping[str, Mapping[str, Any] | None] = field(default_factory=lambda: NOTHING)
    mounts: Mapping[str, str | None] = field(default_factory=lambda: NOTHING)
    annotations: Mapping[str, str | None] = field(default_factory=lambda: NOTHING)
    tolerations: Mapping[str, Mapping[str, str] | None] = field(default_factory=lambda: NOTHING)
    capabilities: tuple[str, ...] = ()
    image: str = ""
    host_network: bool = False
    rails: tuple[str, ...] = ()
    applied: tuple[tuple[str, str], ...] = ()
    """(rule, what it changed) in order."""


@lru_cache(maxsize=1)
def shipped() -> tuple[Rule, ...]:
    """The rules that come with the suite."""
    return check(Table, read_yaml(TABLE), str(TABLE)).platforms


def rules(files: Iterable[str | Path] = ()) -> tuple[Rule, ...]:
    """Shipped rules, then those of the user's files; a name defined again takes the old rule's place.

    Raises `ClusterError` with file, path and remedy.
    """
    named = {rule.name: rule for rule in shipped()}
    try:
        for path in files:
            named |= {rule.name: rule for rule in check(Table, read_yaml(path), str(path)).platforms}
    except CatalogError as error:
        raise ClusterError(str(error)) from error
    return tuple(named.values())


BY_NAME = ("env", "resources", "volumes", "mounts", "annotations", "tolerations")


def merge(table: Sequence[Rule], facts: Mapping[str, str]) -> Patch:
    """The patch for a workload with these `facts` (platform, accelerator, framework, domain, backend)."""
    named: dict[str, dict[str, Any]] = {part: {} for part in BY_NAME}
    capabilities: list[str] = []
    image, host_network = "", False
    rails: tuple[str, ...] = ()
    applied: list[tuple[str, str]] = []
    for rule in (rule for rule in table if rule.when.matches(facts)):
        changed = []
        for part in BY_NAME:
            for key, value in getattr(rule.set, part).items():
                if named[part].get(key) != value:
                    named[part][key] = value
                    changed.append(f"{part}.{key}")
        new = [name for name in rule.set.capabilities if name not in capabilities]
        capabilities += new
        changed += [f"capabilities.{name}" for name in new]
        if rule.set.image and rule.set.image != image:
            image = rule.set.image
            changed.append("image")
        if rule.set.host_network is not None and rule.set.host_network != host_network:
            host_network = rule.set.host_network
            changed.append("hostNetwork")
        if rule.set.rails:
            rails = rule.set.rails
            changed.append("rails")
        applied.append((rule.name, ", ".join(changed) or "nothing"))
    return Patch(
        **named, capabilities=tuple(capabilities), image=image, host_network=host_network, rails=rails,
        applied=tuple(applied),
    )  # fmt: skip
