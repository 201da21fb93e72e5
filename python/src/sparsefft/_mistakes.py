"""What to write instead: for arguments in numpy's places, for signals that do not fit the grid."""

from __future__ import annotations

import os
import sys
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._spectrum import SparseSpectrum

#: Bins from which on a list of them is no answer that a person reads.
MANY_BINS = 1000

_PACKAGE = os.path.dirname(__file__)


class OffGridWarning(UserWarning):
    """Thousands of bins stand above the noise, so that what is there does not lie on the bins.

    :func:`tones` gives frequencies between them, :func:`find` what is in any signal.
    """


def warn_off_grid(spectra: list[SparseSpectrum]) -> None:
    """Warns where a dense FFT ended in a long list."""
    leaks = [s for s in spectra if s.size >= MANY_BINS and s.certificate.is_complete]
    if not leaks:
        return
    of_many = f" (so {len(leaks)} of {len(spectra)} signals)" if len(spectra) > 1 else ""
    warnings.warn(
        f"{leaks[0].size} of {leaks[0].n} bins stand above the noise{of_many}: frequencies that do "
        "not fall on bins, or noise that is not white. sparsefft.tones(x, fs) gives frequencies "
        "between the bins, sparsefft.find(x, fs) what is in any signal; k=... bounds the list",
        OffGridWarning,
        stacklevel=_user_level(),
    )


def _user_level() -> int:
    """How many calls up the code lies that called this package, as ``warnings.warn`` counts."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    return level


def misplaced(name: str, others: tuple[Any, ...]) -> TypeError:
    """What to write in place of a second argument without a name."""
    first = others[0]
    if isinstance(first, int) and not isinstance(first, bool):
        return TypeError(
            f"{name} takes one argument without a name (the second one of numpy.fft.{name} is n): "
            f"for the {first} largest coefficients write {name}(x, k={first}), for a part of the "
            f"samples {name}(x[:{first}])"
        )
    return TypeError(
        f"{name} takes one argument without a name; write the others with theirs: {name}(x, k=50)"
    )
