"""A spectrum in words, and as HTML for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from ._spectrum import amplitudes

if TYPE_CHECKING:
    from ._spectrum import SparseSpectrum

#: Rows of a table before it is cut.
_ROWS = 8


def seconds(time: float) -> str:
    """A time with a unit that suits it."""
    for unit, scale in (("ns", 1e9), ("µs", 1e6), ("ms", 1e3)):
        if time * scale < 1000:
            return f"{time * scale:.3g} {unit}"
    return f"{time:.3g} s"


def heading(spectrum: SparseSpectrum) -> str:
    """How many coefficients, and the verdict."""
    count = spectrum.size
    noun = "coefficient" if count == 1 else "coefficients"
    real = "a real signal, " if spectrum.half else ""
    return f"{count} {noun} of {real}n = {spectrum.n}, {spectrum.certificate.verdict}"


def footing(spectrum: SparseSpectrum) -> str:
    """What it took."""
    report = spectrum.report
    share = 100 * report.samples_read / spectrum.n
    return (
        f"{report.samples_read} samples read ({share:.3g} %) "
        f"in {seconds(report.elapsed)} by '{report.algorithm}'"
    )


def rows(spectrum: SparseSpectrum) -> list[tuple[str, str, str, str]]:
    """Index, frequency, amplitude and phase of the largest coefficients."""
    order = np.argsort(-amplitudes(spectrum), kind="stable")[:_ROWS]
    freqs, sizes, phases = spectrum.freqs(), amplitudes(spectrum), np.angle(spectrum.values)
    return [
        (
            str(spectrum.indices[i]),
            f"{freqs[i]:+.9f}",
            f"{sizes[i]:.6g}",
            # Adding zero turns -0.0 into 0.0.
            f"{phases[i].round(4) + 0.0:+.4f}",
        )
        for i in order
    ]


_COLUMNS = ("index", "cycles/sample", "|X|/n", "phase")


def describe(spectrum: SparseSpectrum) -> str:
    """The ``repr``: a heading, the largest coefficients, what it took."""
    table = [_COLUMNS, *rows(spectrum)] if spectrum.size else []
    widths = [max(len(row[i]) for row in table) for i in range(4)] if table else []
    lines = [f"SparseSpectrum: {heading(spectrum)}"]
    for row in table:
        cells = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        lines.append("  " + "  ".join(cells))
    if spectrum.size > _ROWS:
        lines.append(f"  ... and {spectrum.size - _ROWS} smaller ones")
    if spectrum.certificate.reason:
        lines.append(spectrum.certificate.reason)
    lines.append(footing(spectrum))
    return "\n".join(lines)


def _picture(spectrum: SparseSpectrum) -> str:
    """A small plot: one line for each coefficient, height in dB."""
    width, height, base = 480.0, 110.0, 92.0
    sizes = amplitudes(spectrum)
    positive = sizes[sizes > 0]
    if not len(positive):
        return ""
    levels = 20 * np.log10(np.maximum(sizes, positive.min()) / positive.max())
    floor = min(-20.0, float(np.floor(levels.min() / 10) * 10) - 10)
    freqs = spectrum.freqs()
    left = 0.0 if spectrum.half else -0.5
    # A picture of so many pixels can show no more; the largest are drawn.
    keep = np.argsort(-sizes, kind="stable")[:1000]
    stems = "".join(
        f"M{(freqs[i] - left) / (0.5 - left) * width:.1f} {base:.0f}"
        f"V{base - (1 - levels[i] / floor) * (base - 8):.1f}"
        for i in keep
    )
    ends = [(0.0, f"{left:g}", "start"), (width, "0.5", "end")]
    ends.append((width / 2, f"{(left + 0.5) / 2:g} cycles/sample", "middle"))
    text = "".join(
        f'<text x="{x:.0f}" y="{height - 4:.0f}" text-anchor="{anchor}">{label}</text>'
        for x, label, anchor in ends
    )
    return (
        f'<svg viewBox="-44 0 {width + 48:.0f} {height:.0f}" width="{width + 48:.0f}" '
        f'style="max-width:100%" role="img" '
        f'aria-label="{spectrum.size} coefficients over frequency, {-floor:.0f} dB high">'
        f'<path d="{stems}" stroke="#1f77b4" stroke-width="1.5" fill="none"/>'
        f'<path d="M0 {base:.0f}H{width:.0f}" stroke="currentColor" stroke-width="0.5"/>'
        f'<g font-family="sans-serif" font-size="10" fill="currentColor">'
        f'<text x="-6" y="12" text-anchor="end">0 dB</text>'
        f'<text x="-6" y="{base:.0f}" text-anchor="end">{floor:.0f} dB</text>'
        f"{text}</g></svg>"
    )


def describe_html(spectrum: SparseSpectrum) -> str:
    """The notebook's view: heading, picture, table, what it took."""
    parts = [f"<div><strong>SparseSpectrum</strong>: {escape(heading(spectrum))}"]
    if spectrum.size:
        head = "".join(f"<th>{escape(name)}</th>" for name in _COLUMNS)
        body = "".join(
            "<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>"
            for row in rows(spectrum)
        )
        parts.append(f"<div>{_picture(spectrum)}</div>")
        parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")
        if spectrum.size > _ROWS:
            parts.append(f"<div>… and {spectrum.size - _ROWS} smaller ones</div>")
    parts.append(f"<div><small>{escape(str(spectrum.certificate))}</small></div>")
    parts.append(f"<div><small>{escape(footing(spectrum))}</small></div></div>")
    return "".join(parts)
