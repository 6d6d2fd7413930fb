"""The gateway and the view against a server that misbehaves on purpose; the real server's turn is in test_real.py."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster import ClusterError
from k8s.connection import BrokenError
from k8s.gateway import ApiError, Gateway, GoneError
from k8s.watch import View

Answer = tuple[int, dict[str, str], bytes]


class Misbehaving(ThreadingHTTPServer):
    """Answers each path by a script: a list of answers, the last of which is repeated."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script: dict[str, list[Answer | Callable[[Any], None]]] = {}
        self.asked: list[str] = []


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Misbehaving

    def log_message(self, *_: Any) -> None:
        pass

    def answer(self) -> None:
        self.server.asked.append(f"{self.command} {self.path}")
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.split("?")[0] + ("?watch" if "watch=true" in self.path else "")
        answers = self.server.script[path]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if callable(answer):
            answer(self)
            return
        status, headers, body = answer
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_DELETE = answer  # noqa: N815 — names that the base class looks for


def ok(body: Any) -> Answer:
    return 200, {"Content-Type": "application/json"}, json.dumps(body).encode()


def status(code: int, message: str = "no", **headers: str) -> Answer:
    return code, headers, json.dumps({"kind": "Status", "code": code, "message": message, "reason": "R"}).encode()


def hang_up(handler: Any) -> None:
    handler.connection.close()
    handler.close_connection = True


def stream(*pieces: bytes) -> Callable[[Any], None]:
    def send(handler: Any) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for piece in pieces:
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        handler.wfile.write(b"0\r\n\r\n")

    return send


@pytest.fixture
def server() -> Iterator[Misbehaving]:
    it = Misbehaving()
    thread = threading.Thread(target=it.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield it
    it.shutdown()
    it.server_close()
    thread.join()


@pytest.fixture
def gateway(server: Misbehaving, tmp_path: Path) -> Iterator[Gateway]:
    address = f"http://127.0.0.1:{server.server_address[1]}"
    config = {
        "clusters": [{"name": "c", "cluster": {"server": address}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "mine"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "current-context": "c",
    }
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    it = Gateway(str(tmp_path / "kubeconfig"), patience_s=2)
    yield it
    it.close()


def test_the_kubeconfigs_namespace_is_the_default(gateway: Gateway) -> None:
    assert gateway.namespace == "mine"


def test_a_missing_kubeconfig_is_said_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="--kubeconfig=FILE"):
        Gateway(str(tmp_path / "none"))


@pytest.mark.parametrize(
    "trouble",
    [
        status(429, **{"Retry-After": "0"}),
        status(500),
        status(503),
        status(401),
        hang_up,
        (200, {}, b'{"items": [{"na'),
    ],
)
def test_a_read_that_fails_once_is_asked_again(server: Misbehaving, gateway: Gateway, trouble: Any) -> None:
    server.script["/x"] = [trouble, ok({"a": 1})]
    assert gateway.get("/x") == {"a": 1}
    assert len(server.asked) == 2


@pytest.mark.parametrize("code", [400, 403, 409, 422])
def test_a_refusal_is_final_and_keeps_the_servers_words(server: Misbehaving, gateway: Gateway, code: int) -> None:
    server.script["/x"] = [status(code, "because of this")]
    with pytest.raises(ApiError, match="because of this") as caught:
        gateway.create("/x", {})
    assert caught.value.status == code
    assert len(server.asked) == 1


def test_patience_ends(server: Misbehaving, gateway: Gateway) -> None:
    server.script["/x"] = [status(503, "overloaded")]
    with pytest.raises(ApiError, match="overloaded"):
        gateway.get("/x")
    assert 2 <= len(server.asked) <= 12


def test_credentials_are_loaded_again_once_only(server: Misbehaving, gateway: Gateway) -> None:
    server.script["/x"] = [status(401, "expired")]
    with pytest.raises(ApiError, match="expired"):
        gateway.get("/x")
    assert len(server.asked) == 2


def test_lists_are_read_page_by_page_and_begin_again_after_410(server: Misbehaving, gateway: Gateway) -> None:
    first = {"items": [{"n": 1}], "metadata": {"continue": "c", "resourceVersion": "7"}}
    last = {"items": [{"n": 2}], "metadata": {"resourceVersion": "7"}}
    server.script["/x"] = [ok(first), status(410), ok(first), ok(last)]
    assert gateway.items("/x") == ([{"n": 1}, {"n": 2}], "7")


def event(kind: str, name: str) -> bytes:
    return json.dumps({"type": kind, "object": {"metadata": {"name": name}}}).encode() + b"\n"


def test_events_are_put_together_across_pieces(server: Misbehaving, gateway: Gateway) -> None:
    whole = event("ADDED", "ä") + event("DELETED", "b")
    server.script["/x?watch"] = [stream(whole[:9], whole[9:50], whole[50:])]
    assert [one["type"] for one in gateway.watch("/x", (), "1")] == ["ADDED", "DELETED"]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (status(410), GoneError),
        (stream(b'{"type":"ERROR","object":{"code":410}}\n'), GoneError),
        (stream(b'{"type":"ERROR","object":{"code":500,"message":"m"}}\n'), BrokenError),
        (stream(b'{"type":"ADDED","obj'), BrokenError),
        (hang_up, BrokenError),
        (status(403), ApiError),
    ],
)
def test_a_watch_that_ends_badly_says_how(
    server: Misbehaving, gateway: Gateway, answer: Any, error: type[Exception]
) -> None:
    server.script["/x?watch"] = [answer]
    with pytest.raises(error):
        list(gateway.watch("/x", (), "1"))


def listing(*names: str) -> Answer:
    return ok({"items": [{"metadata": {"name": name}} for name in names], "metadata": {"resourceVersion": "1"}})


def wait_for(view: View, names: set[str]) -> bool:
    seen = -1
    for _ in range(50):
        if {item["metadata"]["name"] for item in view.all()} == names:
            return True
        seen = view.wait(seen, 0.2)
    return False


@pytest.mark.parametrize("bad", [status(410), stream(b'{"type":"ADD'), hang_up, stream(), status(500)])
def test_what_a_watch_lost_is_healed_by_the_next_list(server: Misbehaving, gateway: Gateway, bad: Any) -> None:
    server.script["/x"] = [listing("a"), listing("a", "b")]
    server.script["/x?watch"] = [bad]
    view = View(gateway, "/x", (), lambda item: item)
    view.start()
    assert wait_for(view, {"a", "b"})
    view.close()


def test_a_server_that_ends_every_watch_at_once_is_not_asked_in_a_tight_loop(
    server: Misbehaving, gateway: Gateway
) -> None:
    server.script["/x"] = [listing("a")]
    server.script["/x?watch"] = [stream()]
    view = View(gateway, "/x", (), lambda item: item)
    view.start()
    view.wait(view.version, 1.2)
    view.close()
    assert len([call for call in server.asked if "watch=true" in call]) <= 4


def test_deleted_objects_leave_the_view_and_its_index(server: Misbehaving, gateway: Gateway) -> None:
    labelled = {"metadata": {"name": "a", "labels": {"run": "r"}}}
    server.script["/x"] = [ok({"items": [labelled], "metadata": {"resourceVersion": "1"}}), listing()]
    server.script["/x?watch"] = [stream(event("DELETED", "a"))]
    view = View(gateway, "/x", (), lambda item: item, index_label="run")
    view.start()
    assert wait_for(view, set())
    assert view.under("r") == []
    view.close()
