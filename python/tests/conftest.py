"""What the tests share."""

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")


def tones(n, parts, dtype=np.complex128):
    """A signal of n samples from {index: amplitude}; phases are exact for every n."""
    t = np.arange(n)
    x = sum(a * np.exp(2j * np.pi * (f * t % n) / n) for f, a in parts.items())
    return x.astype(dtype)


def largest(x, k):
    """The k largest coefficients by numpy's FFT, sorted by index."""
    full = np.fft.fft(x)
    indices = np.sort(np.argsort(-np.abs(full), kind="stable")[:k])
    return indices, full[indices]


@pytest.fixture
def rng():
    return np.random.default_rng(20240501)


@pytest.fixture(autouse=True)
def _names(doctest_namespace):
    doctest_namespace["np"] = np
