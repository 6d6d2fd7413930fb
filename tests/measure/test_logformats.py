"""Log formats are data: every shipped one reads its own examples, a user's is read too, a bad file is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from measure import read
from measure.logformats import LogFormat, LogFormatError, load
from tests.measure.test_samples import differences

EXAMPLES = [(made, at) for made in load() for at in range(len(made.examples))]

USERS = """
logformats:
  - name: my-trainer
    marks: ["STEP", "BYE"]
    line: 'STEP (?P<step>\\d+)'
    fields:
      time_s: {pattern: 'took {number} ms', unit: ms}
      loss: 'loss {number}'
    required: [loss]
    end: 'BYE'
"""


@pytest.mark.parametrize(("made", "at"), EXAMPLES, ids=lambda value: value.name if isinstance(value, LogFormat) else "")
def test_format_reads_its_examples(made: LogFormat, at: int) -> None:
    example = made.examples[at]
    found = read(example["text"].encode()).to_json()
    assert found["format"] == made.name
    assert not differences(example["steps"], found["steps"])


def test_every_shipped_format_has_an_example() -> None:
    assert [made.name for made in load() if not made.examples] == []


def test_a_users_file_adds_a_format(tmp_path: Path) -> None:
    (tmp_path / "logformats").mkdir()
    (tmp_path / "logformats" / "mine.yaml").write_text(USERS, encoding="utf-8")
    found = read(b"STEP 3 took 250 ms loss 1.5\nSTEP 4 took 251 ms loss nan\nBYE\n", formats=load([tmp_path]))
    assert (found.format, found.complete) == ("my-trainer", True)
    assert [(step.step, step.time_s, step.loss) for step in found.steps] == [(3, 0.25, 1.5), (4, 0.251, None)]
    assert found.steps[1].extra["nan"] == ["loss"]


def test_a_users_format_takes_the_place_of_one_of_the_same_name(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(USERS.replace("my-trainer", "torchtitan"), encoding="utf-8")
    formats = load([tmp_path])
    assert [made.name for made in formats].count("torchtitan") == 1
    assert next(made for made in formats if made.name == "torchtitan").marks == ("STEP", "BYE")


def test_a_directory_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(LogFormatError, match="found nothing of that name"):
        load([tmp_path / "none"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("line: 'STEP", "lime: 'STEP"), "unknown key 'lime'"),
        (("(?P<step>", "(?P<step"), "not a regular expression"),
        (("unit: ms", "unit: fortnight"), "unknown unit 'fortnight'"),
        (("[loss]", "[lots]"), "'lots' is no field"),
        (("took {number} ms", "took {number} {number}"), "expected one"),
        (('marks: ["STEP", "BYE"]', "marks: STEP"), "expected a list"),
        ((USERS, "logformats: 3"), "expected a list"),
        (("logformats:", "logformats: ["), "cannot be read as YAML"),
    ],
)
def test_a_bad_file_is_refused_with_file_and_place(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(USERS.replace(*change), encoding="utf-8")
    with pytest.raises(LogFormatError, match=message) as caught:
        load([tmp_path])
    assert str(path) in str(caught.value)
