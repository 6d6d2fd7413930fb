"""A bad file is refused with file, path inside it, what was expected, what was found and the nearest known name."""

from pathlib import Path

import pytest

from catalog import CatalogError, Strict, check, load, nearest, read_yaml

ENTRY = """
entries:
  - name: mine
    domain: communication
    description: mine
    framework: torch
    program: collectives.py
    scales: [full-scale]
    defaultScale: full-scale
    layers: [fabric]
    collective: all_reduce
    options:
      maxBytes: {type: size, default: 1G}
"""


class Inner(Strict):
    max_bytes: int = 1


class Outer(Strict):
    name: str
    inner: tuple[Inner, ...] = ()
    by_name: dict[str, Inner] | None = None


def refusal(data: object) -> str:
    with pytest.raises(CatalogError) as caught:
        check(Outer, data, "cert.yaml")
    return str(caught.value)


def test_an_unknown_key_is_named_with_its_path_and_the_nearest_known_one() -> None:
    text = refusal({"name": "x", "inner": [{"maxBytes": 1}, {"maxByte": 2}]})
    assert text.startswith("cert.yaml: inner[1].maxByte: unknown key 'maxByte'")
    assert "did you mean 'maxBytes'?" in text


def test_keys_below_a_mapping_are_checked_against_their_own_model() -> None:
    assert "did you mean 'maxBytes'?" in refusal({"name": "x", "byName": {"a": {"maxBites": 2}}})


def test_all_problems_are_listed_each_on_its_line() -> None:
    text = refusal({"inner": [{"maxBytes": "many"}], "nmae": "x"})
    assert len(text.splitlines()) == 3
    assert "inner[0].maxBytes: expected a valid integer" in text
    assert "found 'many'" in text
    assert "add the key 'name'" in text


@pytest.mark.parametrize("data", [[], "text", 3])
def test_something_else_than_a_mapping_is_refused(data: object) -> None:
    assert "expected a mapping with" in refusal(data)


def test_a_missing_file_a_directory_and_bad_yaml_are_told_apart(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("a: [1,\nb: 2\n")
    twice = tmp_path / "twice.yaml"
    twice.write_text("a: 1\nb: 2\na: 3\n")
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"a: \xff\n")
    for path, words in (
        (tmp_path / "none.yaml", "found none"),
        (tmp_path, "found a directory"),
        (bad, "line 3"),
        (twice, "found 'a' twice"),
        (latin, "UTF-8"),
    ):
        with pytest.raises(CatalogError, match=words) as caught:
            read_yaml(path)
        assert str(caught.value).startswith(str(path))


def test_merge_keys_may_be_overridden(tmp_path: Path) -> None:
    path = tmp_path / "merge.yaml"
    path.write_text("a: &a {x: 1, y: 2}\nb: &b {<<: *a, x: 3}\nc: {<<: *b, y: 4}\n")
    assert read_yaml(path)["c"] == {"x": 3, "y": 4}


def test_nearest_ignores_case_and_knows_when_nothing_is_near() -> None:
    assert nearest("avgTFLOPSPerGPU", ["avgTFLOPsPerGPU", "avgStepTimeSec"]) == "avgTFLOPsPerGPU"
    assert nearest("zebra", ["avgTFLOPsPerGPU"]) is None


def test_a_users_entry_is_added_and_a_later_one_wins(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(ENTRY)
    (tmp_path / "b.yaml").write_text(ENTRY.replace("description: mine", "description: later"))
    catalog = load([tmp_path])
    assert catalog.entry("mine").description == "later"
    assert catalog.entry("nccl-all-reduce").collective == "all_reduce"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("description", "descripton", r"entries\[0\].descripton: unknown key .* did you mean 'description'"),
        ("framework: torch", "framework: tourch", "did you mean 'torch'"),
        ("[full-scale]", "[intra-node]", "expected defaultScale among scales"),
        ("default: 1G", "default: -1", "expected a message size"),
        ("layers: [fabric]", "layers: [fabric]\n    minNodes: 3\n    maxNodes: 2", "minNodes <= maxNodes"),
        ("layers: [fabric]", "layers: [fabric]\n    arguments: ['--e={maxByte}']", "did you mean 'maxBytes'"),
    ],
)
def test_a_bad_entry_is_refused_with_file_and_path(tmp_path: Path, old: str, new: str, words: str) -> None:
    path = tmp_path / "entry.yaml"
    path.write_text(ENTRY.replace(old, new))
    with pytest.raises(CatalogError, match=words) as caught:
        load([tmp_path])
    assert str(caught.value).startswith(f"{path}: entries[0]")


def test_a_missing_directory_and_a_name_given_twice_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="check --catalog"):
        load([tmp_path / "none"])
    (tmp_path / "a.yaml").write_text(ENTRY + ENTRY.replace("entries:\n", "").lstrip("\n"))
    with pytest.raises(CatalogError, match="'mine' twice"):
        load([tmp_path])
