"""What is easily mistaken ends in a sentence that says what to write instead."""

import pathlib
import warnings

import numpy as np
import pytest
from conftest import tones

import sparsefft
from sparsefft import dense

N = 1 << 14
X = tones(N, {5: 1.0, 77: 0.5})


@pytest.mark.parametrize("name", ["fft", "rfft"])
def test_the_second_argument_of_numpy_is_n(name):
    call = getattr(sparsefft, name)
    with pytest.raises(TypeError) as raised:
        call(X.real, 50)
    said = str(raised.value)
    assert f"the second one of numpy.fft.{name} is n" in said
    assert f"{name}(x, k=50)" in said and f"{name}(x[:50])" in said
    with pytest.raises(TypeError, match=rf"write the others with theirs: {name}\(x, k=50\)"):
        call(X.real, None)
    with pytest.raises(TypeError, match="without a name"):
        call(X.real, 50, -1, "ortho")
    assert call(X.real, k=1).size == 1


def test_a_batch_is_no_pair():
    spectra = sparsefft.fft(np.stack([X, X]), k=2)
    with pytest.raises(TypeError, match=r"a batch of 2 spectra does not unpack .* = spectra\[0\]"):
        indices, values = spectra
    with pytest.raises(TypeError, match="does not unpack"):
        for _ in spectra:
            pass
    indices, _values = spectra[0]
    assert indices.tolist() == [5, 77]
    assert [spectrum.size for spectrum in spectra.flat] == [2, 2]
    assert len(spectra) == 2
    deep = sparsefft.fft(np.stack([[X, X], [X, 0 * X]]), k=2)
    assert [spectrum.size for spectrum in deep.flat] == [2, 2, 2, 0]
    with pytest.raises(TypeError, match="a batch of 2 x 2 spectra"):
        list(deep)


MASKED = np.ma.masked_greater(X.real, 1)


@pytest.mark.parametrize(
    "call",
    [
        sparsefft.fft,
        sparsefft.rfft,
        sparsefft.Plan(N, 1).transform,
        sparsefft.find,
        sparsefft.tones,
        dense.fft,
        dense.irfft,
        lambda x: sparsefft.Sketch(N, 4).add(0, x),
    ],
    ids=["fft", "rfft", "Plan", "find", "tones", "dense.fft", "dense.irfft", "Sketch"],
)
def test_masked_arrays(call):
    with pytest.raises(TypeError, match=r"x is a masked array, .*x.filled\(0\)"):
        call(MASKED)
    with pytest.raises(TypeError, match="x is a masked array"):
        call(np.ma.masked_array(X.real))
    call(MASKED.filled(0))


@pytest.mark.parametrize("path", ["x.wav", pathlib.PurePosixPath("x.wav")])
@pytest.mark.parametrize("call", [sparsefft.find, sparsefft.tones, sparsefft.fft, dense.fft])
def test_paths(call, path):
    with pytest.raises(
        TypeError, match=r"not samples; those of a file are sparsefft.read\('x.wav'\)"
    ):
        call(path)


def between(shape=(), n=N):
    """A tone half-way between two bins leaks over all of them."""
    x = np.exp(2j * np.pi * 100.5 * np.arange(n) / n)
    return np.broadcast_to(x, (*shape, n))


def test_frequencies_between_the_bins_warn():
    with pytest.warns(
        sparsefft.OffGridWarning, match=r"of 16384 bins.*sparsefft.tones\(x, fs\)"
    ) as w:
        spectrum = sparsefft.fft(between())
    assert spectrum.size > 1000 and spectrum.certificate.is_complete
    assert "sparsefft.find(x, fs)" in str(w[0].message) and w[0].filename == __file__
    with pytest.warns(sparsefft.OffGridWarning) as w:
        sparsefft.rfft(between(n=4 * N).real)
    assert w[0].filename == __file__
    with pytest.warns(sparsefft.OffGridWarning, match="so 3 of 3 signals") as w:
        sparsefft.Plan(N).transform(between((3,)))
    assert len(w) == 1 and w[0].filename == __file__


def test_what_was_asked_for_does_not_warn(rng):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sparsefft.fft(X)
        sparsefft.fft(between(), k=2000)
        sparsefft.fft(between(), algorithm="dense")
        many = np.zeros(1 << 18)
        many[100:240_000:200] = 1
        assert sparsefft.fft(np.fft.ifft(many, norm="forward")).certificate.is_certified
        sparsefft.fft(rng.normal(size=N))
        sparsefft.tones(between())
        sparsefft.find(between())
