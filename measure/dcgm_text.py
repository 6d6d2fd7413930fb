"""DCGM's text tables: `dcgmi diag` of 2, 3 and 4, `dcgmi mndiag`, `dcgmi health`.

Cells are wrapped after 45 characters in the middle of words, so the pieces of a cell are joined without a blank. A row
that lost its right border was cut; the table is whole when its closing border was seen.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from measure.dcgm_facts import STATUS_WORDS, bandwidths, executed, facts_of_messages, status
from measure.draft import FACT, PASS, Draft
from measure.lines import Line
from measure.model import LogError, Result

_ROW = re.compile(r"^\|(.{27})[|+](.*)$")
_SECTION = re.compile(r"^[|+]-{3,}  (\S.*?)  -+\+")
_BORDER = re.compile(r"^\+-{27}\+-{40,}\+\s*$")
_STATUS = re.compile(rf"^({STATUS_WORDS})(?: - (All|GPUs?: [\d, ]+))?$")
_GPU_STATUS = re.compile(rf"^GPU ?(\d+): ({STATUS_WORDS})$")
_STARTS = re.compile(rf"^(?:(?:{STATUS_WORDS})(?: - |\s*$)|GPU ?\d+: (?:{STATUS_WORDS})|Error: |\d+: \S)")
_MESSAGE = re.compile(r"^(Warning|Info|Error)\b(?:.*?GPU ?(\d+))?")
_GPU = re.compile(r"\bGPU ?(\d+)\b")
_HOST = re.compile(r"^Host (\d+)$")
_HEALTH_GPU = re.compile(r"^-> (?:GPU )?(\d+)$")
_HEALTH_SYSTEM = re.compile(r"^-> (.*\S) system$")
_REFUSED = re.compile(
    r"^Error: ((?:[Uu]nable to (?:establish a connection|connect to host engine|complete diagnostic|run)"
    r"|Diagnostic could not be run|The diagnostic|Host engine).*)$"
)
_WRAP: Final = 45
_VERSIONS: Final = {"DCGM Version": "dcgm", "Driver Version Detected": "driver", "Driver Version": "driver"}


@dataclass(slots=True)
class _Cell:
    """A cell that may go on in the next row."""

    name: str
    indent: int
    text: str


@dataclass(slots=True)
class _Test:
    """A test in the making: its results by GPU, and the messages that name a GPU or none."""

    name: str
    category: str | None
    host: str | None = None
    by_gpu: dict[int | None, str] = field(default_factory=dict)
    errors: dict[int | None, list[str]] = field(default_factory=dict)
    infos: list[str] = field(default_factory=list)


class DcgmText:
    """Reader of DCGM's tables."""

    marks = ("|", "+-", "Error: ")

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._section: str | None = None
        self._cell: _Cell | None = None
        self._tests: list[_Test] = []
        self._hosts: dict[int, str] = {}
        self._host: int | None = None
        self._stray: list[str] = []
        self._gpu: int | None = None
        self._kinds: dict[str, None] = {}
        self._rows = 0
        self._closed = False
        self._torn = False
        self._begun = False

    def feed(self, line: Line) -> int:
        """Take a line."""
        body = line.body
        if not body.startswith(("|", "+-")):
            return self._refused(body)
        if section := _SECTION.match(body):
            self._flush()
            self._section = section.group(1)
            self._closed = False
            self._draft.generation += 1
            return FACT
        if _BORDER.match(body):
            self._flush()
            self._closed = self._rows > 0
            return FACT
        row = _ROW.match(body)
        if not row:
            self._torn = self._torn or (self._rows > 0 and not line.whole)
            return FACT if self._rows else PASS
        return self._row(row.group(1), row.group(2))

    def _refused(self, body: str) -> int:
        """What dcgmi prints where it ran no diagnostic at all."""
        if not (match := _REFUSED.match(body)):
            return PASS
        self._kinds.setdefault("text")
        self._draft.error(LogError(what=match.group(1).strip()))
        self._draft.cut("the diagnostic did not run")
        return FACT

    def _row(self, left: str, right: str) -> int:
        whole = right.rstrip().endswith("|")
        if not whole:
            self._torn = True
        text = right.rstrip().removesuffix("|")
        # A cell has one blank before its text and two behind it; health tables are wider than diagnostic ones.
        piece = text[1:-2] if whole and len(text) > _WRAP else text[1:].rstrip()
        name, indent = left.strip(), len(left) - len(left.lstrip())
        if name.startswith("=") or name == "Diagnostic":
            self._begun = True
            return FACT
        self._rows += 1
        self._closed = False
        if name or self._cell is None or _STARTS.match(piece.rstrip()):
            self._flush()
            self._cell = _Cell(name, indent, piece)
        else:
            self._cell.text += piece
        return FACT

    def _flush(self) -> None:
        """A cell has ended: what it says depends on its section and its name."""
        cell, self._cell = self._cell, None
        if cell is None:
            return
        text = cell.text.rstrip()
        if cell.name.startswith("->") or cell.name == "Overall Health" or "health" in self._kinds:
            self._health(cell, text)
        elif self._section == "Metadata":
            self._metadata(cell.name, text)
        elif self._section in {"Host Details", "Error Summary"}:
            self._host_detail(cell.name, text)
        else:
            self._diagnostic(cell.name, text)

    def _metadata(self, name: str, text: str) -> None:
        draft = self._draft
        if name in _VERSIONS:
            draft.versions[_VERSIONS[name]] = text
        elif name.startswith("GPU Device IDs"):
            devices = [device.strip() for device in text.split(",") if device.strip()]
            draft.details.update(device_ids=devices, gpus=len(devices))
        elif name == "Hosts Found" and text.isdigit():
            draft.nodes = int(text)
        elif name == "Total GPUs" and text.isdigit():
            draft.details["gpus"] = int(text)
        elif match := re.match(r"^(\d+): (\S+)$", text):
            self._hosts[int(match.group(1))] = match.group(2)
            draft.hosts.setdefault(match.group(2))
        elif name.endswith(" Test"):
            self._kinds.setdefault("mndiag")
            draft.details.update(status=text, test=name.removesuffix(" Test"))

    def _host_detail(self, name: str, text: str) -> None:
        """Multi-node diagnostic: a host, its GPUs and their errors (the summary only repeats them)."""
        self._kinds.setdefault("mndiag")
        if self._section == "Error Summary":
            return
        if match := _HOST.match(name):
            self._host = int(match.group(1))
            self._gpu = None
        elif name.startswith("GPU"):
            test = self._test(str(self._draft.details.get("test", "multi-node diagnostic")))
            for number in re.findall(r"\d+", name):
                self._gpu = int(number)
                test.by_gpu[self._gpu] = status(text)
        elif text.startswith("Error: "):
            if self._gpu is not None and self._tests:
                self._tests[-1].errors.setdefault(self._gpu, []).append(text.removeprefix("Error: "))
            else:
                host = None if self._host is None else self._hosts.get(self._host)
                self._draft.error(LogError(host=host, what=text.removeprefix("Error: ")))

    def _test(self, name: str) -> _Test:
        """The test of this name in this section on this host, which is the last one or a new one."""
        host = None if self._host is None else self._hosts.get(self._host, f"host {self._host}")
        if not self._tests or (self._tests[-1].name, self._tests[-1].host) != (name, host):
            self._tests.append(_Test(name, self._section, host))
        return self._tests[-1]

    def _diagnostic(self, name: str, text: str) -> None:
        self._kinds.setdefault("text")
        message = _MESSAGE.match(name)
        if message:
            self._message(message.group(1), message.group(2), text)
        elif name:
            self._status(self._test(name), text)
        elif self._tests:
            self._status(self._tests[-1], text)

    def _status(self, test: _Test, text: str) -> None:
        if match := _GPU_STATUS.match(text):
            test.by_gpu[int(match.group(1))] = status(match.group(2))
        elif match := _STATUS.match(text):
            numbers = re.findall(r"\d+", match.group(2) or "")
            for gpu in map(int, numbers):
                test.by_gpu[gpu] = status(match.group(1))
            if not numbers:
                test.by_gpu[None] = status(match.group(1))
        elif text:
            test.infos.append(text)

    def _message(self, kind: str, named: str | None, text: str) -> None:
        match = _GPU.search(text)
        gpu = int(named) if named else (int(match.group(1)) if match else None)
        if not self._tests or (kind == "Error" and self._tests[-1].category != self._section):
            if kind == "Error":
                # The level was aborted: the row stands where a test should.
                test = self._test(self._section or "diagnostic")
                test.by_gpu[gpu] = "error"
                test.errors.setdefault(gpu, []).append(text)
            else:
                self._stray.append(text)
        elif kind == "Info":
            self._tests[-1].infos.append(text)
        else:
            self._tests[-1].errors.setdefault(gpu, []).append(text)

    def _health(self, cell: _Cell, text: str) -> None:
        self._kinds.setdefault("health")
        if cell.name == "Overall Health":
            self._draft.details["overall"] = text
        elif match := _HEALTH_GPU.match(cell.name):
            self._gpu = int(match.group(1))
            self._draft.details.setdefault("gpu", self._gpu)
        elif match := _HEALTH_SYSTEM.match(cell.name):
            self._draft.details.setdefault("system", match.group(1))
            test = _Test(f"{match.group(1)} system", "health", by_gpu={self._gpu: status(text)})
            self._tests.append(test)
        elif self._tests and text:
            self._tests[-1].errors.setdefault(self._gpu, []).append(text)

    def finish(self) -> None:
        """Write results into the draft."""
        self._flush()
        if not self._kinds or not (self._tests or self._draft.details or self._draft.versions or self._draft.errors):
            if self._begun and not self._closed:
                self._draft.cut("the diagnostic's table is cut behind its header")
            return
        kind = next(kind for kind in ("mndiag", "health", "text") if kind in self._kinds)
        draft = self._draft
        draft.formats.append(f"dcgm-{kind}")
        found = [result for test in self._tests for result in _results(test)]
        draft.results.extend(found)
        draft.details.update(executed(found))
        draft.details.update(facts_of_messages(found))
        pcie = bandwidths([*self._stray, *(text for test in self._tests for text in test.infos)])
        if pcie:
            draft.details["pcie_gbps"] = pcie
        draft.closed = draft.closed or (self._closed and not self._torn)
        if not self._closed or self._torn:
            draft.cut("the diagnostic's table is cut: its closing border or a row's end is missing")


def _results(test: _Test) -> list[Result]:
    """One result for each GPU the test names; a message without GPU belongs to all that did not pass."""
    out = []
    for gpu, word in test.by_gpu.items():
        texts = list(test.errors.get(gpu, []))
        if gpu is not None and word != "pass":
            texts += test.errors.get(None, [])
        if gpu is None and word != "pass" and not any(key is not None for key in test.by_gpu):
            texts += [text for key, some in test.errors.items() if key is not None for text in some]
        out.append(
            Result(
                test=test.name,
                status=word,
                gpu=gpu,
                error="; ".join(texts) or None,
                host=test.host,
                category=test.category,
                info=tuple(test.infos),
            )
        )
    return out
