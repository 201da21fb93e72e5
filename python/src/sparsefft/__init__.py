"""What is in a signal: its lines, bands, bursts and sweeps, or the few large Fourier coefficients
of a huge one, each answer with a verdict that says how far it may be relied on.

>>> import numpy as np
>>> import sparsefft
>>> t = np.arange(96_000) / 48_000
>>> x = np.sin(2 * np.pi * 440.25 * t) + 0.1 * np.random.default_rng(0).normal(size=t.size)
>>> findings = sparsefft.find(x, fs=48_000)
>>> findings.lines.frequency.round()
array([440.])

On the grid of the FFT, from a few of the samples:

>>> n = 1 << 20
>>> t = np.arange(n)
>>> x = np.exp(2j * np.pi * (77 * t % n) / n) + 0.25 * np.exp(2j * np.pi * (900_001 * t % n) / n)
>>> spectrum = sparsefft.fft(x, k=2)
>>> indices, values = spectrum
>>> indices
array([    77, 900001])
>>> np.abs(values) / n
array([1.  , 0.25])
>>> spectrum.certificate.is_certified
True

Conventions are those of ``numpy.fft``: X[f] = sum x[t] exp(-2j pi f t / n), ``norm`` and ``axis``
mean the same, and 32-bit floats give complex64. ``k`` may be left out; noise need not be known.
The same seed and input give the same answer, whatever the number of threads. ``seed="random"``
draws one, and the report tells it.

:func:`find`
    what is in this signal? Findings in Hz, for any signal
:func:`tones`
    frequencies between the bins, from a few samples
:func:`read`
    recordings with their rate: .npy, WAV, SigMF, raw numbers
:func:`fft`, :func:`rfft`
    arrays of any number type and layout, memory maps too, without copies
:func:`fft_from`, :func:`sample_indices`
    signals that are computed or fetched sample by sample
:func:`buffer`
    an array for samples that is read fastest
:class:`Plan`
    planned once, used often
:class:`Sketch`
    a signal that is never in one place: parts are added, merged, and finished
:mod:`sparsefft.dense`
    all coefficients, over threads: a drop-in for ``scipy.fft``
:mod:`sparsefft.dask`
    many signals in a chunked array, and one signal over many chunks
"""

import os as _os

from . import _native
from ._buffer import buffer
from ._fft import (
    Plan,
    _forget_plans,
    fft,
    fft_from,
    random_seed,
    rfft,
    sample_indices,
)
from ._find import find
from ._findings import Findings
from ._mistakes import OffGridWarning
from ._read import read
from ._record import Signal
from ._sketch import Sketch, _forget_sketch_plans
from ._spectrum import Certificate, Report, SparseSpectra, SparseSpectrum
from ._tones import Tones, _forget_tone_plans, tones

__version__ = _native.__version__

__all__ = [
    "Certificate",
    "Findings",
    "OffGridWarning",
    "Plan",
    "Report",
    "Signal",
    "Sketch",
    "SparseSpectra",
    "SparseSpectrum",
    "Tones",
    "buffer",
    "fft",
    "fft_from",
    "find",
    "random_seed",
    "read",
    "rfft",
    "sample_indices",
    "tones",
]


def _after_fork() -> None:
    # Neither the threads nor a lock that one of them held come along into the child.
    _native._after_fork()
    _forget_plans()
    _forget_tone_plans()
    _forget_sketch_plans()


if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=_after_fork)
