"""What is in a signal: the answer of :func:`find`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ._record import Start
from ._spectrum import Certificate
from ._tables import Bands, Bursts, Clusters, Cost, Family, Floor, Lines, Reason, Sweeps


@dataclass(frozen=True, eq=False, repr=False)
class Findings:
    """Lines, bands, bursts, sweeps and families of a signal, and the floor beneath them.

    Frequencies are in Hz where the rate is known, in cycles per sample otherwise;
    :attr:`frequency_unit` says which. Of real samples only 0 ... fs/2 is listed. ``print`` shows
    the strongest of each kind, a notebook a table with a picture.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> t = np.arange(100_000) / 8000
    >>> x = np.diff(rng.normal(size=t.size + 1)) + 0.1 * np.sin(2 * np.pi * 440.0 * t)
    >>> findings = sparsefft.find(x, fs=8000)
    >>> findings.verdict
    'complete'
    >>> line = findings.lines[0]
    >>> abs(line.frequency - 440.0) < 5 * line.frequency_std
    True
    >>> findings.frequency_unit
    'Hz'
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
    #: Lines, strongest first.
    lines: Lines
    #: Bands, those that stand out most first.
    bands: Bands
    #: Bursts in order of time.
    bursts: Bursts
    #: Sweeps in order of time.
    sweeps: Sweeps
    #: Families, the surest first.
    families: tuple[Family, ...]
    #: The local floor.
    floor: Floor
    #: ``"certified"``: a part of the samples was read, and what the lines leave of them is steady
    #: white noise. ``"complete"``: all samples were read, and every line above the local floor by
    #: :attr:`threshold_db` is named, alone or in a band or burst. ``"partial"``: not everything
    #: could be examined, and :attr:`reasons` say why.
    verdict: str
    #: What a reader should know: why the verdict is partial, and what else was seen.
    reasons: tuple[Reason, ...]
    #: SNR in dB from which on a line could not have been overlooked, in nine tenths of the band.
    threshold_db: float
    #: Probability that noise alone makes a finding.
    failure_probability: float
    #: Most lines that were asked for, or None.
    at_most: int | None
    #: Lines that were found but are not among those asked for.
    left_out: int
    #: Seed of the random choices.
    seed: int
    #: What all attempts have cost.
    cost: Cost
    #: Whose answer it is: ``"grid"``, ``"tones"`` or ``"survey"``.
    mode: str
    #: Tones too near to be told apart, where the answer is that of the search between the bins.
    clusters: Clusters
    #: The certificate of that answer.
    certificate: Certificate

    @property
    def is_certified(self) -> bool:
        """Whether a sparse search passed every test."""
        return self.verdict == "certified"

    @property
    def is_complete(self) -> bool:
        """Whether all samples were examined."""
        return self.verdict == "complete"

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
        """The lines as a pandas DataFrame; ``findings.bursts.to_frame()`` and so on for the others.

        Its ``attrs`` hold the verdict and the unit of the frequencies.
        """
        frame = self.lines.to_frame()
        frame.attrs.update(
            verdict=self.verdict, frequency_unit=self.frequency_unit, fs=self.fs, n=self.n
        )
        return frame

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings, lists and dicts, for ``json.dumps``.

        The names are those of ``sparsefft peaks --json`` (schema 2): ``frequency`` and edges are in
        cycles per sample, ``hertz``, ``low_hz`` and so on are there where the rate is known.
        """
        from ._json import findings_dict

        return findings_dict(self)

    def plot(self, ax: Any = None) -> Any:
        """Draw floor, lines and bands with matplotlib, and below, over time, bursts and sweeps.

        Parameters
        ----------
        ax : matplotlib Axes, or a pair of them, optional
            Where to draw the spectrum and, if there are two, what changes over time. Without it,
            on new axes.

        Returns
        -------
        matplotlib Axes
            Those of the spectrum.
        """
        from ._findings_plot import plot

        return plot(self, ax)

    def __repr__(self) -> str:
        from ._findings_text import describe

        return describe(self)

    def _repr_html_(self) -> str:
        from ._findings_text import describe_html

        return describe_html(self)
