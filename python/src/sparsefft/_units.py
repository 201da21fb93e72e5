"""Numbers with units, as a person writes them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))

#: Units of long times in seconds.
_LONG = ((31557600.0, "years"), (86400.0, "days"), (3600.0, "h"), (60.0, "min"))

#: Most digits after the point: those of a double near 1, less what sums and products lose.
_MOST_DIGITS = 12


def si(value: float, unit: str, digits: int = 4) -> str:
    """A value with the prefix that suits it: 1.083 kHz. Below 1 Hz stays 0.25 Hz."""
    scale, prefix = prefix_for(abs(value))
    if unit == "Hz" and 1e-3 <= abs(value) < 1:
        scale, prefix = 1.0, ""
    return f"{value / scale:.{digits}g} {prefix}{unit}"


def prefix_for(size: float) -> tuple[float, str]:
    """The largest prefix that is not beyond ``size``, as a factor and a letter."""
    if size == 0:
        return 1.0, ""
    for scale, prefix in _PREFIXES:
        if size >= scale:
            return scale, prefix
    return _PREFIXES[-1]


def seconds(time: float) -> str:
    """A time with a unit that suits it."""
    for length, unit in _LONG:
        if time >= 3 * length:
            return f"{time / length:.4g} {unit}"
    return si(time, "s", 3)


def time_unit(length: float) -> tuple[float, str]:
    """The unit that suits an axis of so many seconds, in seconds and by name."""
    for unit, name in _LONG:
        if length >= 3 * unit:
            return unit, name
    scale, prefix = prefix_for(min(length, 1.0))
    return scale, f"{prefix}s"


def digits_for(std: float, resolution: float) -> int:
    """Digits after the point that a standard deviation allows, two of them uncertain.

    ``resolution`` is that of the record; one that is known a million times better is exact.
    """
    least = max(std, 1e-6 * resolution)
    return min(max(1 - math.floor(math.log10(least)), 0), _MOST_DIGITS)


def decibels(power: Any) -> Any:
    """10 log10 of powers; minus infinity of zero."""
    with np.errstate(divide="ignore"):
        return 10 * np.log10(power)


def count(number: int, noun: str) -> str:
    """``1 line``, ``1,234 lines``, ``2 families``."""
    if number == 1:
        return f"1 {noun}"
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{number:,} {plural}"
