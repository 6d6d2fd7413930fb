"""Leases: sets all or nothing, a living holder is never robbed, a dead one's nodes come free, and lost means lost.

Against a store with the API server's compare-and-swap; the real server's turn is in test_real.py.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from cluster import Stop
from k8s.gateway import ApiError
from k8s.lease import Leases, micro_time

Json = dict[str, Any]


class Store:
    """Create, get, replace and delete with resource versions, as the gateway gives them."""

    def __init__(self) -> None:
        self.things: dict[str, Json] = {}
        self.version = 0
        self.lock = threading.Lock()
        self.closed = threading.Event()

    def _put(self, path: str, body: Json) -> Json:
        self.version += 1
        stored = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}
        self.things[path] = stored
        return stored

    def create(self, path: str, body: Json) -> Json:
        with self.lock:
            whole = f"{path}/{body['metadata']['name']}"
            if whole in self.things:
                raise ApiError(409, path, "exists")
            return self._put(whole, body)

    def get(self, path: str) -> Json | None:
        return self.things.get(path)

    def replace(self, path: str, body: Json) -> Json:
        with self.lock:
            there = self.things.get(path)
            if there is None:
                raise ApiError(404, path, "none")
            if there["metadata"]["resourceVersion"] != body["metadata"].get("resourceVersion"):
                raise ApiError(409, path, "changed")
            return self._put(path, body)

    def delete(self, path: str, *, version: str = "") -> bool:
        with self.lock:
            there = self.things.get(path)
            if there is None:
                return False
            if version and there["metadata"]["resourceVersion"] != version:
                raise ApiError(409, path, "changed")
            del self.things[path]
            return True

    def wait(self, seconds: float) -> bool:
        return self.closed.wait(seconds)

    def holders(self) -> dict[str, str]:
        return {path.rsplit("/", 1)[1]: one["spec"]["holderIdentity"] for path, one in self.things.items()}


@pytest.fixture
def store() -> Iterator[Store]:
    it = Store()
    yield it
    it.closed.set()


def leases(store: Store, holder: str, duration_s: float = 30.0) -> Leases:
    gateway: Any = store
    return Leases(gateway, "ns", holder, duration_s)


def test_a_set_is_taken_whole_and_given_back_whole(store: Store) -> None:
    mine = leases(store, "a")
    assert mine.acquire(["n2", "n1"], 0, Stop()) == ""
    assert store.holders() == {"n1": "a", "n2": "a"}
    mine.release(["n1", "n2"])
    assert store.holders() == {}


def test_what_cannot_be_had_whole_is_not_held_in_part(store: Store) -> None:
    leases(store, "a").acquire(["n2"], 0, Stop())
    assert leases(store, "b").acquire(["n1", "n2", "n3"], 0, Stop()) == "n2 is held by session a"
    assert store.holders() == {"n2": "a"}


def test_a_session_that_starts_again_takes_its_own_nodes_at_once(store: Store) -> None:
    leases(store, "a").acquire(["n1"], 0, Stop())
    assert leases(store, "a").acquire(["n1"], 0, Stop()) == ""


def test_a_holder_that_shows_life_keeps_its_node_and_a_dead_one_loses_it(store: Store) -> None:
    alive = leases(store, "alive", duration_s=0.6)
    alive.acquire(["n1"], 0, Stop())
    assert leases(store, "b", 0.6).acquire(["n1"], 1.8, Stop()) == "n1 is held by session alive"
    store.things["/apis/coordination.k8s.io/v1/namespaces/ns/leases/n2"] = {
        "metadata": {"name": "n2", "resourceVersion": "1"},
        "spec": {"holderIdentity": "dead", "leaseDurationSeconds": 1, "leaseTransitions": 4},
    }
    taker = leases(store, "c", 0.6)
    assert taker.acquire(["n2"], 6, Stop()) == ""
    assert store.things["/apis/coordination.k8s.io/v1/namespaces/ns/leases/n2"]["spec"]["leaseTransitions"] == 5
    assert alive.lost(["n1"]) == []


def test_a_stop_ends_the_wait(store: Store) -> None:
    leases(store, "a").acquire(["n1"], 0, Stop())
    stop = Stop()
    threading.Timer(0.2, lambda: stop.set("Ctrl-C")).start()
    assert leases(store, "b").acquire(["n1"], 60, stop) == "n1 is held by session a"


def test_a_lease_that_another_took_is_lost(store: Store) -> None:
    mine = leases(store, "a", duration_s=0.6)
    mine.acquire(["n1"], 0, Stop())
    path = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/n1"
    store._put(path, {**store.things[path], "spec": {"holderIdentity": "thief"}})
    for _ in range(40):
        if mine.lost(["n1"]):
            break
        time.sleep(0.05)
    assert mine.lost(["n1"]) == ["n1"]
    mine.release(["n1"])
    assert store.holders() == {"n1": "thief"}


def test_two_sessions_with_crossing_sets_both_get_through(store: Store) -> None:
    got: list[str] = []
    inside: list[str] = []
    overlap: list[tuple[str, ...]] = []

    def session(name: str, nodes: list[str]) -> None:
        mine = leases(store, name, duration_s=0.6)
        for _ in range(5):
            got.append(mine.acquire(nodes, 30, Stop()))
            inside.append(name)
            overlap.append(tuple(inside))
            time.sleep(0.02)
            inside.remove(name)
            mine.release(nodes)

    threads = [threading.Thread(target=session, args=(name, nodes)) for name, nodes in SETS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert got == [""] * 10
    assert all(len(one) == 1 for one in overlap)


SETS = [("a", ["n1", "n2", "n3"]), ("b", ["n3", "n2", "n4"])]


def test_micro_time_has_exactly_six_digits() -> None:
    text = micro_time(datetime(2026, 12, 1, 10, 0, 0, 0, tzinfo=UTC))
    assert text == "2026-12-01T10:00:00.000000Z"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", micro_time(datetime.now(UTC)))
