"""NCCL WARN lines: which are errors, whom they name on the other side, and which are only advice.

The text of an error is kept without the peer's address, ports and identifiers of one connection, so that the same fault
reported by many threads is one error. What a message names is a hint: the reporter is rarely the culprit.
"""

from __future__ import annotations

import re
from typing import Final

_ADVICE: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"mismatch recommended",
        r"datatypes? not supported",
        r"call to bind failed: address already in use",
        r"failed to open libibverbs",
        r"could not find|no plugin found|plugin load .* returned",
        r"is deprecated|deprecated and|falling back to|fall back to",
        r"numa auto balancing|iommu=pt|kernel (?:version|command line)",
        r"can(?:not| not) set (?:cpu )?affinity",
        r"recommended|for best performance|may (?:impact|reduce|degrade) performance",
        r"ignoring|ignored|unsupported value|using default",
        r"nvlink? sharp .*not (?:available|supported)",
    )
)
_ADDRESS = re.compile(r"\s*(?<![\w.])(?P<peer>[\w.:%-]*[\w])<\d+>")
_BARE_PEER = re.compile(r"(?:remote peer|from peer|peer|[Cc]onnect(?:ion)? to)\s+(?P<peer>(?:\d{1,3}\.){3}\d{1,3})\b")
_CONNECTION = re.compile(
    r"\s+(?:opcode=\S+|len=\d+|req_type=\S+|req_size=\d+|localGid\s+\S+|remoteGids?:?\s*\S+|reqSize=\d+|wr_id=\S+)"
)
_MARKDOWN = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_FUNCTION = re.compile(r"\((\w+)\)\s*$")
_COMPLETION = re.compile(r"Got CQE with error \(")
_HCA = re.compile(r"\bhca (\w+)")


def is_advice(where: str, text: str) -> bool:
    """Whether a WARN is a recommendation or a missing optional part, not a fault."""
    return where.startswith("ras/") or any(pattern.search(text) for pattern in _ADVICE)


def belongs_to_next(text: str) -> bool:
    """A 'Got CQE with error' line only announces the completion line behind it."""
    return bool(_COMPLETION.search(text))


def peer_of(text: str) -> str | None:
    """The address or host a message names on the other side, without port."""
    match = _ADDRESS.search(text) or _BARE_PEER.search(text)
    return match.group("peer") if match else None


def device_of(text: str) -> str | None:
    """The NIC a completion error names."""
    match = _HCA.search(text)
    return match.group(1) if match else None


def text_of(where: str, text: str) -> str:
    """The message without peer, port and connection; the function that raised it behind it where it adds something."""
    body = _ADDRESS.sub("", _MARKDOWN.sub(r"\1", text))
    body = _BARE_PEER.sub(lambda match: match.group(0).removesuffix(match.group("peer")).rstrip(), body)
    body = _CONNECTION.sub("", body).strip()
    function = _FUNCTION.search(where)
    if function and not body.startswith(function.group(1)):
        body = f"{body} ({function.group(1)})"
    return body
