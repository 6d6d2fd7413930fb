"""What the final line of our own program must say before a run counts as proven: of which run, which ranks, how often.

The table above it holds means over cycles and no ranks, so a table alone would hide one bad cycle; and a log of other
nodes says nothing of these. A log is believed where exactly one such line is in it and agrees with what was asked; what
it says in numbers is looked at in `final_numbers`. Logs of other programs have no such line, and other rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from criteria.final_numbers import is_count, numbers
from criteria.model import Check, Conditions, Reason
from measure import Measurement

OURS = "collectives.py"
"""The program of `workloads/` that ends with this line."""
SAYS = {"schema": "clusterproof.result/v1", "program": "collectives"}
"""What the line says of itself."""
MOST_RANKS_LISTED = 1024
"""Above, the line has an entry a node and not a rank (as in workloads/collectives.py)."""
_NAMED = 8
"""How many of a kind a sentence names."""


def proven(measurement: Measurement, conditions: Conditions) -> Iterator[Check]:
    """A check for each thing that the line leaves open or contradicts; none where it proves the run."""
    if conditions.program != OURS or not conditions.collective:
        return
    line = measurement.details.get("result")
    if not measurement.result_line or not isinstance(line, Mapping):
        yield _open("complete", "the program's final line is missing: no rank and no cycle is known")
        return
    if measurement.errors:
        yield _open("complete", f"an error stands beside the final line: {measurement.errors[0].what}")
    yield from _asked(line, conditions)
    yield from _people(measurement, line, conditions)
    for metric, text in numbers(measurement, line, conditions):
        yield _open(metric, text)


def _asked(line: Mapping[str, Any], conditions: Conditions) -> Iterator[Check]:
    """What the line says of its run against what was asked; what was asked may be unknown, what was done may not."""
    asked: dict[str, Any] = {
        **SAYS,
        "collective": conditions.collective,
        "backend": conditions.backend,
        "world_size": conditions.ranks,
        "nodes": list(conditions.node_names) or None,
        "requested_sizes": list(conditions.sizes) or None,
        "dtype": conditions.dtype or None,
    }
    for name, wanted in asked.items():
        said, words = line.get(name), name.replace("_", " ")
        if wanted is None or _same(said, wanted):
            continue
        if said is None or said == []:
            yield _open("result", f"the final line does not say its {words}; asked {_listed(wanted)}")
        else:
            yield _open("result", f"the final line is of another run: {words} {_difference(said, wanted)}")


def _same(said: Any, wanted: Any) -> bool:
    """Equal in value and kind: `true` is no 1."""
    if isinstance(wanted, list):
        return isinstance(said, list) and len(said) == len(wanted) and all(map(_same, said, wanted))
    return type(said) is type(wanted) and said == wanted


def _difference(said: Any, wanted: Any) -> str:
    """What only one of the two has; both where they differ in order or number alone."""
    if not isinstance(said, list) or not isinstance(wanted, list):
        return f"{_listed(said)}; asked {_listed(wanted)}"
    strange, absent = [each for each in said if each not in wanted], [each for each in wanted if each not in said]
    return f"{_listed(strange or said)}; asked {_listed(absent or wanted)}"


def _people(measurement: Measurement, line: Mapping[str, Any], conditions: Conditions) -> Iterator[Check]:
    """Every rank (above a thousand: every node) once, in its place, with the count of its wrong elements."""
    people: Sequence[Any] = measurement.per_rank
    if people:
        places = dict(enumerate(conditions.node_names)) if conditions.gpus_per_node else {}
        astray = [
            each.get("rank")
            for each in people
            if places and each.get("node") != places.get(_node_number(each.get("rank"), conditions))
        ]
        if astray:
            yield _open("ranks", f"the final line has ranks on other nodes than asked: {_listed(astray)}")
    elif conditions.ranks <= MOST_RANKS_LISTED:
        yield _open("ranks", "the final line says nothing of any rank")
    else:
        said = line.get("per_node")
        people = [each for each in said if isinstance(each, Mapping)] if isinstance(said, list) else []
        nodes = [each.get("node") for each in people]
        if len(people) != conditions.nodes or not _same(nodes, list(conditions.node_names) or nodes):
            wanted = list(conditions.node_names)
            yield _open("ranks", f"the final line does not have every node once: {_difference(nodes, wanted)}")
        elif any(not _same(each.get("ranks"), conditions.gpus_per_node) for each in people):
            yield _open("ranks", f"the final line does not have {conditions.gpus_per_node} ranks of every node")
    uncounted = [each.get("rank", each.get("node")) for each in people if not is_count(each.get("wrong"))]
    if uncounted:
        yield _open("wrong", f"the final line does not count the wrong result elements of {_listed(uncounted)}")


def _node_number(rank: Any, conditions: Conditions) -> int:
    """The place of the rank's node in the order of nodes; -1 for what is no rank."""
    return rank // conditions.gpus_per_node if is_count(rank) else -1


def _open(metric: str, text: str) -> Check:
    return Check(metric, ok=False, text=text, source="always on", reason=Reason.NO_MEASUREMENT)


def _listed(found: Any) -> str:
    each = [str(one)[:80] for one in (found if isinstance(found, list) else [found])]
    return (", ".join(each[:_NAMED]) or "none") + (f" and {len(each) - _NAMED} more" if len(each) > _NAMED else "")
