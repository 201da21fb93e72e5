"""Sparse FFT: the few large Fourier coefficients of a huge signal, each answer with a certificate.

>>> import numpy as np
>>> import sparsefft
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
from ._fft import Plan, _forget_plans, fft, fft_from, random_seed, rfft, sample_indices
from ._sketch import Sketch, _forget_sketch_plans
from ._spectrum import Certificate, Report, SparseSpectra, SparseSpectrum

__version__ = _native.__version__

__all__ = [
    "Certificate",
    "Plan",
    "Report",
    "Sketch",
    "SparseSpectra",
    "SparseSpectrum",
    "buffer",
    "fft",
    "fft_from",
    "random_seed",
    "rfft",
    "sample_indices",
]


def _after_fork() -> None:
    # Neither the threads nor a lock that one of them held come along into the child.
    _native._after_fork()
    _forget_plans()
    _forget_sketch_plans()


if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=_after_fork)
