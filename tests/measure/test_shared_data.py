"""Every shared real-world sample against the values read by hand beside it, key by key."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from measure.__main__ import main

ROOT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("CLUSTERPROOF_SHARED") or ROOT.parent / "shared") / "data"
KINDS = ("nccl", "nccl-info", "mpi-perftest", "training", "dcgm")
SAMPLES = sorted(
    path
    for kind in KINDS
    for path in (SHARED / kind).glob("*")
    if path.suffix == ".log" or (path.suffix == ".json" and path.with_suffix(".expect.json").exists())
)

pytestmark = pytest.mark.skipif(
    not SAMPLES, reason=f"no shared samples at {SHARED} (CLUSTERPROOF_SHARED names another place)"
)

Differences = list[str]


def _same(where: str, expected: Any, found: Any, out: Differences) -> None:
    if isinstance(expected, float | int) and not isinstance(expected, bool):
        if not isinstance(found, float | int) or abs(found - expected) > 1e-9 * max(1.0, abs(expected)):
            out.append(f"{where}: expected {expected!r}, found {found!r}")
    elif expected != found:
        out.append(f"{where}: expected {expected!r}, found {found!r}")


def _cell(where: str, expected: dict[str, Any], found: dict[str, Any] | None, out: Differences) -> None:
    for key, value in expected.items():
        if key == "error":  # the fork's JSON: its error is a number or N/A, ours is kept as it was printed
            _same(f"{where}.error_raw", str(value), (found or {}).get("error_raw"), out)
        else:
            _same(f"{where}.{key}", value, (found or {}).get(key), out)


def _nccl_table(at: int, expected: dict[str, Any], found: dict[str, Any], collective: Any, out: Differences) -> None:
    _same(f"tables[{at}].n_rows", expected["n_rows"], len(found["rows"]), out)
    for n, (want, got) in enumerate(zip(expected["rows"], found["rows"], strict=False)):
        for key, value in want.items():
            where = f"tables[{at}].rows[{n}].{key}"
            if key in {"out_of_place", "in_place"}:
                _cell(where, value, got[key], out)
            else:
                _same(where, value, got[key], out)
    if "out_of_bounds" in expected:
        _same(f"tables[{at}].out_of_bounds", expected["out_of_bounds"], found["out_of_bounds"], out)
    if "avg_bus_bandwidth" in expected:
        _same(f"tables[{at}].avg_busbw", expected["avg_bus_bandwidth"], found["avg_busbw"], out)
    if "avg_flag" in expected:
        _same(f"tables[{at}].avg_flag", expected["avg_flag"], found["avg_flag"], out)
    if isinstance(expected.get("complete"), bool):
        _same(f"tables[{at}].complete", expected["complete"], found["complete"], out)
    if "collective" in expected:
        _same("collective", expected["collective"], collective, out)


# Nodes and GPUs of these samples were known from the page around them and are not in their text.
_NOT_IN_TEXT = {"04", "18", "24"}


def _nccl(name: str, expected: dict[str, Any], found: dict[str, Any], out: Differences) -> None:
    if "tool" in expected:
        _same("tool", expected["tool"], found["tool"], out)
        _same("tables", [], found["tables"], out)
        return
    if "collective" in expected:
        _same("collective", expected["collective"].split(" ")[0], found["collective"], out)
    for key, ours in (("nodes", "nodes"), ("gpus", "ranks")):
        if key in expected and name[:2] not in _NOT_IN_TEXT and not (name[:2] == "30" and key == "nodes"):
            _same(ours, expected[key], found[ours], out)
    for key in ("validation", "independent_runs", "gpu"):
        if key in expected:
            _same(f"details.{key}", expected[key], found["details"].get(key), out)
    if "hosts" in expected:
        _same("hosts", sorted(expected["hosts"]), sorted(found["hosts"]), out)
    _same("number of tables", len(expected["tables"]), len(found["tables"]), out)
    for at, (want, got) in enumerate(zip(expected["tables"], found["tables"], strict=False)):
        _nccl_table(at, want, got, found["collective"], out)


def _nccl_info(name: str, expected: dict[str, Any], found: dict[str, Any], out: Differences) -> None:
    for key, value in expected.items():
        if key == "errors":
            _same("errors", value, found["errors"], out)
        elif key == "hosts":
            _same("hosts", value, found["hosts"], out)
        elif key != "note":
            _same(f"transport.{key}", value, found["transport"].get(key), out)


_COLUMNS = {"bytes": "size", "iters": "iterations"}
_UCC = {"t_avg": "t_avg_us", "t_min": "t_min_us", "t_max": "t_max_us"} | {
    f"bw_{kind}": f"bw_{kind}_GBps" for kind in ("avg", "min", "max")
}


def _tool(name: str, expected: dict[str, Any], found: dict[str, Any], out: Differences) -> None:
    _same("tool", expected["tool"], found["tool"], out)
    (table,) = found["tables"]
    _same("rows", len(expected["rows"]), len(table["rows"]), out)
    for n, (want, got) in enumerate(zip(expected["rows"], table["rows"], strict=False)):
        for key, value in want.items():
            _same(f"rows[{n}].{key}", value, got.get(_COLUMNS.get(key, _UCC.get(key, key))), out)
    if "unit" in expected:
        _same("unit", expected["unit"], table["unit"], out)
    if "version" in expected:
        _same("versions", expected["version"], found["versions"].get(expected["tool"]), out)
    if "collective" in expected:
        _same("collective", expected["collective"].lower(), found["collective"], out)
    for key in ("buffers", "qps", "link_type", "device"):
        if key in expected:
            _same(f"details.{key}", expected[key], found["details"].get(key), out)


_STEP = {
    "iteration": "step", "step_time_s": "time_s", "tflops": "tflops_per_gpu", "tflops_per_device": "tflops_per_gpu",
    "train_loss": "loss", "tps": "tokens_per_s", "tokens_per_s_per_device": "tokens_per_s",
}  # fmt: skip


def _training(name: str, expected: dict[str, Any], found: dict[str, Any], out: Differences) -> None:
    _same("format", expected["framework"], found["format"], out)
    steps = found["steps"]
    if "iterations" in expected:
        _same("number of steps", len(expected["iterations"]), len(steps), out)
        for n, (want, got) in enumerate(zip(expected["iterations"], steps, strict=False)):
            for key, value in want.items():
                if key == "step_time_ms":
                    _same(f"steps[{n}].time_s", value / 1e3, got["time_s"], out)
                else:
                    _same(f"steps[{n}].{key}", value, got.get(_STEP.get(key, key)), out)
    for key in ("watchdog", "runs", "eval", "ended"):
        if key in expected:
            _same(f"details.{key}", expected[key], found["details"].get(key), out)


_STATUS = {"PASS": "pass", "SKIP": "skip", "FAIL": "fail", "WARN": "warn", "ERROR": "error", "NOT RUN": "not_run"}


def _status(word: str) -> str:
    return _STATUS[word.split(" - ", maxsplit=1)[0].split(" (", maxsplit=1)[0].upper()]


_BANDWIDTHS = ("gpu_to_host_gbps", "host_to_gpu_gbps", "bidirectional_gbps")


def _dcgm_tests(
    expected: dict[str, Any], results: list[dict[str, Any]], details: dict[str, Any], out: Differences, only: int | None
) -> None:
    for name, value in expected.items():
        category, _, test = (
            name.partition("/") if name.partition("/")[::2][1] and name.split("/")[0] in _CATEGORIES else ("", "", name)
        )
        mine = [r for r in results if r["test"] == test and (not category or r["category"] == category)]
        for gpus, status in (value if isinstance(value, dict) else {"": value}).items():
            if isinstance(status, dict) and "status" not in status:  # bandwidths of one GPU, no status
                _same(f"{name} GPU {gpus}", [status[key] for key in _BANDWIDTHS], details["pcie_gbps"][gpus], out)
                continue
            word = status["status"] if isinstance(status, dict) else status
            for gpu in [only] if gpus in {"", "summary"} else [int(g) for g in gpus.split(",")]:
                got = [r["status"] for r in mine if r["gpu"] == gpu]
                _same(f"{name} GPU {gpu}", [_status(word)], got, out)
            if isinstance(status, dict) and "error_ids" in status:
                ids = [r["error_ids"] for r in mine if r["gpu"] == int(gpus.split(",")[0])]
                _same(f"{name} error ids", [status["error_ids"]], ids, out)


_CATEGORIES = {"Deployment", "Hardware", "Integration", "Stress"}


def _dcgm(name: str, expected: dict[str, Any], found: dict[str, Any], out: Differences) -> None:
    results, details = found["results"], found["details"]
    checks: dict[str, Any] = {
        "tests": lambda value: _dcgm_tests(value, results, details, out, expected.get("gpu")),
        "dcgm": lambda value: _same("versions.dcgm", value, found["versions"].get("dcgm"), out),
        "driver": lambda value: _same("versions.driver", value, found["versions"].get("driver"), out),
        "failed": lambda value: _by_status("failed", value, [r for r in results if r["status"] == "fail"], out),
        "warned": lambda value: _by_status("warned", value, [r for r in results if r["status"] == "warn"], out),
        "passed": lambda value: _by_status("passed", value, [r for r in results if r["status"] == "pass"], out),
        "message": lambda value: _same("message", [value], [r["error"] for r in results if r["error"]], out),
        "not_run": lambda value: _same("not_run", value, [r["status"] for r in results].count("not_run"), out),
        "errors": lambda value: _same("errors", value, _errors(found), out),
        "mpi_error": lambda value: _same("errors", [value], [e["what"] for e in found["errors"]], out),
        "gpu_failures": lambda value: _same("failures", value, [r for r in results if r["status"] == "fail"], out),
        "valid_json": lambda value: _same("complete", value, found["complete"], out),
        "hosts": lambda value: _same(
            "hosts", value, found["hosts"] if isinstance(value, list) else found["nodes"], out
        ),
        "tool": lambda value: _same("tool", value, found["tool"], out),
        "exit_code": lambda _: None,  # not in the file
    }
    for key, value in expected.items():
        if key in {"gpus", "nvlink"}:
            _gpus(value, details, out)
        elif key == "gpu":
            named = details.get("gpu", next((r["gpu"] for r in results), None))
            _same("gpu", value, named, out)
        elif key in checks:
            checks[key](value)
        else:
            _same(f"details.{key}", value, details.get(key), out)


def _errors(found: dict[str, Any]) -> list[list[str]]:
    return [[e["host"], f"L{r['gpu']}", e["what"]] for e, r in zip(found["errors"], found["results"], strict=False)]


def _gpus(expected: Any, details: dict[str, Any], out: Differences) -> None:
    if isinstance(expected, dict):
        for gpu, links in expected.items():
            for key, value in links.items():
                _same(f"nvlink.{gpu}.{key}", value, details["nvlink"][gpu].get(key), out)
    elif expected != "not stated":
        _same("details.gpus", expected, details.get("gpus"), out)


def _by_status(key: str, expected: Any, got: list[dict[str, Any]], out: Differences) -> None:
    if isinstance(expected, int):
        _same(key, expected, len(got), out)
    elif isinstance(expected, dict):
        names = {test: sorted(r["gpu"] for r in got if r["test"] == test) for test in expected}
        _same(key, expected, names, out)
    elif expected and isinstance(expected[0], list):
        _same(key, expected, [[r["host"], r["gpu"]] for r in got if r["gpu"] is not None], out)
    else:
        _same(key, expected, [r["test"] for r in got], out)


CHECKS = {"nccl": _nccl, "nccl-info": _nccl_info, "mpi-perftest": _tool, "training": _training, "dcgm": _dcgm}


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_shared_sample_is_read_as_by_hand(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sidecar = path.with_suffix(".expect.json" if path.suffix == ".json" else ".json")
    expected = json.loads(sidecar.read_text(encoding="utf-8"))["expect"]
    main([str(path)])
    found = json.loads(capsys.readouterr().out)
    differences: Differences = []
    CHECKS[path.parent.name](path.name, expected, found, differences)
    assert not differences, "\n".join(differences[:20])
