"""Certifies simulation files as a user does, many in one process, and says what the report found in one small mapping.

pytest is started by its own API in this process: real options, settings, cases, engine, planner, judge and report. Only
Allure's files are left out: their charts cost ten times all the rest. What was found is told in the words of
docs/examples/expect.yaml, so that the two can be compared as they are.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import HOUSE

EXAMPLES = HOUSE / "docs" / "examples"
ACCUSED = frozenset({"suspect", "intermittent"})
Finding = tuple[Any, ...]
"""A cause as it is compared: `("suspect", "node-011", "fabric", 3)`, `("link", "rack-3", "rack-5", "rack")` …"""


@dataclass(frozen=True)
class Certified:
    """What one session left."""

    code: int
    report: Mapping[str, Any]
    output: str

    @property
    def found(self) -> set[Finding]:
        """Every cause that the report names, in any case, and every node that it accuses by whatever cases."""
        named = {finding for case in self.report["cases"] for finding in findings(case)}
        return named | {("accused", node["name"]) for node in self.report["nodes"] if node["verdict"] in ACCUSED}

    def case(self, part: str) -> Mapping[str, Any]:
        """The one case whose id contains `part`."""
        (found,) = (case for case in self.report["cases"] if part in case["id"])
        return found  # type: ignore[no-any-return]


def certify(simulation: Path, folder: Path, *arguments: str) -> Certified:
    """`pytest -m communication --cluster simulated --simulation F ARGUMENTS` in this process."""
    output = io.StringIO()
    before = Path.cwd()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        os.chdir(HOUSE)
        try:
            code = pytest.main(
                [
                    *(
                        "-q",
                        "--assert=plain",
                        "-p",
                        "no:cacheprovider",
                        "-p",
                        "no:allure_pytest",
                        "-m",
                        "communication",
                    ),
                    *("-m", "communication", "--cluster", "simulated", f"--simulation={simulation}"),
                    f"--report-dir={folder}",
                    *arguments,
                ]
            )
        finally:
            os.chdir(before)
    file = folder / "report.json"
    report = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return Certified(int(code), report, output.getvalue())


def findings(case: Mapping[str, Any]) -> Iterator[Finding]:
    """What one case of a report says is to blame, or is not to be blamed on anybody."""
    isolation = case.get("isolation")
    yield from _of_events(case)
    if case["verdict"] == "error" and "Pending" in case["message"]:
        yield from (("unschedulable", event["node"]) for event in case["events"])
    if isolation is None:
        if case["verdict"] == "inconclusive":
            yield ("inconclusive",)
        return
    yield from _isolated(isolation, case)


def _of_events(case: Mapping[str, Any]) -> Iterator[Finding]:
    words = {"health": "unhealthy", "lost": "lost"}
    yield from ((words[event["kind"]], event["node"]) for event in case["events"] if event["kind"] in words)


def _isolated(found: Mapping[str, Any], case: Mapping[str, Any]) -> Iterator[Finding]:
    for suspect in found["suspects"]:
        if suspect["reason"] == "HardwareFailureDetected":
            yield ("unhealthy", suspect["node"])
        else:
            yield ("suspect", suspect["node"], suspect["layer"], suspect.get("rail"))
    yield from (("lost", node) for node in found["nodes"].get("lost", ()))
    yield from (("link", *link["between"], link["level"]) for link in found["links"])
    yield from (("domain", domain["name"]) for domain in found["domains"])
    yield from (("set", *group) for group in found["sets"])
    if found.get("scale"):
        yield ("scale", found["scale"]["smallest_failing"])
    if found["systemic"]:
        yield ("systemic",)
    if found["transient"]:
        yield ("not reproduced", case["entry"])
    if found["limit"]:
        yield ("limit",)


def expected(wanted: Mapping[str, Any]) -> Iterator[Finding]:
    """The causes that a mapping of expect.yaml (or its `masked` part) asks for."""
    for suspect in wanted.get("suspects", ()):
        yield ("suspect", suspect["node"], suspect["layer"], suspect.get("rail"))
        yield ("accused", suspect["node"])
    yield from (("accused", name) for name in wanted.get("unhealthy", ()))
    yield from (("link", *link["between"], link["level"]) for link in wanted.get("links", ()))
    yield from (("domain", name) for name in wanted.get("domains", ()))
    yield from (("unhealthy", name) for name in wanted.get("unhealthy", ()))
    yield from (("lost", name) for name in wanted.get("lost", ()))
    yield from (("unschedulable", name) for name in wanted.get("unschedulable", ()))
    yield from (("not reproduced", entry) for entry in wanted.get("not_reproduced", ()))
    if "scale" in wanted:
        yield ("scale", wanted["scale"])
    if wanted.get("systemic"):
        yield ("systemic",)
    if wanted.get("inconclusive"):
        yield ("inconclusive",)


def differences(found: Iterable[Finding], wanted: Mapping[str, Any]) -> list[str]:
    """What is missing and what is too much; empty where the report names exactly what it should."""
    named, must, may = set(found), set(expected(wanted)), set(expected(wanted.get("masked", {})))
    return [f"missing: {each}" for each in sorted(must - named, key=str)] + [
        f"too much: {each}" for each in sorted(named - must - may, key=str)
    ]
