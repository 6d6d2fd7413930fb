"""NCCL's own log (NCCL_DEBUG=INFO or WARN): the transport it really used, and the errors it names.

Facts count only from whole messages: a line into which another writer's line was torn gives up its torn half. What the
messages prove together is judged in `nccl_transport`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from measure import nccl_warn
from measure.draft import FACT, MAX_KEPT, PASS, SEEN, Draft
from measure.lines import Line
from measure.model import LogError
from measure.nccl_transport import PROVIDER, Facts, transport_name

_STAMP = r"(?:\[\d{4}-\d\d-\d\d[ T][\d:.,]+\] ?)?"
_PREFIX = re.compile(
    rf"(?:^|(?<=[\s>|\])])){_STAMP}(?:\[\d+\] )?([\w.-]+):(\d+)(?::(\d+))? \[(\d+)\] "
    r"(?:(\S[^\n]*?) )?NCCL (INFO|WARN) (.*)"
)
_NESTED = re.compile(r"[\w.-]+:\d+(?::\d+)? \[\d+\] (?:\S+ (?:\(\w+\) )?)?NCCL (?:INFO|WARN) ")
_VERSION = re.compile(r"^R?N?CCL version:? (\d+\.\d+\S*)(?: HEAD:\S+)?\s*$")
_NETWORK = re.compile(r"^Using (?:internal )?[Nn]etwork (\S.*?)\s*$")
_VIA = re.compile(r"^(?:Channel|CollNet|Ring) .* via (\S.*?)\s*$")
_USING = re.compile(r"^NET/(\w[\w ]*?)(?: : | [\dT:.+-]{20,}: |: )Using (\[0\].*)$")
_INTERFACE = re.compile(r"^NET : Using interface ([\w.-]+):\S+<\d+>$")
_RCCL_TAIL = re.compile(r" comm 0x[0-9a-f]+ n[rR]anks \d+$")
_TAG = re.compile(r"\[\d+,(\d+)\]|\[rank(\d+)\]|\brank=(\d+)\b")
_DEVICE = re.compile(r"\[(\d+)\]([^\[\]\s;]+)")
_ENABLED = re.compile(r"Enabled for HCA \d+ '([^']+)'")
_COMM = re.compile(r"\brank (\d+) n[rR]anks (\d+)(?: nNodes (\d+))?")
_COMM_RANK = re.compile(r"\bcomm 0x[0-9a-f]+ rank (\d+)\b")
_FROM_RANK = re.compile(r"\bfrom rank (\d+)\b")
_MNNVL = re.compile(r"\bMNNVL ([01])(?!\w)")
_CHANNELS = re.compile(r"^(\d+) coll channels, (?:(?:\d+ collnet channels, )?(\d+) nvls channels, )?.*p2p channels")
_RING = re.compile(r"use ring PXN \d+ GDR ([01])\b")
_NVLS_ON = re.compile(r"^NVLS multicast support is available|^NVLS (?:Head|comm)\b|^Connected NVLS tree")
_NVLS_OFF = re.compile(r"^NVLS multicast support is not available")
_NO_COLLNET = re.compile(r"\b0 CollNet devices$|CollNet device counts across ranks: min 0 max 0")
_MATRIX_HEAD = re.compile(r"^\s*Function \|.*\|(.*CollNet.*?)\|?\s*$")
_MATRIX_ROW = re.compile(r"^\s*(?:Broadcast|Reduce|AllGather|ReduceScatter|AllReduce) \|[^|]*\|([\s\d]+)\|?\s*$")
_GDR_OFF = re.compile(r"GPU Direct RDMA Disabled|GPUDirect RDMA (?:is )?(?:disabled|not)")
_GDR_ON = re.compile(r"GPU Direct RDMA Enabled")
_ALGORITHM = re.compile(r"\b(\w+): \d+ Bytes -> Algo (\w+) proto (\w+)")
_NO_HOST = re.compile(r"[\d.:-]*|\d{4}-\d\d-\d\d.*")
_ADDRESS = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")
_HEAD = re.compile(r"(?:^|[ :>])([\w.-]+):(\d+)$")
_MAX_HEADS: Final = 200_000
_ENOUGH: Final = 3
"""Sightings of a transport after which another one says nothing new."""


@dataclass(frozen=True, slots=True)
class _Warning:
    """A WARN line before its rank is known."""

    host: str
    process: str
    thread: str
    where: str
    text: str


class NcclInfo:
    """Reader of NCCL's log lines."""

    marks = ("NCCL ", "RCCL version", "Function |", " |  ")

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._facts = Facts()
        self._hosts: dict[str, set[str]] = {}
        self._written: Counter[str] = Counter()
        self._heads: Counter[bytes] = Counter()
        self._ranks: dict[tuple[str, str], int] = {}
        self._tagged: dict[tuple[str, str], int] = {}
        self._guesses: dict[tuple[str, str], int] = {}
        self._seen_ranks: set[int] = set()
        self._warnings: dict[_Warning, None] = {}
        self._matrix: list[str] = []
        self._lines = 0
        self._takers: tuple[tuple[str, re.Pattern[str], Callable[[re.Match[str]], int]], ...] = (
            (" via ", _VIA, self._take_via),
            ("etwork ", _NETWORK, self._take_network),
            ("coll channels", _CHANNELS, self._take_channels),
            ("Using [0]", _USING, self._take_devices),
            ("CCL version", _VERSION, self._take_version),
            ("Using interface", _INTERFACE, self._take_interface),
            ("NVLS", _NVLS_ON, lambda _: self._say("nvls", value=True)),
            ("NVLS", _NVLS_OFF, lambda _: self._say("nvls", value=self._facts.nvls or False)),
            ("CollNet", _NO_COLLNET, lambda _: self._say("collnet_barred", value=True)),
            ("GDR", _RING, self._take_ring),
            ("Enabled for HCA", _ENABLED, self._take_enabled),
            ("RDMA", _GDR_ON, lambda _: self._say("gdr_said", value=True)),
            ("RDMA", _GDR_OFF, lambda _: self._say("gdr_said", value=bool(self._facts.gdr_said))),
            ("NET/", PROVIDER, self._take_provider),
            ("-> Algo", _ALGORITHM, self._take_algorithm),
        )

    def feed(self, line: Line) -> int:
        """Take a line."""
        body = line.body
        if "NCCL " not in body:
            return self._matrix_line(body) if "|" in body else PASS
        if body.count("NCCL INFO ") + body.count("NCCL WARN ") > 1:
            body = _last_message(body)
            match = _PREFIX.search(body)
            # The host in front of a glued line may carry the end of the torn one: it is not taken.
            return self._message(match, known_host=False) if match and line.whole else FACT
        match = _PREFIX.search(body)
        if match:
            if line.source and (tag := _TAG.search(line.source)):
                # A launcher's tag names the rank where NCCL itself does not.
                rank = next(int(number) for number in tag.groups() if number is not None)
                self._tagged.setdefault((match.group(1), match.group(2)), rank)
            return self._message(match, known_host=True) if line.whole else FACT
        if version := _VERSION.match(body):
            return self._take_version(version)
        return PASS

    def sample(self, lines: list[bytes]) -> bool:
        """Note who writes in a block, also in lines that say nothing new; True where someone new was found."""
        known = len(self._heads)
        if known < _MAX_HEADS:
            # `host:process` of each line, with what a launcher glued in front of it, without time stamps.
            self._heads.update(
                Counter(
                    raw[: raw.find(b" [")].rpartition(b":")[0].rpartition(b" ")[2] for raw in lines if b" NCCL " in raw
                )
            )
        return len(self._heads) > known

    def _host(self, host: str, process: str, lines: int = 1) -> None:
        """A host that writes lines itself."""
        if not _is_host(host):
            return
        self._written[host] += lines
        processes = self._hosts.setdefault(host, set())
        if len(processes) < 4096:
            processes.add(process)

    def _message(self, match: re.Match[str], *, known_host: bool) -> int:
        host, process, thread, _, where, level, text = match.groups()
        self._lines += 1
        if known_host:
            self._host(host, process)
        if level == "WARN":
            if len(self._warnings) >= MAX_KEPT:
                return SEEN
            self._warnings.setdefault(_Warning(host, process, thread or process, where or "", text.strip()))
            self._who(host, process, text)
            return FACT
        taken = self._who(host, process, text)
        for mark, pattern, take in self._takers:
            if mark in text and (found := pattern.search(text)):
                return max(take(found), taken)
        return max(taken, SEEN)

    def _who(self, host: str, process: str, text: str) -> int:
        """Ranks, nodes and MNNVL from a line about a communicator."""
        if mnnvl := _MNNVL.search(text):
            self._facts.mnnvl = bool(self._facts.mnnvl) or mnnvl.group(1) == "1"
        if "rank" not in text:
            return FACT if mnnvl else PASS
        if match := _COMM.search(text):
            rank, ranks, nodes = int(match.group(1)), int(match.group(2)), int(match.group(3) or 0)
            if ranks > self._facts.ranks:
                self._facts.ranks = ranks
                self._seen_ranks.clear()
            if ranks == self._facts.ranks:
                # The rank in the largest communicator is the rank of the job.
                self._ranks[host, process] = rank
                self._seen_ranks.add(rank)
                self._facts.nodes = max(self._facts.nodes, nodes)
            return FACT
        if match := _COMM_RANK.search(text):
            self._guesses.setdefault((host, process), int(match.group(1)))
            return FACT
        if match := _FROM_RANK.search(text):
            self._guesses.setdefault((host, process), int(match.group(1)))
        return PASS

    def _say(self, fact: str, *, value: bool) -> int:
        setattr(self._facts, fact, value)
        return SEEN

    def _take_via(self, match: re.Match[str]) -> int:
        name = transport_name(_RCCL_TAIL.sub("", match.group(1)))
        if name is None:
            return FACT
        self._facts.via[name] += 1
        return FACT if self._facts.via[name] < _ENOUGH else SEEN

    def _take_network(self, match: re.Match[str]) -> int:
        name = match.group(1)
        self._facts.networks[name] += 1
        return FACT if self._facts.networks[name] < _ENOUGH else SEEN

    def _take_ring(self, match: re.Match[str]) -> int:
        self._facts.ring_gdr = bool(self._facts.ring_gdr) or match.group(1) == "1"
        return FACT

    def _take_channels(self, match: re.Match[str]) -> int:
        if self._facts.channels is None:
            self._facts.channels = int(match.group(1))
        if match.group(2) is not None:
            self._facts.nvls = bool(self._facts.nvls) or int(match.group(2)) > 0
        # Only digits tell a communicator with NVLS from one without: every such line is read.
        return FACT

    def _take_devices(self, match: re.Match[str]) -> int:
        network, text = match.groups()
        # A list is whole when what NCCL prints behind it is there: the out-of-band interface, or the last port.
        if "OOB" not in text and not text.rstrip().endswith((">", "]")) and "/" not in text:
            return FACT
        found = _DEVICE.findall(text.partition(" [RO]")[0].partition("; OOB")[0])
        if [int(at) for at, _ in found] != list(range(len(found))):
            return FACT
        names = [name.partition(":")[0] if "<" in name else name for _, name in found]
        if len(names) > len(self._facts.listed.get(network, [])):
            self._facts.listed[network] = names
        return FACT

    def _take_interface(self, match: re.Match[str]) -> int:
        names = self._facts.listed.setdefault("Socket", [])
        if match.group(1) not in names and len(names) < 64:
            names.append(match.group(1))
        return FACT

    def _take_version(self, match: re.Match[str]) -> int:
        if self._facts.version is None:
            self._facts.version = match.group(1)
        return SEEN

    def _take_enabled(self, match: re.Match[str]) -> int:
        self._facts.enabled.setdefault(match.group(1))
        self._facts.gdr_said = True
        return FACT

    def _take_provider(self, match: re.Match[str]) -> int:
        if match.group(1) not in {"Plugin", "Socket"} and len(self._facts.named) < 64:
            self._facts.named.setdefault(match.group(1))
        return SEEN

    def _take_algorithm(self, match: re.Match[str]) -> int:
        if len(self._facts.algorithms) < 64:
            self._facts.algorithms.setdefault("/".join(match.groups()))
        return FACT

    def _matrix_line(self, body: str) -> int:
        if head := _MATRIX_HEAD.match(body):
            self._matrix = head.group(1).split()
            self._draft.generation += 1
            return FACT
        if self._matrix and (row := _MATRIX_ROW.match(body)):
            cells = row.group(1).split()
            if len(cells) == len(self._matrix):
                on = any(cell != "0" for name, cell in zip(self._matrix, cells, strict=True) if "CollNet" in name)
                self._facts.collnet_barred = not on
            return FACT
        return PASS

    def finish(self) -> None:
        """Write transport and errors into the draft."""
        facts, draft = self._facts, self._draft
        if facts.version:
            draft.versions.setdefault("nccl", facts.version)
        if not self._lines:
            if facts.version:
                draft.transport.setdefault("nccl_version", facts.version)
            return
        draft.formats.append("nccl-info")
        self._write_hosts()
        self._write_errors()
        warned = [warning.text for warning in self._warnings]
        for key, value in facts.transport(hosts=len(draft.hosts), warned=warned).items():
            draft.transport.setdefault(key, value)
        draft.transport["hosts"] = list(draft.hosts)
        if facts.ranks:
            draft.ranks = draft.ranks or facts.ranks
        if not draft.nodes:
            everyone = facts.ranks and len(self._seen_ranks) == facts.ranks
            draft.nodes = facts.nodes or (len(draft.hosts) if everyone else None)

    def _write_hosts(self) -> None:
        """All hosts but those that are a name with a piece torn off or glued on: the same process has another name."""
        for head, lines in self._heads.items():
            if match := _HEAD.search(head.decode("utf-8", "replace")):
                self._host(match.group(1), match.group(2), lines)
        by_process: dict[str, list[str]] = {}
        for host, processes in self._hosts.items():
            for process in processes:
                by_process.setdefault(process, []).append(host)
        torn: set[str] = set()
        for names in by_process.values():
            for one, other in combinations(names, 2):
                if one.endswith(other) or other.endswith(one):
                    torn.add(min(one, other, key=lambda name: self._written[name]))
        for host in self._hosts:
            if host not in torn:
                self._draft.hosts.setdefault(host)

    def _write_errors(self) -> None:
        completed = {(w.host, w.process, w.thread) for w in self._warnings if "Got completion" in w.text}
        for warning in self._warnings:
            if nccl_warn.is_advice(warning.where, warning.text):
                self._draft.warn(f"{warning.where} NCCL WARN {warning.text}")
                continue
            if nccl_warn.belongs_to_next(warning.text) and (warning.host, warning.process, warning.thread) in completed:
                continue
            key = (warning.host, warning.process)
            self._draft.error(
                LogError(
                    rank=self._ranks.get(key, self._guesses.get(key, self._tagged.get(key))),
                    host=warning.host,
                    peer=nccl_warn.peer_of(warning.text),
                    what=nccl_warn.text_of(warning.where, warning.text),
                )
            )


def _last_message(body: str) -> str:
    """The last of several messages glued into one line: the only one whose end is its own."""
    starts = [match.start() for match in _NESTED.finditer(body)]
    return body[starts[-1] :] if starts else body


def _is_host(name: str) -> bool:
    """A number or a date in front of a colon is a piece of something else, unless it is an address."""
    return not _NO_HOST.fullmatch(name) or bool(_ADDRESS.fullmatch(name))
