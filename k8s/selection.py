"""Which nodes a target names, and which taints its pods bear: the rules of the Kubernetes scheduler, here for us.

The suite decides before it launches anything, so that a node that a pod could never reach is excluded with a reason
instead of becoming a pod that is pending for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from k8s.gateway import Json
from k8s.settings import Settings, Target

ALWAYS_TOLERATED: tuple[Mapping[str, Any], ...] = (
    {"key": "nvidia.com/gpu", "operator": "Exists"},
    {"key": "amd.com/gpu", "operator": "Exists"},
)
"""Taints that only keep CPU work away from accelerators."""


def selected(node: Json, target: Target) -> bool:
    """Whether all filters of the target hold for the node."""
    labels: Mapping[str, str] = node["metadata"]["labels"]
    if target.node_names and node["metadata"]["name"] not in target.node_names:
        return False
    if any(labels.get(key) != value for key, value in target.node_selector.items()):
        return False
    if not all(holds(expression, labels) for expression in target.match_expressions):
        return False
    taints = node["spec"].get("taints", [])
    return all(any(is_taint(taint, wanted) for taint in taints) for wanted in target.taint_selectors)


OPERATORS: Mapping[str, Callable[[str | None, Sequence[str]], bool]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
    "Gt": lambda value, values: value is not None and value.isdigit() and int(value) > int(values[0]),
    "Lt": lambda value, values: value is not None and value.isdigit() and int(value) < int(values[0]),
}


def holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """One `{key, operator, values}` over labels. Raises `KeyError` for an operator that Kubernetes does not have."""
    return OPERATORS[expression["operator"]](labels.get(expression["key"]), list(expression.get("values") or ()))


def is_taint(taint: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """Whether a taint is the one that a selector `{key, value?, effect?}` names."""
    return all(taint.get(part, "") == wanted[part] for part in ("key", "value", "effect") if wanted.get(part))


def tolerations(settings: Settings) -> list[dict[str, Any]]:
    """What the pods bear: the accelerators' own taints, the user's tolerations, the taints the target selects by."""
    from_selectors = [
        {
            "key": taint["key"],
            "operator": "Equal" if taint.get("value") else "Exists",
            **{part: taint[part] for part in ("value", "effect") if taint.get(part)},
        }
        for taint in settings.target.taint_selectors
    ]
    return [dict(item) for item in (*ALWAYS_TOLERATED, *settings.tolerations, *from_selectors)]


def tolerates(taint: Mapping[str, str], settings: Settings) -> bool:
    """Whether the pods bear this taint; a mere preference never keeps them away."""
    return taint.get("effect") == "PreferNoSchedule" or any(_bears(item, taint) for item in tolerations(settings))


def _bears(toleration: Mapping[str, Any], taint: Mapping[str, str]) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("operator") == "Exists":
        return not toleration.get("key") or toleration["key"] == taint["key"]
    return toleration.get("key") == taint["key"] and toleration.get("value", "") == taint.get("value", "")
