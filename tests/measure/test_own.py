"""Our own final line: taken at the start of a line, behind known prefixes only, and once; errors count wherever."""

from __future__ import annotations

import json

import pytest

from measure import Measurement, read

LINE = {
    "schema": "clusterproof.result/v1", "program": "collectives", "collective": "all_reduce", "world_size": 2,
    "nodes": ["a", "b"], "sizes": [1024], "complete": True, "per_rank": [{"rank": 0}, {"rank": 1}],
    "cycles": [
        {"cycle": at, "rows": [{"size": 1024, "time_us": us, "algbw": 1.024 / us, "busbw": 1.024 / us, "wrong": 0}]}
        for at, us in enumerate((1.0, 3.0))
    ],
}  # fmt: skip
RESULT = f"CLUSTERPROOF-RESULT {json.dumps(LINE)}"
ERROR = 'CLUSTERPROOF-ERROR {"rank": 1, "node": "b", "what": "boom"}'


def found(*lines: str) -> Measurement:
    return read("".join(f"{line}\n" for line in lines).encode())


@pytest.mark.parametrize(
    "before", ["", "[rank0]: ", "0: ", "[1,0]<stdout>:", "[pod/x-0/main] ", "2026-12-01T10:00:00.5Z "]
)
def test_the_line_is_taken_behind_known_prefixes(before: str) -> None:
    run = found(before + RESULT)
    assert run.result_line
    assert run.complete


@pytest.mark.parametrize("before", ["KeyError: '", "[rank1] foo ", "see ", "  ", "# "])
def test_a_line_that_is_only_quoted_is_none(before: str) -> None:
    run = found(before + RESULT)
    assert not run.result_line
    assert not run.complete
    assert found(before + RESULT, RESULT).complete


def test_what_another_rank_wrote_behind_it_takes_nothing_away() -> None:
    assert found(RESULT + "W1201 10:00:00 a warning").complete


@pytest.mark.parametrize("lines", [(RESULT, RESULT), (RESULT + RESULT,), (RESULT.replace("true", "false"), RESULT)])
def test_several_result_lines_are_not_of_one_run(lines: tuple[str, ...]) -> None:
    run = found(*lines)
    assert not run.complete
    assert run.details["result_lines"] == 2
    assert "2 result lines are in the log: it is not of one run alone" in run.warnings


@pytest.mark.parametrize("lines", [(RESULT, ERROR), (ERROR, RESULT), (RESULT + ERROR,), (RESULT, "glued" + ERROR)])
def test_an_error_beside_the_result_is_not_complete(lines: tuple[str, ...]) -> None:
    run = found(*lines)
    assert not run.complete
    assert [(error.rank, error.host, error.what) for error in run.errors] == [(1, "b", "boom")]


@pytest.mark.parametrize("key", ["per_rank", "cycles"])
@pytest.mark.parametrize("value", ["abc", 5, {"rank": 0}, [1, 2], [{"rank": 0}, None]])
def test_entries_that_are_none_show_that_the_line_is_not_what_was_written(key: str, value: object) -> None:
    run = found(f"CLUSTERPROOF-RESULT {json.dumps({**LINE, key: value})}")
    assert not run.complete
    assert f"{key} of the result line is not a list of objects" in run.warnings


def test_where_no_table_was_printed_the_cycles_make_it_by_their_mean_time() -> None:
    cell = found(RESULT).tables[0].rows[0].out_of_place
    assert cell is not None
    assert (cell.time_us, cell.wrong) == (2.0, 0)
    assert cell.busbw == pytest.approx(1.024 / 2)
