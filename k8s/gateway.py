"""The one module that speaks to the API server, in dicts.

The Python client has strict models: an integer `nvidia.com/gpu: 8`, or a field newer than the client, is refused before
anything is sent. So paths, bodies and answers are plain here. Everything that can go wrong on the way is handled in
this file and nowhere else: each call and each stream has a read timeout, because a half-open connection otherwise hangs
for ever; 429, 5xx and broken connections are repeated with back-off until `patience_s`; a 401 loads the credentials
again, once. The client's own retries stay off: there is one retry policy, it covers writes too, and it ends when the
gateway is closed.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import random
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

from cluster import ClusterError
from k8s.connection import Answer, BrokenError, Connection, Query, Request

LOG = logging.getLogger(__name__)

Json = dict[str, Any]

READ_S = 30.0
REPEATED = frozenset({429, 500, 502, 503, 504})
PAGE = 500


class ApiError(ClusterError):
    """The API server refused, or could not be reached (`status` 0). The text names the call and what was answered."""

    def __init__(self, status: int, call: str, message: str, reason: str = "") -> None:
        where = f"answered {status}" if status else "could not be reached"
        super().__init__(f"the API server {where}: {message} ({call})")
        self.status = status
        self.reason = reason
        self.message = message


class GoneError(Exception):
    """The version that a watch asked for is too old (410): list again."""


class Gateway:
    """Calls to one cluster, with one policy for all that can fail; safe to use from many threads."""

    def __init__(self, kubeconfig: str = "", context: str = "", *, patience_s: float = 45.0) -> None:
        self._where = (kubeconfig, context)
        self._patience_s = patience_s
        self._closed = threading.Event()
        self._connection = Connection(kubeconfig, context)
        self.namespace = self._connection.namespace
        """The kubeconfig's, or the pod's own."""

    def close(self) -> None:
        """End waits, repeats and streams."""
        self._closed.set()
        self._connection.close()

    def wait(self, seconds: float) -> bool:
        """Sleep, but no longer than the gateway is open; True when it was closed."""
        return self._closed.wait(seconds)

    # --- calls ------------------------------------------------------------------------------------------------------

    def call(
        self, request: Request, *, read_s: float = READ_S, limit: int | None = None, patience_s: float | None = None
    ) -> bytes:
        """The answer's body after as many attempts as `patience_s` allows; `ApiError` for anything but success.

        With `limit` only so many bytes are read. A repeated write may meet its own earlier success: a create then
        answers 409, which callers treat as "already there".
        """
        until = time.monotonic() + (self._patience_s if patience_s is None else patience_s)
        renewed = False
        for attempt in itertools.count():
            pause = min(8.0, 0.2 * 2 ** min(attempt, 6)) * random.uniform(0.7, 1.3)
            try:
                answer = self._connection.send(request, read_s)
                data = answer.read(limit)
            except BrokenError as problem:
                error = ApiError(0, str(request), str(problem))
            else:
                if 200 <= answer.status < 300:
                    return data
                error = _refusal(answer.status, request, data)
                if answer.status == 401 and not renewed:
                    renewed = True
                    self._connection = Connection(*self._where)
                    continue
                if answer.status not in REPEATED:
                    raise error
                pause = max(pause, _retry_after(answer))
            if time.monotonic() + pause > until or self._closed.wait(pause):
                raise error
            LOG.debug("again after %.1f s: %s", pause, error)
        raise AssertionError

    def json(self, method: str, path: str, *, query: Query = (), body: Any = None) -> Json:
        """`call` with the answer parsed; a cut or garbled answer to a read is asked for again, twice."""
        request = Request(method, path, query, body)
        for attempts_left in (2, 1, 0):
            data = self.call(request)
            try:
                answer = json.loads(data)
            except ValueError as error:
                if method != "GET" or not attempts_left:
                    raise ApiError(0, str(request), f"the answer is not JSON: {data[:80]!r}") from error
                continue
            if isinstance(answer, dict):
                return answer
        raise ApiError(0, str(request), "the answer is not an object")

    def get(self, path: str) -> Json | None:
        """The object, or None where there is none."""
        try:
            return self.json("GET", path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def create(self, path: str, body: Mapping[str, Any]) -> Json:
        """POST to a collection."""
        return self.json("POST", path, body=body)

    def replace(self, path: str, body: Mapping[str, Any]) -> Json:
        """PUT; with `metadata.resourceVersion` in the body a compare-and-swap that answers 409 when it lost."""
        return self.json("PUT", path, body=body)

    def delete(self, path: str, *, version: str = "", uid: str = "") -> bool:
        """Delete in the background (batch/v1 would otherwise orphan pods); False where it was gone already."""
        body: Json = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        conditions = {key: value for key, value in (("resourceVersion", version), ("uid", uid)) if value}
        if conditions:
            body["preconditions"] = conditions
        try:
            self.call(Request("DELETE", path, body=body))
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    def items(self, path: str, query: Query = ()) -> tuple[list[Json], str]:
        """All items of a collection, read page by page, and the version that a watch can go on from."""
        for attempts_left in (2, 1, 0):
            try:
                return self._pages(path, query)
            except ApiError as error:
                if error.status != 410 or not attempts_left:
                    raise
        raise AssertionError

    def _pages(self, path: str, query: Query) -> tuple[list[Json], str]:
        items: list[Json] = []
        page: list[tuple[str, str | int]] = [("limit", PAGE)]
        while True:
            answer = self.json("GET", path, query=[*query, *page])
            items += answer.get("items") or []
            meta = answer.get("metadata") or {}
            if not meta.get("continue"):
                return items, str(meta.get("resourceVersion") or "")
            page = [("limit", PAGE), ("continue", str(meta["continue"]))]

    # --- streams ----------------------------------------------------------------------------------------------------

    def stream(self, path: str, query: Query, read_s: float) -> Iterator[bytes]:
        """Pieces of an endless answer as they come. One attempt; the caller decides whether to come again.

        Raises `BrokenError` when it breaks or `read_s` pass in silence, `GoneError` for a 410, `ApiError` for any
        other refusal.
        """
        request = Request("GET", path, query)
        answer = self._connection.send(request, read_s)
        if answer.status == 410:
            raise GoneError
        if not 200 <= answer.status < 300:
            error = _refusal(answer.status, request, answer.read(4096))
            if answer.status == 401:
                self._connection = Connection(*self._where)
            raise error
        for piece in answer.pieces():
            if self._closed.is_set():
                return
            yield piece

    def watch(self, path: str, query: Query, version: str, *, hold_s: int = 50) -> Iterator[Json]:
        """Events of one watch from `version` on, until the server ends it after `hold_s`.

        Raises `GoneError` (as a status or inside the stream: list again) and `BrokenError` (cut JSON, lost
        connection, silence).
        """
        ask: list[tuple[str, str | int]] = [
            *query,
            ("watch", "true"),
            ("resourceVersion", version),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", hold_s),
        ]
        rest = b""
        for piece in self.stream(path, ask, read_s=hold_s + 10.0):
            *lines, rest = (rest + piece).split(b"\n")
            yield from map(_event, filter(None, lines))
        if rest.strip():
            raise BrokenError("the watch ended in the middle of an event")


def _event(line: bytes) -> Json:
    try:
        event: Json = json.loads(line)
    except ValueError as error:
        raise BrokenError(f"the watch sent something that is not JSON: {line[:60]!r}") from error
    if event.get("type") != "ERROR":
        return event
    status = event.get("object") or {}
    if status.get("code") == 410:
        raise GoneError
    raise BrokenError(str(status.get("message") or status)[:200])


def _retry_after(answer: Answer) -> float:
    with contextlib.suppress(ValueError):
        return min(30.0, float(answer.headers.get("Retry-After", 0)))
    return 0.0


def _refusal(status: int, request: Request, data: bytes) -> ApiError:
    """The server's own words out of a `Status` object, or of whatever came instead."""
    try:
        answer = json.loads(data)
        return ApiError(status, str(request), str(answer.get("message") or answer), str(answer.get("reason") or ""))
    except (ValueError, AttributeError):
        return ApiError(status, str(request), data.decode(errors="replace").strip()[:300] or "no words")
