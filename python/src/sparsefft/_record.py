"""What a container says of its samples: their rate, when they begin, what 0 Hz and 1 stand for.

Containers are recognised by what they can do, so that no package has to be there.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ._arguments import host_array

#: When a record begins: a point in time (UTC), or seconds on the axis of its container.
Start: TypeAlias = np.datetime64 | float

#: Steps of an index may differ from their mean by this share: times that are rounded to a coarse
#: clock (milliseconds at 250 Hz) do. A missing sample makes a step of twice the mean.
_STEP_TOLERANCE = 0.3

#: Rates that agree to this share are the same: indices count nanoseconds, which at 100 kHz are
#: 1e-4 of a step.
_RATE_TOLERANCE = 1e-3

#: Seconds in units that coordinates of xarray may name.
_SECONDS = {
    "s": 1.0, "sec": 1.0, "second": 1.0, "seconds": 1.0,
    "ms": 1e-3, "millisecond": 1e-3, "milliseconds": 1e-3,
    "us": 1e-6, "µs": 1e-6, "microseconds": 1e-6,
    "ns": 1e-9, "nanoseconds": 1e-9,
    "min": 60.0, "minute": 60.0, "minutes": 60.0,
    "h": 3600.0, "hour": 3600.0, "hours": 3600.0,
    "d": 86400.0, "day": 86400.0, "days": 86400.0,
}  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class Signal:
    """Samples and what is known of them, as :func:`read` gives them.

    Every function of this package takes one in place of an array; :func:`find` and :func:`tones`
    take the rate from it. ``np.asarray(signal)`` gives the samples, ``signal[a:b]`` a part.

    Examples
    --------
    >>> signal = Signal(np.zeros(480), fs=48e3)
    >>> signal[96:].start_time
    0.002
    >>> signal
    Signal: 480 samples of float64 at 48 kHz, 10 ms
    """

    #: The samples, memory-mapped where the file allows it.
    samples: NDArray[Any]
    #: Samples per second, or None.
    fs: float | None = None
    #: When the first sample was taken, or None.
    start_time: Start | None = None
    #: Frequency in Hz that 0 stands for: what the receiver was tuned to; or None.
    center: float | None = None
    #: What 0 dBFS stands for: 1 for floats, 2**(b-1) for integers of b bits; None: levels are re 1.
    full_scale: float | None = None

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if dtype is not None and np.dtype(dtype) != self.samples.dtype:
            if copy is False:
                raise ValueError(f"samples of {self.samples.dtype} become {dtype} by a copy only")
            return self.samples.astype(dtype)
        return self.samples.copy() if copy else self.samples

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes."""
        return self.samples.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self.samples.ndim

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the samples."""
        return self.samples.dtype

    @property
    def duration(self) -> float | None:
        """Seconds, where the rate is known."""
        return None if self.fs is None else len(self) / self.fs

    def __getitem__(self, key: Any) -> Any:
        """A sample, or for a slice a Signal that begins later."""
        if not isinstance(key, slice) or self.ndim != 1:
            return self.samples[key]
        first, _, step = key.indices(len(self))
        if step < 0:
            raise ValueError(f"a step of {step} turns time round; reverse the samples themselves")
        start, fs = self.start_time, self.fs
        if fs is not None:
            start = later(0.0 if start is None else start, first / fs)
            fs = fs / step
        return replace(self, samples=self.samples[key], fs=fs, start_time=start)

    def __repr__(self) -> str:
        from ._units import seconds, si

        words = f"Signal: {' x '.join(map(str, self.shape))} samples of {self.dtype}"
        if self.fs is not None:
            words += f" at {si(self.fs, 'Hz', 6)}, {seconds(len(self) / self.fs)}"
        if self.center is not None:
            words += f" around {si(self.center, 'Hz', 9)}"
        if isinstance(self.start_time, np.datetime64):
            words += f", from {self.start_time} UTC"
        elif self.start_time:
            words += f", from {seconds(self.start_time)}"
        return words


def later(start: Start, seconds: float) -> Start:
    """A point in time so many seconds after another."""
    if isinstance(start, np.datetime64):
        moved: np.datetime64 = start.astype("M8[ns]") + np.timedelta64(round(seconds * 1e9), "ns")
        return moved
    return start + seconds


def record(x: Any, fs: Any, center: Any = None) -> Signal:
    """The samples of any container, with what it and the caller say of them.

    The samples are one signal in ordinary memory.
    """
    known = _contents(x)
    given = positive(fs, "fs", "samples per second")
    if given is not None and known.fs is not None:
        if abs(given - known.fs) > _RATE_TOLERANCE * known.fs:
            raise ValueError(
                f"fs = {given:g} Hz, but {_kind(x)} says {known.fs:.9g} Hz; leave fs out, or give "
                "the samples alone, as np.asarray(x)"
            )
    if given is not None and given != known.fs:
        known = replace(known, fs=given)
    if center is not None:
        known = replace(known, center=finite(center, "center", "a frequency in Hz"))
        if known.fs is None:
            raise ValueError(f"center = {center}: it needs the rate, too; give fs in Hz")
    _check_shape(known.samples)
    return known


def _check_shape(samples: NDArray[Any]) -> None:
    if samples.ndim == 0:
        raise ValueError("x is a single number; it must be an array of one dimension")
    if samples.ndim > 1:
        # Channels are fewer than samples, whichever axis they lie along.
        rows = samples.ndim == 2 and samples.shape[0] < samples.shape[1]
        part = "x[0], x[1], ..." if rows else "x[:, 0], x[:, 1], ..."
        raise ValueError(
            f"x has shape {samples.shape}, but one signal has one dimension; give one channel "
            f"after the other: {part}"
        )
    if len(samples) == 0:
        raise ValueError("x has no samples; at least 1 is needed")


def _contents(x: Any) -> Signal:
    if isinstance(x, Signal):
        return x
    if isinstance(x, np.ndarray):
        return Signal(host_array(x))
    if hasattr(x, "traces") and hasattr(x, "__getitem__"):
        raise TypeError(
            f"x is a {type(x).__name__} of {len(x.traces)} traces; one signal is one trace: give "
            "x[0]"
        )
    if hasattr(x, "stats") and hasattr(x, "data"):
        return _trace(x)
    if hasattr(x, "dims") and hasattr(x, "coords"):
        if hasattr(x, "data_vars"):
            first = next(iter(x.data_vars), "name")
            raise TypeError(
                f"x is a {type(x).__name__} of {len(x.data_vars)} variables; one signal is one "
                f"variable: give x[{first!r}]"
            )
        return _data_array(x)
    if hasattr(x, "iloc") and hasattr(x, "index"):
        if hasattr(x, "columns"):
            first = next(iter(x.columns), "name")
            raise TypeError(
                f"x is a table of {len(x.columns)} columns; one signal is one column: give "
                f"x[{first!r}]"
            )
        return _series(x)
    return Signal(host_array(x))


def _kind(x: Any) -> str:
    """What holds the rate, in words."""
    if isinstance(x, Signal):
        return "the recording"
    if hasattr(x, "stats"):
        return "x.stats.sampling_rate"
    return "the coordinate of x" if hasattr(x, "dims") else "the index of x"


def _trace(x: Any) -> Signal:
    """A Trace of obspy."""
    rate = getattr(x.stats, "sampling_rate", None)
    start = getattr(x.stats, "starttime", None)
    begins = None
    if start is not None and hasattr(start, "ns"):
        begins = np.datetime64(int(start.ns), "ns")
    elif start is not None and hasattr(start, "datetime"):
        begins = np.datetime64(start.datetime, "ns")
    samples = host_array(x.data)
    return Signal(samples, positive(rate, "x.stats.sampling_rate", "samples per second"), begins)


def _series(x: Any) -> Signal:
    """A Series of pandas."""
    if hasattr(x.index, "step"):
        # A range counts the samples, without an array of their numbers.
        return Signal(host_array(x.to_numpy()))
    index = x.index.to_timestamp() if hasattr(x.index, "to_timestamp") else x.index
    if getattr(index, "tz", None) is not None:
        # Times of a zone become those of UTC.
        index = index.tz_convert(None)
    way_out = "resample it, or give the samples alone with their rate: x.to_numpy(), fs=..."
    fs, start = _axis(index.to_numpy(), 1.0, "the index of x", way_out)
    return Signal(host_array(x.to_numpy()), fs, start)


def _data_array(x: Any) -> Signal:
    """A DataArray of xarray."""
    samples = host_array(x.data if isinstance(x.data, np.ndarray) else x.values)
    name = x.dims[0] if samples.ndim == 1 else None
    if name is None or name not in x.coords:
        return Signal(samples)
    coordinate = x.coords[name]
    places, unit = coordinate.values, coordinate.attrs.get("units")
    scale = 1.0
    if places.dtype.kind in "iuf" and unit is not None:
        if unit not in _SECONDS:
            # An axis in metres is no axis of time.
            return Signal(samples)
        places, scale = places.astype(np.float64), _SECONDS[unit]
    way_out = "resample it, or give the samples alone with their rate: x.values, fs=..."
    fs, start = _axis(places, scale, f"the coordinate {name!r} of x", way_out)
    return Signal(samples, fs, start)


def _axis(
    axis: NDArray[Any], scale: float, name: str, way_out: str
) -> tuple[float | None, Start | None]:
    """Rate and beginning that the places of the samples tell; ``scale``: seconds of the number 1.

    Whole numbers count samples: they tell no rate, but must have one step.
    """
    kind = axis.dtype.kind
    if kind not in "iufmM" or len(axis) < 2:
        return None, None
    if kind in "mM":
        places, scale = _nanoseconds(axis, name), 1e-9
        missing = bool((places == np.iinfo(np.int64).min).any())
    else:
        places = axis.astype(np.float64 if kind == "f" else np.int64, copy=False)
        missing = kind == "f" and not bool(np.isfinite(places).all())
    if missing:
        raise ValueError(f"{name} has missing values; {way_out}")
    steps = np.diff(places)
    mean = float(places[-1] - places[0]) / len(steps)
    least, most = float(steps.min()), float(steps.max())
    if mean < 0 and most < 0:
        raise ValueError(f"{name} runs backwards; sort it, or give the samples alone: x[::-1]")
    if mean <= 0 or max(mean - least, most - mean) > _STEP_TOLERANCE * mean:
        unit = "" if kind in "iu" else " s"
        factor = 1.0 if kind in "iu" else scale
        raise ValueError(
            f"{name} has steps from {least * factor:.6g} to {most * factor:.6g}{unit}, but samples "
            f"must follow each other at one distance; {way_out}"
        )
    if kind in "iu":
        return None, None
    # Rounding of the places leaves a dozen digits.
    fs = float(f"{1 / (mean * scale):.12g}")
    if kind == "M":
        return fs, np.datetime64(int(places[0]), "ns")
    return fs, float(places[0] * scale)


def _nanoseconds(axis: NDArray[Any], name: str) -> NDArray[np.int64]:
    """Times or lengths of time as whole nanoseconds; those of the years 1678 to 2261 fit."""
    if axis.dtype.kind == "M":
        years = 1970 + axis[[0, -1]].astype("M8[Y]").astype(np.int64)
        valid = years[~np.isnat(axis[[0, -1]])]
        if len(valid) and not (1678 <= valid.min() and valid.max() <= 2261):
            raise ValueError(
                f"{name} has times of the years {valid.min()} to {valid.max()}, but only 1678 to "
                "2261 are read; give the samples alone with their rate"
            )
    whole: NDArray[np.int64] = axis.astype(f"{axis.dtype.kind}8[ns]", copy=False).view(np.int64)
    return whole


def positive(value: Any, name: str, what: str) -> float | None:
    """A number above 0, or None."""
    if value is None:
        return None
    number = finite(value, name, what)
    if number <= 0:
        raise ValueError(f"{name} = {value}: it must be greater than 0, {what}")
    return number


def finite(value: Any, name: str, what: str) -> float:
    """A number that is not infinite."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a real number ({what}), not {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{name} = {value}: it must be finite, {what}")
    return number
