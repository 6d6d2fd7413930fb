"""The shipped entries, and options as their users write them."""

import pytest

from catalog import CatalogError, Option, Threshold, load

COMMUNICATION = (
    "nccl-all-reduce",
    "nccl-all-gather",
    "nccl-reduce-scatter",
    "nccl-alltoall",
    "nccl-broadcast",
    "nccl-sendrecv",
    "nccl-loopback",
    "nccl-loopback-nvswitch",
)


@pytest.mark.parametrize("name", COMMUNICATION)
def test_every_communication_entry_fills_its_arguments_from_its_options(name: str) -> None:
    entry = load().entry(name)
    options = entry.resolve_options({"maxBytes": "1G"})
    words = [entry.fill(argument, options) for argument in entry.arguments]
    assert f"--collective={entry.collective}" in words
    assert "--end=1073741824" in words
    assert not any("{" in word for word in words)


def test_loopbacks_are_single_node_and_differ_in_their_way() -> None:
    nics, nvswitch = load().entry("nccl-loopback"), load().entry("nccl-loopback-nvswitch")
    assert (nics.min_nodes, nics.max_nodes, nics.layers) == (1, 1, ("fabric",))
    assert nics.env == {"NCCL_SHM_DISABLE": "1", "NCCL_P2P_DISABLE": "1"}
    assert (nvswitch.max_nodes, nvswitch.layers, nvswitch.env) == (1, ("scale-up",), {})


def test_only_alltoall_talks_between_all_pairs() -> None:
    pairs = [name for name in COMMUNICATION if load().entry(name).traffic == "all-pairs"]
    assert pairs == ["nccl-alltoall"]


def test_unknown_and_ill_typed_options_are_all_listed_with_the_nearest_name() -> None:
    with pytest.raises(CatalogError) as caught:
        load().entry("nccl-all-reduce").resolve_options({"maxByte": "1G", "numCycles": "many", "dtype": "flaot"})
    text = str(caught.value)
    assert "unknown option 'maxByte'" in text
    assert "did you mean 'maxBytes'?" in text
    assert "numCycles: expected a whole number, found 'many'" in text
    assert "did you mean 'float'?" in text


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [("int", "3", 3), ("float", "2.5", 2.5), ("bool", "true", True), ("bool", False, False), ("duration", "2m", 120.0)],
)
def test_options_take_their_type(kind: str, value: object, expected: object) -> None:
    option = Option.model_validate({"type": kind, "default": value})
    assert option.convert("x", value) == expected


@pytest.mark.parametrize(("kind", "value"), [("int", 2.5), ("int", True), ("bool", 1), ("str", 3), ("float", "x")])
def test_a_value_of_another_type_is_refused(kind: str, value: object) -> None:
    defaults = {"int": 1, "bool": True, "str": "a", "float": 1.0}
    option = Option.model_validate({"type": kind, "default": defaults[kind]})
    with pytest.raises(CatalogError, match="x: expected"):
        option.convert("x", value)


def test_an_unknown_entry_names_the_nearest() -> None:
    with pytest.raises(CatalogError, match="did you mean 'nccl-all-reduce'"):
        load().entry("nccl-allreduce")


@pytest.mark.parametrize("data", [{}, {"min": 2, "max": 1}, {"min": float("nan")}])
def test_a_threshold_must_say_something_that_can_hold(data: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"expected|finite"):
        Threshold.model_validate({"metric": "busBandwidthGBps", **data})


def test_the_catalog_in_words_names_every_entry_and_accelerator() -> None:
    catalog = load()
    text = catalog.describe()
    for name in (*catalog.entries, *catalog.accelerators):
        assert name in text
