"""Findings and tones in words, and as HTML for notebooks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ._units import count, decibels, digits_for, prefix_for, seconds, si

if TYPE_CHECKING:
    from ._findings import Findings
    from ._tables import Burst, Family, Table
    from ._tones import Tones

    Answer: TypeAlias = Findings | Tones

#: Rows of the table of lines before it is cut.
_LINES = 12
#: Rows of each other kind.
_OTHERS = 6
#: Rates in Hz below which frequencies are in mHz, µHz or nHz.
SLOW = 0.02
#: Orders of a family before they are cut.
_ORDERS = 24


@dataclass(frozen=True)
class Section:
    """A heading, perhaps a head of the columns, rows of cells, and how many rows are cut."""

    title: str
    rows: list[tuple[str, ...]]
    head: tuple[str, ...] = ()
    more: int = 0


class _Axis:
    """How the frequencies and times of an answer are written."""

    def __init__(self, answer: Answer) -> None:
        self.fs, self.n, self.center = answer.fs, answer.n, answer.center
        self.resolution = (answer.fs or 1.0) / answer.n
        # Columns are in Hz, unless that takes zeros after the point.
        slow = answer.fs is not None and answer.fs < SLOW
        self.column = prefix_for(0.5 * answer.fs) if answer.fs and slow else (1.0, "")

    def place(self, value: float) -> str:
        if self.fs is None:
            return f"{value:.6f}"
        # Around a carrier of GHz, kHz matter.
        return si(value, "Hz", 6 if self.center is None else 9)

    def width(self, value: float) -> str:
        if self.fs is None:
            return f"{value:.3g} cycles/sample"
        return si(value, "Hz")

    def span(self, low: float, high: float) -> str:
        return f"{self.place(low)} … {self.place(high)}"

    def duration(self, value: float) -> str:
        return f"{value:.0f} samples" if self.fs is None else seconds(value)

    def time(self, value: Any) -> str:
        if isinstance(value, np.datetime64):
            # Microseconds are what a person can use.
            return str(value.astype("M8[us]")).replace("T", " ").rstrip("0").rstrip(".")
        if self.fs is None:
            return f"sample {value}"
        # What begins is placed to ten samples at best.
        digits = min(max(math.ceil(math.log10(self.fs)) - 1, 0), 9)
        return f"{value:.{digits}f} s"


def verdict(found: Findings) -> str:
    """The verdict in a sentence."""
    numbers = [
        (len(found.lines), "line"),
        (len(found.bands), "band"),
        (len(found.bursts), "burst"),
        (len(found.sweeps), "sweep"),
        (len(found.families), "family"),
    ]
    there = ", ".join(count(number, noun) for number, noun in numbers if number)
    text = found.verdict + (f": {there}" if there else ": nothing stands above the floor")
    if found.is_complete and np.isfinite(found.threshold_db):
        text += (
            f"; a line with an SNR of {found.threshold_db:.0f} dB or more could not be overlooked"
        )
    return text


def _record(answer: Answer) -> str:
    """What was looked at."""
    words = f"{answer.n:,} {'real' if answer.real else 'complex'} samples"
    if answer.fs is not None:
        words += f" at {si(answer.fs, 'Hz', 6)} ({seconds(answer.n / answer.fs)})"
    if answer.center is not None:
        words += f" around {si(answer.center, 'Hz', 9)}"
    if isinstance(answer.start_time, np.datetime64):
        words += f" from {_Axis(answer).time(answer.start_time)} UTC"
    return words


def _footing(answer: Answer, samples_read: int, time: float) -> str:
    """What it took."""
    share = 100 * samples_read / answer.n
    return f"{samples_read:,} samples read ({share:.3g} %) in {seconds(time)}"


def _remark(row: Any, axis: _Axis) -> str:
    """What is special about a line."""
    words = {
        "broad": "broad",
        "cluster": "several, not resolved",
        "offset": "mean of the samples",
    }
    parts = [words[row.kind]] if getattr(row, "kind", "tone") in words else []
    if getattr(row, "width", np.nan) > 0:
        parts.append(f"{axis.width(row.width)} wide")
    damping = getattr(row, "damping", np.nan)
    if np.isfinite(damping) and damping != 0:
        parts.append(f"{'decays' if damping > 0 else 'grows'} in {axis.duration(1 / abs(damping))}")
    if np.isfinite(row.drift):
        drift = row.drift * axis.n / (axis.fs or 1.0)
        parts.append(f"drifts by {axis.width(abs(drift))} {'up' if drift > 0 else 'down'}")
    return ", ".join(parts)


def _waves(answer: Answer, rows: Sequence[Any], more: int, title: str) -> Section:
    """Lines or tones, strongest first."""
    axis = _Axis(answer)
    scale, prefix = axis.column
    head = (f"frequency ({f'{prefix}Hz' if answer.fs else 'cycles/sample'})", "±",
            f"level ({answer.level_unit})", "SNR (dB)", "")  # fmt: skip
    table: list[tuple[str, ...]] = []
    for row in rows:
        offset = getattr(row, "kind", "tone") == "offset"
        on_grid = "-" if offset else "on a bin"
        digits = 0 if offset else digits_for(row.frequency_std / scale, axis.resolution / scale)
        table.append((
            f"{row.frequency / scale + 0.0:.{digits}f}",
            # A deviation of zero is that of a coefficient of the grid, or of the mean.
            f"{row.frequency_std / scale:.1e}" if row.frequency_std > 0 else on_grid,
            f"{float(answer.level_db(row.amplitude)) + 0.0:.2f}",
            f"{row.snr_db:.1f}" if np.isfinite(row.snr_db) else "-",
            _remark(row, axis),
        ))  # fmt: skip
    return Section(title, table, head, more)


def _family(family: Family, axis: _Axis) -> tuple[str, ...]:
    orders = " ".join(str(order) for order in family.orders[:_ORDERS])
    if len(family.orders) > _ORDERS:
        orders += " …"
    carrier = family.carrier
    what = "harmonics" if carrier is None else f"sidebands around {axis.place(carrier)},"
    return (f"every {axis.width(family.spacing)}: {what} {orders}",)


def _band(band: Any, answer: Answer) -> tuple[str, ...]:
    axis, level = _Axis(answer), _power(answer, band.power)
    words = f"{axis.span(band.low, band.high)}, {level}"
    if hasattr(band, "peak"):
        words += (
            f", strongest at {axis.place(band.peak)}, {band.above_db:.1f} dB above its surroundings"
        )
        if band.busy >= 0.05:
            words += f", busy {100 * band.busy:.0f} % of the time"
    return (words,)


def _power(answer: Answer, power: float) -> str:
    """A mean power, as the level of a constant of that power."""
    return f"{float(answer.level_db(np.sqrt(power))):.1f} {answer.level_unit} (rms)"


def trains(bursts: Sequence[Burst]) -> list[list[Burst]]:
    """Bursts that are alike: edges overlap, and lengths agree within a factor of two."""
    found: list[list[Burst]] = []
    for burst in bursts:
        for train in found:
            first = train[0]
            both = min(first.high, burst.high) - max(first.low, burst.low)
            widest = max(first.high - first.low, burst.high - burst.low)
            if both > 0.5 * widest and 0.5 < first.length / burst.length < 2:
                train.append(burst)
                break
        else:
            found.append([burst])
    return found


def _train(train: list[Burst], answer: Findings) -> tuple[str, ...]:
    axis, first = _Axis(answer), train[0]
    words = (
        f"{axis.time(first.time)}, {axis.duration(first.duration)} long: "
        f"{axis.span(first.low, first.high)}, {_power(answer, first.power)}, "
        f"up to {first.above_db:.1f} dB above the floor"
    )
    if len(train) > 1:
        gaps = np.diff([burst.start for burst in train]) / (answer.fs or 1.0)
        usual = axis.duration(float(np.median(gaps)))
        words += f"; {len(train) - 1} more like it, as a rule every {usual}"
    return (words,)


def _sweep(sweep: Any, answer: Answer) -> tuple[str, ...]:
    axis = _Axis(answer)
    return (
        f"{axis.time(sweep.time)}, {axis.duration(sweep.duration)} long: "
        f"{axis.place(sweep.first)} → {axis.place(sweep.last)}, {_power(answer, sweep.power)}, "
        f"up to {sweep.above_db:.1f} dB above the floor",
    )


def sections(found: Findings) -> list[Section]:
    """Whatever was found, as tables."""
    axis = _Axis(found)
    more = max(len(found.lines) - _LINES, 0) + found.left_out
    # Those with the most energy first.
    groups = sorted(trains(found.bursts), key=lambda t: -sum(b.power * b.length for b in t))
    cut = _OTHERS
    all_of_them = [
        _waves(found, list(found.lines[:_LINES]), more, "lines"),
        Section("families", [_family(f, axis) for f in found.families[:cut]],
                more=len(found.families) - cut),
        Section("bands", [_band(b, found) for b in found.bands[:cut]], more=len(found.bands) - cut),
        Section("sweeps", [_sweep(s, found) for s in found.sweeps[:cut]],
                more=len(found.sweeps) - cut),
        Section("bursts", [_train(t, found) for t in groups[:cut]], more=len(groups) - cut),
    ]  # fmt: skip
    return [section for section in all_of_them if section.rows]


def _tone_sections(found: Tones) -> list[Section]:
    order = np.argsort(-found.amplitude, kind="stable")[:_LINES]
    more = max(len(found) - _LINES, 0) + found.left_out
    axis = _Axis(found)
    clusters: list[tuple[str, ...]] = [
        (f"around {axis.place(c.centre)}, {axis.width(c.width)} wide, {_power(found, c.power)}",)
        for c in found.clusters[:_OTHERS]
    ]
    all_of_them = [
        _waves(found, [found[int(i)] for i in order], more, "tones, strongest first"),
        Section("bands", [_band(b, found) for b in found.bands[:_OTHERS]],
                more=len(found.bands) - _OTHERS),
        Section("clusters, not resolved", clusters, more=len(found.clusters) - _OTHERS),
    ]  # fmt: skip
    return [section for section in all_of_them if section.rows]


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    # Numbers to the right, the remark at the end to the left.
    return [
        "  ".join(
            cell if i + 1 == len(row) else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _more(section: Section) -> str:
    return f"… and {section.more:,} more" if section.more > 0 else ""


def _text(heading: str, notes: Sequence[str], parts: list[Section], footing: str) -> str:
    lines = [heading, *notes]
    for section in parts:
        lines += ["", section.title]
        rows = [section.head, *section.rows] if section.head else section.rows
        lines += ["  " + row for row in _aligned(rows)]
        if _more(section):
            lines.append("  " + _more(section))
    return "\n".join([*lines, "", footing])


def _html(
    heading: str, record: str, notes: Sequence[str], parts: list[Section], footing: str, image: str
) -> str:
    name, _, rest = heading.partition(": ")
    out = [f"<div><div><strong>{escape(name)}</strong>: {escape(rest)}</div>"]
    out.append(f"<div><small>{escape(record)}</small></div>")
    out += [f"<div><small>{escape(note)}</small></div>" for note in notes]
    out.append(image)
    for section in parts:
        out.append(f"<div><em>{escape(section.title)}</em></div><table>")
        if section.head:
            cells = "".join(f"<th>{escape(name)}</th>" for name in section.head)
            out.append(f"<thead><tr>{cells}</tr></thead>")
        align = "" if section.head else ' style="text-align:left"'
        rows = (
            "<tr>" + "".join(f"<td{align}>{escape(cell)}</td>" for cell in row) + "</tr>"
            for row in section.rows
        )
        out.append(f"<tbody>{''.join(rows)}</tbody></table>")
        if _more(section):
            out.append(f"<div>{_more(section)}</div>")
    out.append(f"<div><small>{escape(footing)}</small></div></div>")
    return "".join(out)


def _notes(found: Findings) -> list[str]:
    return [f"note ({reason.code}): {reason.text}" for reason in found.reasons]


def describe(found: Findings) -> str:
    """The ``repr``: a verdict, a table for each kind, what it took."""
    heading = f"Findings: {verdict(found)}"
    footing = _footing(found, found.cost.samples_read, found.cost.seconds)
    return _text(heading, [_record(found), *_notes(found)], sections(found), footing)


def describe_html(found: Findings) -> str:
    """The notebook's view."""
    heading = f"Findings: {verdict(found)}"
    footing = _footing(found, found.cost.samples_read, found.cost.seconds)
    parts = sections(found)
    return _html(heading, _record(found), _notes(found), parts, footing, _picture(found))


def _tones_heading(found: Tones) -> tuple[str, str]:
    verdict = found.certificate.verdict
    heading = f"Tones: {verdict}, {count(len(found), 'tone')}"
    if len(found.clusters):
        heading += f", {count(len(found.clusters), 'cluster')}"
    if len(found.bands):
        heading += f", {count(len(found.bands), 'band')}"
    return heading, _footing(found, found.samples_read, found.seconds)


def describe_tones(found: Tones) -> str:
    """The ``repr`` of tones."""
    heading, footing = _tones_heading(found)
    notes = [_record(found), *([found.certificate.reason] if found.certificate.reason else [])]
    return _text(heading, notes, _tone_sections(found), footing)


def describe_tones_html(found: Tones) -> str:
    """The notebook's view of tones."""
    heading, footing = _tones_heading(found)
    parts = _tone_sections(found)
    return _html(heading, _record(found), [str(found.certificate)], parts, footing, "")


def table_text(table: Table[Any]) -> str:
    """The ``repr`` of a table: its columns."""
    names = list(table.columns())
    rows = [
        tuple(_cell(table.columns()[name][i]) for name in names)
        for i in range(min(len(table), _LINES))
    ]
    lines = [f"{type(table).__name__.lstrip('_')}: {len(table)}"]
    if rows:
        lines += ["  " + row for row in _aligned([tuple(names), *rows])]
    if len(table) > _LINES:
        lines.append(f"  … and {len(table) - _LINES:,} more")
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if isinstance(value, np.floating):
        return "-" if np.isnan(value) else f"{value:.9g}"
    return str(value)


def _picture(found: Findings) -> str:
    """A small plot of floor, lines and bands."""
    width, height, base = 480.0, 110.0, 92.0
    floor = found.floor
    if not len(floor.frequency) or not (floor.density > 0).any():
        return ""
    curve = floor_level(found)
    shown = np.isfinite(curve)
    lines = found.level_db(found.lines.amplitude)
    # A picture of so many pixels can show no more; the strongest are drawn.
    places, levels = found.lines.frequency[:1000], lines[:1000]
    top = max([*levels[np.isfinite(levels)], *curve[shown]]) + 3
    bottom = min(curve[shown]) - 3
    left, right = limits(found)

    def x(place: Any) -> Any:
        return (np.clip(place, left, right) - left) / (right - left) * width

    def y(level: Any) -> Any:
        return base - (np.clip(level, bottom, top) - bottom) / (top - bottom) * (base - 4)

    feet = np.interp(places, floor.frequency[shown], curve[shown])
    stems = "".join(
        f"M{x(place):.1f} {y(min(foot, level)):.1f}V{y(level):.1f}"
        for place, level, foot in zip(places, levels, feet, strict=True)
        if np.isfinite(level)
    )
    track = "L".join(
        f"{x(place):.1f} {y(level):.1f}"
        for place, level in zip(floor.frequency[shown], curve[shown], strict=True)
    )
    boxes = "".join(
        f'<rect x="{x(band.low):.1f}" y="4" width="{max(x(band.high) - x(band.low), 1):.1f}" '
        f'height="{base - 4:.0f}" fill="#ff7f0e" opacity="0.2"/>'
        for band in found.bands[:100]
    )
    axis = _Axis(found)
    ends = [(0.0, axis.place(left), "start"), (width, axis.place(right), "end")]
    ends.append((width / 2, axis.place((left + right) / 2), "middle"))
    text = "".join(
        f'<text x="{place:.0f}" y="{height - 4:.0f}" text-anchor="{anchor}">{escape(label)}</text>'
        for place, label, anchor in ends
    )
    return (
        f'<svg viewBox="-64 0 {width + 68:.0f} {height:.0f}" width="{width + 68:.0f}" '
        f'style="max-width:100%" role="img" aria-label="lines and floor over frequency">{boxes}'
        f'<path d="{stems}" stroke="#1f77b4" stroke-width="1" fill="none"/>'
        f'<path d="M{track}" stroke="currentColor" stroke-width="1" fill="none"/>'
        f'<path d="M0 {base:.0f}H{width:.0f}" stroke="currentColor" stroke-width="0.5"/>'
        f'<g font-family="sans-serif" font-size="10" fill="currentColor">'
        f'<text x="-6" y="12" text-anchor="end">{top:.0f} dB</text>'
        f'<text x="-6" y="{base:.0f}" text-anchor="end">{bottom:.0f} dB</text>{text}</g></svg>'
    )


def floor_level(found: Findings) -> Any:
    """The floor as the level of a line whose SNR is 0 dB."""
    # The power of the floor in one bin of the whole record.
    power = found.floor.density * (found.fs or 1.0) / found.n
    mirror = 2.0 if found.real else 1.0
    return decibels(power * (mirror / (found.full_scale or 1.0)) ** 2)


def limits(answer: Answer) -> tuple[float, float]:
    """The ends of the frequency axis."""
    rate, center = answer.fs or 1.0, answer.center or 0.0
    return center - (0.0 if answer.real else 0.5 * rate), center + 0.5 * rate
