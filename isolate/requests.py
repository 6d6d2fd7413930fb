"""What a step of isolation can ask for, and what it is answered.

A step is a generator: it yields `Ask` (one probe, with a wish for partners), `Join` (other steps side by side), `Turn`
(wait until the results at hand are all known) or `Wait` (for something that another step is doing) and is resumed with
the answer. So each step reads as the sequence it is while many run at once.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from isolate.model import Layer, Probe, Result, Variant

Kind = Literal["none", "any", "near", "far", "mate", "domain", "outside"]
T = TypeVar("T")


AS_IT_IS = Variant()


@dataclass(frozen=True, slots=True)
class Wish:
    """Which partners an ask wants: known-good nodes, free now, in the right place."""

    kind: Kind = "none"
    """`near`: same leaf; `far`: another leaf; `any`: near, else far; `mate`: same leaf, proven or not; `domain`: same
    NVLink domain; `outside`: other NVLink domains, one of each. Where no good node of the kind exists at all, `near`,
    `far` and `any` take whoever is good."""
    layers: frozenset[Layer] = frozenset()
    """What a partner must have been cleared of."""
    avoid: frozenset[str] = frozenset()
    avoid_leaves: frozenset[str] = frozenset()
    least: int = 1
    """At least this many partners, more where the group would be too small."""
    optional: bool = False
    """Run without partners where nobody is good."""
    beyond: bool = False
    """Only partners before or after all of the core in rank order: a ring keeps the core's ends neighbours."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One probe that a step wants."""

    core: tuple[str, ...]
    purpose: str
    wish: Wish = Wish()
    variant: Variant = AS_IT_IS
    quiet: bool = False
    alone: bool = False
    """One node by itself, below the minimum group."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of an ask: a judged outcome, `unknown` (the probe told nothing) or `nobody` (no partner exists)."""

    outcome: Literal["passed", "failed", "unclear", "unknown", "nobody"]
    core: tuple[str, ...]
    partners: tuple[str, ...] = ()
    probe: Probe | None = None
    result: Result | None = None
    quiet: bool = False

    @property
    def passed(self) -> bool:
        """It passed."""
        return self.outcome == "passed"

    @property
    def failed(self) -> bool:
        """It failed for sure."""
        return self.outcome == "failed"


@dataclass(frozen=True, slots=True)
class Join:
    """Steps to run side by side; answered with the list of what they return."""

    steps: Sequence[Generator[Any, Any, Any]]


class Gate:
    """Something that several steps need and one of them is doing."""

    def __init__(self) -> None:
        self.waiting: list[Any] = []
        """Steps that wait; the scheduler's business."""
        self.opened = False


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait until the gate is opened (`Scheduler.open`)."""

    gate: Gate


@dataclass(frozen=True, slots=True)
class Turn:
    """Wait until `ready` is called next: the results that came together are all known then."""


Steps = Generator[Ask | Join | Turn | Wait, Any, T]
