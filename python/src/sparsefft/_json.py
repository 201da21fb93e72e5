"""Findings and tones as plain objects: the names of ``sparsefft peaks --json``, schema 2.

There, ``frequency`` and edges are in cycles per sample, and lengths in samples; whatever is in Hz
or in seconds says so in its name and is missing where the rate is not known.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from ._findings import Findings
    from ._tones import Tones

    Answer: TypeAlias = Findings | Tones

#: Grows when a field changes its meaning.
SCHEMA = 2


class _Axis:
    """Back from the units of an answer to cycles per sample."""

    def __init__(self, answer: Answer) -> None:
        self.rate = answer.fs
        self._scale = answer.fs or 1.0
        self._center = answer.center or 0.0

    def cycles(self, place: Any) -> Any:
        return (place - self._center) / self._scale

    def width(self, width: float) -> float:
        return width / self._scale

    def slope(self, slope: float) -> float:
        return slope / self._scale**2

    def place(self, name: str, place: float) -> dict[str, float]:
        """A frequency under its name, and in Hz where the rate is known."""
        both = {name: self.cycles(place)}
        if self.rate is not None:
            both["hertz" if name == "frequency" else f"{name}_hz"] = place
        return both

    def time(self, name: str, samples: int) -> dict[str, float]:
        """Samples under this name, and in seconds where the rate is known."""
        both: dict[str, float] = {name: samples}
        if self.rate is not None:
            both[f"{name}_s"] = samples / self.rate
        return both


def known(value: float) -> float | None:
    """The number, or None where there is none."""
    return value if math.isfinite(value) else None


def _present(**values: float) -> dict[str, float]:
    """Those that are numbers."""
    return {name: value for name, value in values.items() if math.isfinite(value)}


def _bin(cycles: float, n: int) -> float:
    place = (cycles * n) % n
    return place if place < n else 0.0


def _wave(row: Any, n: int, axis: _Axis) -> dict[str, Any]:
    """What a line is among ``lines``."""
    place = _bin(axis.cycles(row.frequency), n)
    wave = {
        **axis.place("frequency", row.frequency),
        "frequency_std": axis.width(row.frequency_std),
        "index": round(place) % n,
        "bin": place,
        "level": row.amplitude,
        "level_std": row.amplitude_std,
        "phase": row.phase,
        "snr_db": known(row.snr_db),
        **_present(drift_bins=axis.slope(row.drift) * n * n),
    }
    if axis.rate is not None:
        wave["hertz_std"] = row.frequency_std
    return wave


def _peak(row: Any, n: int, axis: _Axis) -> dict[str, Any]:
    """What a line is among ``peaks``: n times its coefficient, in place of X."""
    wave = _wave(row, n, axis)
    size = n * row.amplitude / (2 if row.mirrored else 1)
    peak = {
        "index": wave["index"],
        "bin": wave["bin"],
        "bin_std": wave["frequency_std"] * n,
        "frequency": wave["frequency"],
        "re": size * math.cos(row.phase),
        "im": size * math.sin(row.phase),
        "magnitude": size,
        "phase": row.phase,
    }
    optional = {name: wave.get(name) for name in ("hertz", "snr_db", "drift_bins")}
    return {**peak, **{name: value for name, value in optional.items() if value is not None}}


def _line(row: Any, n: int, axis: _Axis) -> dict[str, Any]:
    widths = _present(width=axis.width(row.width), damping=axis.width(row.damping))
    return {"kind": row.kind, **_wave(row, n, axis), **widths}


def _timed(row: Any, axis: _Axis) -> dict[str, Any]:
    return {
        **axis.time("start", row.start),
        **axis.time("length", row.length),
        "power": row.power,
        "above_db": row.above_db,
    }


def _edges(row: Any, axis: _Axis) -> dict[str, float]:
    return {**axis.place("low", row.low), **axis.place("high", row.high)}


def _sweep(row: Any, axis: _Axis) -> dict[str, Any]:
    ends = {**axis.place("from", row.first), **axis.place("to", row.last)}
    return {**_timed(row, axis), **ends, "rate": axis.slope(row.rate)}


def _family(family: Any, axis: _Axis) -> dict[str, Any]:
    carrier: dict[str, Any] = {"carrier": None}
    if family.carrier is not None:
        carrier = axis.place("carrier", family.carrier)
    spacing = {"spacing": axis.width(family.spacing)}
    if axis.rate is not None:
        spacing["spacing_hz"] = family.spacing
    lists = {"orders": list(family.orders), "members": list(family.members)}
    return {**spacing, **carrier, **lists}


def _clusters(answer: Answer, axis: _Axis) -> list[dict[str, float]]:
    return [
        {"centre": axis.cycles(c.centre), "width": axis.width(c.width), "power": c.power}
        for c in answer.clusters
    ]


def _certificate(answer: Answer) -> dict[str, Any]:
    fields = asdict(answer.certificate)
    del fields["text"]
    return {
        name: known(value) if isinstance(value, float) else value for name, value in fields.items()
    }


def _head(answer: Answer, axis: _Axis, mode: str, k: int | None) -> dict[str, Any]:
    start = answer.start_time
    return {
        "schema": SCHEMA,
        "mode": mode,
        "n": answer.n,
        "k": k,
        "rate": axis.rate,
        "center": answer.center,
        # ISO 8601 in UTC, or seconds on the axis of the container.
        "start_time": f"{start}Z" if isinstance(start, np.datetime64) else start,
    }


def _stages(stages: dict[str, float]) -> list[dict[str, Any]]:
    return [{"stage": stage, "seconds": seconds} for stage, seconds in stages.items()]


def findings_dict(found: Findings) -> dict[str, Any]:
    """All of the findings."""
    axis, n = _Axis(found), found.n
    attempts = [asdict(attempt) for attempt in found.cost.attempts]
    stages: dict[str, float] = {}
    for attempt in found.cost.attempts:
        for stage, seconds in attempt.stages.items():
            stages[stage] = stages.get(stage, 0.0) + seconds
    total = {"samples_read": found.cost.samples_read, "seconds": found.cost.seconds}
    return {
        **_head(found, axis, found.mode, found.at_most),
        "peaks": [_peak(line, n, axis) for line in found.lines],
        "lines": [_line(line, n, axis) for line in found.lines],
        "bands": [
            {**_edges(b, axis), "power": b.power, "above_db": b.above_db, **_present(busy=b.busy)}
            for b in found.bands
        ],
        "bursts": [{**_timed(b, axis), **_edges(b, axis)} for b in found.bursts],
        "sweeps": [_sweep(s, axis) for s in found.sweeps],
        "families": [_family(family, axis) for family in found.families],
        "floor": {
            "frequency": axis.cycles(found.floor.frequency).tolist(),
            "density": (found.floor.density * (found.fs or 1.0)).tolist(),
            "std_db": found.floor.std_db.tolist(),
            "threshold_db": found.floor.threshold_db.tolist(),
        },
        "verdict": found.verdict,
        "reasons": [asdict(reason) for reason in found.reasons],
        "threshold_db": known(found.threshold_db),
        "clusters": _clusters(found, axis),
        "certificate": _certificate(found),
        "seed": found.seed,
        **total,
        "stages": _stages(stages),
        "cost": {**total, "memory": found.cost.memory, "attempts": attempts},
    }


def tones_dict(tones: Tones) -> dict[str, Any]:
    """All of the tones, as the findings of a search between the bins alone."""
    axis, n = _Axis(tones), tones.n
    rows = list(tones)
    reason = tones.certificate.reason
    return {
        **_head(tones, axis, "tones", tones.k),
        "peaks": [_peak(row, n, axis) for row in rows],
        "lines": [{"kind": "tone", **_wave(row, n, axis)} for row in rows],
        "bands": [{**_edges(b, axis), "power": b.power, "above_db": None} for b in tones.bands],
        "bursts": [],
        "sweeps": [],
        "families": [],
        "floor": None,
        "verdict": tones.certificate.verdict,
        "reasons": [] if reason is None else [{"code": "not_sparse", "text": reason}],
        "threshold_db": None,
        "clusters": _clusters(tones, axis),
        "certificate": _certificate(tones),
        "seed": tones.seed,
        "samples_read": tones.samples_read,
        "seconds": tones.seconds,
        "stages": _stages(tones.stages),
    }
