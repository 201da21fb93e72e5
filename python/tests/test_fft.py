"""``fft`` and ``rfft`` agree with numpy for every kind of array."""

import numpy as np
import pytest
from conftest import largest, tones

import sparsefft

PARTS = {3: 1.0, 700: -0.5j, 4000: 0.25 + 0.25j}


def test_agrees_with_numpy():
    x = tones(1 << 14, PARTS)
    spectrum = sparsefft.fft(x, k=3)
    indices, values = spectrum
    expected = largest(x, 3)
    assert indices.dtype == np.int64
    np.testing.assert_array_equal(indices, expected[0])
    np.testing.assert_allclose(values, expected[1], rtol=1e-10)
    assert spectrum.certificate.is_certified
    assert spectrum.report.samples_read < 4096
    assert spectrum.n == 1 << 14


def test_k_may_be_unknown():
    spectrum = sparsefft.fft(tones(1 << 16, PARTS))
    np.testing.assert_array_equal(spectrum.indices, list(PARTS))
    assert spectrum.certificate.is_certified


def test_noise_is_found_out(rng):
    n = 1 << 18
    noise = rng.normal(size=n) + 1j * rng.normal(size=n)
    x = tones(n, PARTS) + 0.1 * noise
    for options in ({}, {"snr": 15.0}, {"algorithm": "robust"}):
        spectrum = sparsefft.fft(x, k=3, **options)
        np.testing.assert_array_equal(spectrum.indices, list(PARTS))
        np.testing.assert_allclose(spectrum.values / n, list(PARTS.values()), atol=0.05)
        assert spectrum.certificate.is_certified
        assert spectrum.certificate.noise_floor == pytest.approx(0.1 * np.sqrt(2), rel=0.3)


def test_no_noise_by_ones_word():
    spectrum = sparsefft.fft(tones(1 << 14, PARTS), k=3, snr=np.inf)
    assert spectrum.report.algorithm == "exact"
    np.testing.assert_array_equal(spectrum.indices, list(PARTS))


@pytest.mark.parametrize("norm", [None, "backward", "ortho", "forward"])
def test_norms(norm):
    x = tones(1 << 12, PARTS)
    spectrum = sparsefft.fft(x, k=3, norm=norm)
    np.testing.assert_allclose(
        spectrum.values, np.fft.fft(x, norm=norm)[spectrum.indices], rtol=1e-9
    )
    np.testing.assert_allclose(spectrum.synthesize(), x, atol=1e-10)


DTYPES = "?bBhHiIlLqQefdFD"


@pytest.mark.parametrize("char", DTYPES)
@pytest.mark.parametrize("order", "=S")
def test_dtypes_and_byte_orders(char, order):
    # A short pattern, so that every type holds it exactly and the spectrum has eight values.
    pattern = np.array([0, 1, 1, 0, 1, 0, 0, 0]) * (1j if char in "FD" else 1)
    if char not in "?":
        pattern = pattern * 3
    x = np.tile(pattern, 512).astype(char)
    x = x.astype(x.dtype.newbyteorder(order))
    spectrum = sparsefft.fft(x, k=8)
    expected = np.fft.fft(x)
    assert spectrum.values.dtype == expected.dtype
    np.testing.assert_allclose(spectrum.to_dense(), expected, atol=1e-2 if char in "efF" else 1e-8)


def test_half_precision_values():
    # Every finite half, subnormal and negative ones included.
    bits = np.arange(1 << 16, dtype=np.uint16)
    every = bits.view(np.float16)
    every = every[np.isfinite(every)]
    spectrum = sparsefft.fft(every, k=1, algorithm="dense")
    assert spectrum.certificate.verdict == "dense"
    full = sparsefft.fft(every, k=len(every), algorithm="dense")
    np.testing.assert_allclose(
        full.to_dense(), np.fft.fft(every.astype(np.float64)), rtol=1e-5, atol=1e-2
    )
    for bad in (np.inf, -np.inf, np.nan):
        with pytest.raises(ValueError, match="x: sample"):
            sparsefft.fft(np.full(64, bad, np.float16), k=1)


def test_long_double_is_refused():
    with pytest.raises(TypeError, match="x has dtype .*astype"):
        sparsefft.fft(np.zeros(8, np.longdouble))


def layouts(x):
    """The same numbers, laid out differently."""
    n = len(x)
    wide = np.zeros((n, 3), x.dtype)
    wide[:, 1] = x
    yield "column", wide[:, 1]
    yield "reversed", x[::-1].copy()[::-1]
    spread = np.zeros(5 * n, x.dtype)
    spread[2::5] = x
    yield "strided", spread[2::5]
    record = np.zeros(n, dtype=[("flag", "u1"), ("value", x.dtype)])
    record["value"] = x
    yield "unaligned field", record["value"]
    locked = x.copy()
    locked.setflags(write=False)
    yield "read-only", locked
    yield "list", x.tolist()
    yield "memoryview", memoryview(x)


@pytest.mark.parametrize("dtype", [np.complex128, np.float64, np.int16])
def test_layouts(dtype):
    n = 1 << 12
    x = tones(n, {5: 100, n - 5: 100, 900: 50, n - 900: 50}).round(9)
    x = (x if dtype == np.complex128 else x.real).astype(dtype)
    expected = sparsefft.fft(x, k=4)
    for name, y in layouts(x):
        spectrum = sparsefft.fft(y, k=4)
        np.testing.assert_array_equal(spectrum.indices, expected.indices, err_msg=name)
        np.testing.assert_array_equal(spectrum.values, expected.values, err_msg=name)


def test_nothing_is_copied():
    # A terabyte that is one number; a copy of any kind would fail.
    x = np.broadcast_to(np.float64(2.0), (1 << 40,))
    spectrum = sparsefft.fft(x, k=1, norm="forward")
    assert spectrum.indices.tolist() == [0]
    assert spectrum.values[0] == pytest.approx(2.0)
    assert sparsefft.rfft(x, k=1).indices.tolist() == [0]
    batch = np.broadcast_to(np.float32(2.0), (3, 1 << 40))
    assert [s.indices.tolist() for s in sparsefft.fft(batch, k=1).flat] == [[0]] * 3


def test_memory_map(tmp_path):
    n = 1 << 20
    x = tones(n, {77: 1, 900_001: 0.25}, np.complex64)
    x.tofile(tmp_path / "x.c64")
    mapped = np.memmap(tmp_path / "x.c64", np.complex64, "r")
    spectrum = sparsefft.fft(mapped, k=2)
    assert spectrum.values.dtype == np.complex64
    np.testing.assert_array_equal(spectrum.indices, [77, 900_001])


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
@pytest.mark.parametrize("order", "CF")
def test_batches_along_any_axis(axis, order, rng):
    shape = [2, 3, 4]
    shape[axis] = 1 << 10
    x = np.zeros(shape, complex, order=order)
    other = np.moveaxis(x, axis, -1)
    for place in np.ndindex(other.shape[:-1]):
        f = rng.choice(1 << 10, 3, replace=False)
        other[place] = tones(1 << 10, dict(zip(f.tolist(), [1, 0.5, 0.25], strict=True)))
    spectra = sparsefft.fft(x, k=3, axis=axis)
    assert spectra.shape == other.shape[:-1]
    np.testing.assert_allclose(spectra.to_dense(), np.fft.fft(x, axis=axis), atol=1e-8)
    single = sparsefft.fft(other[1, 1], k=3)
    np.testing.assert_array_equal(spectra[1, 1].indices, single.indices)
    np.testing.assert_array_equal(spectra[1][1].values, single.values)
    np.testing.assert_array_equal(spectra[1:][0, 1].values, single.values)
    assert len(spectra) == spectra.shape[0]
    assert len(spectra.flat) == np.prod(spectra.shape)
    assert f"{spectra.shape[0]} x {spectra.shape[1]} signals" in repr(spectra)


def test_empty_batch():
    spectra = sparsefft.fft(np.zeros((0, 16)), k=1)
    assert spectra.shape == (0,)
    assert spectra.to_dense().shape == (0, 16)


@pytest.mark.parametrize("workers", [None, 1, 2, 3, -1])
def test_workers_do_not_change_the_answer(workers, rng):
    x = rng.normal(size=(6, 1 << 14))
    expected = sparsefft.fft(x, k=5).to_dense()
    np.testing.assert_array_equal(sparsefft.fft(x, k=5, workers=workers).to_dense(), expected)
    one = sparsefft.fft(x[0], k=5, workers=workers)
    np.testing.assert_array_equal(one.to_dense(), expected[0])


def test_seed_is_reported():
    x = tones(1 << 14, PARTS)
    assert sparsefft.fft(x, k=3, seed=2**64 - 1).report.seed == 2**64 - 1
    a, b = sparsefft.fft(x, k=3, seed=5), sparsefft.fft(x, k=3, seed=5)
    np.testing.assert_array_equal(a.values, b.values)


@pytest.mark.parametrize("algorithm", ["auto", "exact", "robust", "vote", "comb-vote", "dense"])
def test_algorithms_by_name(algorithm):
    x = tones(1 << 16, PARTS)
    spectrum = sparsefft.fft(x, k=3, algorithm=algorithm)
    np.testing.assert_array_equal(spectrum.indices, list(PARTS))
    assert algorithm in ("auto", spectrum.report.algorithm)


@pytest.mark.parametrize("n", [4096, 4095, 1, 2, 3])
def test_rfft(n):
    t = np.arange(n)
    x = 3 + np.cos(2 * np.pi * (100 * t % n) / n) + 0.5 * (-1.0) ** t * (n % 2 == 0)
    k = min(3, n // 2 + 1)
    spectrum = sparsefft.rfft(x, k=k)
    assert spectrum.half
    assert spectrum.size <= k
    expected = np.fft.rfft(x)
    np.testing.assert_allclose(spectrum.to_dense(), expected, atol=1e-8 * n)
    np.testing.assert_allclose(spectrum.freqs(0.5), np.fft.rfftfreq(n, 0.5)[spectrum.indices])
    back = spectrum.synthesize()
    assert back.dtype == np.float64
    np.testing.assert_allclose(back, x, atol=1e-9)


def test_rfft_counts_tones():
    n = 1 << 14
    x = (tones(n, {100: 1, n - 100: 1, 50: 0.5, n - 50: 0.5}) + 0.1).real.astype(np.float32)
    assert sparsefft.rfft(x, k=1).indices.tolist() == [100]
    assert sparsefft.rfft(x, k=2).indices.tolist() == [50, 100]
    assert sparsefft.rfft(x, k=2).values.dtype == np.complex64
    assert sparsefft.rfft(x, k=2).synthesize(3, 5).dtype == np.float32
    assert sparsefft.fft(x, k=4).indices.tolist() == [50, 100, n - 100, n - 50]


def test_k_zero_and_everything():
    x = np.arange(8.0)
    assert sparsefft.fft(x, k=0).size == 0
    np.testing.assert_allclose(sparsefft.fft(x, k=8).to_dense(), np.fft.fft(x), atol=1e-12)
