"""Arrays that begin with a cache line."""

import numpy as np
import pytest

import sparsefft


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64, "f4", float, np.int16, ">i4", "u1"])
@pytest.mark.parametrize("n", [0, 1, 7, 1000, 1 << 18])
def test_zeros_that_begin_with_a_line(n, dtype):
    x = sparsefft.buffer(n, dtype)
    assert x.shape == (n,)
    assert x.dtype == np.dtype(dtype)
    assert n == 0 or x.ctypes.data % 64 == 0
    assert not x.any()
    x[:] = 3
    assert (x == 3).all()
    # Several live at once, and none writes to another.
    y = sparsefft.buffer(n, dtype)
    assert not y.any()


def test_an_answer_does_not_depend_on_where_the_samples_lie():
    n = 1 << 18
    rng = np.random.default_rng(5)
    spectrum = np.zeros(n, complex)
    spectrum[rng.choice(n, 3000, replace=False)] = rng.normal(size=3000) + 1j
    plain = np.fft.ifft(spectrum)
    x = sparsefft.buffer(n)
    x[:] = plain
    one, other = sparsefft.fft(plain, k=3000), sparsefft.fft(x, k=3000)
    assert one.certificate.is_certified
    assert (one.indices == other.indices).all()
    assert (one.values == other.values).all()


@pytest.mark.parametrize(
    ("n", "dtype", "error", "text"),
    [
        (2.5, complex, TypeError, "n must be an integer, not float"),
        (-1, complex, ValueError, "n = -1: it must not be negative"),
        (4, "U3", TypeError, "dtype must be a kind of real or complex number"),
        (4, bool, TypeError, "not bool"),
    ],
)
def test_what_is_no_buffer(n, dtype, error, text):
    with pytest.raises(error, match=text):
        sparsefft.buffer(n, dtype)
