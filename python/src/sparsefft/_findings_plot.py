"""Drawing findings and tones with matplotlib, which is loaded only here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ._findings_text import SLOW, floor_level, limits
from ._units import count, prefix_for, time_unit

if TYPE_CHECKING:
    from ._findings import Findings
    from ._tones import Tones

    Answer: TypeAlias = Findings | Tones

#: Room above and below what is drawn, in dB.
_MARGIN_DB = 6
#: Least height of what is drawn, in dB.
_LEAST_DB = 20
#: Room above for the legend, as a share of the height.
_LEGEND = 0.1
#: Smallest side of a rectangle over time and frequency, as a share of the axis: it can be seen.
_VISIBLE = 0.004


def _axes(ax: Any, panels: int) -> tuple[Any, ...]:
    """One axes for each panel, new ones where none are given."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plot() needs matplotlib: pip install sparsefft[plot]") from error
    if ax is None:
        heights = [3.0, 2.0][:panels]
        figure, drawn = plt.subplots(
            panels, 1, figsize=(8, 1 + sum(heights)), layout="constrained", squeeze=False,
            sharex=True, height_ratios=heights,
        )  # fmt: skip
        return tuple(drawn[:, 0])
    given = tuple(ax) if isinstance(ax, (tuple, list, np.ndarray)) else (ax,)
    if len(given) > 2 or not all(hasattr(one, "plot") for one in given):
        raise TypeError("ax must be None, one Axes of matplotlib, or two of them")
    return given


class _Frequencies:
    """The frequency axis, with the prefix that suits it."""

    def __init__(self, answer: Answer) -> None:
        self.low, self.high = limits(answer)
        self.factor, prefix = (1.0, "")
        if answer.fs is not None:
            largest = max(abs(self.low), abs(self.high))
            # As in the text: no mHz beside Hz.
            self.factor, prefix = prefix_for(largest if answer.fs < SLOW else max(largest, 1.0))
        unit = "cycles per sample" if answer.fs is None else f"{prefix}Hz"
        self.label = f"frequency ({unit})"

    def __call__(self, value: Any) -> Any:
        return value / self.factor

    def fit(self, ax: Any) -> None:
        ax.set_xlim(self(self.low), self(self.high))
        ax.ticklabel_format(axis="x", useOffset=False)


def _finish(ax: Any) -> None:
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def _stems(ax: Any, places: Any, levels: Any, feet: Any, label: str) -> None:
    """Lines that rise from their feet, behind the floor."""
    shown = np.isfinite(levels)
    feet = np.minimum(np.broadcast_to(feet, levels.shape), levels)
    ax.vlines(places[shown], feet[shown], levels[shown], color="C0", linewidth=0.8, zorder=1)
    ax.plot(places[shown], levels[shown], "o", color="C0", markersize=3, label=label, zorder=1)


def _heights(marks: list[float]) -> tuple[float, float]:
    finite = [mark for mark in marks if np.isfinite(mark)]
    top = max(finite, default=0.0) + _MARGIN_DB
    bottom = min(min(finite, default=0.0) - _MARGIN_DB, top - _LEAST_DB)
    return bottom, top + _LEGEND * (top - bottom)


def _dress(ax: Any, answer: Answer, title: str, heights: tuple[float, float]) -> None:
    """What the axes mean."""
    axis = _Frequencies(answer)
    axis.fit(ax)
    ax.set_ylim(*heights)
    ax.set_xlabel(axis.label)
    ax.set_ylabel(f"level ({answer.level_unit})")
    ax.set_title(title, fontsize="medium")
    if ax.get_legend_handles_labels()[0]:
        ax.legend(fontsize="small", frameon=False, loc="upper right", ncols=4)
    _finish(ax)


def plot(found: Findings, ax: Any) -> Any:
    """The spectrum, and below it what changes over time, if anything does."""
    changes = len(found.bursts) + len(found.sweeps) > 0
    axes = _axes(ax, 2 if changes else 1)
    _spectrum(found, axes[0])
    if len(axes) > 1:
        _changes(found, axes[1])
        if axes[0].get_shared_x_axes().joined(*axes):
            axes[0].set_xlabel("")
    return axes[0]


def _spectrum(found: Findings, ax: Any) -> None:
    axis = _Frequencies(found)
    levels = found.level_db(found.lines.amplitude)
    floor, places = floor_level(found), axis(found.floor.frequency)
    limit = floor + found.floor.threshold_db
    heights = _heights([*levels, *floor, *limit])
    shown = np.isfinite(floor)
    feet: Any = heights[0]
    if shown.any():
        feet = np.interp(axis(found.lines.frequency), places[shown], floor[shown])
        ax.plot(places[shown], floor[shown], color="k", linewidth=1, label="floor in one bin")
    if np.isfinite(limit).any():
        ax.plot(places, limit, "--", color="0.5", linewidth=0.8, label="detection limit")
    for i, band in enumerate(found.bands):
        label = count(len(found.bands), "band") if i == 0 else None
        ax.axvspan(axis(band.low), axis(band.high), color="C1", alpha=0.2, linewidth=0, label=label)
    if len(levels):
        _stems(ax, axis(found.lines.frequency), levels, feet, count(len(levels), "line"))
    _dress(ax, found, _title(found), heights)


def _title(found: Findings) -> str:
    words = found.verdict
    if found.is_complete and np.isfinite(found.threshold_db):
        words += f", lines with an SNR of {found.threshold_db:.0f} dB or more are all there"
    return words


def _changes(found: Findings, ax: Any) -> None:
    """Bursts as rectangles and sweeps as lines over frequency and time."""
    from matplotlib.collections import LineCollection, PatchCollection
    from matplotlib.patches import Rectangle

    axis, rate, unit = _Frequencies(found), 1.0, "samples"
    if found.fs is not None:
        scale, unit = time_unit(found.n / found.fs)
        rate = found.fs * scale
    end = found.n / rate
    least = (_VISIBLE * axis(axis.high - axis.low), _VISIBLE * end)
    boxes = [
        Rectangle(
            (axis(burst.low), burst.start / rate),
            max(axis(burst.high - burst.low), least[0]),
            max(burst.length / rate, least[1]),
        )
        for burst in found.bursts
    ]
    ax.add_collection(PatchCollection(boxes, facecolor="C3", edgecolor="C3", alpha=0.5))
    tracks = [
        [
            (axis(sweep.first), sweep.start / rate),
            (axis(sweep.last), (sweep.start + sweep.length) / rate),
        ]
        for sweep in found.sweeps
    ]
    ax.add_collection(LineCollection(tracks, color="C2", linewidth=1.5))
    parts = [count(len(found.bursts), "burst")] if len(boxes) else []
    parts += [count(len(found.sweeps), "sweep")] if tracks else []
    ax.set_title(", ".join(parts), fontsize="medium")
    axis.fit(ax)
    ax.set_ylim(end, 0)
    ax.set_xlabel(axis.label)
    ax.set_ylabel(f"time from the start ({unit})")
    _finish(ax)


def plot_tones(found: Tones, ax: Any) -> Any:
    """Stems, with the detection limit and bands."""
    (axes,) = _axes(ax, 1)
    axis = _Frequencies(found)
    levels = found.level_db(found.amplitude)
    # The limit is that of a coefficient; a real tone has two.
    limit = float(found.level_db(found.certificate.detection_limit * (2 if found.real else 1)))
    marks = [*levels[np.isfinite(levels)]]
    near = np.isfinite(limit) and (not marks or limit > min(marks) - 60)
    heights = _heights([*marks, limit] if near else marks)
    if near:
        axes.axhline(limit, color="0.6", linewidth=0.8, linestyle="--", label="detection limit")
    for i, band in enumerate(found.bands):
        label = count(len(found.bands), "band") if i == 0 else None
        axes.axvspan(
            axis(band.low), axis(band.high), color="C1", alpha=0.2, linewidth=0, label=label
        )
    if len(levels):
        _stems(axes, axis(found.frequency), levels, heights[0], count(len(levels), "tone"))
    _dress(axes, found, found.certificate.verdict, heights)
    return axes
