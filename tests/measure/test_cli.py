"""`python -m measure`: one JSON line a file, exit code 0 only when everything was whole, never a traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from measure.__main__ import main

DATA = Path(__file__).parents[1] / "data" / "measure"
WHOLE = str(DATA / "own-result.log")
CUT = str(DATA / "own-result-torn.log")
KEYS = {
    "file", "format", "complete", "collective", "ranks", "nodes", "tables", "per_rank", "errors", "warnings",
    "versions", "transport", "steps", "results",
}  # fmt: skip


def test_one_document_a_file_with_all_keys(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([WHOLE, WHOLE]) == 0
    documents = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [document["file"] for document in documents] == [WHOLE, WHOLE]
    assert all(document.keys() >= KEYS for document in documents)


def test_a_cut_file_is_exit_code_3(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([WHOLE, CUT]) == 3
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_a_file_that_cannot_be_read_is_said_and_the_others_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path / "none.log"), str(tmp_path), WHOLE]) == 3
    first, second, third = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert first["format"] == second["format"] == "unreadable"
    assert "No such file" in first["warnings"][0]
    assert third["complete"]


def test_a_bad_catalog_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.yaml").write_text("logformats: [{name: x}]", encoding="utf-8")
    with pytest.raises(SystemExit) as stopped:
        main(["--catalog", str(tmp_path), WHOLE])
    assert stopped.value.code == 2
    assert "bad.yaml" in capsys.readouterr().err
