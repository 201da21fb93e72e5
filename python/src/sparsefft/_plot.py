"""Drawing with matplotlib, which is loaded only here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ._spectrum import amplitudes
from ._text import heading

if TYPE_CHECKING:
    from ._spectrum import SparseSpectrum


def plot(spectrum: SparseSpectrum, ax: Any, d: float) -> Any:
    """Stems of abs(X)/n in dB over frequency, with the detection limit."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plot() needs matplotlib: pip install sparsefft[plot]") from error
    if ax is None:
        _, ax = plt.subplots(figsize=(8, 3.5), layout="constrained")
    sizes = amplitudes(spectrum)
    shown = sizes > 0
    levels = 20 * np.log10(sizes[shown])
    freqs = spectrum.freqs(d)[shown]
    limit = spectrum.certificate.detection_limit
    marks = list(levels)
    if limit > 0 and len(levels) and 20 * np.log10(limit) > levels.min() - 60:
        marks.append(20 * np.log10(limit))
        ax.axhline(marks[-1], color="0.5", linewidth=0.8, linestyle="--")
        ax.annotate(
            "detection limit",
            (1, marks[-1]),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            xytext=(-4, 2),
            ha="right",
            va="bottom",
            color="0.5",
            fontsize="small",
        )
    bottom = (min(marks) if marks else 0.0) - 6
    ax.vlines(freqs, bottom, levels, color="C0", linewidth=1.2)
    ax.plot(freqs, levels, "o", color="C0", markersize=3.5)
    ax.set_xlim(0 if spectrum.half else -0.5 / d, 0.5 / d)
    ax.set_ylim(bottom, (max(marks) if marks else 0.0) + 6)
    ax.set_xlabel("frequency (cycles per sample)" if d == 1.0 else "frequency")
    ax.set_ylabel("|X|/n (dB)")
    ax.set_title(heading(spectrum), fontsize="medium")
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax
