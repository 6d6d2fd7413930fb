"""A view of one collection that stays fresh: list, then watch, then list again.

The list is the truth and the watch only makes it quick: whatever a watch loses (a 410, a silent or cut connection, a
server that closes at once) is healed by the next list, at most a minute later. The stack is three small layers, each
testable by itself: `_once` (one list and one watch), `_for_ever` (with pauses) and the store that threads wait on.
Objects are trimmed on arrival, so that thousands of nodes and pods fit into a small runner.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable

from k8s.connection import BrokenError, Query
from k8s.gateway import ApiError, Gateway, GoneError, Json

LOG = logging.getLogger(__name__)

Trim = Callable[[Json], Json]


class View:
    """The objects of one collection by name, kept fresh by a thread of its own."""

    def __init__(self, gateway: Gateway, path: str, query: Query, trim: Trim, *, index_label: str = "") -> None:
        self._gateway, self._path, self._query, self._trim = gateway, path, tuple(query), trim
        self._objects: dict[str, Json] = {}
        self._changed = threading.Condition()
        self._version = 0
        self._fresh = time.monotonic()
        self._problem = ""
        self._closed = threading.Event()
        self._listed = ""
        self._index_label = index_label
        self._index: dict[str, dict[str, Json]] = {}
        self._thread = threading.Thread(target=self._for_ever, name=f"watch {path}", daemon=True)

    def start(self) -> None:
        """Take the first list (raises what the server answers) and keep fresh from then on."""
        self._listed = self._replace()
        self._thread.start()

    def close(self) -> None:
        """Stop watching; the thread ends with its stream."""
        self._closed.set()

    # --- reading ----------------------------------------------------------------------------------------------------

    def get(self, name: str) -> Json | None:
        """The object as last seen. None is no proof that it is gone: ask the server before acting on it."""
        with self._changed:
            return self._objects.get(name)

    def all(self) -> list[Json]:
        """Every object as last seen."""
        with self._changed:
            return list(self._objects.values())

    def under(self, key: str) -> list[Json]:
        """The objects whose index label has the value `key` (the pods of a run)."""
        with self._changed:
            return list(self._index.get(key, {}).values())

    def wait(self, seen: int, seconds: float) -> int:
        """Block until something changed after version `seen`, or `seconds` passed; the version now."""
        with self._changed:
            self._changed.wait_for(lambda: self._version != seen, seconds)
            return self._version

    @property
    def version(self) -> int:
        """A number that grows with every change."""
        with self._changed:
            return self._version

    def stale(self) -> tuple[float, str]:
        """Seconds since the server last answered, and why it does not."""
        with self._changed:
            return time.monotonic() - self._fresh, self._problem

    # --- keeping fresh ----------------------------------------------------------------------------------------------

    def _for_ever(self) -> None:
        version: str | None = self._listed
        pause = 0.0
        while not self._closed.is_set() and not self._gateway.wait(pause):
            began = time.monotonic()
            try:
                self._once(self._replace() if version is None else version)
                problem = ""
            except GoneError:
                problem = "the watch was too old"
            except (BrokenError, ApiError) as error:
                problem = str(error)
            version = None
            # A server that ends every watch at once must not be asked in a tight loop.
            lived = time.monotonic() - began
            pause = 0.0 if lived > 5 else min(10.0, max(0.5, pause * 2))
            if problem:
                LOG.debug("watch %s: %s; listing again in %.1f s", self._path, problem, pause)
            with self._changed:
                self._problem = problem

    def _once(self, version: str) -> None:
        for event in self._gateway.watch(self._path, self._query, version):
            if self._closed.is_set():
                return
            self._take(str(event.get("type")), event.get("object") or {})

    def _take(self, kind: str, thing: Json) -> None:
        with self._changed:
            self._fresh = time.monotonic()
            if kind == "BOOKMARK":
                return
            name = str(thing.get("metadata", {}).get("name", ""))
            self._forget(name)
            if kind in ("ADDED", "MODIFIED"):
                self._remember(self._trim(thing))
            self._version += 1
            self._changed.notify_all()

    def _replace(self) -> str:
        """List, and make that the truth; the version to watch from."""
        items, version = self._gateway.items(self._path, self._query)
        trimmed = [self._trim(item) for item in items]
        with self._changed:
            self._fresh = time.monotonic()
            if self._differs(trimmed):
                self._objects, self._index = {}, {}
                for item in trimmed:
                    self._remember(item)
                self._version += 1
                self._changed.notify_all()
        return version

    def _differs(self, items: Iterable[Json]) -> bool:
        return {str(item["metadata"]["name"]): item for item in items} != self._objects

    def _remember(self, item: Json) -> None:
        name = str(item["metadata"]["name"])
        self._objects[name] = item
        self._index.setdefault(self._key(item), {})[name] = item

    def _forget(self, name: str) -> None:
        old = self._objects.pop(name, None)
        if old is not None:
            self._index.get(self._key(old), {}).pop(name, None)

    def _key(self, item: Json) -> str:
        labels = item["metadata"].get("labels") or {}
        return str(labels.get(self._index_label, ""))
