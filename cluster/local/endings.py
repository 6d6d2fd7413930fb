"""What the ends of the ranks say: who failed first, who only followed, and who was behind when all had to be ended.

Ranks of one collective wait for each other. When one dies the others fail within milliseconds, so those whose own words
blame a peer are put behind the one that says nothing of the kind. When nothing moves any more, the rank that had done
fewer steps than the others is the one they wait for.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cluster.local.rank import Rank
from cluster.model import RankExit

ENDED_BY_US = "ended by clusterproof"
"""How the reason of an exit begins that we brought about: it is no fault of the rank or its node."""

_FOLLOWS = re.compile(r"\bpeer\b|remote (?:worker|process)|Timed out waiting|Broken pipe", re.IGNORECASE)
_ERROR = re.compile(r"^CLUSTERPROOF-ERROR (\{.*\})\s*$", re.MULTILINE)


def complaint(tail: str) -> Mapping[str, Any]:
    """The last `CLUSTERPROOF-ERROR` object in what a rank printed; empty where there is none."""
    for text in reversed(_ERROR.findall(tail)):
        try:
            found = json.loads(text)
        except ValueError:
            continue
        if isinstance(found, dict):
            return found
    return {}


def reason(code: int, tail: str) -> str:
    """Why a rank ended that we did not end: its own words, the signal, or the last line that it printed."""
    if code == 0:
        return ""
    if code < 0:
        return f"killed by signal {-code} ({_signal_name(-code)})"
    said = complaint(tail).get("what") or next((line for line in reversed(tail.splitlines()) if line.strip()), "")
    return f"exited with {code}: {said}" if said else f"exited with {code}"


def order(failed: Iterable[Rank]) -> list[Rank]:
    """Ranks found dead in one look, the likely first one first: killed, failed by itself, failed because of a peer."""

    def key(rank: Rank) -> tuple[int, int]:
        words = str(complaint(rank.last_lines()).get("what") or rank.last_lines())
        return (0 if (rank.code or 0) < 0 else 2 if _FOLLOWS.search(words) else 1, rank.rank)

    return sorted(failed, key=key)


def first(exits: Sequence[RankExit]) -> RankExit | None:
    """The rank that failed first by itself."""
    return min((exit_ for exit_ in exits if exit_.code), key=lambda exit_: exit_.at, default=None)


def behind(exits: Sequence[RankExit]) -> str:
    """Who had done fewer steps than the others when they were ended; empty where nobody says or all are level."""
    steps = {}
    for exit_ in exits:
        said = complaint(exit_.tail)
        if isinstance(said.get("step"), int):
            steps[exit_.rank] = (said["step"], exit_.node, str(said.get("what", "")))
    least = min((step for step, _, _ in steps.values()), default=0)
    late = {rank: said for rank, said in steps.items() if said[0] == least}
    if len(late) == len(steps):
        return ""
    who = ", ".join(f"rank {rank} on {node}" for rank, (_, node, _) in sorted(late.items()))
    _, _, what = next(iter(late.values()))
    return f"{who} behind the others: {what}"


def headline(exit_: RankExit) -> str:
    """`rank 2 on local-2 killed by signal 9 (SIGKILL)`."""
    return f"rank {exit_.rank} on {exit_.node} {exit_.reason}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
