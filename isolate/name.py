"""Step 5: name the part of a suspect: the node itself, NVLink or the fabric, and of the fabric the rail.

A node that fails alone is at fault itself. One that passes alone fails where it talks: inside its NVLink domain
(scale-up), over its NICs (fabric), as the two variants tell. End-to-end runs cannot tell a NIC from its cable or the
switch port, and the text says so.
"""

from __future__ import annotations

from isolate.model import Variant
from isolate.requests import Answer, Ask, Kind, Steps, Wish
from isolate.search import FABRIC, OUTSIDE, SCALE_UP, Accused, Search
from isolate.topology import NODE

_TRIES = 3
"""Probes of an intermittent suspect before a pass is believed."""


def name_part(s: Search, accused: Accused) -> Steps[None]:
    """Find the layer, and the rail where rails can be chosen."""
    alone: bool | None = None
    if s.case.single_node:
        alone = yield from fails(accused, Ask((accused.node,), "alone", alone=True), 2)
    if alone:
        accused.layer = "node"
        accused.evidence.append("failed alone")
        return
    if alone is False:
        accused.evidence.append("passed alone")
    multi = len(s.map.domains[s.map.nvlink[accused.node]]) > 1
    if accused.lens.name == "scale-up":
        yield from _scale_up(s, accused, alone)
    elif multi and alone is None:
        yield from _fabric_or_node(accused)
    else:
        accused.layer = "fabric" if alone is False else "node"
        if alone is None:
            accused.alternatives.append(
                "node or fabric: the workload has no run on one node that could tell them apart"
            )
    if accused.layer == "fabric" or (alone is None and accused.lens.name != "scale-up"):
        yield from rails(s, accused)


def _scale_up(s: Search, accused: Accused, alone: bool | None) -> Steps[None]:
    accused.layer = "scale-up"
    if alone is not None:
        return
    switch = s.case.mnnvl_switch and not s.ledger.switch_broken
    wish, variant = Wish("any", FABRIC.layers), FABRIC.variant
    if not switch:
        wish, variant = Wish("outside", NODE), OUTSIDE.variant
    fabric = yield from fails(accused, Ask((accused.node,), "layer", wish, variant))
    if fabric is None:
        accused.alternatives.append("node or scale-up: neither a run on one node nor one without NVLink can be had")
        return
    accused.layer = "node" if fabric else "scale-up"
    accused.evidence.append(f"{'failed' if fabric else 'passed'} where it talks over the fabric only")


def _fabric_or_node(accused: Accused) -> Steps[None]:
    """Found on the fabric, no run on one node: inside its NVLink domain a fabric fault does not show."""
    inside: bool | None = None
    used: frozenset[str] = frozenset()
    for _ in range(2):  # partners there are proven on the fabric only: a failure must come with two of them
        wish = Wish("domain", NODE, used)
        answer: Answer = yield Ask((accused.node,), "layer", wish, SCALE_UP.variant)
        if not (answer.failed or answer.passed):
            break
        inside = answer.failed
        used |= frozenset(answer.partners)
        if answer.passed:
            break
    accused.layer = "node" if inside else "fabric"
    if inside is None:
        accused.alternatives.append(
            "node or fabric: its NVLink domain has no healthy partner that could tell them apart"
        )
    else:
        accused.evidence.append(f"{'failed' if inside else 'passed'} inside its NVLink domain")


def fails(accused: Accused, ask: Ask, tries: int = 1) -> Steps[bool | None]:
    """Whether the probe fails in one of `tries`, of more for an intermittent suspect. None = nobody can tell."""
    for number in range(_TRIES if accused.kind == "intermittent" else tries):
        answer: Answer = yield ask
        if answer.failed:
            if number:
                accused.kind = "intermittent"
            return True
        if not answer.passed:
            return None
    return False


def rails(s: Search, accused: Accused) -> Steps[None]:
    """Run a fabric suspect once per rail with a good partner."""
    if s.case.rails < 2:
        return
    layers = FABRIC.layers if accused.lens.free else accused.lens.layers
    mnnvl = False if s.case.mnnvl_switch and not s.ledger.switch_broken and accused.lens.name == "fabric" else None
    kind: Kind = "any" if accused.lens.free else "outside"
    failing: list[int] = []
    passing: list[int] = []
    for rail in range(s.case.rails):
        ask = Ask((accused.node,), "rail", Wish(kind, layers), Variant(mnnvl, rail))
        told = yield from fails(accused, ask)
        if told is not None:
            (failing if told else passing).append(rail)
    if failing and passing:
        accused.layer = "fabric"
        accused.rails = tuple(failing)
        accused.rail = failing[0] if len(failing) == 1 else None
        words = ", ".join(map(str, failing))
        accused.evidence.append(f"failed on rail {words} and passed on the other {len(passing)}")
        accused.alternatives[:] = ["NIC, cable or switch port: end-to-end runs cannot tell those apart"]
        s.say(f"{accused.node} rail {words}: NIC, cable or port (end-to-end runs cannot tell those apart).")
    elif failing:
        accused.evidence.append(f"failed on every one of {len(failing)} rails")
        if accused.layer == "fabric":
            accused.alternatives.append("all its NICs, or what they share")
    elif passing:
        accused.evidence.append(f"passed on each of {len(passing)} rails by itself: it fails only with all together")
