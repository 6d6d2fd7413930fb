"""What a node's hardware says about a run: counters before and after, identities, and what NCCL really used.

A companion of the programs in this folder, next to which it may lie: they run without it, and with it their result line
carries the proof. It reads files (/sys, NCCL's debug file) and NVML where its Python bindings are there; what a machine
does not have is absent from the answer, never zero. Nothing here judges.

`port_xmit_data` and `port_rcv_data` of InfiniBand count words of 4 bytes (Linux, Documentation/ABI/stable/
sysfs-class-infiniband); an adapter without a counter has "N/A (no PMA)" in its file. `lifespan` is no counter.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SYS = Path("/sys")

# What a counter that moved means. `error`: bits or packets were damaged or lost by a link or an adapter; `retry`: data
# had to be sent again; `congestion`: the network held data back. Others say nothing: completions with errors, for one,
# are what every queue pair ends with.
KINDS: Mapping[str, frozenset[str]] = {
    "error": frozenset(
        {
            "symbol_error",
            "link_error_recovery",
            "link_downed",
            "port_rcv_errors",
            "port_rcv_remote_physical_errors",
            "port_rcv_constraint_errors",
            "port_xmit_constraint_errors",
            "local_link_integrity_errors",
            "excessive_buffer_overrun_errors",
            "req_remote_access_errors",
            "resp_local_length_error",
            "resp_remote_access_errors",
            "req_transport_retries_exceeded",
            "rx_icrc_encapsulated",
            "rx_errors",
            "tx_errors",
            "rx_crc_errors",
            "tx_carrier_errors",
            "carrier_changes",
            "ecc_uncorrected",
            "remapped_rows",
            "nvlink_crc_errors",
            "nvlink_recovery_errors",
        }
    ),
    "retry": frozenset(
        {
            "local_ack_timeout_err",
            "packet_seq_err",
            "implied_nak_seq_err",
            "rnr_nak_retry_err",
            "duplicate_request",
            "roce_adp_retrans",
            "roce_adp_retrans_to",
            "nvlink_replay_errors",
            "pcie_replays",
            "ecc_corrected",
        }
    ),
    "congestion": frozenset(
        {
            "port_xmit_wait",
            "port_xmit_discards",
            "out_of_sequence",
            "out_of_buffer",
            "np_cnp_sent",
            "np_ecn_marked_roce_packets",
            "rp_cnp_handled",
            "rx_dropped",
            "tx_dropped",
        }
    ),
    "traffic": frozenset({"sent_bytes", "received_bytes"}),
}
KIND = {counter: kind for kind, counters in KINDS.items() for counter in counters}
_WORDS_OF_4 = {"port_xmit_data": "sent_bytes", "port_rcv_data": "received_bytes"}
_NET_COUNTERS = ("rx_errors", "tx_errors", "rx_crc_errors", "tx_carrier_errors", "rx_dropped", "tx_dropped")
_NET_BYTES = {"tx_bytes": "sent_bytes", "rx_bytes": "received_bytes"}

Counters = dict[str, dict[str, int]]
"""Device → counter → value."""


def text_of(path: Path) -> str | None:
    """A small file's content; None where it cannot be read (many files of /sys refuse by design)."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def whole(path: Path) -> int | None:
    """A whole number in a file; None where there is none, such as "N/A (no PMA)"."""
    text = text_of(path)
    return int(text) if text and re.fullmatch(r"-?\d+", text) else None


def _known(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


# --- NICs -----------------------------------------------------------------------------------------------------------


def nics(root: Path = SYS) -> tuple[dict[str, dict[str, Any]], Counters]:
    """Adapters of /sys/class/infiniband (InfiniBand, RoCE, Omni-Path, EFA) by `device/port`: facts and counters."""
    facts: dict[str, dict[str, Any]] = {}
    counters: Counters = {}
    for port in sorted((root / "class" / "infiniband").glob("*/ports/*")):
        device = port.parent.parent
        name = f"{device.name}/{port.name}"
        facts[name] = _known(
            {
                "link_layer": text_of(port / "link_layer"),
                "rate_gbps": gbps(text_of(port / "rate")),
                "lanes": text_of(port / "rate"),
                "state": _word(text_of(port / "state")),
                "phys_state": _word(text_of(port / "phys_state")),
                "firmware": text_of(device / "fw_ver"),
                "board": text_of(device / "board_id"),
                "guid": text_of(device / "node_guid"),
                "pci": _pci(device),
                "pcie_width": whole(device / "device" / "current_link_width"),
                "pcie_speed": text_of(device / "device" / "current_link_speed"),
            }
        )
        counters[name] = _port_counters(port)
    return facts, counters


def _port_counters(port: Path) -> dict[str, int]:
    found: dict[str, int] = {}
    for path in sorted([*(port / "counters").glob("*"), *(port / "hw_counters").glob("*")]):
        value = whole(path)
        if value is not None and path.name in _WORDS_OF_4:
            found[_WORDS_OF_4[path.name]] = value * 4
        elif value is not None and path.name in KIND:
            found[path.name] = value
    return found


def gbps(rate: str | None) -> float | None:
    """`40 Gb/sec (4X QDR)` → 40.0."""
    match = re.match(r"([\d.]+) Gb/sec", rate or "")
    return float(match[1]) if match else None


def _word(state: str | None) -> str | None:
    """`4: ACTIVE` → `ACTIVE`."""
    return state.partition(": ")[2] or state if state else None


def _pci(device: Path) -> str | None:
    link = device / "device"
    return link.resolve().name if link.exists() else None


def interfaces(root: Path = SYS, named: Iterable[str] = ()) -> tuple[dict[str, dict[str, Any]], Counters]:
    """Network interfaces that are hardware, or that are `named`; all but the loopback where none is hardware."""
    everyone = [path for path in sorted((root / "class" / "net").glob("*")) if path.is_dir()]
    chosen = set(named)
    mine = [path for path in everyone if (path / "device").exists() or path.name in chosen]
    facts: dict[str, dict[str, Any]] = {}
    counters: Counters = {}
    for path in mine or [path for path in everyone if path.name != "lo"]:
        speed = whole(path / "speed")
        facts[path.name] = _known(
            {
                "mtu": whole(path / "mtu"),
                "gbps": speed / 1000 if speed and speed > 0 else None,  # -1: the driver does not know
                "state": text_of(path / "operstate"),
            }
        )
        values = {name: whole(path / "statistics" / name) for name in _NET_COUNTERS}
        values |= {ours: whole(path / "statistics" / name) for name, ours in _NET_BYTES.items()}
        counters[path.name] = _known({**values, "carrier_changes": whole(path / "carrier_changes")})
    return facts, counters


# --- GPUs -----------------------------------------------------------------------------------------------------------

# Reasons for lowered clocks that NVML reports as bits (nvml.h, nvmlClocksEventReason…), of those that accuse hardware
# or power supply. A GPU at its own power limit under load (0x4) is at work, not ill.
CLOCK_REASONS: Mapping[int, str] = {
    0x8: "hw_slowdown",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "power_brake",
}
NVLINKS = 18
"""The most links that a GPU has."""


class Gpus:
    """This machine's GPUs through NVML. Every question may go unanswered: drivers and products differ."""

    def __init__(self, nvml: Any) -> None:
        """`nvml` is the module `pynvml`, initialised."""
        self._nvml = nvml
        self._handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]

    @classmethod
    def find(cls) -> Gpus | None:
        """None without bindings, driver or GPUs."""
        try:
            import pynvml  # noqa: PLC0415 - optional on purpose

            pynvml.nvmlInit()
            return cls(pynvml)
        except Exception:  # no bindings, no driver, no right to ask: no GPUs to speak of
            return None

    def _ask(self, name: str, *arguments: Any) -> Any:
        try:
            answer = getattr(self._nvml, name)(*arguments)
        except Exception:  # "not supported" has many names
            return None
        return answer.decode() if isinstance(answer, bytes) else answer

    def facts(self) -> dict[str, dict[str, Any]]:
        """`gpu0` → product, identity, PCIe and NVLink width."""
        driver = self._ask("nvmlSystemGetDriverVersion")
        return {f"gpu{index}": self._facts(handle, driver) for index, handle in enumerate(self._handles)}

    def _facts(self, handle: Any, driver: Any) -> dict[str, Any]:
        links = [self._ask("nvmlDeviceGetNvLinkState", handle, link) for link in range(NVLINKS)]
        known = [link for link in links if link is not None]
        return _known(
            {
                "product": self._ask("nvmlDeviceGetName", handle),
                "driver": driver,
                "vbios": self._ask("nvmlDeviceGetVbiosVersion", handle),
                "pcie_width": self._ask("nvmlDeviceGetCurrPcieLinkWidth", handle),
                "pcie_width_max": self._ask("nvmlDeviceGetMaxPcieLinkWidth", handle),
                "pcie_generation": self._ask("nvmlDeviceGetCurrPcieLinkGeneration", handle),
                "nvlinks_up": sum(bool(link) for link in known) if known else None,
                "uuid": self._ask("nvmlDeviceGetUUID", handle),
                "serial": self._ask("nvmlDeviceGetSerial", handle),
                "pci": getattr(self._ask("nvmlDeviceGetPciInfo", handle), "busId", None),
            }
        )

    def counters(self) -> Counters:
        """`gpu0` → ECC errors since the driver was loaded, remapped rows, PCIe replays, errors over all NVLinks."""
        return {f"gpu{index}": self._counters(handle) for index, handle in enumerate(self._handles)}

    def _counters(self, handle: Any) -> dict[str, int]:
        nvml = self._nvml
        rows = self._ask("nvmlDeviceGetRemappedRows", handle)
        ecc = {
            name: self._ask("nvmlDeviceGetTotalEccErrors", handle, getattr(nvml, bit, None), volatile)
            for name, bit in (
                ("ecc_corrected", "NVML_MEMORY_ERROR_TYPE_CORRECTED"),
                ("ecc_uncorrected", "NVML_MEMORY_ERROR_TYPE_UNCORRECTED"),
            )
            if (volatile := getattr(nvml, "NVML_VOLATILE_ECC", None)) is not None
        }
        links = {
            name: self._over_links(handle, getattr(nvml, code, None))
            for name, code in (
                ("nvlink_crc_errors", "NVML_NVLINK_ERROR_DL_CRC_FLIT"),
                ("nvlink_replay_errors", "NVML_NVLINK_ERROR_DL_REPLAY"),
                ("nvlink_recovery_errors", "NVML_NVLINK_ERROR_DL_RECOVERY"),
            )
        }
        return _known(
            {
                **ecc,
                **links,
                "remapped_rows": rows[0] + rows[1] if rows else None,
                "pcie_replays": self._ask("nvmlDeviceGetPcieReplayCounter", handle),
            }
        )

    def _over_links(self, handle: Any, code: Any) -> int | None:
        if code is None:
            return None
        values = [self._ask("nvmlDeviceGetNvLinkErrorCounter", handle, link, code) for link in range(NVLINKS)]
        known = [value for value in values if value is not None]
        return sum(known) if known else None

    def throttled(self) -> dict[str, set[str]]:
        """`gpu0` → why its clocks are lowered at this moment."""
        found = {}
        for index, handle in enumerate(self._handles):
            bits = self._ask("nvmlDeviceGetCurrentClocksEventReasons", handle)
            if bits is None:  # drivers before 535
                bits = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
            found[f"gpu{index}"] = {name for bit, name in CLOCK_REASONS.items() if (bits or 0) & bit}
        return found


# --- NCCL's debug file ----------------------------------------------------------------------------------------------

_INFO = re.compile(r"NCCL (INFO|WARN) (.*)")
_VERSION = re.compile(r"NCCL version (\d\S*)")
_NETWORK = re.compile(r"Using (?:internal )?network (\S.*)", re.IGNORECASE)
_VIA = re.compile(r"^(?:Channel|CollNet|Ring) .* via ([A-Z]\w+/\S.*?)(?: comm 0x.*)?$")
_DEVICES = re.compile(r"^NET/.*?\bUsing (\[0\].*)")
_DEVICE = re.compile(r"\[\d+\]([^\[\]\s;]+)")
_NUMBER = re.compile(r"\d+(?:\(\d+\))?")
_CHANNELS = re.compile(r"^(\d+) coll channels")
_MNNVL = re.compile(r"\bMNNVL ([01])\b")
_ALGORITHM = re.compile(r"^(\w+): \d+ Bytes -> Algo (\w+) proto (\w+)")


def digest(text: str) -> dict[str, Any]:
    """What one rank's NCCL_DEBUG_FILE (NCCL_DEBUG=INFO) says was used; what it does not say is absent."""
    said: dict[str, Any] = {}
    via: dict[str, None] = {}
    errors: dict[str, None] = {}
    algorithms: Counter[tuple[str, str, str]] = Counter()
    for line in text.splitlines():
        match = _INFO.search(line)
        level, body = (match[1], match[2].strip()) if match else ("", line.strip())
        if level == "WARN":
            errors[body] = None
        _note(said, body)
        if found := _VIA.match(body):
            via["/".join(part for part in found[1].split("/") if not _NUMBER.fullmatch(part))] = None
        if found := _ALGORITHM.match(body):
            algorithms[(found[1], found[2], found[3])] += 1
    networks = [name for name in via if name.startswith(("NET/", "COLLNET/"))]
    if via:
        said["networks_used"] = list(via)
        said["fallback_to_socket"] = "NET/Socket" in via
    if networks:
        said["gdr"] = all("/GDRDMA" in name for name in networks)
    if any(name.startswith("COLLNET/") for name in via):
        said["collnet_sharp"] = True
    if algorithms:
        said["algorithms"] = [" ".join(key) for key, _ in algorithms.most_common(4)]
    if errors:
        said["warnings"] = list(errors)[:20]
    return said


def _note(said: dict[str, Any], body: str) -> None:
    """Facts that one line says once and for all."""
    for key, pattern in (("nccl_version", _VERSION), ("net_plugin", _NETWORK)):
        if found := pattern.match(body):
            said.setdefault(key, found[1].strip())
    if found := _DEVICES.match(body):
        names = [name.partition(":")[0] if "<" in name else name for name in _DEVICE.findall(found[1])]
        said.setdefault("devices", names)
    if found := _CHANNELS.match(body):
        said["coll_channels"] = int(found[1])
    if found := _MNNVL.search(body):
        said["mnnvl"] = found[1] == "1"
    if body.startswith("NVLS multicast support is"):
        said["nvls"] = "not available" not in body
    if body.startswith("Connected NVLS tree"):
        said["nvls"] = True


def merge(digests: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[str, Any]:
    """One transport for the run, out of (node, digest) of every rank: the majority, and who differs from it."""
    keys = dict.fromkeys(key for _, said in digests for key in said if key not in {"warnings", "networks_used"})
    merged: dict[str, Any] = {}
    odd: dict[str, list[str]] = {}
    for key in keys:
        values = [(node, said[key]) for node, said in digests if key in said]
        usual = Counter(repr(value) for _, value in values).most_common(1)[0][0]
        merged[key] = next(value for _, value in values if repr(value) == usual)
        different = dict.fromkeys(node for node, value in values if repr(value) != usual)
        if different:
            odd[key] = list(different)
    networks = dict.fromkeys(name for _, said in digests for name in said.get("networks_used", ()))
    fallen = dict.fromkeys(node for node, said in digests if said.get("fallback_to_socket"))
    if networks:
        merged["networks_used"] = list(networks)
        merged["fallback_to_socket"] = bool(fallen)
        merged["fallback_nodes"] = list(fallen)
    if odd:
        merged["differs"] = odd
    return merged


# --- one node's proof -----------------------------------------------------------------------------------------------

_IDENTITY = ("uuid", "serial", "guid", "pci")
"""Facts that differ from node to node by nature."""


def moved(before: Counters, after: Counters) -> list[dict[str, Any]]:
    """Counters that grew, traffic left out, worst kind first. One that shrank was reset and counts from zero."""
    found = []
    for device, values in after.items():
        for counter, value in values.items():
            kind = KIND[counter]
            earlier = before.get(device, {}).get(counter)
            if earlier is None or kind == "traffic":
                continue
            delta = value - earlier if value >= earlier else value
            if delta:
                found.append({"device": device, "counter": counter, "kind": kind, "delta": delta, "after": value})
    ranking = list(KINDS)
    return sorted(found, key=lambda entry: (ranking.index(entry["kind"]), entry["device"], entry["counter"]))


def traffic(before: Counters, after: Counters) -> dict[str, dict[str, int]]:
    """Bytes that each NIC moved: shows which were used."""
    return {
        device: {name: values[name] - before[device][name] for name in KINDS["traffic"] & values.keys()}
        for device, values in after.items()
        if KINDS["traffic"] & values.keys() and KINDS["traffic"] & values.keys() <= before.get(device, {}).keys()
    }


class Node:
    """What one rank of each node watches while the run is on."""

    def __init__(self, root: Path = SYS, gpus: Gpus | None = None, named: Iterable[str] = ()) -> None:
        """Read everything for the first time; `named` are interfaces that the run uses."""
        self._root, self._gpus, self._named = root, gpus, tuple(named)
        self._throttled: dict[str, set[str]] = {}
        self._over = threading.Event()
        _, self._before = self._read()

    def watch(self, interval_s: float = 1.0) -> Node:
        """Look at the GPUs' clocks from now on, for the run's load shows what a look before and after does not."""
        if self._gpus:
            threading.Thread(target=self._sample, args=(interval_s,), daemon=True).start()
        return self

    def _sample(self, interval_s: float) -> None:
        while self._gpus and not self._over.is_set():
            for gpu, reasons in self._gpus.throttled().items():
                self._throttled.setdefault(gpu, set()).update(reasons)
            self._over.wait(interval_s)

    def _read(self) -> tuple[dict[str, dict[str, Any]], Counters]:
        facts, counters = nics(self._root)
        for more_facts, more_counters in (
            interfaces(self._root, self._named),
            (self._gpus.facts(), self._gpus.counters()) if self._gpus else ({}, {}),
        ):
            facts |= more_facts
            counters |= more_counters
        return facts, counters

    def proof(self) -> dict[str, Any]:
        """Read all again: `shape` (what equal machines share), `identity`, `moved`, `traffic`, `throttled`."""
        self._over.set()
        facts, after = self._read()
        identity = {device: {key: fact[key] for key in _IDENTITY if key in fact} for device, fact in facts.items()}
        shape = {device: {key: fact[key] for key in fact if key not in _IDENTITY} for device, fact in facts.items()}
        throttled = {gpu: sorted(reasons) for gpu, reasons in self._throttled.items() if reasons}
        return {
            "shape": shape,
            "identity": {device: known for device, known in identity.items() if known},
            "moved": moved(self._before, after),
            "traffic": traffic(self._before, after),
            "throttled": throttled,
        }


def gather(proofs: Mapping[str, Mapping[str, Any]], *, identities: bool = True) -> dict[str, Any]:
    """The proofs of all nodes for the result line: equal shapes once, the most common first; the rest by node."""
    shapes: dict[str, dict[str, Any]] = {}
    for node, proof in proofs.items():
        group = shapes.setdefault(repr(proof["shape"]), {"nodes": [], "shape": proof["shape"]})
        group["nodes"].append(node)
    by_node = {
        key: {node: proof[key] for node, proof in proofs.items() if proof[key]}
        for key in ("moved", "throttled", "identity", "traffic")
        if identities or key in {"moved", "throttled"}
    }
    return {"shapes": sorted(shapes.values(), key=lambda group: -len(group["nodes"])), **by_node}


# --- for the programs ------------------------------------------------------------------------------------------------


class DebugFile:
    """NCCL's own log of this rank in a file, so that standard output stays small; warnings are passed on at once."""

    def __init__(self, env: MutableMapping[str, str]) -> None:
        """Before NCCL starts. Whoever asked for another level or file keeps it, and the log is not ours to read.

        Where no folder can be written to (a read-only container) nothing is asked for.
        """
        self._path: Path | None = None
        self._offset = 0
        try:
            folder = Path(tempfile.gettempdir())
        except OSError:
            return
        if env.setdefault("NCCL_DEBUG", "INFO") == "INFO" and "NCCL_DEBUG_FILE" not in env:
            self._path = folder / f"clusterproof-nccl-{os.getpid()}.log"
            env["NCCL_DEBUG_FILE"] = str(self._path)

    def warnings(self) -> list[str]:
        """The lines with warnings that were completed since the last call."""
        if self._path is None or not self._path.is_file():
            return []
        with self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        whole_lines = data.rfind(b"\n") + 1
        self._offset += whole_lines
        return [line for line in data[:whole_lines].decode(errors="replace").splitlines() if "NCCL WARN" in line]

    def take(self) -> str:
        """All of it; the file is removed."""
        if self._path is None or not self._path.is_file():
            return ""
        text = self._path.read_text(encoding="utf-8", errors="replace")
        self._path.unlink()
        return text


class Proof:
    """One rank's part. A file of /sys that nobody has seen yet must not cost a measurement: trouble is only noted."""

    def __init__(self, env: MutableMapping[str, str]) -> None:
        """Before NCCL starts."""
        self._debug = DebugFile(env)
        self._node: Node | None = None
        self._trouble = ""

    def watch(self, *, gpus: bool, interfaces: Iterable[str]) -> None:
        """Watch this node from now on; one rank of each node does."""
        with self._noted():
            self._node = Node(gpus=Gpus.find() if gpus else None, named=interfaces).watch()

    def relay(self) -> None:
        """Pass on what NCCL warned of."""
        with self._noted():
            for line in self._debug.warnings():
                sys.stderr.write(f"{line}\n")

    def statement(self, node: str) -> dict[str, Any]:
        """What this rank says at the end."""
        said: dict[str, Any] = {"node": node, "proof": None, "digest": {}}
        with self._noted():
            said["digest"] = digest(self._debug.take())
        with self._noted():
            said["proof"] = self._node.proof() if self._node else None
        return said | {"trouble": self._trouble}

    def merge(self, statements: Sequence[Mapping[str, Any]], identities: bool) -> dict[str, Any]:
        """`transport` and `proof` for the result line, out of the statements of all ranks."""
        with self._noted():
            proofs = {said["node"]: said["proof"] for said in statements if said["proof"]}
            troubles = {said["node"]: said["trouble"] for said in statements if said["trouble"]}
            proof = gather(proofs, identities=identities) | ({"troubles": troubles} if troubles else {})
            return {"transport": merge([(said["node"], said["digest"]) for said in statements]), "proof": proof}
        return {"proof": {"troubles": {"merging": self._trouble}}}

    def close(self) -> None:
        """The rank ends early: pass on the last warnings, leave no file."""
        self.relay()
        with self._noted():
            self._debug.take()

    @contextmanager
    def _noted(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._trouble = f"{type(error).__name__}: {error}"
