"""Text of a run to a typed measurement: one module a format, tolerant of what logs carry, strict about what they mean.

`read` takes the bytes of any log and never raises on them; `python -m measure FILE…` prints the same as JSON lines.
"""

from measure.model import Cell, LogError, LogEvent, Measurement, Result, Row, Step, Table, ToolTable
from measure.reading import read

__all__ = [
    "Cell",
    "LogError",
    "LogEvent",
    "Measurement",
    "Result",
    "Row",
    "Step",
    "Table",
    "ToolTable",
    "read",
]
