"""``tones``: sinusoids whose frequencies lie between the bins, from a few samples."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from . import _native
from ._arguments import drawn, worker_count
from ._fft import Seed
from ._find import Scale, convert_clusters, convert_waves
from ._record import Start, record
from ._spectrum import Certificate
from ._tables import Clusters, Floats, Table


@dataclass(frozen=True)
class Tone:
    """One sinusoid."""

    #: Frequency; of a drifting tone at the first sample.
    frequency: float
    #: Its standard deviation.
    frequency_std: float
    #: Peak value A of A cos(2 pi f t + phase), of complex samples A of A exp(i (2 pi f t + phase)).
    amplitude: float
    #: Its standard deviation.
    amplitude_std: float
    #: Phase at the first sample, in radians.
    phase: float
    #: Its standard deviation.
    phase_std: float
    #: Power of the tone over that of the noise in one bin of the whole record, in dB; infinite
    #: where no noise was seen.
    snr_db: float
    #: Change of the frequency, Hz per second or cycles per sample per sample; NaN if none was seen.
    drift: float
    #: Its standard deviation.
    drift_std: float
    #: Whether the samples are real, so that there is a mirror image at the negative frequency.
    mirrored: bool


@dataclass(frozen=True)
class ToneBand:
    """A narrow-band signal that is no tone: modulated, or noise of its own."""

    #: Lower edge. A band around half the rate has an edge beyond it.
    low: float
    #: Upper edge.
    high: float
    #: Mean power abs(x)**2 between the edges.
    power: float


@dataclass(frozen=True, eq=False, repr=False)
class ToneBands(Table[ToneBand]):
    """Bands; the columns are those of :class:`ToneBand`."""

    _row = ToneBand
    low: Floats
    high: Floats
    power: Floats


@dataclass(frozen=True, eq=False, repr=False)
class ToneTable(Table[Tone]):
    """The columns of :class:`Tone`."""

    _row = Tone
    frequency: Floats
    frequency_std: Floats
    amplitude: Floats
    amplitude_std: Floats
    phase: Floats
    phase_std: Floats
    snr_db: Floats
    drift: Floats
    drift_std: Floats
    mirrored: NDArray[np.bool_]


@dataclass(frozen=True, eq=False, repr=False)
class Tones(ToneTable):
    """The tones of a signal, by frequency: each property is an array, ``tones[0]`` one tone.

    Frequencies are in Hz where the rate is known, in cycles per sample otherwise;
    :attr:`frequency_unit` says which. Of real samples only 0 ... fs/2 is listed.

    Examples
    --------
    >>> t = np.arange(1 << 20) / 1e6
    >>> found = sparsefft.tones(np.cos(2 * np.pi * 1234.5678 * t + 1), fs=1e6)
    >>> found.frequency.round(6), found.amplitude.round(6), found.phase.round(6)
    (array([1234.5678]), array([1.]), array([1.]))
    >>> found.certificate.is_certified
    True
    """

    #: Number of samples.
    n: int
    #: Samples per second, or None.
    fs: float | None
    #: Frequency in Hz that 0 stands for, or None.
    center: float | None
    #: When the first sample was taken, or None.
    start_time: Start | None
    #: What 0 dBFS stands for, or None: levels are re 1.
    full_scale: float | None
    #: Whether the samples are real.
    real: bool
    #: Most tones that were asked for, or None.
    k: int | None
    #: Narrow-band signals that are no tones.
    bands: ToneBands
    #: Groups of tones too near to be told apart.
    clusters: Clusters
    #: Whether the tones account for the signal, and the evidence.
    certificate: Certificate
    #: Tones that were found but are not among those asked for.
    left_out: int
    #: Seed of the random choices.
    seed: int
    #: Samples read, counted with repetition.
    samples_read: int
    #: Seconds for all of it.
    seconds: float
    #: Seconds by stage.
    stages: dict[str, float]

    def __post_init__(self) -> None:
        for column in self.columns().values():
            column.setflags(write=False)

    def columns(self) -> dict[str, Any]:
        """All columns by name."""
        return {field.name: getattr(self, field.name) for field in fields(ToneTable)}

    # A part of the tones has no certificate.
    @overload  # type: ignore[override]
    def __getitem__(self, key: int) -> Tone: ...
    @overload
    def __getitem__(self, key: slice | NDArray[Any]) -> ToneTable: ...
    def __getitem__(self, key: Any) -> Any:
        return ToneTable(**self.columns())[key]

    def __iter__(self) -> Iterator[Tone]:
        return iter(ToneTable(**self.columns()))

    @property
    def is_certified(self) -> bool:
        """Whether the answer passed every test."""
        return self.certificate.is_certified

    @property
    def frequency_unit(self) -> str:
        """``"Hz"`` or ``"cycles per sample"``."""
        return "cycles per sample" if self.fs is None else "Hz"

    @property
    def level_unit(self) -> str:
        """``"dBFS"`` for recordings with a full scale, or ``"dB re 1"``."""
        return "dB re 1" if self.full_scale is None else "dBFS"

    def level_db(self, amplitude: Any) -> Any:
        """An amplitude, or an array of them, in :attr:`level_unit`."""
        with np.errstate(divide="ignore"):
            return 20 * np.log10(np.asarray(amplitude) / (self.full_scale or 1.0))

    def to_frame(self) -> Any:
        """A pandas DataFrame of the tones; its ``attrs`` hold the verdict and the unit."""
        frame = super().to_frame()
        verdict = self.certificate.verdict
        frame.attrs.update(
            verdict=verdict, frequency_unit=self.frequency_unit, fs=self.fs, n=self.n
        )
        return frame

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings, lists and dicts, with the names of :meth:`Findings.to_dict`."""
        from ._json import tones_dict

        return tones_dict(self)

    def plot(self, ax: Any = None) -> Any:
        """Draw the tones and the detection limit with matplotlib; returns the axes."""
        from ._findings_plot import plot_tones

        return plot_tones(self, ax)

    def __repr__(self) -> str:
        from ._findings_text import describe_tones

        return describe_tones(self)

    def _repr_html_(self) -> str:
        from ._findings_text import describe_tones_html

        return describe_tones_html(self)


@functools.lru_cache(maxsize=32, typed=True)
def _plan(
    n: int,
    k: int | None,
    real: bool,
    snr: float | None,
    failure_probability: float | None,
    seed: int,
) -> _native.Plan:
    return _native.Plan(
        n,
        k,
        real=real,
        tol=None,
        snr=snr,
        failure_probability=failure_probability,
        algorithm="auto",
        taper=None,
        fallback="auto",
        seed=seed,
    )


def _forget_tone_plans() -> None:
    _plan.cache_clear()


def tones(
    x: Any,
    fs: float | None = None,
    *,
    k: int | None = None,
    snr: float | None = None,
    failure_probability: float | None = None,
    seed: Seed = 0,
    workers: int | None = None,
    center: float | None = None,
) -> Tones:
    """The sinusoids of a signal, at any frequencies, from a few of its samples.

    For signals that are tones in white noise; :func:`find` answers for all others, and uses this
    where it suffices.

    Parameters
    ----------
    x, fs, center
        As for :func:`find`.
    k : int, optional
        List at most so many tones, the strongest; of real samples a tone and its mirror image count
        once. It is also taken as a hint of how many there are.
    snr : float, optional
        How weak a tone may be: signal-to-noise ratio in dB in one sample. ``inf``: no noise.
        Without it, tones down to -10 dB are looked for.
    failure_probability : float, optional
        Accepted probability of a false tone (default 1e-6).
    seed, workers
        As for :class:`Plan`.

    Returns
    -------
    Tones
        Raises what :func:`find` raises.

    Examples
    --------
    >>> t = np.arange(1 << 18)
    >>> x = np.exp(2j * np.pi * 0.123456789 * t) + 0.25 * np.exp(-2j * np.pi * 0.3 * t)
    >>> found = tones(x, k=2)
    >>> found.frequency.round(9)
    array([-0.3       ,  0.12345679])
    >>> found.amplitude.round(6)
    array([0.25, 1.  ])
    """
    signal = record(x, fs, center)
    real = signal.samples.dtype.kind != "c"
    arguments = (len(signal), k, real, snr, failure_probability, drawn(seed))
    try:
        # A seed that was drawn serves one call: its plan would only push others out of the cache.
        plan = (_plan.__wrapped__ if isinstance(seed, str) else _plan)(*arguments)
    except TypeError:
        # An argument that cannot be hashed, or is of the wrong type; the plan says which.
        plan = _plan.__wrapped__(*arguments)
    found = _native.tones(plan, signal.samples, worker_count(workers))
    scale, left_out = Scale(signal), found["left_out"]
    table, bands, clusters = found["tones"], found["bands"], found["clusters"]
    mirrored = np.zeros(len(table["frequency"]), bool)
    if real:
        table, left_out = _half(table), (left_out + 1) // 2
        bands = _rows(bands, bands["low"] + bands["high"] >= 0)
        clusters = _rows(clusters, clusters["centre"] >= 0)
        mirrored = (table["frequency"] > 0) & (table["frequency"] < 0.5)
    places = {name: scale.place(bands[name]) for name in ("low", "high")}
    return Tones(
        **convert_waves(table, scale, mirrored),
        phase_std=table["phase_std"],
        mirrored=mirrored,
        n=found["n"],
        fs=signal.fs,
        center=signal.center,
        start_time=signal.start_time,
        full_scale=signal.full_scale,
        real=real,
        k=None if k is None else int(k),
        bands=ToneBands(**{**bands, **places}),
        clusters=convert_clusters(clusters, scale),
        certificate=Certificate(**found["certificate"]),
        left_out=left_out,
        seed=found["seed"],
        samples_read=found["samples_read"],
        seconds=found["seconds"],
        stages=found["stages"],
    )


def _half(table: dict[str, Any]) -> dict[str, Any]:
    """Of real samples the frequencies 0 ... 1/2; the others are mirror images."""
    half = _rows(table, (table["frequency"] >= 0) | (table["frequency"] == -0.5))
    half["frequency"] = np.abs(half["frequency"])
    return half


def _rows(table: dict[str, Any], kept: NDArray[np.bool_]) -> dict[str, Any]:
    return {name: column[kept] for name, column in table.items()}
