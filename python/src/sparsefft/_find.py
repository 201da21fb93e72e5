"""``find``: what is in this signal? Here the native half's dictionaries become findings."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from . import _native
from ._arguments import drawn, worker_count
from ._fft import Seed
from ._findings import Findings
from ._record import Signal, later, record
from ._spectrum import Certificate
from ._tables import (
    Attempt,
    Bands,
    Bursts,
    Clusters,
    Cost,
    Family,
    Floor,
    Lines,
    Reason,
    Sweeps,
)

Effort: TypeAlias = Literal["usual", "quick", "thorough"]

#: Bytes that reading all samples may take, unless another number is asked for.
MEMORY = 4 << 30


def find(
    x: Any,
    fs: float | None = None,
    *,
    at_most: int | None = None,
    effort: Effort = "usual",
    memory: int = MEMORY,
    seed: Seed = 0,
    failure_probability: float | None = None,
    workers: int | None = None,
    center: float | None = None,
) -> Findings:
    """What is in this signal: lines, bands, bursts, sweeps, families, and the floor beneath them.

    A few samples are read first; where the rest is not steady white noise, all of them are, and
    everything is measured against a local floor. There is nothing to choose.

    Parameters
    ----------
    x : array_like
        One signal: real or complex numbers of any type, byte order and strides, read in place; a
        list; what :func:`read` gives; a pandas Series, an xarray DataArray, an obspy Trace, whose
        rate and beginning are taken from it. Of an array with channels give one after the other.
    fs : float, optional
        Samples per second. With it, frequencies are in Hz and times in seconds; without it, in
        cycles per sample and in samples.
    at_most : int, optional
        List only the strongest lines. It bounds the list and nothing else.
    effort : {"usual", "quick", "thorough"}
        ``"quick"`` never reads all samples, ``"thorough"`` always does.
    memory : int
        Bytes that reading all samples may take (48 for each real sample, 96 for each complex one).
        A signal that needs more is answered from a part of its samples.
    seed : int or "random"
        Decides which samples are read first; see :class:`Plan`.
    failure_probability : float, optional
        Accepted probability that noise makes a finding (default 1e-6).
    workers : int, optional
        Number of threads, as for :class:`Plan`.
    center : float, optional
        Frequency in Hz that 0 stands for: what the receiver was tuned to.

    Returns
    -------
    Findings

    Raises
    ------
    ValueError
        No samples, more than one dimension, NaN or infinite samples, an option out of range, a
        rate that contradicts that of ``x``, an index whose steps differ.
    TypeError
        ``x`` holds no numbers, or is a masked array.
    MemoryError
        The buffers do not fit.

    Examples
    --------
    >>> t = np.arange(48_000) / 48_000
    >>> rng = np.random.default_rng(0)
    >>> x = 0.5 * np.sin(2 * np.pi * 440.25 * t) + 0.01 * rng.normal(size=t.size)
    >>> findings = find(x, fs=48_000)
    >>> findings.lines.frequency.round(2)
    array([440.25])
    >>> findings.lines.amplitude.round(2)
    array([0.5])
    >>> find(x).lines.frequency.round(6)
    array([0.009172])
    """
    signal = record(x, fs, center)
    found = _native.find(
        signal.samples,
        at_most=at_most,
        effort=effort,
        memory=memory,
        seed=drawn(seed),
        failure_probability=failure_probability,
        workers=worker_count(workers),
    )
    return _convert(found, signal, None if at_most is None else int(at_most))


class Scale:
    """From cycles per sample and samples to the units of an answer."""

    def __init__(self, signal: Signal) -> None:
        self._signal = signal
        self.rate = 1.0 if signal.fs is None else signal.fs
        self._center = signal.center or 0.0

    def place(self, frequency: Any) -> Any:
        """A frequency."""
        return frequency * self.rate + self._center

    def width(self, width: Any) -> Any:
        """A difference of frequencies, or a decay per sample."""
        return width * self.rate

    def slope(self, slope: Any) -> Any:
        """A change of frequency."""
        return slope * self.rate**2

    def duration(self, samples: NDArray[np.int64]) -> NDArray[np.float64]:
        """A length of time."""
        return samples / self.rate

    def time(self, samples: NDArray[np.int64]) -> NDArray[Any]:
        """When these samples were taken."""
        start, fs = self._signal.start_time, self._signal.fs
        if fs is None:
            return samples.copy()
        if isinstance(start, np.datetime64):
            kind = "M8[ns]"
            return np.array([later(start, i / fs) for i in samples.tolist()], kind)
        return samples / fs + (start or 0.0)


def _convert(found: dict[str, Any], signal: Signal, at_most: int | None) -> Findings:
    scale = Scale(signal)
    attempts = tuple(Attempt(**attempt) for attempt in found["attempts"])
    return Findings(
        n=found["n"],
        fs=signal.fs,
        center=signal.center,
        start_time=signal.start_time,
        full_scale=signal.full_scale,
        real=found["real"],
        lines=_lines(found["lines"], scale),
        bands=_bands(found["bands"], scale),
        bursts=Bursts(**_timed(found["bursts"], scale, ("low", "high"))),
        sweeps=_sweeps(found["sweeps"], scale),
        families=tuple(_family(family, scale) for family in found["families"]),
        floor=_floor(found["floor"], scale),
        verdict=found["verdict"],
        reasons=tuple(Reason(code, text) for code, text in found["reasons"]),
        threshold_db=found["threshold_db"],
        failure_probability=found["failure_probability"],
        at_most=at_most,
        left_out=found["left_out"],
        seed=found["seed"],
        cost=Cost(attempts, found["memory"]),
        mode=found["mode"],
        clusters=convert_clusters(found["clusters"], scale),
        certificate=Certificate(**found["certificate"]),
    )


def convert_waves(
    table: dict[str, Any], scale: Scale, mirrored: NDArray[np.bool_]
) -> dict[str, Any]:
    """What lines and tones have in common: of real samples the peak value, not its half."""
    sizes = np.where(mirrored, 2.0, 1.0)
    return {
        "frequency": scale.place(table["frequency"]),
        "frequency_std": scale.width(table["frequency_std"]),
        "amplitude": sizes * np.abs(table["coefficient"]),
        "amplitude_std": sizes * table["amplitude_std"],
        # Adding zero turns -0.0 into 0.0.
        "phase": np.angle(table["coefficient"]) + 0.0,
        "snr_db": table["snr_db"],
        "drift": scale.slope(table["drift"]),
        "drift_std": scale.slope(table["drift_std"]),
    }


def _lines(table: dict[str, Any], scale: Scale) -> Lines:
    waves = convert_waves(table, scale, table["mirrored"])
    return Lines(
        kind=np.array(table["kind"], dtype=str),
        width=scale.width(table["width"]),
        damping=scale.width(table["damping"]),
        mirrored=table["mirrored"],
        **waves,
    )


def _bands(table: dict[str, Any], scale: Scale) -> Bands:
    places = {name: scale.place(table[name]) for name in ("low", "high", "peak")}
    return Bands(**{**table, **places})


def _timed(table: dict[str, Any], scale: Scale, places: tuple[str, ...]) -> dict[str, Any]:
    moved = {name: scale.place(table[name]) for name in places}
    time, duration = scale.time(table["start"]), scale.duration(table["length"])
    return {**table, **moved, "time": time, "duration": duration}


def _sweeps(table: dict[str, Any], scale: Scale) -> Sweeps:
    timed = _timed(table, scale, ("first", "last"))
    return Sweeps(**{**timed, "rate": scale.slope(table["rate"])})


def _family(family: dict[str, Any], scale: Scale) -> Family:
    carrier = family["carrier"]
    return Family(
        spacing=scale.width(family["spacing"]),
        carrier=None if carrier is None else scale.place(carrier),
        orders=tuple(family["orders"]),
        members=tuple(family["members"]),
    )


def _floor(table: dict[str, Any], scale: Scale) -> Floor:
    place, density = scale.place(table["frequency"]), table["density"] / scale.rate
    return Floor(place, density, table["std_db"], table["threshold_db"])


def convert_clusters(table: dict[str, Any], scale: Scale) -> Clusters:
    """Groups of tones too near to be told apart."""
    return Clusters(scale.place(table["centre"]), scale.width(table["width"]), table["power"])
