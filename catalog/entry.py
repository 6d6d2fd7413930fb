"""A catalog entry: what one test runs, with which options, on how many nodes, and what is demanded of it.

Entries are data. The program, its arguments and its environment are templates over the entry's own options, so that a
user adds a test by dropping a YAML file into a directory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

from pydantic import Field, model_validator

from catalog.checking import Strict
from catalog.errors import CatalogError, listing, suggestion
from catalog.units import Seconds, Size, parse_duration, parse_size
from catalog.words import Collective, Framework, Layer, Scale, Traffic

OptionValue = bool | int | float | str
_PLACE = re.compile(r"\{(\w+)\}")


class Threshold(Strict):
    """What a metric must hold: `min`, `max` or a CEL expression over `value`, for the case or for one message size."""

    metric: str
    min: float | None = Field(default=None, allow_inf_nan=False)
    max: float | None = Field(default=None, allow_inf_nan=False)
    expr: str | None = None
    size: Size | None = None
    """Bytes; None = the metric's usual value (see docs/profiles.md)."""
    unit: str = ""

    @model_validator(mode="after")
    def _says_something(self) -> Threshold:
        if self.min is None and self.max is None and self.expr is None:
            raise CatalogError(f"expected min, max or expr for {self.metric}, found none of them")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise CatalogError(f"expected min <= max for {self.metric}, found {self.min:g} > {self.max:g}")
        return self


class Option(Strict):
    """One option of an entry: its type, default and limits. A `size` is in bytes, a `duration` in seconds."""

    type: Literal["size", "duration", "int", "float", "bool", "str"]
    default: OptionValue
    min: float | None = None
    max: float | None = None
    choices: tuple[str, ...] = ()
    help: str = ""

    @model_validator(mode="after")
    def _default_fits(self) -> Option:
        self.convert("default", self.default)
        return self

    def convert(self, name: str, value: Any) -> OptionValue:
        """`value` in the option's type. Raises `CatalogError` where it does not fit."""
        typed = self._typed(name, value)
        if self.choices and typed not in self.choices:
            raise CatalogError(
                f"{name}: expected one of {', '.join(self.choices)}, found {value!r}"
                f"{suggestion(str(value), self.choices)}"
            )
        if isinstance(typed, int | float) and not isinstance(typed, bool):
            if self.min is not None and typed < self.min:
                raise CatalogError(f"{name}: expected at least {self.min:g}, found {value!r}")
            if self.max is not None and typed > self.max:
                raise CatalogError(f"{name}: expected at most {self.max:g}, found {value!r}")
        return typed

    def _typed(self, name: str, value: Any) -> OptionValue:
        try:
            return _CONVERTERS[self.type](value)
        except CatalogError as error:
            raise CatalogError(f"{name}: {error}") from None
        except (TypeError, ValueError, OverflowError):
            raise CatalogError(f"{name}: expected {_WORDS[self.type]}, found {value!r}") from None


def _whole(value: Any) -> int:
    if isinstance(value, bool) or (isinstance(value, float) and value != int(value)):
        raise TypeError
    return int(value)


def _number(value: Any) -> float:
    if isinstance(value, bool):
        raise TypeError
    return float(value)


def _truth(value: Any) -> bool:
    text = str(value).lower()
    if text not in {"true", "false"}:
        raise TypeError
    return text == "true"


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


_CONVERTERS: Mapping[str, Callable[[Any], OptionValue]] = {
    "size": parse_size,
    "duration": parse_duration,
    "int": _whole,
    "float": _number,
    "bool": _truth,
    "str": _text,
}
_WORDS: Mapping[str, str] = {
    "size": "a message size such as 16G",
    "duration": "a duration such as 15m",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "text",
}


class Entry(Strict):
    """One test of the catalog."""

    name: str = Field(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", max_length=40)
    domain: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    """The pytest marker: an identifier."""
    description: str
    framework: Framework
    program: str
    """A file of `workloads/` for `torch`, a command for `mpi` and `exec`."""
    arguments: tuple[str, ...] = ()
    """Templates: `{maxBytes}` is the option's value, `{collective}` the entry's collective."""
    env: Mapping[str, str] = Field(default_factory=dict)
    options: Mapping[str, Option] = Field(default_factory=dict)
    scales: tuple[Scale, ...]
    default_scale: Scale
    min_nodes: int = Field(default=1, ge=1)
    max_nodes: int | None = Field(default=None, ge=1)
    layers: tuple[Layer, ...]
    collective: Collective | None = None
    traffic: Traffic = "none"
    criteria: tuple[Threshold, ...] = ()
    time_limit: Seconds = 3600.0
    probe_time_limit: Seconds = 900.0
    stall_limit: Seconds = 300.0
    resources: Mapping[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _agrees(self) -> Entry:
        if self.default_scale not in self.scales:
            raise CatalogError(f"expected defaultScale among scales, found {self.default_scale!r}")
        if self.max_nodes is not None and self.max_nodes < self.min_nodes:
            raise CatalogError(f"expected minNodes <= maxNodes, found {self.min_nodes} > {self.max_nodes}")
        known = {*self.options, "collective"}
        for text in (*self.arguments, *self.env.values()):
            for place in _PLACE.findall(text):
                if place not in known:
                    raise CatalogError(
                        f"expected {{option}} among {listing(known)}, found {{{place}}}{suggestion(place, known)}"
                    )
        return self

    def resolve_options(self, user: Mapping[str, Any]) -> dict[str, Any]:
        """The entry's options with `user`'s values over the defaults, each in its type (sizes in bytes).

        Raises `CatalogError` listing every unknown or ill-typed one.
        """
        problems = [
            f"{self.name}: unknown option {name!r}: expected one of {listing(self.options)}"
            f"{suggestion(name, self.options)}"
            for name in user
            if name not in self.options
        ]
        values: dict[str, Any] = {}
        for name, option in self.options.items():
            try:
                values[name] = option.convert(name, user.get(name, option.default))
            except CatalogError as error:
                problems.append(f"{self.name}: {error}")
        if problems:
            raise CatalogError("\n".join(problems))
        return values

    def fill(self, text: str, options: Mapping[str, Any]) -> str:
        """`text` with its `{option}` places filled from resolved options."""
        values = {"collective": self.collective or "", **options}
        return _PLACE.sub(lambda place: str(values.get(place[1], place[0])), text)
