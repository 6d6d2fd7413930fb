"""Formats of training logs as data: what a progress line looks like, which numbers it holds and in which unit.

The shipped ones lie in `catalog/logformats/*.yaml`; a user adds one by dropping a file with a `logformats:` list into a
catalog directory. Patterns are Python regular expressions with two places, `{number}` and `{integer}`, each one group.
Every format carries examples with the values a right reader gives, and a test reads them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import yaml

SHIPPED: Final = Path(__file__).resolve().parents[1] / "catalog" / "logformats"
_NUMBER: Final = r"([-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[KMBT]?|[-+]?(?:nan|NaN|NAN|inf|Inf))"
_INTEGER: Final = r"(\d[\d,]*)"
UNITS: Final[Mapping[str, Decimal]] = {
    "s": Decimal(1), "ms": Decimal("1e-3"), "us": Decimal("1e-6"), "1": Decimal(1), "percent": Decimal(1),
}  # fmt: skip
"""Factors to the unit of our key; `1/s` means the inverse (iterations a second to seconds)."""
_KEYS: Final = {
    "name", "description", "marks", "line", "fields", "required", "zero_based", "ends", "wrapped", "accompanies", "end",
    "final", "eval", "examples",
}  # fmt: skip


class LogFormatError(ValueError):
    """A log format file that cannot be used: which file, which place in it, what was expected."""


@dataclass(frozen=True, slots=True)
class Field:
    """One number of a record: the first pattern that is found gives it, times the factor of its unit."""

    name: str
    patterns: tuple[tuple[re.Pattern[str], str], ...]
    integer: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """A kind of line with its fields (a progress line, a final summary, an evaluation)."""

    line: re.Pattern[str]
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class LogFormat:
    """A training framework's progress lines."""

    name: str
    description: str
    marks: tuple[str, ...]
    steps: Part
    required: tuple[str, ...] = ()
    zero_based: bool = False
    ends: re.Pattern[str] | None = None
    wrapped: int = 0
    accompanies: str | None = None
    end: re.Pattern[str] | None = None
    final: Part | None = None
    eval: Part | None = None
    examples: tuple[Mapping[str, Any], ...] = field(default_factory=tuple)


def load(folders: Iterable[str | Path] = ()) -> tuple[LogFormat, ...]:
    """The shipped formats and those of a user's catalog directories, in the order in which they are tried.

    A user's format comes before the shipped ones; one of the same name takes its place. Raises `LogFormatError`.
    """
    mine: dict[str, LogFormat] = {}
    for folder in folders:
        for path in _files(Path(folder)):
            mine.update((made.name, made) for made in _read(path))
    shipped = {made.name: made for made in _shipped()}
    replaced = {name: mine.pop(name, made) for name, made in shipped.items()}
    return (*mine.values(), *replaced.values())


@lru_cache(maxsize=1)
def _shipped() -> tuple[LogFormat, ...]:
    return tuple(made for path in _files(SHIPPED) for made in _read(path))


def _files(folder: Path) -> list[Path]:
    if folder.is_file():
        return [folder]
    if not folder.is_dir():
        raise LogFormatError(f"{folder}: expected a directory with YAML files, found nothing of that name")
    return sorted({*folder.glob("*.y*ml"), *folder.glob("logformats/*.y*ml")})


def _read(path: Path) -> list[LogFormat]:
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise LogFormatError(f"{path}: cannot be read as YAML: {error}") from None
    if not isinstance(document, dict):
        raise LogFormatError(f"{path}: expected a mapping, found {type(document).__name__}")
    # A catalog directory holds other kinds of files too; those without our key are another room's.
    entries = document.get("logformats", [])
    if not isinstance(entries, list):
        raise LogFormatError(f"{path}: logformats: expected a list, found {type(entries).__name__}")
    return [_format(entry, f"{path}: logformats[{at}]") for at, entry in enumerate(entries)]


def _format(entry: Any, where: str) -> LogFormat:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        raise LogFormatError(f"{where}: expected a mapping with a name, found {entry!r}")
    where = f"{where} ({entry['name']})"
    if unknown := sorted(entry.keys() - _KEYS):
        raise LogFormatError(f"{where}: unknown key {unknown[0]!r}; known are {', '.join(sorted(_KEYS))}")
    if missing := sorted({"marks", "line", "fields"} - entry.keys()):
        raise LogFormatError(f"{where}: {missing[0]} is missing")
    steps = _part(entry, where)
    known = {made.name for made in steps.fields} | set(steps.line.groupindex)
    required = tuple(map(str, _list(entry.get("required"), f"{where}.required")))
    if lost := [name for name in required if name not in known]:
        raise LogFormatError(f"{where}.required: {lost[0]!r} is no field of this format")
    return LogFormat(
        name=entry["name"],
        description=str(entry.get("description", "")),
        marks=tuple(map(str, _list(entry["marks"], f"{where}.marks"))),
        steps=steps,
        required=required,
        zero_based=bool(entry.get("zero_based")),
        ends=_pattern(entry["ends"], f"{where}.ends") if "ends" in entry else None,
        wrapped=int(entry.get("wrapped", 0)),
        accompanies=entry.get("accompanies"),
        end=_pattern(entry["end"], f"{where}.end") if "end" in entry else None,
        final=_part(entry["final"], f"{where}.final") if "final" in entry else None,
        eval=_part(entry["eval"], f"{where}.eval") if "eval" in entry else None,
        examples=tuple(_list(entry.get("examples"), f"{where}.examples")),
    )


def _part(entry: Any, where: str) -> Part:
    if not isinstance(entry, dict) or not isinstance(entry.get("fields"), dict):
        raise LogFormatError(f"{where}: expected line and fields")
    made = [_field(str(name), value, f"{where}.fields.{name}") for name, value in entry["fields"].items()]
    return Part(_pattern(entry.get("line"), f"{where}.line"), tuple(made))


def _field(name: str, value: Any, where: str) -> Field:
    """A pattern, a mapping `{pattern, unit}`, or a list of those in the order of preference."""
    patterns: list[tuple[re.Pattern[str], str]] = []
    integer = True
    for option in value if isinstance(value, list) else [value]:
        text, unit = (
            (option.get("pattern"), str(option.get("unit", "1"))) if isinstance(option, dict) else (option, "1")
        )
        if unit not in UNITS and unit != "1/s":
            raise LogFormatError(f"{where}: unknown unit {unit!r}; known are {', '.join(UNITS)}, 1/s")
        pattern = _pattern(text, where)
        if pattern.groups != 1:
            raise LogFormatError(f"{where}: expected one {{number}} or {{integer}}, found {pattern.groups} groups")
        integer = integer and "{integer}" in str(text)
        patterns.append((pattern, unit))
    return Field(name, tuple(patterns), integer)


def _pattern(text: Any, where: str) -> re.Pattern[str]:
    if not isinstance(text, str):
        raise LogFormatError(f"{where}: expected a regular expression, found {text!r}")
    try:
        return re.compile(text.replace("{number}", _NUMBER).replace("{integer}", _INTEGER))
    except re.error as error:
        raise LogFormatError(f"{where}: not a regular expression: {error}: {text}") from None


def _list(value: Any, where: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise LogFormatError(f"{where}: expected a list, found {type(value).__name__}")
    return value
