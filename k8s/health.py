"""What a Node object says about its health, by CEL rules that are data (`health.yaml`, and the user's own).

A rule that cannot be evaluated on a node (a field that is missing) does not hold for it; a rule that cannot be compiled
is the user's mistake and is said before anything is launched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from catalog import CatalogError, Strict, check, read_yaml
from cluster import ClusterError
from k8s.gateway import Json

PRESETS = Path(__file__).with_name("health.yaml")


class Rule(Strict):
    """One line of `health.yaml`."""

    name: str
    kind: Literal["health", "lost", "invalid"]
    when: str
    over: Literal["node", "conditions", "taints"] = "node"
    message: str = ""


class Rules(Strict):
    """The file."""

    rules: tuple[Rule, ...]


@dataclass(frozen=True, slots=True)
class Hit:
    """A rule that holds for a node: what kind of evidence it is, in words."""

    rule: str
    kind: str
    text: str


class Program:
    """A compiled expression. Handing a whole Node over costs a millisecond, so it gets only what it speaks about."""

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled
        self._speaks_of = frozenset(compiled.variables()) & {"node", "before", "it"}
        self._known: dict[tuple[str, ...], bool] = {}

    def holds(self, node: Json, before: Json, it: Json) -> bool:
        """Whether it is true; a field that is missing makes it false."""
        if self._speaks_of == {"it"}:
            # Conditions and taints repeat from node to node.
            key = tuple(map(str, it.values()))
            if key not in self._known:
                self._known[key] = self._evaluate({"it": it})
            return self._known[key]
        scope = {"node": node, "before": before, "it": it}
        return self._evaluate({name: scope[name] for name in self._speaks_of})

    def _evaluate(self, scope: Json) -> bool:
        try:
            return self._compiled.execute(scope) is True
        except Exception:  # the library raises plain KeyError, TypeError, ValueError, RuntimeError
            return False


class Watcher:
    """The compiled rules: presets, with the user's added or in their place by name."""

    def __init__(self, extra: Iterable[Mapping[str, str]] = ()) -> None:
        import cel  # noqa: PLC0415 — only sessions on Kubernetes need it

        try:
            rules = {rule.name: rule for rule in check(Rules, read_yaml(PRESETS), str(PRESETS)).rules}
            rules |= {rule.name: rule for rule in check(Rules, {"rules": list(map(dict, extra))}, "health").rules}
        except CatalogError as error:
            raise ClusterError(str(error)) from error
        self._rules: list[tuple[Rule, Program]] = []
        for rule in rules.values():
            try:
                self._rules.append((rule, Program(cel.compile(rule.when))))
            except Exception as error:
                raise ClusterError(f"health rule {rule.name!r}: not a CEL expression: {error} ({rule.when})") from error

    def hits(self, node: Json, before: Json) -> list[Hit]:
        """The rules that hold for `node` now, compared with how it was `before`."""
        return [
            Hit(rule.name, rule.kind, rule.message or _words(rule.over, thing))
            for rule, program in self._rules
            for thing in _things(rule.over, node)
            if program.holds(node, before, thing)
        ]

    def news(self, node: Json, before: Json) -> list[Hit]:
        """The rules that hold now and did not when the run began."""
        old = {(hit.rule, hit.text) for hit in self.hits(before, before)}
        return [hit for hit in self.hits(node, before) if (hit.rule, hit.text) not in old]


def _things(over: str, node: Json) -> list[Json]:
    if over == "conditions":
        return list(node["status"]["conditions"])
    return list(node["spec"].get("taints", [])) if over == "taints" else [{}]


def _words(over: str, thing: Json) -> str:
    if over == "taints":
        return f"taint {thing['key']}={thing.get('value', '')}:{thing.get('effect', '')}"
    why = ": ".join(part for part in (thing.get("reason", ""), thing.get("message", "")) if part)
    return f"condition {thing['type']}={thing['status']} ({why})"
