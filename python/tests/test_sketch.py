"""Sketches: parts in any order, pickles, and every fault by name."""

import pickle

import numpy as np
import pytest
from conftest import tones

import sparsefft
from sparsefft import Sketch

N = 1 << 16


def signal():
    rng = np.random.default_rng(1)
    x = tones(N, {77: 1.0, 40_000: 0.5j, 65_000: 0.25})
    return x + 0.02 * (rng.standard_normal(N) + 1j * rng.standard_normal(N))


def whole(x, **arguments):
    sketch = Sketch(len(x), 5, **arguments)
    sketch.add(0, x)
    return sketch


def test_any_cut_and_order_gives_the_same_bits():
    x = signal()
    single = whole(x).finish()
    assert single.indices.tolist() == [77, 40_000, 65_000]
    assert single.certificate.is_certified
    rng = np.random.default_rng(2)
    ends = np.concatenate([[0], np.sort(rng.integers(0, N, 40)), [N]])
    merged = Sketch(N, 5)
    for i in rng.permutation(41):
        part = Sketch(N, 5)
        part.add(int(ends[i]), x[ends[i] : ends[i + 1]])
        merged.merge(pickle.loads(pickle.dumps(part)) if i % 3 else part)
    assert merged.seen == N
    assert merged.kept == whole(x).kept < N
    found = merged.finish()
    assert found.indices.tolist() == single.indices.tolist()
    assert found.values.tobytes() == single.values.tobytes()


def test_strides_types_and_options():
    x = (100 * signal().real).astype(np.int16)
    sketch = Sketch(N, 3, real=True, norm="forward", seed=4)
    for start in (2, 0, 1):
        sketch.add(start, x[start::3], step=3)
    found = sketch.finish()
    assert found.half
    assert found.indices.tolist() == [77, 536, 25_536]
    assert abs(found.values[0]) == pytest.approx(50, rel=0.01)
    assert "missing" not in repr(sketch) and "seen=65536" in repr(sketch)
    with pytest.raises(TypeError, match="x is complex"):
        sketch.add(0, signal())


def test_faults_are_named():
    x = signal()
    sketch = Sketch(N, 5)
    sketch.add(100, x[100:200])
    assert sketch.missing == [(0, 100), (200, N)]
    with pytest.raises(ValueError, match=r"missing: 0\.\.100, 200\.\.65536"):
        sketch.finish()
    with pytest.raises(ValueError, match=r"seen already: 150\.\.200"):
        sketch.add(150, x[150:300])
    with pytest.raises(ValueError, match="lies outside"):
        sketch.add(N - 5, x[:6])
    with pytest.raises(ValueError, match="start = -1"):
        sketch.add(-1, x)
    with pytest.raises(ValueError, match="2 dimensions"):
        sketch.add(0, x.reshape(2, -1))
    sketch.add(300, x[:0])
    for other, name in [
        (Sketch(N, 5, seed=1), "the seed is 0 here and 1 there"),
        (Sketch(N, 6), "k is"),
        (Sketch(2 * N, 5), "n is 65536 here and 131072 there"),
        (Sketch(N, 5, snr=20), "the noise"),
    ]:
        with pytest.raises(ValueError, match=name):
            sketch.merge(other)
    with pytest.raises(TypeError, match="other must be a Sketch"):
        sketch.merge(b"")
    stored = bytearray(sketch.to_bytes())
    assert Sketch.from_bytes(bytes(stored), like=sketch).missing == sketch.missing
    stored[len(stored) // 2] ^= 1
    with pytest.raises(ValueError, match="checksum"):
        Sketch.from_bytes(bytes(stored), like=sketch)
    with pytest.raises(ValueError, match="give k"):
        Sketch(N, 0)
    with pytest.raises(TypeError, match="k must be"):
        Sketch(N, 1.5)
    with pytest.raises(ValueError, match="auto, exact or robust"):
        Sketch(N, 5, algorithm="vote")
    with pytest.raises(ValueError, match="norm"):
        Sketch(N, 5, norm="backwards")


def test_nan_among_what_is_kept_is_named():
    x = signal()
    x[:] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        whole(x).finish()


def test_the_ordinary_transform_agrees():
    x = signal()
    ordinary = sparsefft.fft(x, k=3)
    found = whole(x).finish()
    assert found.indices.tolist() == ordinary.indices.tolist()
    np.testing.assert_allclose(found.values, ordinary.values, rtol=0.02)
