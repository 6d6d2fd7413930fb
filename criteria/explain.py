"""From a verdict to what may be behind it and what to run next. The causes are data (`catalog/explanations`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from catalog import Catalog
from criteria.expectation import expected_busbw
from criteria.model import Check, Conditions, Verdict

BUSBW = "busBandwidthGBps"


@dataclass(frozen=True, slots=True)
class Advice:
    """One likely cause of a missed check, the command that tells, and what its output would show."""

    metric: str
    cause: str
    command: str
    sign: str

    @property
    def text(self) -> str:
        """One sentence for the report."""
        return f"{self.cause}; next: {self.command} (then: {self.sign})"


def explain(
    verdict: Verdict, conditions: Conditions, catalog: Catalog, suspects: Sequence[str] = (), most: int = 5
) -> tuple[Advice, ...]:
    """Likely causes of what was missed, the likeliest first, at most `most`, each once.

    `suspects` are nodes that isolation named; the commands are written for the first of them, else for the first node
    the evidence points at.
    """
    node = next(iter((*suspects, *(hint.node for hint in verdict.hints), *conditions.node_names)), "<node>")
    nodes = " ".join(conditions.node_names) or "<nodes>"
    found: dict[str, Advice] = {}
    for check in verdict.violations:
        for advice in _advice(check, conditions, catalog, node, nodes):
            found.setdefault(advice.cause, advice)
    return tuple(found.values())[:most]


def _advice(check: Check, conditions: Conditions, catalog: Catalog, node: str, nodes: str) -> Iterator[Advice]:
    facts = _facts(check, conditions, catalog)
    for explanation in catalog.explanations.values():
        if explanation.when.matches(facts):
            for each in explanation.causes:
                command = each.command.replace("{nodes}", nodes).replace("{node}", node)
                yield Advice(check.metric, each.cause, command, each.sign)


def _facts(check: Check, conditions: Conditions, catalog: Catalog) -> dict[str, Any]:
    return {
        "reason": str(check.reason) if check.reason else "",
        "metric": check.metric,
        "layer": conditions.layer,
        "collective": conditions.collective or "",
        "vendor": conditions.accelerator.vendor if conditions.accelerator else "",
        "platform": conditions.platform,
        "nodes": conditions.nodes,
        "ratio": _ratio(check, conditions, catalog),
    }


def _ratio(check: Check, conditions: Conditions, catalog: Catalog) -> float | None:
    """The value as a share of what is healthy.

    For bandwidth that is the catalog's figure where there is one: a threshold that asks for more than a fabric gives
    says nothing about the fabric.
    """
    expected = check.expected
    if check.metric == BUSBW and check.source != "baseline" and conditions.backend == "nccl":
        size = check.size or max(conditions.sizes, default=0)
        healthy = expected_busbw(catalog, conditions, size) if size else None
        expected = healthy.value if healthy is not None else expected
    if check.value is None or not isinstance(expected, int | float) or expected <= 0:
        return None
    return check.value / expected
