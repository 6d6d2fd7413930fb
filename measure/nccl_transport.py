"""What NCCL's own lines prove about the transport of a job, judged once the whole log is read.

A name that is only the beginning of another one is a torn piece of it and no name. What the log does not say is None,
with one exception: `fallback_to_socket` is True where data between hosts goes, or would go, over NET/Socket, and False
where that is not seen. `gdr` is False where no network channel carries /GDRDMA; `nvls` is True where multicast is there
or NVLS channels are set up; `collnet_sharp` only where CollNet is connected, whatever plugins were loaded.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from measure import nccl_warn

PROVIDER = re.compile(r"^NET/(\w+)[ :]")
"""The network a message is of."""
_LOCAL = re.compile(r"(?:P2P|SHM)(?:/[A-Za-z]+(?: [a-z]+)?)+|direct shared memory")
_NET_PART = re.compile(r"[A-Za-z]\w*(?:=\w+|\([A-Za-z]\w*\))?")
_NUMBER = re.compile(r"\(\d+\)$")


@dataclass(slots=True)
class Facts:
    """What the log says, message by message."""

    networks: Counter[str] = field(default_factory=Counter)
    via: Counter[str] = field(default_factory=Counter)
    listed: dict[str, list[str]] = field(default_factory=dict)
    enabled: dict[str, None] = field(default_factory=dict)
    named: dict[str, None] = field(default_factory=dict)
    version: str | None = None
    channels: int | None = None
    nvls: bool | None = None
    mnnvl: bool | None = None
    collnet_barred: bool = False
    ring_gdr: bool | None = None
    gdr_said: bool | None = None
    nodes: int = 0
    ranks: int = 0
    algorithms: dict[str, None] = field(default_factory=dict)

    def transport(self, *, hosts: int, warned: Sequence[str]) -> dict[str, Any]:
        """The keys of the contract.

        Args:
            hosts: how many hosts write to this log or stand in its header.
            warned: the texts of WARN lines, which name the network and the NIC where nothing else does.
        """
        via = sorted(_whole_names(self.via))
        networks = _whole_names(self.networks)
        plugin = max(networks, key=lambda name: networks[name]) if networks else self._named_network(via, warned)
        out: dict[str, Any] = {
            "nccl_version": self.version,
            "net_plugin": plugin,
            "networks_used": via,
            "devices": self._devices(plugin, warned),
            "gdr": self._gdr(via),
            "nvls": self.nvls,
            "mnnvl": True if "P2P/MNNVL" in via else self.mnnvl,
            "collnet_sharp": self._collnet(via),
            "coll_channels": self.channels,
            "fallback_to_socket": self._socket(via, plugin, hosts),
        }
        if self.algorithms:
            out["algorithms"] = list(self.algorithms)
        return out

    def _named_network(self, via: Sequence[str], warned: Sequence[str]) -> str | None:
        """The network of a log without 'Using network': of its channels, its messages, its list of devices."""
        channels = (name.split("/")[1] for name in via if name.startswith("NET/"))
        messages = (match.group(1) for text in warned if (match := PROVIDER.match(text)))
        return next((name for names in (channels, self.named, self.listed, messages) for name in names), None)

    def _devices(self, plugin: str | None, warned: Sequence[str]) -> list[str]:
        if plugin in self.listed:
            return self.listed[plugin]
        others = [names for network, names in self.listed.items() if network != "Socket"]
        if others and plugin != "Socket":
            return max(others, key=len)
        if self.enabled:
            return list(self.enabled)
        return list(dict.fromkeys(name for text in warned if (name := nccl_warn.device_of(text))))

    def _gdr(self, via: Sequence[str]) -> bool | None:
        leaving = [name for name in via if name.startswith(("NET/", "COLLNET/"))]
        if leaving:
            return any("/GDRDMA" in name for name in leaving)
        return self.ring_gdr if self.ring_gdr is not None else self.gdr_said

    def _collnet(self, via: Sequence[str]) -> bool | None:
        if any(name.startswith("COLLNET/") for name in via):
            return True
        return False if self.collnet_barred else None

    def _socket(self, via: Sequence[str], plugin: str | None, hosts: int) -> bool:
        nets = [name for name in via if name.startswith("NET/")]
        if nets:
            return any(name.startswith("NET/Socket") for name in nets)
        return plugin == "Socket" and (self.nodes > 1 or hosts > 1)


def transport_name(text: str) -> str | None:
    """The transport of a channel line without device and proxy numbers; None for a piece of one."""
    parts = [_NUMBER.sub("", part) for part in text.split("/")]
    kind = parts[0]
    if kind in {"NET", "COLLNET"}:
        if len(parts) < 3 or not parts[2].isdigit() or not all(map(_NET_PART.fullmatch, parts[3:])):
            return None
        return "/".join([kind, parts[1], *parts[3:]])
    if kind == "P2P" and len(parts) > 2 and parts[1] == "indirect":
        return "P2P/indirect"
    return "/".join(parts) if _LOCAL.fullmatch("/".join(parts)) else None


def _whole_names(seen: Counter[str]) -> Counter[str]:
    """Names without those that are the beginning of another one, unless at a `/` and seen more than once."""
    torn = {
        name
        for name in seen
        for other in seen
        if other != name and other.startswith(name) and (seen[name] == 1 or other[len(name)] != "/")
    }
    return Counter({name: count for name, count in seen.items() if name not in torn})
