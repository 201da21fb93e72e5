"""Properties that hold for every signal, checked with hypothesis against numpy and scipy."""

import numpy as np
import scipy.fft
from conftest import tones
from hypothesis import given, settings
from hypothesis import strategies as st

import sparsefft
from sparsefft import dense

# Fixed examples: a failure can be repeated, and the suite takes the same time every day.
fixed = settings(max_examples=60, deadline=None, derandomize=True, database=None)


@st.composite
def sparse_signals(draw):
    """A length, and a few coefficients of moduli between 0.1 and 1."""
    n = draw(st.integers(1, 1 << 13))
    k = draw(st.integers(0, min(n, 6)))
    indices = draw(st.lists(st.integers(0, n - 1), min_size=k, max_size=k, unique=True))
    seed = draw(st.integers(0, 2**32))
    random = np.random.default_rng(seed)
    moduli, phases = random.uniform(0.1, 1, k), random.uniform(0, 2 * np.pi, k)
    parts = dict(zip(indices, moduli * np.exp(1j * phases), strict=True))
    return n, parts


@fixed
@given(sparse_signals(), st.sampled_from([None, "ortho", "forward"]), st.integers(0, 2**64 - 1))
def test_sparse_signals_agree_with_numpy(signal, norm, seed):
    n, parts = signal
    x = tones(n, parts) if parts else np.zeros(n)
    spectrum = sparsefft.fft(x, k=len(parts), norm=norm, seed=seed)
    assert spectrum.certificate.is_reliable
    expected = np.fft.fft(x, norm=norm)
    scale = np.abs(expected).max(initial=0)
    np.testing.assert_allclose(spectrum.to_dense(), expected, atol=1e-9 * scale + 1e-300)
    np.testing.assert_allclose(spectrum.synthesize(), x, atol=1e-9)
    np.testing.assert_allclose(spectrum.freqs(), np.fft.fftfreq(n)[spectrum.indices])


@fixed
@given(st.integers(1, 3000), st.integers(0, 20), st.integers(0, 2**32))
def test_any_signal_gives_the_largest(n, k, seed):
    k = min(k, n)
    random = np.random.default_rng(seed)
    x = random.normal(size=n) + 1j * random.normal(size=n)
    spectrum = sparsefft.fft(x, k=k)
    assert spectrum.certificate.is_reliable
    full = np.fft.fft(x)
    # Dense: what numpy has. Certified: the noise was not above the asked-for coefficients.
    if spectrum.certificate.verdict == "dense":
        biggest = np.sort(np.abs(full))[::-1][:k]
        found = np.sort(np.abs(spectrum.values))[::-1]
        np.testing.assert_allclose(found, biggest[: spectrum.size], rtol=1e-9)
        # What is left out is noise: its powers are exponential, with a mean of 2 n.
        limit = np.sqrt(2 * n * np.log(n / 1e-9))
        assert spectrum.size <= k and (biggest[spectrum.size :] < limit).all()
        np.testing.assert_allclose(spectrum.values, full[spectrum.indices], rtol=1e-7, atol=1e-9)


@fixed
@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=3),
    st.integers(-3, 2),
    st.one_of(st.none(), st.integers(1, 20)),
    st.sampled_from([None, "backward", "ortho", "forward"]),
    st.sampled_from(["?", "b", "i", "q", "e", "f", "d", "F", "D", ">f4", ">c16"]),
    st.sampled_from([None, 1, 2]),
    st.integers(0, 2**32),
)
def test_dense_is_a_drop_in(shape, axis, n, norm, dtype, workers, seed):
    axis = max(min(axis, len(shape) - 1), -len(shape))
    random = np.random.default_rng(seed)
    x = 5 * random.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        x = x + 5j * random.normal(size=shape)
    x = x.astype(dtype)
    tolerance = 1e-4 if np.dtype(dtype).char in "efF" else 1e-11
    names = ["fft", "ifft"] if x.dtype.kind == "c" else ["fft", "ifft", "rfft"]
    if x.shape[axis] > 1 or n is not None:
        names.append("irfft")
    for name in names:
        ours = getattr(dense, name)(x, n, axis, norm, workers=workers)
        theirs = getattr(scipy.fft, name)(x, n, axis, norm)
        assert ours.dtype == theirs.dtype, name
        np.testing.assert_allclose(ours, theirs, atol=tolerance * 100, err_msg=name)
