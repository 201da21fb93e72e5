"""``tones``: frequencies between the bins as arrays, with deviations that hold."""

import json
import pickle

import matplotlib.pyplot as plt
import numpy as np
import pytest

import sparsefft

N = 1 << 18
FREQUENCIES = np.array([-0.31234567, 0.0123456789, 0.2000001])
AMPLITUDES = np.array([0.5, 1.0, 0.25])


def three(rng, sigma=0.1):
    t = np.arange(N)
    noise = sigma * np.sqrt(0.5) * (rng.normal(size=N) + 1j * rng.normal(size=N))
    cycles = np.outer(FREQUENCIES, t)
    return noise + AMPLITUDES @ np.exp(2j * np.pi * (cycles - np.round(cycles)) + 0.5j)


def test_frequencies_between_the_bins(rng):
    found = sparsefft.tones(three(rng))
    assert found.is_certified and found.frequency_unit == "cycles per sample"
    assert len(found) == 3
    assert (np.abs(found.frequency - FREQUENCIES) < 5 * found.frequency_std).all()
    assert (np.abs(found.amplitude - AMPLITUDES) < 5 * found.amplitude_std).all()
    assert (np.abs(found.phase - 0.5) < 5 * found.phase_std).all()
    assert (found.frequency_std < 0.1 / N).all() and (found.frequency_std > 0).all()
    # In one bin of the whole record.
    expected = 10 * np.log10(N * AMPLITUDES**2 / 0.1**2)
    np.testing.assert_allclose(found.snr_db, expected, atol=0.5)
    assert np.isnan(found.drift).all()
    assert found.samples_read < N


def test_real_samples_and_hertz():
    fs = 44_100.0
    t = np.arange(N) / fs
    x = 0.5 * np.cos(2 * np.pi * 440.25 * t - 1) + 0.1 * np.cos(2 * np.pi * 1000.5 * t + 2)
    found = sparsefft.tones(x, fs)
    assert found.real and found.frequency_unit == "Hz"
    np.testing.assert_allclose(found.frequency, [440.25, 1000.5], atol=1e-6)
    np.testing.assert_allclose(found.amplitude, [0.5, 0.1], atol=1e-6)
    np.testing.assert_allclose(found.phase, [-1, 2], atol=1e-4)
    assert found.mirrored.all()
    one = sparsefft.tones(x, fs, k=1)
    assert one.frequency.round(3).tolist() == [440.25]
    assert (one.left_out, one.k) == (1, 1)
    tuned = sparsefft.tones(x + 0j, fs, center=1e6)
    np.testing.assert_allclose(
        tuned.frequency, 1e6 + np.array([-1000.5, -440.25, 440.25, 1000.5]), atol=1e-6
    )


def test_a_constant_is_no_pair():
    found = sparsefft.tones(np.full(N, 3.0))
    assert found.frequency.tolist() == [0] and found.amplitude.round(9).tolist() == [3]
    assert not found.mirrored[0]


def test_a_drift_is_in_hertz_per_second(rng):
    fs = 1000.0
    t = np.arange(N) / fs
    # 3 bins over the record.
    rate = 3 * fs / N / t[-1]
    x = np.exp(2j * np.pi * (100.0 * t + 0.5 * rate * t**2)) + 0.01 * rng.normal(size=N)
    found = sparsefft.tones(x, fs)
    assert len(found) == 1
    assert abs(found.drift[0] - rate) < 5 * found.drift_std[0]
    # At the first sample, to a thousandth of a bin.
    assert abs(found.frequency[0] - 100) < 1e-3 * fs / N
    assert "drifts by" in repr(found)


def test_rows_and_columns(rng):
    found = sparsefft.tones(three(rng))
    assert [tone.frequency for tone in found] == found.frequency.tolist()
    assert found[1].phase == found.phase[1] and found[-1].amplitude == found.amplitude[-1]
    strong = found[found.amplitude > 0.3]
    assert strong.frequency.tolist() == found.frequency[:2].tolist()
    frame = found.to_frame()
    assert frame.amplitude.tolist() == found.amplitude.tolist()
    assert frame.attrs["verdict"] == "certified"
    again = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(again.frequency, found.frequency)
    with pytest.raises(AttributeError):
        found.frequency = None


def test_to_dict(rng):
    found = sparsefft.tones(three(rng), 1e3)
    plain = found.to_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert (plain["mode"], plain["verdict"], plain["schema"]) == ("tones", "certified", 2)
    assert [row["hertz"] for row in plain["lines"]] == found.frequency.tolist()
    np.testing.assert_allclose(
        [row["frequency"] for row in plain["lines"]], found.frequency / 1e3, rtol=1e-14
    )
    assert plain["peaks"][0]["magnitude"] == pytest.approx(N * found.amplitude[0])
    assert plain["peaks"][0]["index"] == round((1 + FREQUENCIES[0]) * N)


def test_text_and_pictures(rng):
    found = sparsefft.tones(three(rng), 2e6, center=1e8)
    text = repr(found)
    assert text.startswith("Tones: certified, 3 tones\n")
    assert "262,144 complex samples at 2 MHz (131 ms) around 100 MHz" in text
    rows = [line.split()[0] for line in text.splitlines() if line.startswith("  ")]
    expected = 1e8 + 2e6 * FREQUENCIES[[1, 0, 2]]
    np.testing.assert_allclose([float(row) for row in rows[-3:]], expected, rtol=0, atol=0.2)
    assert "<table>" in found._repr_html_()
    axes = found.plot()
    assert axes.get_xlabel() == "frequency (MHz)" and axes.get_ylabel() == "level (dB re 1)"
    assert axes.get_xlim() == (99, 101)
    plt.close(axes.figure)


def test_noise_alone_has_none(rng):
    found = sparsefft.tones(rng.normal(size=N), 1e3)
    assert len(found) == 0 and found.is_certified
    assert repr(found).startswith("Tones: certified, 0 tones")
    plt.close(found.plot().figure)
    json.dumps(found.to_dict(), allow_nan=False)


def test_what_is_no_tone_is_not_certified(rng):
    x = np.cumsum(rng.normal(size=N))
    found = sparsefft.tones(x, 1e3)
    assert not found.is_certified and found.certificate.reason in repr(found)
    assert found.to_dict()["reasons"][0]["text"] == found.certificate.reason


def test_options():
    x = np.exp(0.3j * np.arange(4096))
    with pytest.raises(ValueError, match="k = 5000 exceeds the number of coefficients"):
        sparsefft.tones(x, k=5000)
    with pytest.raises(TypeError, match="k must be a non-negative integer"):
        sparsefft.tones(x, k="3")
    with pytest.raises(TypeError, match="snr must be a real number"):
        sparsefft.tones(x, snr="high")
    with pytest.raises(TypeError, match="k must be"):
        sparsefft.tones(x, k=[1])
    assert sparsefft.tones(x, snr=np.inf, seed="random", workers=2).k is None
