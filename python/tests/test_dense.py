"""The dense drop-in: threads and large lengths; small ones are in test_properties."""

import numpy as np
import pytest
import scipy.fft

from sparsefft import dense


@pytest.mark.parametrize("n", [1 << 20, 1_000_003, 3 * (1 << 19)])
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_large(n, dtype, rng):
    x = (rng.normal(size=n) + 1j * rng.normal(size=n)).astype(dtype)
    expected = scipy.fft.fft(x)
    ours = dense.fft(x)
    assert ours.dtype == dtype
    error = np.linalg.norm(ours - expected) / np.linalg.norm(expected)
    assert error < (1e-6 if dtype == np.complex64 else 1e-14)
    np.testing.assert_array_equal(dense.fft(x, workers=1), ours)
    np.testing.assert_array_equal(dense.fft(x, workers=2), ours)


def test_many_rows_over_threads(rng):
    x = rng.normal(size=(600, 1000))
    for ours, theirs in ((dense.rfft, scipy.fft.rfft), (dense.fft, scipy.fft.fft)):
        one, two = ours(x, workers=1), ours(x, workers=2)
        np.testing.assert_array_equal(one, two)
        np.testing.assert_allclose(one, theirs(x), atol=1e-10)
    half = dense.rfft(x)
    np.testing.assert_array_equal(dense.irfft(half, workers=1), dense.irfft(half, workers=2))
    np.testing.assert_allclose(dense.irfft(half), x, atol=1e-13)


def test_the_input_is_left_alone(rng):
    x = rng.normal(size=(4, 64)) + 0j
    before = x.copy()
    for overwrite in (False, True):
        dense.fft(x, overwrite_x=overwrite)
        dense.irfft(x, overwrite_x=overwrite)
        np.testing.assert_array_equal(x, before)


def test_nan_passes_through():
    assert np.isnan(dense.fft([1.0, np.nan])).any()


def test_empty_batches():
    assert dense.fft(np.zeros((0, 8))).shape == (0, 8)
    assert dense.rfft(np.zeros((0, 8))).shape == (0, 5)
