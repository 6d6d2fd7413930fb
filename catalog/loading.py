"""The loaded catalog: shipped files first, then the user's directories, the later definition of a name winning.

A file's content, not its place, says what it holds: a mapping with `entries`, `accelerators`, `profiles` and so on.
One model checks them all, so a user's file gets the same messages as ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Protocol, TypeVar

from catalog.accelerator import Accelerator
from catalog.checking import Strict, check, read_yaml
from catalog.describing import describe
from catalog.entry import Entry
from catalog.errors import CatalogError, listing, suggestion
from catalog.explanation import Explanation
from catalog.machine import Machine
from catalog.network import ExpectedNetwork
from catalog.profile import Profile

SHIPPED = Path(__file__).parent
ELSEWHERE = frozenset({"logformats", "platforms", "gangs"})
"""Folders whose files another room reads."""


class CatalogFile(Strict):
    """What one YAML file may hold."""

    entries: tuple[Entry, ...] = ()
    accelerators: tuple[Accelerator, ...] = ()
    networks: tuple[ExpectedNetwork, ...] = ()
    profiles: tuple[Profile, ...] = ()
    explanations: tuple[Explanation, ...] = ()
    machines: tuple[Machine, ...] = ()


class _Named(Protocol):
    @property
    def name(self) -> str: ...


Item = TypeVar("Item", bound=_Named)


@dataclass(frozen=True, slots=True)
class Catalog:
    """Everything the suite knows by name."""

    entries: Mapping[str, Entry]
    accelerators: Mapping[str, Accelerator]
    networks: Mapping[str, ExpectedNetwork]
    profiles: Mapping[str, Profile]
    explanations: Mapping[str, Explanation]
    machines: Mapping[str, Machine]
    origins: Mapping[str, str]
    """`entry nccl-all-reduce` → the file it came from."""

    def entry(self, name: str) -> Entry:
        """The entry of that name. Raises `CatalogError` with the nearest one."""
        try:
            return self.entries[name]
        except KeyError:
            raise CatalogError(
                f"unknown catalog entry {name!r}: expected one of {listing(self.entries)}"
                f"{suggestion(name, self.entries)}"
            ) from None

    def describe(self) -> str:
        """The catalog in words, for `--catalog-list`."""
        return describe(self)

    def expected_network(self, platform: str, accelerator: str) -> ExpectedNetwork | None:
        """The network that is right for a product on a platform; None where nothing is said of it."""
        rules = (rule for rule in self.networks.values() if rule.platform == platform)
        return next((rule for rule in rules if accelerator in rule.accelerators), None)

    def machine_for(self, platform: str, instance_type: str) -> Machine | None:
        """The machine a node is, by its platform and `node.kubernetes.io/instance-type`; None where it is unknown."""
        machines = tuple(self.machines.values())
        return next((each for each in reversed(machines) if each.matches(platform, instance_type)), None)

    def accelerator_for(self, product: str) -> Accelerator | None:
        """The accelerator a GPU label names; the longest matching pattern decides, None when none matches."""
        best = max(self.accelerators.values(), key=lambda acc: acc.match(product), default=None)
        return best if best is not None and best.match(product) else None


def load(extra_dirs: Iterable[str | Path] = ()) -> Catalog:
    """The shipped catalog with the user's directories over it. Raises `CatalogError` listing every problem."""
    extra = tuple(Path(folder) for folder in extra_dirs)
    for folder in extra:
        if not folder.is_dir():
            raise CatalogError(f"{folder}: expected a directory of catalog files, found none; check --catalog")
    return _merge([*_shipped(), *_read(extra)])


@lru_cache(maxsize=1)
def _shipped() -> tuple[tuple[str, CatalogFile], ...]:
    return _read((SHIPPED,))


def _read(folders: Iterable[Path]) -> tuple[tuple[str, CatalogFile], ...]:
    problems: list[str] = []
    files: list[tuple[str, CatalogFile]] = []
    for path in _paths(folders):
        try:
            files.append((str(path), check(CatalogFile, read_yaml(path), str(path))))
        except CatalogError as error:
            problems.append(str(error))
    if problems:
        raise CatalogError("\n".join(problems))
    return tuple(files)


def _paths(folders: Iterable[Path]) -> Iterator[Path]:
    for folder in folders:
        for path in sorted(folder.rglob("*.y*ml")):
            if not ELSEWHERE & set(path.relative_to(folder).parts):
                yield path


def _merge(files: Iterable[tuple[str, CatalogFile]]) -> Catalog:
    entries: dict[str, Entry] = {}
    accelerators: dict[str, Accelerator] = {}
    networks: dict[str, ExpectedNetwork] = {}
    profiles: dict[str, Profile] = {}
    explanations: dict[str, Explanation] = {}
    machines: dict[str, Machine] = {}
    origins: dict[str, str] = {}
    for where, content in files:
        _add(entries, content.entries, "entry", where, origins)
        _add(accelerators, content.accelerators, "accelerator", where, origins)
        _add(networks, content.networks, "network", where, origins)
        _add(profiles, content.profiles, "profile", where, origins)
        _add(explanations, content.explanations, "explanation", where, origins)
        _add(machines, content.machines, "machine", where, origins)
    return Catalog(entries, accelerators, networks, profiles, explanations, machines, origins)


def _add(into: dict[str, Item], items: Iterable[Item], what: str, where: str, origins: dict[str, str]) -> None:
    for item in items:
        key = f"{what} {item.name}"
        if origins.get(key) == where:
            raise CatalogError(f"{where}: expected each {what} once, found {item.name!r} twice")
        into[item.name] = item
        origins[key] = where
