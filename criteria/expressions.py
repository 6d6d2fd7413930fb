"""CEL expressions over one variable, `value`, as users of NVCRE write them: `value >= 900`.

An expression is tried when the judge is made, before anything is launched: one that does not parse, names something
else, does not look at `value` at all or does not answer with true or false would otherwise let a case pass or fail for
reasons that have nothing to do with the machine. The CEL package raises plain Python errors of several classes; they
all become `CriteriaError` here.
"""

from __future__ import annotations

import cel

from criteria.model import CriteriaError

_TRIALS = (0.0, 0.5, 1.0, 97.0, 1e9)
"""Values of either side of usual bounds, so that both branches of `||` and `?:` are tried."""


class Expression:
    """A checked boolean expression over `value` (a double)."""

    def __init__(self, source: str, where: str) -> None:
        self.source = source
        self._where = where
        try:
            self._program = cel.compile(source)
            names = set(self._program.variables())
        except (ValueError, TypeError, KeyError, RuntimeError) as error:
            raise CriteriaError(
                f"{where}: expected a CEL expression over value, found {source!r}: {_first(error)}"
            ) from None
        if "value" not in names:
            raise CriteriaError(
                f"{where}: expected a CEL expression over value such as 'value >= 900', found {source!r}, which does "
                f"not look at value{' but at ' + ', '.join(sorted(names)) if names else ''}"
            )
        for trial in _TRIALS:
            self.holds(trial)

    def holds(self, value: float) -> bool:
        """Whether the expression is true of `value`. Raises `CriteriaError` where it cannot say."""
        try:
            answer = self._program.execute({"value": float(value)})
        except (ValueError, TypeError, KeyError, RuntimeError, OverflowError) as error:
            raise CriteriaError(
                f"{self._where}: {self.source!r} cannot be evaluated for value {value:g}: {_first(error)}; value is a "
                "double, so write 2.0 rather than 2 in arithmetic"
            ) from None
        if not isinstance(answer, bool):
            raise CriteriaError(
                f"{self._where}: expected an expression that is true or false such as 'value >= 900', found "
                f"{self.source!r}, which gives {answer!r}"
            )
        return answer


def _first(error: Exception) -> str:
    text = str(error.args[0] if isinstance(error, KeyError) and error.args else error)
    return text.splitlines()[0].rstrip(":") if text else type(error).__name__
