"""Kubernetes quantities (`8`, `500m`, `10Gi`, `1e3`) as exact numbers, as the API server compares them."""

from __future__ import annotations

from fractions import Fraction

SUFFIXES = {
    **{f"{letter}i": Fraction(2 ** (10 * (power + 1))) for power, letter in enumerate("KMGTPE")},
    **{letter: Fraction(1000 ** (power + 1)) for power, letter in enumerate("kMGTPE")},
    "m": Fraction(1, 1000),
    "u": Fraction(1, 1_000_000),
    "n": Fraction(1, 1_000_000_000),
}


def amount(text: str | float) -> Fraction:
    """The number that a quantity stands for. Raises `ValueError` for anything else."""
    word = str(text).strip()
    for suffix, factor in SUFFIXES.items():
        if word.endswith(suffix):
            return Fraction(word.removesuffix(suffix)) * factor
    return Fraction(word)
