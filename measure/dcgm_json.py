"""`dcgmi diag -j` and nvvs JSON of DCGM 2, 3 and 4, `dcgmi mndiag -j`, and the tables of `dcgmi nvlink -e -j`.

The layout moved with every version: the root key, `gpu_ids` as a string, `gpu_id`, `entity_id`, warnings as text or as
objects, skips that explain themselves in `info`. One walk over categories, tests and results serves all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from measure.dcgm_facts import bandwidths, executed, facts_of_messages, status
from measure.draft import Draft
from measure.lenient_json import as_dict, as_list
from measure.model import LogError, LogEvent, Result

ROOTS: Final = ("DCGM GPU Diagnostic", "DCGM Diagnostic", "DCGM Multi-Node Diagnostic")
_VERSIONS: Final = {
    "DCGM Version": "dcgm", "dcgm_version": "dcgm", "Driver Version Detected": "driver", "driver_version": "driver",
}  # fmt: skip


def take(document: dict[str, Any], whole: bool, draft: Draft) -> bool:
    """Read a document of DCGM into the draft; False where it is none."""
    if isinstance(document.get("body"), dict) and "header" in document:
        return _counters(document, draft)
    root = next((key for key in ROOTS if key in document), None)
    if root is None and not as_list(document.get("test_categories")):
        return False
    inner = document[root] if root and isinstance(document[root], dict) else document
    many = "hosts" in document or "hosts" in inner
    draft.formats.append("dcgm-mndiag" if many else "dcgm-json")
    draft.details["root_key"] = root
    for place in (document, as_dict(document.get("metadata")), inner, as_dict(inner.get("metadata"))):
        _facts(place, draft)
    hosts = _hosts(document, inner, draft)
    found = list(_results(inner, hosts, draft))
    draft.results.extend(found)
    for error in _errors(document, inner, hosts):
        draft.error(error)
    draft.details.update(executed(found))
    draft.details.update(facts_of_messages(found))
    if pcie := bandwidths(text for result in found for text in result.info):
        draft.details["pcie_gbps"] = pcie
    if not found:
        draft.cut("the diagnostic has no results")
    del whole
    return True


def _facts(place: dict[str, Any], draft: Draft) -> None:
    for key, name in _VERSIONS.items():
        if isinstance(place.get(key), str):
            draft.versions.setdefault(name, place[key])
    if isinstance(place.get("version"), str):
        draft.details.setdefault("version", place["version"])
    devices = place.get("GPU Device IDs") or place.get("GPU Device IDs Detected")
    if not devices:
        entities = [
            as_dict(e) for group in as_list(place.get("entity_groups")) for e in as_list(as_dict(group).get("entities"))
        ]
        devices = [entity["device_id"] for entity in entities if "device_id" in entity]
    if isinstance(devices, list) and devices:
        draft.details["device_ids"] = [str(device) for device in devices]
        draft.details["gpus"] = len(devices)


def _hosts(document: dict[str, Any], inner: dict[str, Any], draft: Draft) -> dict[Any, str]:
    """Host names by their number."""
    hosts: dict[Any, str] = {}
    for at, entry in enumerate(as_list(document.get("hosts") or inner.get("hosts"))):
        if isinstance(entry, dict):
            _facts(entry, draft)
            hosts[entry.get("host_id", at)] = str(entry.get("hostname", at))
    if hosts:
        draft.hosts.update(dict.fromkeys(hosts.values()))
        draft.nodes = len(hosts)
    return hosts


def _tests(inner: dict[str, Any]) -> Iterator[tuple[str | None, dict[str, Any]]]:
    for category in as_list(inner.get("test_categories")):
        name = as_dict(category).get("category")
        for test in as_list(as_dict(category).get("tests")):
            if isinstance(test, dict) and isinstance(test.get("name"), str):
                yield (str(name) if name else None), test


def _results(inner: dict[str, Any], hosts: dict[Any, str], draft: Draft) -> Iterator[Result]:
    for category, test in _tests(inner):
        entries = [entry for entry in as_list(test.get("results")) if isinstance(entry, dict) and "status" in entry]
        summary = as_dict(test.get("test_summary"))
        if not entries and "status" in summary:
            entries = [summary]
        if isinstance(test.get("status"), str):
            draft.details["status"] = test["status"]
        for entry in entries:
            messages, ids = _messages(entry)
            for gpu in _gpus(entry):
                yield Result(
                    test=test["name"],
                    status=status(str(entry["status"])),
                    gpu=gpu,
                    error="; ".join(messages) or None,
                    host=hosts.get(entry.get("host_id")),
                    category=category,
                    error_ids=tuple(ids),
                    info=tuple(text for text in _texts(entry.get("info"))),
                )


def _gpus(entry: dict[str, Any]) -> list[int | None]:
    """The GPUs an entry speaks of; one None where it names none."""
    if str(entry.get("entity_group", "GPU")).upper() == "GPU" and isinstance(entry.get("entity_id"), int):
        return [entry["entity_id"]]
    for key in ("gpu_ids", "gpu_id", "gpu_list", "gpuIds"):
        if key in entry:
            numbers = re.findall(r"\d+", str(entry[key]))
            if numbers:
                return [int(number) for number in numbers]
    return [None]


def _messages(entry: dict[str, Any]) -> tuple[list[str], list[int]]:
    """Warnings of an entry and the numbers of their errors."""
    texts: list[str] = []
    ids: list[int] = []
    for warning in _as_items(entry.get("warnings", entry.get("warning"))):
        if isinstance(warning, dict):
            texts.append(str(warning.get("warning", "")).strip())
            if isinstance(warning.get("error_id"), int):
                ids.append(warning["error_id"])
        else:
            texts.append(str(warning).strip())
    return [text for text in texts if text], ids


def _texts(value: Any) -> Iterator[str]:
    for item in _as_items(value):
        text = re.sub(r"\s+", " ", str(item)).strip()
        if text:
            yield text


def _as_items(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _errors(document: dict[str, Any], inner: dict[str, Any], hosts: dict[Any, str]) -> Iterator[LogError]:
    """Errors of the diagnostic itself: runtime, MPI, hosts."""
    for place in (document, inner):
        if isinstance(place.get("runtime_error"), str):
            yield LogError(what=place["runtime_error"].strip())
    for _, test in _tests(inner):
        mpi = as_dict(test.get("mpi_error"))
        if mpi.get("warning"):
            yield LogError(what=str(mpi["warning"]).strip(), host=hosts.get(mpi.get("host_id")))
    for place in (document, inner) if inner is not document else (document,):
        for error in as_list(place.get("global_errors")):
            text = str(as_dict(error).get("warning", "")).strip()
            if text.removeprefix("Error:").strip():
                yield LogError(what=text, host=hosts.get(as_dict(error).get("host_id")))


def _counters(document: dict[str, Any], draft: Draft) -> bool:
    """`{"body": {"Link 0": {"children": {name: {"value": "12"}}}}, "header": [title, "GPU 0"]}`."""
    header = [str(item) for item in _as_items(document.get("header"))]
    if not any("NVLINK" in title.upper() or "HEALTH" in title.upper() for title in header):
        return False
    draft.formats.append("dcgm-nvlink" if any("NVLINK" in title.upper() for title in header) else "dcgm-health")
    gpu = next((int(match.group(1)) for title in header if (match := re.search(r"GPU (\d+)", title))), None)
    links: dict[str, dict[str, int]] = {}
    for name, entry in document["body"].items():
        children = as_dict(as_dict(entry).get("children"))
        values = {key: str(as_dict(child).get("value")) for key, child in children.items()}
        counts = {key: int(value) for key, value in values.items() if value.isdigit()}
        if counts:
            links[name] = counts
        elif "value" in as_dict(entry):
            draft.details["overall" if name == "Overall Health" else name] = entry["value"]
        for key, count in counts.items():
            if count:
                draft.event(LogEvent(kind="nvlink", what=f"{key}: {count}", device=f"GPU {gpu} {name}"))
    draft.details.update(gpu=gpu)
    if links:
        draft.details["links"] = links
    return True
