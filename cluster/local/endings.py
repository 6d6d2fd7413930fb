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
BEHIND = f"{ENDED_BY_US}, behind the others"
"""The same of a rank that the others were waiting for."""

_FOLLOWS = re.compile(r"\bpeer\b|remote (?:worker|process)|Timed out waiting|Broken pipe", re.IGNORECASE)
_SAID = re.compile(r"^CLUSTERPROOF-(?:ERROR|ENDED) (\{.*\})\s*$", re.MULTILINE)


def complaint(tail: str) -> Mapping[str, Any]:
    """What our program said at its end: the last such object in what a rank printed; empty where there is none."""
    for text in reversed(_SAID.findall(tail)):
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


def behind(exits: Sequence[RankExit]) -> list[RankExit]:
    """Those that had done fewer steps than the others when they ended; none where nobody says or all are level."""
    steps = {exit_.rank: step for exit_ in exits if isinstance(step := complaint(exit_.tail).get("step"), int)}
    least, most = min(steps.values(), default=0), max(steps.values(), default=0)
    return [exit_ for exit_ in exits if least < most and steps.get(exit_.rank) == least]


def late(exits: Sequence[RankExit]) -> str:
    """`rank 2 on local-2 behind the others: 1.3 s into …`; empty where nobody is."""
    slow = behind(exits)
    who = ", ".join(f"rank {exit_.rank} on {exit_.node}" for exit_ in slow)
    return f"{who} behind the others: {complaint(slow[0].tail).get('what', '')}" if slow else ""


def headline(exit_: RankExit) -> str:
    """`rank 2 on local-2 killed by signal 9 (SIGKILL)`."""
    return f"rank {exit_.rank} on {exit_.node} {exit_.reason}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
