"""From a typed measurement to its part of the record: the figures only, with their units.

The measurement also holds what was read on the way (raw words of old columns, file names, engine details); the record
keeps what a reader of a report can use. What the log did not say is left out, never zero.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import criteria
from criteria import METRICS
from measure import Cell as MeasuredCell
from measure import Measurement
from measure import Table as MeasuredTable
from reports.record import Cell, MeasurementRecord, Metric, Row, SizeSpread, Spread, Table


def measurement_record(measurement: Measurement) -> MeasurementRecord:
    """The record of one measurement, with every metric that the criteria know and the measurement has."""
    return MeasurementRecord(
        format=measurement.format,
        complete=measurement.complete,
        collective=measurement.collective or "",
        ranks=measurement.ranks or 0,
        nodes=measurement.nodes or 0,
        metrics={
            name: Metric(value=value, unit=METRICS[name].unit) for name, value in criteria.metrics(measurement).items()
        },
        tables=[_table(table) for table in measurement.tables],
        per_rank=[dict(entry) for entry in measurement.per_rank],
        spread=_spread(measurement),
        steps=[step.to_json() for step in measurement.steps],
        results=[result.to_json() for result in measurement.results],
        warnings=list(measurement.warnings),
        versions=dict(measurement.versions),
    )


def _spread(measurement: Measurement) -> list[SizeSpread]:
    """Least, middle and largest over the repeats: the repeats themselves would be most of a large report."""
    if len(measurement.cycles) < 2:
        return []
    rows = [row for cycle in measurement.cycles for row in cycle.get("rows", ()) if isinstance(row.get("size"), int)]
    by_size: dict[int, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_size.setdefault(row["size"], []).append(row)
    return [
        SizeSpread(size=size, repeats=len(same), time_us=_extremes(same, "time_us"), busbw=_extremes(same, "busbw"))
        for size, same in by_size.items()
    ]


def _extremes(rows: Sequence[Mapping[str, Any]], quantity: str) -> Spread | None:
    said = (row.get(quantity) for row in rows)
    values = [float(value) for value in said if isinstance(value, int | float) and math.isfinite(value)]
    return Spread(min=min(values), median=median(values), max=max(values)) if values else None


def _table(table: MeasuredTable) -> Table:
    return Table(
        rows=[
            Row(
                size=row.size,
                count=row.count,
                type=row.type,
                redop=row.redop,
                root=row.root,
                out_of_place=_cell(row.out_of_place),
                in_place=_cell(row.in_place),
            )
            for row in table.rows
        ],
        avg_busbw=table.avg_busbw,
        out_of_bounds=table.out_of_bounds,
    )


def _cell(cell: MeasuredCell | None) -> Cell | None:
    if cell is None:
        return None
    return Cell(time_us=cell.time_us, algbw=cell.algbw, busbw=cell.busbw, wrong=cell.wrong)
