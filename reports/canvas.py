"""The look of every chart: one type size, few colours, nothing that does not say something.

Figures are drawn without pyplot (which keeps global state and picks a backend), so they may be made in any thread and
on a machine without a display. Outcomes differ in lightness and hatching, not only in hue: a printed page in grey, and
a reader who does not see red, still show which is which. matplotlib is heavy: who draws imports
this module and `charts` only then.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from functools import wraps
from textwrap import fill
from typing import Any, ParamSpec

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Patch

Arguments = ParamSpec("Arguments")

INK = "#1f2933"
SOFT = "#7b8794"
RULE = "#d9dee3"
BLUE = "#2f6690"
GOOD = "#a8cfe0"
BAD = "#8c1c13"
UNSURE = "#e9b44c"
NOTHING = "#f2f4f6"

FILLS: dict[str, dict[str, Any]] = {
    "passed": {"facecolor": GOOD, "edgecolor": "#6ea8c2"},
    "failed": {"facecolor": BAD, "edgecolor": "#5e120c"},
    "unclear": {"facecolor": UNSURE, "edgecolor": "#b07d14", "hatch": "////"},
    "invalid": {"facecolor": NOTHING, "edgecolor": SOFT, "hatch": "...."},
}
RC: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "axes.edgecolor": RULE,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "text.color": INK,
    "hatch.linewidth": 0.6,
    "hatch.color": INK,
}
WIDTH = 9.0
DPI = 150
TITLE_WIDTH = 88


def styled(draw: Callable[Arguments, bytes]) -> Callable[Arguments, bytes]:
    """Draw in our look: matplotlib takes it from global settings at the moment when each thing is made."""

    @wraps(draw)
    def drawn(*args: Arguments.args, **kwargs: Arguments.kwargs) -> bytes:
        with rc_context(RC):
            return draw(*args, **kwargs)

    return drawn


def axes(title: str, note: str = "", *, height: float = 4.2) -> tuple[Figure, Axes]:
    """A figure with one pair of axes under a title that says the finding, and a quieter note below it."""
    figure = Figure(figsize=(WIDTH, height), dpi=DPI, layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12))
    plot = figure.add_subplot()
    heading = fill(title, TITLE_WIDTH)
    below = fill(note, 110) if note else ""
    lines = below.count("\n") + 1 if below else 0
    plot.set_title(heading, loc="left", fontsize=12, fontweight="bold", color=INK, pad=10 + 13 * lines)
    if below:
        plot.annotate(
            below, (0, 1), (0, 6), xycoords="axes fraction", textcoords="offset points", va="bottom", color=SOFT
        )
    plot.spines[["top", "right"]].set_visible(False)
    plot.tick_params(length=3)
    plot.set_axisbelow(True)
    return figure, plot


def png(figure: Figure) -> bytes:
    """The figure as PNG, the same bytes for the same data."""
    out = io.BytesIO()
    figure.savefig(out, format="png", facecolor="white", metadata={"Software": None})
    return out.getvalue()


def legend(plot: Axes, outcomes: Sequence[str]) -> None:
    """What the fills mean, to the right of the plot."""
    handles = [Patch(label=name, **FILLS[name]) for name in outcomes]
    plot.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.005, 1.0), frameon=False)


def label(plot: Axes, text: str, at: tuple[float, float], offset: tuple[float, float], **style: Any) -> None:
    """Text beside a point, `offset` in points, on a ground that keeps lines from running through it."""
    ground = {"boxstyle": "square,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.75}
    plot.annotate(text, at, offset, textcoords="offset points", bbox=ground, zorder=4, **style)
