"""What can be done with an answer."""

import copy
import pickle

import numpy as np
import pytest
from conftest import tones

import sparsefft

N = 1 << 14
PARTS = {3: 1.0, 700: -0.5j, N - 10: 0.25}


@pytest.fixture
def spectrum():
    return sparsefft.fft(tones(N, PARTS), k=3)


def test_unpacks(spectrum):
    indices, values = spectrum
    assert indices is spectrum.indices
    assert values is spectrum.values
    assert spectrum.size == 3


def test_frequencies(spectrum):
    np.testing.assert_array_equal(spectrum.freqs(), np.fft.fftfreq(N)[spectrum.indices])
    rate = 48_000.0
    np.testing.assert_allclose(spectrum.freqs(1 / rate)[2], -10 * rate / N)
    odd = sparsefft.fft(np.ones(5), k=5)
    np.testing.assert_array_equal(odd.freqs(), np.fft.fftfreq(5)[odd.indices])


def test_lookups(spectrum):
    assert spectrum.value(700) / N == pytest.approx(-0.5j)
    assert spectrum.value(701) == 0
    assert spectrum.value(N) == 0
    indices, values = spectrum.top(2)
    assert indices.tolist() == [3, 700]
    assert np.abs(values[0]) >= np.abs(values[1])


def test_dense_and_scipy(spectrum):
    expected = np.fft.fft(tones(N, PARTS))
    np.testing.assert_allclose(spectrum.to_dense(), expected, atol=1e-7)
    sparse = spectrum.to_scipy()
    assert sparse.shape == (N,)
    assert sparse.nnz == 3
    np.testing.assert_array_equal(sparse.toarray(), spectrum.to_dense())
    half = sparsefft.rfft(np.ones(10), k=1)
    assert half.to_scipy().shape == (6,)


def test_synthesis(spectrum):
    x = tones(N, PARTS)
    np.testing.assert_allclose(spectrum.synthesize(), x, atol=1e-12)
    np.testing.assert_allclose(spectrum.synthesize(100, 200), x[100:200], atol=1e-12)
    assert spectrum.synthesize(5, 5).shape == (0,)
    for bad in ((-1, 5), (5, 4), (0, N + 1)):
        with pytest.raises(ValueError, match="start = .*stop = "):
            spectrum.synthesize(*bad)


def test_certificate_and_report(spectrum):
    certificate = spectrum.certificate
    assert certificate.verdict == "certified"
    assert certificate.is_certified
    assert certificate.reason is None
    assert certificate.bins_unexplained == 0 < certificate.bins_tested
    assert str(certificate).startswith("certified: ")
    assert certificate is spectrum.certificate
    report = spectrum.report
    assert report.algorithm == "exact"
    assert report.device == "cpu"
    assert 0 < sum(report.stages.values()) <= report.elapsed * 1.01
    with pytest.raises(AttributeError):
        certificate.verdict = "dense"


def test_a_dense_answer_is_complete_and_not_certified(rng):
    x = rng.normal(size=1 << 14)
    told = {}
    for name, plan in {
        "certified": sparsefft.Plan(N, 3),
        "dense": sparsefft.Plan(N, 3, algorithm="dense"),
        "uncertified": sparsefft.Plan(N, 3, algorithm="exact", fallback="never"),
    }.items():
        signal = tones(N, PARTS) if name == "certified" else x
        certificate = plan.transform(signal).certificate
        assert certificate.verdict == name
        told[name] = (certificate.is_certified, certificate.is_complete, certificate.is_reliable)
    assert told == {
        "certified": (True, False, True),
        "dense": (False, True, True),
        "uncertified": (False, False, False),
    }


def test_a_batch_counts_its_verdicts(rng):
    both = np.stack([tones(N, PARTS), rng.normal(size=N)])
    assert repr(sparsefft.fft(both, k=3)).endswith("1 certified, 1 dense")
    assert repr(sparsefft.fft(both[:1], k=3)).endswith("all certified")
    assert repr(sparsefft.fft(both, k=3, algorithm="dense")).endswith("all dense")


def test_doubt_is_said(rng):
    x = rng.normal(size=1 << 14)
    plan = sparsefft.Plan(1 << 14, 3, algorithm="exact", fallback="never")
    spectrum = plan.transform(x)
    assert not spectrum.certificate.is_certified
    assert spectrum.certificate.reason in repr(spectrum)
    assert "uncertified" in repr(spectrum)


def test_repr(spectrum):
    lines = repr(spectrum).splitlines()
    assert lines[0] == "SparseSpectrum: 3 coefficients of n = 16384, certified"
    assert lines[1].split() == ["index", "cycles/sample", "|X|/n", "phase"]
    assert lines[2].split() == ["3", "+0.000183105", "1", "+0.0000"]
    assert lines[3].split()[0] == "700"
    assert "samples read" in lines[-1]
    assert "'exact'" in lines[-1]
    assert len({len(line) for line in lines[1:5]}) == 1, "columns are aligned"


def test_repr_of_many_and_of_none():
    many = sparsefft.fft(np.arange(32.0), k=20)
    assert "... and 12 smaller ones" in repr(many)
    none = sparsefft.fft(np.zeros(4096))
    assert repr(none).startswith("SparseSpectrum: 0 coefficients of n = 4096")
    assert "<svg" not in none._repr_html_()
    assert repr(sparsefft.fft(np.ones(8), k=1)).startswith("SparseSpectrum: 1 coefficient of n = 8")
    assert "of a real signal, n = 8" in repr(sparsefft.rfft(np.ones(8), k=1))


def test_html(spectrum):
    import xml.dom.minidom

    html = spectrum._repr_html_()
    # Well formed, with one stem for each coefficient.
    document = xml.dom.minidom.parseString(html)
    stems = document.getElementsByTagName("path")[0].getAttribute("d")
    assert stems.count("M") == 3
    assert len(document.getElementsByTagName("tr")) == 4
    assert "certified: " in html


def test_plot(spectrum, tmp_path):
    import matplotlib.pyplot as plt

    ax = spectrum.plot(d=1 / 48_000)
    assert ax.get_xlim() == (-24_000, 24_000)
    x, y = ax.lines[-1].get_data()
    np.testing.assert_allclose(x, spectrum.freqs(1 / 48_000))
    np.testing.assert_allclose(y, 20 * np.log10(np.abs(spectrum.values) / N))
    ax.figure.savefig(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 1000
    _, mine = plt.subplots()
    assert sparsefft.rfft(np.ones(64), k=1, norm="ortho").plot(mine) is mine
    assert mine.lines[-1].get_ydata()[0] == pytest.approx(0.0, abs=1e-9)
    assert sparsefft.fft(np.zeros(64)).plot() is not None
    plt.close("all")


def test_plot_says_what_is_missing(spectrum, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install sparsefft\[plot\]"):
        spectrum.plot()


@pytest.mark.parametrize("again", [lambda s: pickle.loads(pickle.dumps(s)), copy.deepcopy])
def test_pickle(spectrum, again):
    restored = again(spectrum)
    np.testing.assert_array_equal(restored.indices, spectrum.indices)
    np.testing.assert_array_equal(restored.values, spectrum.values)
    assert restored.certificate == spectrum.certificate
    assert str(restored.certificate) == str(spectrum.certificate)
    assert restored.report == spectrum.report
    assert repr(restored) == repr(spectrum)
    np.testing.assert_array_equal(restored.synthesize(0, 9), spectrum.synthesize(0, 9))
    spectra = again(sparsefft.fft(np.ones((2, 64)), k=1))
    assert spectra.shape == (2,)
    assert spectra[1].indices.tolist() == [0]


def test_values_may_be_changed(spectrum):
    _, values = spectrum
    values /= N
    assert spectrum.value(3) == pytest.approx(1.0)
    spectrum.indices[0] = N + 5
    with pytest.raises(ValueError, match="lies outside"):
        spectrum.synthesize()
    with pytest.raises(IndexError):
        spectrum.to_dense()


def test_one_coefficient_has_one_signal_to_noise_ratio(rng):
    n, amplitude, sigma = 1 << 16, 0.2, 0.5
    noise = rng.normal(size=n) + 1j * rng.normal(size=n)
    x = tones(n, {4321: amplitude}) + sigma / np.sqrt(2) * noise
    expected = 10 * np.log10(n * (amplitude / sigma) ** 2)
    for algorithm in ("robust", "dense"):
        for norm in (None, "ortho", "forward"):
            spectrum = sparsefft.fft(x, k=1, algorithm=algorithm, norm=norm)
            assert spectrum.report.algorithm == algorithm
            np.testing.assert_allclose(spectrum.snr_db(), [expected], atol=1.0)


def test_no_ratio_without_a_measurement_of_noise(spectrum, rng):
    assert np.isnan(spectrum.snr_db()).all()
    doubtful = sparsefft.Plan(N, 3, algorithm="exact", fallback="never")
    found = doubtful.transform(tones(N, PARTS) + rng.normal(size=N))
    assert not found.certificate.is_reliable
    assert np.isnan(found.snr_db()).all()
