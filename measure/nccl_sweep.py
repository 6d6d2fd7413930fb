"""The sweep of message sizes a run of nccl-tests announced, and whether a table holds all of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(slots=True)
class Plan:
    """First and last size in bytes, and the factor or the bytes between two sizes."""

    first: int
    last: int
    step: int
    factor: bool

    def sizes(self) -> int:
        """How many sizes it has (the loop over sizes of nccl-tests' common.cu)."""
        if self.first > self.last or self.step < 1:
            return 1
        if not self.factor or self.step < 2:
            return (self.last - self.first) // self.step + 1
        count, size = 0, max(self.first, 1)
        while size <= self.last:
            size *= self.step
            count += 1
        return count


def gaps(plan: Plan | None, sizes: Sequence[int]) -> list[str]:
    """What is missing: against the plan (a table may hold it several times), else by the distance of neighbours."""
    if plan and sizes:
        wanted = plan.sizes()
        return [f"{len(sizes)} rows where the sweep has {wanted} sizes"] if len(sizes) % wanted else []
    # Small sizes are rounded to whole elements, so that their distances say nothing.
    ups = [(low, high) for low, high in pairwise([size for size in sizes if size >= 1024]) if high > low]
    if len(ups) < 2:
        return []
    ratio, step = min(high / low for low, high in ups), min(high - low for low, high in ups)
    missing = [1 for low, high in ups if high / low > 1.5 * ratio and high - low > 1.5 * step]
    return ["a size is missing between two rows"] if missing else []
