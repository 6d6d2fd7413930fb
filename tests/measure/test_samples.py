"""Our own samples of every kind, each with the values a right reader gives beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from measure import read

DATA = Path(__file__).parents[1] / "data" / "measure"
SAMPLES = sorted(path for path in DATA.glob("*") if not path.name.endswith(".expect.json"))


def differences(expected: Any, found: Any, where: str = "") -> list[str]:
    """What of the expected is not in the found: objects may hold more keys, lists must have the same length."""
    if isinstance(expected, dict):
        if not isinstance(found, dict):
            return [f"{where}: expected an object, found {found!r}"]
        return [
            text for key, value in expected.items() for text in differences(value, found.get(key), f"{where}.{key}")
        ]
    if isinstance(expected, list):
        if not isinstance(found, list) or len(found) != len(expected):
            return [f"{where}: expected {expected!r}, found {found!r}"]
        return [
            text
            for at, (want, got) in enumerate(zip(expected, found, strict=True))
            for text in differences(want, got, f"{where}[{at}]")
        ]
    same_kind = isinstance(expected, bool) == isinstance(found, bool)
    return [] if expected == found and same_kind else [f"{where}: expected {expected!r}, found {found!r}"]


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_sample_is_read_right(path: Path) -> None:
    expected = json.loads(Path(f"{path}.expect.json").read_text(encoding="utf-8"))
    assert not differences(expected, read(path.read_bytes(), file=path.name).to_json())


def test_secrets_of_a_json_file_are_not_repeated() -> None:
    text = json.dumps(read((DATA / "nccl-dash-j-whole.json").read_bytes()).to_json())
    assert "do-not-look" not in text
