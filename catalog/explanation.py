"""Likely causes of a missed criterion, the likeliest first, each with the command that tells whether it is the one.

Data, because every site knows causes of its own: a user's file adds to the list or takes an entry's place by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, model_validator

from catalog.checking import Strict
from catalog.errors import CatalogError


class When(Strict):
    """All that is given must match; several values are alternatives."""

    reasons: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()
    collectives: tuple[str, ...] = ()
    vendors: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()
    ratio_above: float = Field(default=0.0, ge=0)
    """value / expected of the missed check, at least."""
    ratio_below: float = Field(default=float("inf"), gt=0)
    """… and below."""
    single_node: bool | None = None

    def matches(self, facts: Mapping[str, Any]) -> bool:
        """`facts`: reason, metric, layer, collective, vendor, platform (text), ratio (number or None), nodes."""
        words = {
            "reason": self.reasons,
            "metric": self.metrics,
            "layer": self.layers,
            "collective": self.collectives,
            "vendor": self.vendors,
            "platform": self.platforms,
        }
        if any(allowed and facts.get(name) not in allowed for name, allowed in words.items()):
            return False
        if self.single_node is not None and (facts.get("nodes") == 1) != self.single_node:
            return False
        ratio = facts.get("ratio")
        if ratio is None:
            return self.ratio_above == 0 and self.ratio_below == float("inf")
        return bool(self.ratio_above <= ratio < self.ratio_below)


class Cause(Strict):
    """One likely cause."""

    cause: str = Field(min_length=10)
    command: str = Field(min_length=3)
    """What to run next; `{node}` is the suspect or the first node, `{nodes}` all of them."""
    sign: str = Field(min_length=5)
    """What its output shows if this is the cause."""


class Explanation(Strict):
    """What may be behind one kind of miss."""

    name: str = Field(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")
    when: When
    causes: tuple[Cause, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _ratios(self) -> Explanation:
        if self.when.ratio_above >= self.when.ratio_below:
            raise CatalogError("expected ratioAbove below ratioBelow")
        return self
