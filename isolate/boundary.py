"""Faults between nodes or domains: a link, a boundary between two leaves, a leaf's uplink.

A pair that fails while both ends are good elsewhere is a link between two nodes, unless other members of the two
leaves fail with each other too: then it is the boundary of the leaves. A leaf whose crossings with two or more other
leaves fail is itself the suspect; with only two leaves it stays a link between them.
"""

from __future__ import annotations

from isolate.model import Domain, Link
from isolate.requests import Answer, Ask, Join, Steps, Wish
from isolate.search import Lens, Search
from isolate.topology import Around

Nodes = tuple[str, ...]


def name_link(s: Search, one: str, other: str, lens: Lens, *, siblings: bool = True) -> Steps[bool]:
    """Name the link of two nodes that are good with others; with `siblings`, ask whether it is their leaves'."""
    if (s.map.order((one, other)), lens.variant) in s.ledger.passed_pairs:
        s.shaky = True
        s.say(f"{one} and {other} failed and passed in turn: it comes and goes, and is not the link.")
        return False
    a, b = s.map.around((one,), (other,)), s.map.around((other,), (one,))
    if siblings and a and b:
        mates = [_mates(s, one, other), _mates(s, other, one)]
        if any(mates):  # a leaf of one node is that node
            pair = (mates[0][0] if mates[0] else one, mates[1][0] if mates[1] else other)
            crossing: Answer = yield Ask(pair, "cross", Wish("none", lens.layers, beyond=True), lens.variant)
            if crossing.failed:
                return (yield from name_boundary(s, s.map.order((one, pair[0])), s.map.order((other, pair[1])), lens))
    record_link(s, (one, other), "node", f"{one} and {other} fail together and pass with others")
    return True


def _mates(s: Search, node: str, other: str) -> Nodes:
    """Members of the group that share the node's leaf, not the other's."""
    leaf = s.map.leaf[node]
    if leaf == s.map.leaf[other]:
        return ()
    return tuple(each for each in s.present(s.map.leaves[leaf]) if each != node and each in s.group)


def name_boundary(s: Search, left: Nodes, right: Nodes, lens: Lens) -> Steps[bool]:
    """Every crossing of two sets fails: their leaves' boundary, or one of the leaves itself."""
    a, b = s.map.around(left, right), s.map.around(right, left)
    if a is not None and b is not None:
        return (yield from name_domains(s, (left, a), (right, b), lens))
    for nodes, around, others in ((left, a, right), (right, b, left)):
        if around is not None and (yield from fails_with_all(s, nodes, around, others, lens)):
            return True
    s.sets.append(frozenset((*left, *right)))
    s.say(
        f"Every crossing between {s.names(left)} and {s.names(right)} fails, each side passes by itself: "
        "a boundary that the topology does not name."
    )
    return True


def fails_with_all(s: Search, nodes: Nodes, around: Around, others: Nodes, lens: Lens) -> Steps[bool]:
    """A domain against several: with two or more that fail it is the suspect, with one it is the link to that one."""
    leaves: dict[str, list[str]] = {}
    for node in others:
        leaves.setdefault(s.map.leaf[node], []).append(node)
    pairs = [(nodes[index % len(nodes)], members[0]) for index, members in enumerate(leaves.values())]
    told: list[bool] = yield Join([_fails(pair, lens) for pair in pairs])
    failing = [pair for pair, fails in zip(pairs, told, strict=True) if fails]
    if len(failing) >= 2:
        record_domain(s, around, f"{s.names(nodes)} fail with members of {len(failing)} others, and pass inside")
        return True
    if len(failing) == 1:
        one, other = failing[0]
        end = s.map.around((other,), nodes)
        if end is not None:
            record_link(
                s, (around.name, end.name), around.level, f"{one} and {other} fail together, both pass with others"
            )
            return True
    return False


def _fails(pair: Nodes, lens: Lens) -> Steps[bool]:
    answer: Answer = yield Ask(pair, "cross", Wish("none", lens.layers, beyond=True), lens.variant)
    return answer.failed


def name_domains(s: Search, one: tuple[Nodes, Around], other: tuple[Nodes, Around], lens: Lens) -> Steps[bool]:
    """Cross each of two domains with third ones: the one that fails there too is the suspect domain."""
    both = frozenset((*s.map.members(one[1].name), *s.map.members(other[1].name)))
    told: list[bool | None] = yield Join([_fails_elsewhere(s, nodes, both, lens) for nodes, _ in (one, other)])
    named = False
    for (nodes, around), fails in zip((one, other), told, strict=True):
        if fails:
            record_domain(
                s, around, f"{s.names(nodes)} fail with members of every other {around.level}, and pass inside"
            )
            named = True
    if not named:
        words = f"every crossing between {one[1].name} and {other[1].name} fails, both pass by themselves"
        if None not in told:
            words += " and with others"
        record_link(s, (one[1].name, other[1].name), one[1].level, words)
    return True


def _fails_elsewhere(s: Search, nodes: Nodes, avoid: frozenset[str], lens: Lens) -> Steps[bool | None]:
    """Whether members of a domain fail with two other domains as well; None where there is no third."""
    used = set(avoid)
    for _ in range(2):
        answer: Answer = yield Ask(
            nodes[:2], "cross", Wish("any", lens.layers, frozenset(used), beyond=True), lens.variant
        )
        if answer.outcome == "nobody":
            return None if used == avoid else True
        if not answer.failed:
            return False
        for partner in answer.partners:
            used.update(s.map.leaves[s.map.leaf[partner]])
    return True


def path_fault(s: Search, nodes: Nodes, lens: Lens) -> Steps[bool]:
    """Nodes that fail with far partners and pass with near ones: their leaf, or the way from it."""
    leaves: dict[str, list[str]] = {}
    for node in nodes:
        leaves.setdefault(s.map.leaf[node], []).append(node)
    named: list[bool] = yield Join([_leaf_fault(s, leaf, tuple(members), lens) for leaf, members in leaves.items()])
    return any(named)


def _leaf_fault(s: Search, leaf: str, nodes: Nodes, lens: Lens) -> Steps[bool]:
    """Is it the whole leaf? Another member must fail with the world outside too."""
    others = tuple(node for node in s.present(s.map.leaves[leaf]) if node not in nodes and node in s.group)
    asked = (others or nodes)[:1]
    around = s.map.around((*nodes, *asked), [node for node in s.group if s.map.leaf[node] != leaf])
    if around is None:
        return False
    if around.name in s.domains:
        return True
    answer: Answer = yield Ask(asked, "cross", Wish("far", lens.layers, frozenset(s.map.leaves[leaf])), lens.variant)
    if answer.failed:
        partner = answer.partners[0]
        other = s.map.around((partner,), nodes)
        if other is not None:
            return (yield from name_domains(s, (nodes + asked, around), ((partner,), other), lens))
    s.sets.append(frozenset(nodes))
    s.say(
        f"{s.names(nodes)} fail with partners outside {around.name} only; other members of it do not: "
        "their ports, or the way."
    )
    return True


def record_link(s: Search, ends: tuple[str, str], level: str, words: str) -> None:
    """Keep a link, each once; a node or domain in several of them is left to the reader of the links."""
    between = (ends[0], ends[1]) if ends[0] <= ends[1] else (ends[1], ends[0])
    if between not in s.links:
        s.links[between] = Link(between, level, evidence=(words,))
        s.say(f"Link {between[0]}–{between[1]}: {words}.")


def record_domain(s: Search, around: Around, words: str) -> None:
    """Keep a suspect domain, each once, and drop the links that it explains."""
    if around.name not in s.domains:
        s.domains[around.name] = Domain(around.name, around.level, evidence=(words,))
        s.say(f"{around.level} {around.name} is the suspect, none of its nodes: {words}.")
    for between in [between for between in s.links if around.name in between]:
        del s.links[between]
