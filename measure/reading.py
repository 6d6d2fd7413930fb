"""The one pass over a log: blocks to lines, lines to the readers, and what they found to a `Measurement`.

Speed comes from shapes: a line without its digits and hexadecimal letters. Thousands of ranks print the same few
hundred shapes; a shape that no reader wants, or wants only once, is skipped from then on without being decoded. A
reader that changes what lines mean (a header) wakes all shapes again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from measure.dcgm_other import MultiNodeGemm, NvlinkStatus
from measure.dcgm_text import DcgmText
from measure.draft import FACT, Draft, Reader
from measure.events import Events
from measure.foreign import ForeignTables
from measure.json_documents import JsonDocuments
from measure.lines import Line, blocks, parse
from measure.logformats import LogFormat, load
from measure.model import Measurement
from measure.nccl_info import NcclInfo
from measure.nccl_table import NcclTables
from measure.osu import OsuTables
from measure.own import OwnLines
from measure.perftest import PerftestTables
from measure.training import Log, TrainingLogs
from measure.ucc import UccTables

READERS: Final[tuple[Callable[[Draft], Reader], ...]] = (
    JsonDocuments,
    ForeignTables,
    NcclTables,
    NcclInfo,
    OwnLines,
    DcgmText,
    NvlinkStatus,
    MultiNodeGemm,
    OsuTables,
    PerftestTables,
    UccTables,
)
"""All formats, in the order in which they are asked and finish."""
_DIGITS: Final = b"0123456789abcdef"
_MAX_SHAPES: Final = 50_000
_ENOUGH: Final = 16
"""Lines of one shape that are read before the shape is skipped: whoever writes it is then known in a small log."""
_FEW: Final = 64
"""Lines of a block below which it is not worth looking for repeats."""
_MANY: Final = 256
"""Lines of a block from which it is worth looking for marks first."""
_LONG: Final = 1 << 14
"""Characters above which a line can only be JSON: no other format prints such lines, and patterns are slow on them."""
_LOOK_ON: Final = 8
"""Blocks that are searched for the names of writers after the last new one was found, and at the beginning."""
_LOOK_EVERY: Final = 32
"""Of the other blocks, one in so many is searched."""


def read(
    data: bytes | Iterable[bytes],
    *,
    file: str = "",
    format: str | None = None,  # noqa: A002  the word of the public interface
    formats: Sequence[LogFormat] | None = None,
) -> Measurement:
    """Read one log, whatever it is.

    Args:
        data: the bytes, or an iterable of pieces of them (a stream is read in constant memory).
        file: the name to carry in the result.
        format: the format to name in the result where the log speaks several; guessed where None.
        formats: log formats of trainings (`logformats.load`); None means the shipped ones.

    Returns:
        What was found. Content never raises; what is missing or torn is said in `warnings`, and `complete` is False.
    """
    reading = _Reading(load() if formats is None else formats)
    for block, whole in blocks(data):
        reading.block(block, whole)
    return reading.finish(file, format)


class _Reading:
    def __init__(self, formats: Sequence[LogFormat]) -> None:
        self.draft = Draft()
        # Events come glued to other lines, so a line they take goes on to the readers; they name the log last.
        self.events = Events(self.draft)
        self.readers: list[Reader] = [make(self.draft) for make in READERS]
        self.training = TrainingLogs(self.draft, formats)
        self.readers.append(self.training)
        self.long_readers = [reader for reader in self.readers if isinstance(reader, JsonDocuments | OwnLines)]
        self.progress: dict[bytes, Log] = {}
        """Shapes of progress lines, and the log each belongs to."""
        marks = [mark for reader in (self.events, *self.readers) for mark in reader.marks]
        self.marks = tuple(dict.fromkeys(mark.encode() for mark in marks))
        self.patterns: dict[tuple[bytes, ...], re.Pattern[bytes]] = {}
        self.writers = next(reader for reader in self.readers if isinstance(reader, NcclInfo))
        self.boring: set[bytes] = set()
        self.generation = 0
        self.seen: dict[bytes, int] = {}
        self.any = False
        self.unfinished = False
        self.blocks = 0
        self.look_until = _LOOK_ON

    def block(self, block: bytes, whole: bool) -> None:
        """All lines of a block; `whole` is False where its last line has no end."""
        self.any = True
        self.unfinished = not whole
        shapes = block.translate(None, _DIGITS).split(b"\n")
        fresh = set(shapes) - self.boring
        self.blocks += 1
        sampled = self.blocks <= self.look_until or self.blocks % _LOOK_EVERY == 0
        if not (fresh or self.draft.holds or sampled):
            return
        lines = block.split(b"\n")
        last = len(lines) - 1
        if sampled and self.writers.sample(lines):
            self.look_until = self.blocks + _LOOK_ON
        wanted = [at for at, shape in enumerate(shapes) if shape in fresh]
        if self.progress and len(wanted) > _FEW:
            wanted = self._without_repeats(block, lines, shapes, wanted)
        if len(wanted) > _MANY and not self.draft.bare_rows:
            wanted = self._with_marks(block, lines, wanted)
        generation = self.generation
        for at in [] if self.draft.holds else wanted:
            if shapes[at] not in self.boring:
                self._line(lines[at], shapes[at], whole or at < last)
                if self.draft.holds or self.generation != generation:
                    self._every_line(lines, shapes, at + 1, whole)
                    return
        if self.draft.holds:
            self._every_line(lines, shapes, 0, whole)

    def _with_marks(self, block: bytes, lines: list[bytes], wanted: list[int]) -> list[int]:
        """The lines of a block that hold a mark of some reader: prose of many words has as many shapes as lines."""
        if sum(any(mark in lines[at] for mark in self.marks) for at in wanted[:: len(wanted) // 8]) > 2:
            return wanted
        present = tuple(mark for mark in self.marks if mark in block)
        if not present:
            return []
        pattern = self.patterns.get(present)
        if pattern is None:
            pattern = self.patterns[present] = re.compile(b"|".join(map(re.escape, present)))
        return [at for at in wanted if pattern.search(lines[at])]

    def _without_repeats(self, block: bytes, lines: list[bytes], shapes: list[bytes], wanted: list[int]) -> list[int]:
        """The lines of a block without what other ranks print of steps that are known."""
        progress = self.progress
        for log in {id(log): log for log in map(progress.get, {shapes[at] for at in wanted}) if log}.values():
            places = [at for at in wanted if progress.get(shapes[at]) is log]
            keep = log.worth_reading(block, [lines[at] for at in places])
            dropped = {at for at, worth in zip(places, keep, strict=True) if not worth}
            wanted = [at for at in wanted if at not in dropped]
        return wanted

    def _every_line(self, lines: list[bytes], shapes: list[bytes], start: int, whole: bool) -> None:
        """The rest of a block line by line: what is skipped may change at any of them."""
        last = len(lines) - 1
        for at in range(start, len(lines)):
            if self.draft.holds or shapes[at] not in self.boring:
                self._line(lines[at], shapes[at], whole or at < last)

    def _line(self, raw: bytes, shape: bytes, whole: bool) -> None:
        line = parse(raw, whole)
        wanted = self._feed(line)
        if self.training.took is not None and len(self.progress) < _MAX_SHAPES:
            self.progress[shape] = self.training.took
        if self.generation != self.draft.generation:
            self.generation = self.draft.generation
            self.boring.clear()
            self.progress.clear()
            self.seen.clear()
        if wanted == FACT:
            return
        times = self.seen.get(shape, 0) + 1
        if times >= _ENOUGH and len(self.boring) < _MAX_SHAPES:
            self.boring.add(shape)
            self.seen.pop(shape, None)
        elif len(self.seen) < _MAX_SHAPES:
            self.seen[shape] = times

    def _feed(self, line: Line) -> int:
        if len(line.body) > _LONG:
            return max(reader.feed(line) for reader in self.long_readers)
        event = self.events.feed(line)
        for reader in self.readers:
            taken = reader.feed(line)
            if taken:
                return max(taken, event)
        return event

    def finish(self, file: str, wanted: str | None) -> Measurement:
        """The measurement of what was fed."""
        draft = self.draft
        for reader in self.readers:
            reader.finish()
        self.events.finish()
        if self.unfinished and not draft.closed:
            draft.cut("the last line has no end")
        if not draft.formats:
            draft.cut("nothing in this file is of a known format" if self.any else "the file is empty")
        tables_whole = all(table.complete for table in draft.tables) and all(t.complete for t in draft.tool_tables)
        return Measurement(
            file=file,
            format=wanted if wanted in draft.formats else (draft.formats[0] if draft.formats else "unknown"),
            formats=tuple(dict.fromkeys(draft.formats)),
            complete=bool(draft.formats) and tables_whole and not draft.incomplete,
            collective=draft.collective,
            ranks=draft.ranks,
            nodes=draft.nodes,
            tables=tuple(draft.tables),
            tool_tables=tuple(draft.tool_tables),
            per_rank=tuple(draft.per_rank),
            cycles=tuple(draft.cycles),
            errors=tuple(draft.errors),
            events=tuple(draft.events),
            warnings=(*draft.incomplete, *draft.warnings),
            versions=draft.versions,
            transport=draft.transport,
            steps=tuple(draft.steps),
            results=tuple(draft.results),
            hosts=tuple(draft.hosts),
            tool=draft.tool,
            details=draft.details,
            result_line=draft.result_line,
        )
