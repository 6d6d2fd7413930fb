"""Which GPUs this machine has: through NVML where its bindings are installed, else through `nvidia-smi`.

Neither is a dependency. A machine where both are absent or fail has no GPUs, as far as a test of it can be run.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass

QUERY_LIMIT_S = 20.0
"""`nvidia-smi` on a machine with a sick GPU may hang; then it has nothing to offer."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU as the driver describes it."""

    name: str
    uuid: str = ""
    driver: str = ""

    @property
    def product(self) -> str:
        """As the GPU label of Kubernetes has it (`nvidia.com/gpu.product`): blanks become dashes."""
        return "-".join(self.name.split())


def from_nvml() -> list[Gpu]:
    """Through NVML; raises ImportError without its bindings and their error without a driver."""
    import pynvml  # noqa: PLC0415 - optional, and only a machine with GPUs has a use for it

    pynvml.nvmlInit()
    try:
        driver = _text(pynvml.nvmlSystemGetDriverVersion())
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        return [
            Gpu(_text(pynvml.nvmlDeviceGetName(handle)), _text(pynvml.nvmlDeviceGetUUID(handle)), driver)
            for handle in handles
        ]
    finally:
        pynvml.nvmlShutdown()


def from_nvidia_smi() -> list[Gpu]:
    """Through the driver's command; raises OSError or SubprocessError where it cannot be asked."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return []
    query = [command, "--query-gpu=name,uuid,driver_version", "--format=csv,noheader"]
    done = subprocess.run(query, capture_output=True, text=True, timeout=QUERY_LIMIT_S, check=True)
    return parse_nvidia_smi(done.stdout)


def parse_nvidia_smi(text: str) -> list[Gpu]:
    """Lines of `name, uuid, driver`; others (a warning, "No devices were found") are no GPUs."""
    rows = [[part.strip() for part in line.split(",")] for line in text.splitlines()]
    return [Gpu(*row) for row in rows if len(row) == 3 and row[1].startswith("GPU-")]


def find_gpus(ways: Iterable[Callable[[], list[Gpu]]] = (from_nvml, from_nvidia_smi)) -> tuple[Gpu, ...]:
    """The GPUs by the first of `ways` that finds any."""
    for way in ways:
        try:
            found = way()
        except Exception:  # noqa: S112 - a library that is absent or a driver that is ill: no GPUs this way
            continue
        if found:
            return tuple(found)
    return ()


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
