"""Reading YAML and checking it against a model, with messages made for the person who wrote the file.

pydantic finds what is wrong; this module says it in one line a problem: file, path inside it, what was expected, what
was found and the nearest known name. All problems of a file are listed, because a file that is mended one message at
a time costs as many runs as it has mistakes.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from catalog.errors import CatalogError, listing, suggestion


class Strict(BaseModel):
    """Base of everything read from a file: unknown keys are errors, values are frozen, keys are camelCase."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)


Model = TypeVar("Model", bound=BaseModel)


class _Loader(yaml.SafeLoader):
    """The safe loader, except that a key given twice is an error: the first would be lost in silence.

    Checked while nodes are composed, before merge keys (`<<`) are spread, because overriding a merged key is meant.
    """

    def compose_mapping_node(self, anchor: dict[Any, yaml.Node]) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    problem = f"expected each key once, found {key.value!r} twice"
                    raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
                seen.add(key.value)
        return node

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)
        # A mapping merged twice over must keep its own value of a key, not the one it overrode.
        last = {key.value if isinstance(key, yaml.ScalarNode) else id(key): (key, value) for key, value in node.value}
        node.value = list(last.values())


def read_yaml(path: str | Path) -> Any:
    """The content of a YAML file. Raises `CatalogError` where it is missing, unreadable or not valid YAML."""
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise CatalogError(f"{file}: expected a file, found none; check the path") from None
    except IsADirectoryError:
        raise CatalogError(f"{file}: expected a file, found a directory") from None
    except UnicodeDecodeError as error:
        raise CatalogError(f"{file}: expected UTF-8 text, found byte {error.start} that is not") from None
    except OSError as error:
        raise CatalogError(f"{file}: expected a readable file: {error.strerror}") from None
    return parse_yaml(text, str(file))


def parse_yaml(text: str, where: str) -> Any:
    """The content of YAML text that came from `where`. Raises `CatalogError` with line and column."""
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f" line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise CatalogError(f"{where}:{place}: {error.problem or 'expected valid YAML'}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise CatalogError(f"{where}: expected valid YAML: {str(error).splitlines()[0]}") from None


def check(model: type[Model], data: Any, where: str) -> Model:
    """`data` as `model`; `where` is the file (or `file: path`) that messages begin with.

    Raises `CatalogError` with one line for every problem.
    """
    if data is None:
        data = {}
    if not isinstance(data, dict):
        raise CatalogError(f"{where}: expected a mapping with {listing(_names(model))}, found {_found(data)}")
    try:
        return model.model_validate(data)
    except ValidationError as error:
        lines = dict.fromkeys(_sentence(model, problem, where) for problem in error.errors(include_url=False))
        raise CatalogError("\n".join(lines)) from None


def _sentence(model: type[BaseModel], problem: ErrorDetails, where: str) -> str:
    path = _path(problem["loc"])
    head = f"{where}: {path}" if path else where
    kind, value, context = problem["type"], problem["input"], problem.get("ctx", {})
    if kind == "extra_forbidden":
        key, known = str(problem["loc"][-1]), _known(model, problem["loc"][:-1])
        return f"{head}: unknown key {key!r}: expected one of {listing(known)}{suggestion(key, known)}"
    if kind == "missing":
        return f"{head}: expected a value, found none; add the key {problem['loc'][-1]!r}"
    if kind in {"literal_error", "enum"}:
        choices = re.findall(r"'([^']*)'", str(context.get("expected", "")))
        return f"{head}: expected one of {', '.join(choices)}, found {_found(value)}{suggestion(str(value), choices)}"
    error = context.get("error")
    if kind == "value_error" and error is not None:
        return f"{head}: {error}"
    message = problem["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
    return f"{head}: expected {message}, found {_found(value)}"


def _path(loc: Iterable[int | str]) -> str:
    text = ""
    for step in loc:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else str(step)
    return text


def _found(value: Any) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _names(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _known(model: type[BaseModel], loc: tuple[int | str, ...]) -> list[str]:
    """The keys that were possible at `loc`: follow the models through lists, mappings and unions."""
    here: list[type[BaseModel]] = [model]
    for step in loc:
        if isinstance(step, int):
            continue
        inner = [
            found
            for one in here
            for name, field in one.model_fields.items()
            if step in {name, field.alias}
            for found in _models(field.annotation)
        ]
        here = inner or here
    return [name for one in here for name in _names(one)]


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from _models(argument)
