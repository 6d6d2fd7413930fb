"""Two other outputs of DCGM: the letters of `dcgmi nvlink -s`, and the raw log of the multi-node GEMM diagnostic."""

from __future__ import annotations

import re
from typing import Any

from measure.draft import FACT, PASS, SEEN, Draft
from measure.lines import Line
from measure.model import LogError, Result

_GPU = re.compile(r"^\s*gpuId (\d+):\s*$")
_LINKS = re.compile(r"^\s*([UDX_](?: [UDX_])*)\s*$")
_NAMES = {"U": "up", "D": "down", "X": "disabled", "_": "not_supported"}
_RANK = re.compile(r"^MNUB \[(\w)\] G: (\d+) (\S+) L: (\d+)  (.*\S)")
_GLOBAL = re.compile(r"^MNUB \[I\] GLOBAL PERF ([GN]) : ([\d.e+]+) (GFlops|GB/s) stddev ([\d.e+]+)\s*$")
_PERF = re.compile(r"^MNUB \[I\] RANK PERF ([GN]) : RANK (\d+) : ([\d.e+]+) (GFlops|GB/s) stddev")
_UNITS = {"G": "gflops", "N": "gbps"}


class NvlinkStatus:
    """Reader of `dcgmi nvlink -s`: one letter a link."""

    marks = ("gpuId",)

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._gpu: int | None = None
        self._links: dict[int, str] = {}

    def feed(self, line: Line) -> int:
        """Take a line."""
        body = line.body
        if "gpuId" in body and (match := _GPU.match(body)):
            self._gpu = int(match.group(1))
            self._draft.hold("nvlink", waiting=True)
            self._draft.generation += 1
            return FACT
        self._draft.hold("nvlink", waiting=False)
        if self._gpu is not None and line.whole and (match := _LINKS.match(body)):
            self._links[self._gpu] = match.group(1).replace(" ", "")
            self._gpu = None
            return FACT
        return PASS

    def finish(self) -> None:
        """Links by GPU, and one result for each GPU: a link that is down fails."""
        draft = self._draft
        if self._gpu is not None:
            draft.cut(f"the links of GPU {self._gpu} are missing")
        if not self._links:
            return
        draft.formats.append("dcgm-nvlink")
        out: dict[str, dict[str, Any]] = {}
        for gpu, letters in self._links.items():
            entry: dict[str, Any] = {name: letters.count(letter) for letter, name in _NAMES.items()}
            for letter in "DX":
                if letter in letters:
                    entry[f"{_NAMES[letter]}_links"] = [at for at, found in enumerate(letters) if found == letter]
            out[str(gpu)] = entry
            down = entry.get("down_links")
            error = f"NVLink {', '.join(map(str, down))} down" if down else None
            draft.results.append(
                Result(test="NVLink status", status="fail" if down else "pass", gpu=gpu, error=error, category="nvlink")
            )
        draft.details["nvlink"] = out


class MultiNodeGemm:
    """Reader of the raw log of `dcgmi mndiag` (MNUBERGEMM)."""

    marks = ("MNUB [",)

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._hosts: dict[str, None] = {}
        self._where: dict[str, str] = {}
        self._perf: dict[str, dict[str, float]] = {"G": {}, "N": {}}
        self._global: dict[str, float] = {}
        self._errors: list[tuple[str, int, int, str]] = []
        self._finished: set[str] = set()
        self._seen = False

    def feed(self, line: Line) -> int:
        """Take a line."""
        body = line.body
        if not body.startswith("MNUB ["):
            return PASS
        self._seen = True
        if match := _RANK.match(body):
            level, rank, host, local, text = match.groups()
            self._hosts.setdefault(host)
            self._where[rank] = f"{host} L{local}"
            if text.endswith("FINISHED"):
                self._finished.add(rank)
            if level == "E" and line.whole:
                self._errors.append((host, int(local), int(rank), re.sub(r"^T:\w+ ", "", text)))
            return FACT
        if match := _PERF.match(body):
            self._perf[match.group(1)][match.group(2)] = float(match.group(3))
            return FACT
        if match := _GLOBAL.match(body):
            kind = match.group(1)
            self._global[f"{kind}_{_UNITS[kind]}"] = float(match.group(2))
            self._global[f"{kind}_sd"] = float(match.group(4))
            return FACT
        return SEEN

    def finish(self) -> None:
        """Figures by rank (GFLOP/s and GB/s), errors by host and local GPU."""
        if not self._seen:
            return
        draft = self._draft
        draft.formats.append("dcgm-mndiag-log")
        draft.tool = "dcgmi mndiag (mnubergemm)"
        draft.hosts.update(self._hosts)
        draft.nodes = len(self._hosts)
        draft.ranks = len(self._where) or None
        measured = self._perf["G"] or self._perf["N"]
        draft.details.update(
            {
                "global": self._global,
                "rank_G_gflops": self._perf["G"],
                "rank_N_gbps": self._perf["N"],
                "rank_host": {rank: where for rank, where in sorted(self._where.items()) if rank in measured},
            }
        )
        draft.per_rank.extend(
            {"rank": int(rank), "gflops": value, "gbps": self._perf["N"].get(rank), "host": self._where.get(rank)}
            for rank, value in self._perf["G"].items()
        )
        for host, local, rank, text in self._errors:
            draft.error(LogError(rank=rank, host=host, what=text))
            draft.results.append(
                Result(test="MNUBERGEMM", status="error", gpu=local, error=text, host=host, category="multi-node")
            )
        if not self._global:
            draft.cut("the diagnostic has no summary")
        if unfinished := measured.keys() - self._finished:
            draft.cut(f"{len(unfinished)} rank(s) did not say that they finished")
