"""A proxy in front of a real API server that breaks calls on purpose, a few times each, and then lets them pass."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import urllib3
import yaml
from kubernetes import config
from kubernetes.client import ApiClient, Configuration

Fault = Callable[["Handler"], None]


@dataclass
class Rule:
    """Breaks calls whose `VERB path?query` matches, `times` times after letting `after` pass."""

    pattern: str
    fault: Fault
    times: int = 2
    after: int = 0
    hits: int = field(default=0)


class Handler(BaseHTTPRequestHandler):
    """Passes a call on, or breaks it."""

    protocol_version = "HTTP/1.1"
    server: Proxy
    body = b""

    def log_message(self, *_: Any) -> None:
        pass

    def handle_any(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        rule = self.server.broken(f"{self.command} {self.path}")
        if rule is not None:
            rule.fault(self)
            return
        self.forward()

    do_GET = do_POST = do_PUT = do_DELETE = handle_any  # noqa: N815 — names that the base class looks for

    def forward(self, edit: Callable[[bytes], bytes | None] = lambda piece: piece) -> None:
        """Let the real server answer; `edit` may change a piece of the answer, or end it with None."""
        headers = {name: value for name, value in self.headers.items() if name in ("Content-Type", "Accept")}
        answer = self.server.pool.request(
            self.command,
            self.server.target + self.path,
            body=self.body or None,
            headers=headers,
            preload_content=False,
            timeout=urllib3.Timeout(connect=5, read=90),
        )
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.headers.get("Content-Type", "application/json"))
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for piece in answer.stream(4096):
                changed = edit(piece)
                if changed is None:
                    self.hang_up()
                    return
                self.wfile.write(b"%x\r\n%s\r\n" % (len(changed), changed))
            self.wfile.write(b"0\r\n\r\n")
        except (OSError, urllib3.exceptions.HTTPError):
            self.hang_up()
        finally:
            answer.close()

    def hang_up(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def answer(self, status: int, **headers: str) -> None:
        body = json.dumps({"kind": "Status", "code": status, "message": f"broken on purpose ({status})"}).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def stream(self, *pieces: bytes, then_wait_s: float = 0) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in pieces:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.flush()
        if then_wait_s:
            self.server.ended.wait(then_wait_s)
            self.hang_up()
        else:
            self.wfile.write(b"0\r\n\r\n")


class Proxy(ThreadingHTTPServer):
    """Listens on the loopback, speaks to the cluster of a kubeconfig as its user."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, kubeconfig: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        loader: Any = config
        configuration = Configuration()
        loader.load_kube_config(kubeconfig, None, configuration)
        configuration.connection_pool_maxsize = 64
        client: Any = ApiClient(configuration)
        self.pool: urllib3.PoolManager = client.rest_client.pool_manager
        self.target = configuration.host
        self.rules: list[Rule] = []
        self.ended = threading.Event()
        self.lock = threading.Lock()

    def broken(self, call: str) -> Rule | None:
        with self.lock:
            for rule in self.rules:
                if re.search(rule.pattern, call):
                    rule.hits += 1
                    if rule.after < rule.hits <= rule.after + rule.times:
                        return rule
        return None

    def handle_error(self, *_: Any) -> None:
        pass

    def kubeconfig(self, folder: Path) -> str:
        server = f"http://127.0.0.1:{self.server_address[1]}"
        plain = {
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "current-context": "c",
        }
        (folder / "kubeconfig").write_text(yaml.safe_dump(plain))
        return str(folder / "kubeconfig")


@contextmanager
def proxy(kubeconfig: str) -> Iterator[Proxy]:
    it = Proxy(kubeconfig)
    thread = threading.Thread(target=it.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield it
    finally:
        it.ended.set()
        it.shutdown()
        it.server_close()
        thread.join()
        it.pool.clear()


# --- faults -------------------------------------------------------------------------------------------------------


def dropped(handler: Handler) -> None:
    handler.hang_up()


def half_open(handler: Handler) -> None:
    """Taken, and never answered."""
    handler.server.ended.wait(120)
    handler.hang_up()


def slow(handler: Handler) -> None:
    time.sleep(3)
    handler.forward()


def status(code: int, **headers: str) -> Fault:
    return lambda handler: handler.answer(code, **headers)


def truncated(handler: Handler) -> None:
    """Half of the answer, then a hang-up."""
    sent = 0

    def edit(piece: bytes) -> bytes | None:
        nonlocal sent
        sent += 1
        return piece[: len(piece) // 2] if sent == 1 else None

    handler.forward(edit=edit)


def cut_json(handler: Handler) -> None:
    """Complete as HTTP, cut as JSON."""
    handler.stream(b'{"kind":"List","items":[{"metadata":{"na')


def lost_answer(handler: Handler) -> None:
    """The write is done, and its answer never arrives."""
    handler.forward(edit=lambda _: None)


def gone_inside(handler: Handler) -> None:
    handler.stream(b'{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old"}}\n')


def closed_at_once(handler: Handler) -> None:
    handler.stream()


def silent(handler: Handler) -> None:
    handler.stream(then_wait_s=120)
