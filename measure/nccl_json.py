"""nccl-tests' `-J` file (version 2 of its format), and the other JSON of a widely used fork.

Booleans are strings, `nan` is a string, the root is padded with blanks, a killed run leaves the file unfinished. Of the
environment in the file nothing is read: it holds whatever secrets the shell had.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from measure import nccl_collective
from measure.draft import Draft
from measure.lenient_json import as_dict, as_list
from measure.model import Cell, LogError, Row, Table
from measure.nccl_sweep import Plan, gaps
from measure.nccl_table import version
from measure.numbers import number, whole_number

_STATISTICS = {"min_us": "i_min_us", "max_us": "i_max_us", "p99_us": "i_p99_us", "cv_pct": "i_cv_percent"}


def take(document: dict[str, Any], whole: bool, draft: Draft) -> bool:
    """Read a document of nccl-tests into the draft; False where it is none."""
    if isinstance(document.get("benchmark"), list) and "nccl" in str(document.get("identifier", "")):
        _fork(document, whole, draft)
        return True
    if not ({"config", "results"} & document.keys() and {"args", "nccl_version", "start_time"} & document.keys()):
        return False
    draft.formats.append("nccl-tests-json")
    config = as_dict(document.get("config"))
    rows = [made for entry in as_list(document.get("results")) if (made := _row(as_dict(entry)))]
    bounds, average = as_dict(document.get("out_of_bounds")), as_dict(document.get("average_bus_bandwidth"))
    missing = _missing(document, config, rows, whole)
    for why in missing:
        draft.cut(why)
    collective = _program(document) or nccl_collective.infer(rows, None)
    count = whole_number(str(bounds.get("count")))
    draft.tables.append(
        Table(
            rows=tuple(rows),
            avg_busbw=_number(average.get("bandwidth")),
            out_of_bounds=count,
            out_of_bounds_status=None if count is None else ("OK" if _true(bounds.get("okay")) else "FAILED"),
            avg_flag={"true": "OK", "false": "FAILED"}.get(str(average.get("okay")).lower()),
            complete=not missing,
            collective=collective,
        )
    )
    draft.collective = collective
    _devices(config, draft)
    if isinstance(document.get("nccl_version"), int):
        draft.versions["nccl"] = version(document["nccl_version"])
    for text in as_list(document.get("errors")):
        if isinstance(text, str) and text:
            draft.error(LogError(what=text))
    if (validation := whole_number(str(config.get("validation")))) is not None:
        draft.details["validation"] = validation
    return True


def _missing(document: dict[str, Any], config: dict[str, Any], rows: list[Row], whole: bool) -> list[str]:
    out = [] if whole else ["the JSON document is cut or damaged"]
    if "end_time" not in document:
        out.append("the JSON document has no end_time")
    if "out_of_bounds" not in document:
        out.append("the JSON document has no out_of_bounds")
    if not rows:
        out.append("the table has no rows")
    first, last = config.get("minimum_bytes"), config.get("maximum_bytes")
    step = config.get("step_factor", config.get("step_bytes"))
    if isinstance(first, int) and isinstance(last, int) and isinstance(step, int):
        out.extend(gaps(Plan(first, last, step, "step_factor" in config), [row.size for row in rows]))
    return out


def _row(entry: dict[str, Any]) -> Row | None:
    size = entry.get("size")
    if not isinstance(size, int):
        return None
    printed = [entry.get(name, {}) for name in ("out_of_place", "in_place")]
    # A half is null where it was not run; one without its last figure was being written when the program died.
    if printed == [None, None] or not all(
        half is None or {"bus_bw", "nwrong"} <= as_dict(half).keys() for half in printed
    ):
        return None
    halves = [_half(entry, name) for name in ("out_of_place", "in_place")]
    return Row(
        size=size,
        count=entry.get("count") if isinstance(entry.get("count"), int) else None,
        type=_text(entry.get("type")),
        redop=_text(entry.get("redop")),
        root=whole_number(str(entry.get("root")).strip()),
        out_of_place=halves[0],
        in_place=halves[1],
    )


def _half(entry: dict[str, Any], name: str) -> Cell | None:
    values = entry.get(name)
    if not isinstance(values, dict):
        return None
    iterations = as_dict(entry.get(f"{name}_per_iter"))
    return Cell(
        time_us=_number(values.get("time", values.get("cpu_time"))),
        algbw=_number(values.get("alg_bw")),
        busbw=_number(values.get("bus_bw")),
        wrong=whole_number(str(values.get("nwrong"))),
        statistics={ours: _number(iterations.get(key)) for key, ours in _STATISTICS.items() if key in iterations},
    )


def _devices(config: dict[str, Any], draft: Draft) -> None:
    devices = [entry for entry in as_list(config.get("devices")) if isinstance(entry, dict)]
    ranks = {entry["rank"]: str(entry.get("hostname")) for entry in devices if isinstance(entry.get("rank"), int)}
    if ranks:
        draft.ranks = max(ranks) + 1
        draft.hosts.update(dict.fromkeys(ranks.values()))
        if len(ranks) == draft.ranks:
            draft.nodes = len(set(ranks.values()))
        draft.details["gpu"] = str(devices[0].get("device_info"))


def _program(document: dict[str, Any]) -> str | None:
    arguments = as_list(document.get("args"))
    if not arguments or not isinstance(arguments[0], str):
        return None
    name = PurePosixPath(arguments[0]).name.removesuffix("_perf")
    return name if name in nccl_collective.COLLECTIVES else None


def _fork(document: dict[str, Any], whole: bool, draft: Draft) -> None:
    """`{"identifier", "benchmark": [{"<size>": {"oop_time", …}}]}`: sizes are keys, errors are numbers or N/A."""
    draft.formats.append("nccl-tests-json")
    rows: list[Row] = []
    for group in as_list(document.get("benchmark")):
        for size, values in as_dict(group).items():
            if size.isdigit() and isinstance(values, dict) and {"oop_busbw", "ip_busbw", "ip_error"} <= values.keys():
                rows.append(_fork_row(int(size), values))
    draft.collective = nccl_collective.infer(rows, None)
    if draft.collective is None and rows:
        # This fork checks alltoall out of place only, as the text does.
        unchecked = all(row.in_place and row.in_place.error_raw == "N/A" for row in rows)
        draft.collective = "alltoall" if unchecked else None
    draft.ranks = nccl_collective.ranks(rows)
    draft.tables.append(Table(rows=tuple(rows), complete=whole and bool(rows), collective=draft.collective))
    if isinstance(document.get("version"), str):
        draft.versions["nccl"] = document["version"]


def _fork_row(size: int, values: dict[str, Any]) -> Row:
    halves = [
        Cell(
            _number(values.get(f"{half}_time")),
            _number(values.get(f"{half}_algbw")),
            _number(values.get(f"{half}_busbw")),
            error_raw=str(values.get(f"{half}_error")),
        )
        for half in ("oop", "ip")
    ]
    return Row(
        size=size,
        count=values.get("count") if isinstance(values.get("count"), int) else None,
        type=_text(values.get("type")),
        redop=_text(values.get("redop")),
        root=whole_number(str(values.get("root")).strip()),
        out_of_place=halves[0],
        in_place=halves[1],
    )


def _number(value: Any) -> float | None:
    return None if isinstance(value, bool) else number(str(value))


def _true(value: Any) -> bool:
    return value is True or str(value).lower() == "true"


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
