"""``find``: what is there is named, in the units that were asked for, on every surface."""

import json
import pickle
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest

import sparsefft

FS = 8000.0
N = 1 << 16


def hum(rng):
    """Tones at 440.25 and 1000.1 Hz in noise whose power falls with frequency."""
    t = np.arange(N) / FS
    noise = np.convolve(rng.normal(size=N + 7), [0.5, 0.4, 0.3, 0.2, 0.1, 0.1, 0.1, 0.1], "valid")
    tones = 0.3 * np.cos(2 * np.pi * 440.25 * t + 1) + 0.1 * np.cos(2 * np.pi * 1000.1 * t - 2)
    return noise + tones


def packets(rng):
    """White noise with two packets of noise between 1 and 2 kHz."""
    x = 0.01 * rng.normal(size=N)
    carrier = np.exp(2j * np.pi * 1500 * np.arange(4000) / FS)
    smooth = np.hanning(17) / 8
    for start in (10_000, 40_000):
        baseband = rng.normal(size=4000) + 1j * rng.normal(size=4000)
        x[start : start + 4000] += np.real(np.convolve(baseband, smooth, "same") * carrier)
    return x


def line_at(findings, frequency):
    return min(findings.lines, key=lambda line: abs(line.frequency - frequency))


def test_lines_in_hertz(rng):
    x = hum(rng)
    findings = sparsefft.find(x, FS)
    assert findings.is_complete and not findings.is_certified
    assert findings.verdict == "complete"
    assert (findings.n, findings.fs, findings.real) == (N, FS, True)
    assert findings.frequency_unit == "Hz"
    for frequency, amplitude, phase in ((440.25, 0.3, 1.0), (1000.1, 0.1, -2.0)):
        line = line_at(findings, frequency)
        assert line.kind == "tone"
        assert abs(line.frequency - frequency) < 5 * line.frequency_std
        assert line.frequency_std < FS / N
        assert abs(line.amplitude - amplitude) < 5 * line.amplitude_std
        assert abs(line.phase - phase) < 0.3
        assert line.snr_db > findings.threshold_db
    amplitudes = findings.lines.amplitude
    assert (np.diff(amplitudes) <= 0).all()
    assert findings.cost.samples_read >= N
    assert [a.kind for a in findings.cost.attempts][-1] == "survey"
    assert findings.cost.memory > 0


def test_without_a_rate_in_cycles_per_sample(rng):
    x = hum(rng)
    hertz, cycles = sparsefft.find(x, FS), sparsefft.find(x)
    assert cycles.frequency_unit == "cycles per sample" and cycles.fs is None
    np.testing.assert_allclose(cycles.lines.frequency * FS, hertz.lines.frequency)
    np.testing.assert_allclose(cycles.lines.frequency_std * FS, hertz.lines.frequency_std)
    np.testing.assert_allclose(cycles.floor.frequency * FS, hertz.floor.frequency)
    np.testing.assert_allclose(cycles.floor.density, hertz.floor.density * FS)


def test_a_sparse_signal_is_certified_from_a_few_samples():
    n = 1 << 20
    t = np.arange(n)
    x = np.exp(2j * np.pi * (77 * t % n) / n) + 0.5 * np.exp(2j * np.pi * 0.3141592 * t)
    findings = sparsefft.find(x, 1e6, center=1e8)
    assert findings.is_certified and not findings.is_complete
    assert findings.certificate.is_certified
    assert findings.cost.samples_read < n / 4
    expected = 1e8 + 1e6 * np.array([77 / n, 0.3141592])
    np.testing.assert_allclose(findings.lines.frequency, expected, rtol=0, atol=1e-6)
    np.testing.assert_allclose(findings.lines.amplitude, [1.0, 0.5], rtol=1e-6)
    assert "100.0" not in str(findings.lines[0].frequency_std)


def test_bursts_have_times(rng):
    x = packets(rng)
    findings = sparsefft.find(x, FS)
    long = [burst for burst in findings.bursts if burst.length > 2000]
    assert len(long) == 2
    for burst, start in zip(long, (10_000, 40_000), strict=True):
        assert abs(burst.start - start) < 600 and abs(burst.length - 4000) < 1200
        assert burst.time == burst.start / FS
        assert burst.duration == burst.length / FS
        assert burst.low < 1200 and burst.high > 1800
        assert np.std(x[burst.span]) > 5 * np.std(x[:5000])
    in_samples = sparsefft.find(x)
    assert in_samples.bursts.time.dtype == np.int64
    np.testing.assert_array_equal(in_samples.bursts.time, in_samples.bursts.start)
    assert f"{len(findings.bursts)} bursts" in str(findings)


def test_sweeps_have_rates(rng):
    findings = sparsefft.find(sweep(rng), FS)
    (found,) = findings.sweeps
    assert found.rate == pytest.approx(400, rel=0.01)
    assert found.first == pytest.approx(200 + 400 * found.time, abs=10)
    assert found.last - found.first == pytest.approx(found.rate * found.duration, rel=0.01)
    assert found.span == slice(found.start, found.start + found.length)
    (bare,) = sparsefft.find(sweep(np.random.default_rng(20240501))).sweeps
    assert bare.rate == pytest.approx(found.rate / FS**2)
    assert "1 sweep" in str(findings) and "→" in str(findings)
    axes = findings.plot()
    assert axes.figure.axes[1].get_title() == "1 sweep"
    plt.close(axes.figure)


def test_the_floor_is_that_of_the_noise(rng):
    sigma = 0.5
    findings = sparsefft.find(sigma * rng.normal(size=N), FS, effort="thorough")
    # Two-sided.
    np.testing.assert_allclose(findings.floor.density, sigma**2 / FS, rtol=0.3)
    assert len(findings.lines) <= 1  # the mean
    assert "nothing stands above" not in str(findings) or len(findings.lines) == 0


def test_at_most_bounds_the_list_only(rng):
    x = hum(rng)
    every = sparsefft.find(x, FS)
    two = sparsefft.find(x, FS, at_most=2)
    assert len(two.lines) == 2
    np.testing.assert_array_equal(two.lines.frequency, every.lines.frequency[:2])
    assert two.left_out == len(every.lines) - 2
    assert two.at_most == 2 and two.to_dict()["k"] == 2
    many = sparsefft.find(x, FS, at_most=np.int64(10**9))
    assert len(many.lines) == len(every.lines)


def test_effort_and_memory(rng):
    x = hum(rng)
    quick = sparsefft.find(x, effort="quick")
    assert quick.verdict == "partial" and not quick.is_complete and not quick.is_certified
    assert "quick" in [reason.code for reason in quick.reasons]
    assert "survey" not in [attempt.kind for attempt in quick.cost.attempts]
    thorough = sparsefft.find(x, effort="thorough")
    assert [attempt.kind for attempt in thorough.cost.attempts] == ["survey"]
    small = sparsefft.find(x, memory=1000)
    assert "too_long" in [reason.code for reason in small.reasons]
    assert str(N) in next(r.text for r in small.reasons if r.code == "too_long")


def test_every_kind_of_array(rng):
    x = np.round(1000 * hum(rng))
    expected = sparsefft.find(x, FS)
    wide = np.zeros((N, 2), np.int16)
    wide[:, 1] = x
    for y in (
        x.astype("f4"), x.astype(">f8"), x.astype("i2"), x.astype(">i4"), wide[:, 1],
        x[::-1].copy()[::-1], x.tolist(), memoryview(x), np.broadcast_to(x, (1, N))[0],
    ):  # fmt: skip
        found = sparsefft.find(y, FS)
        np.testing.assert_array_equal(found.lines.frequency, expected.lines.frequency)
        np.testing.assert_array_equal(found.floor.density, expected.floor.density)
    complex_ = sparsefft.find(x + 0j, FS)
    assert not complex_.real
    assert {round(f) for f in complex_.lines.frequency} >= {440, -440, 1000, -1000}


@pytest.mark.parametrize("workers", [1, 2, -1])
def test_workers_do_not_change_the_answer(workers, rng):
    x = packets(rng)
    expected = sparsefft.find(x, FS).to_dict()
    found = sparsefft.find(x, FS, workers=workers).to_dict()
    for name in ("lines", "bands", "bursts", "sweeps", "families", "floor", "reasons"):
        assert found[name] == expected[name]


def test_tables():
    n = 1 << 16
    t = np.arange(n)
    x = sum(np.exp(2j * np.pi * f * t) / (i + 1) for i, f in enumerate((0.1, 0.2, -0.3)))
    lines = sparsefft.find(x).lines
    assert len(lines) == 3 and list(lines.columns())[:2] == ["kind", "frequency"]
    assert [line.frequency for line in lines] == lines.frequency.tolist()
    assert lines[-1].frequency == lines.frequency[-1]
    assert type(lines[:2]) is type(lines) and len(lines[:2]) == 2
    assert lines[lines.frequency < 0].amplitude.round(6).tolist() == [round(1 / 3, 6)]
    assert "0.2" in repr(lines)
    with pytest.raises(IndexError):
        lines[3]
    with pytest.raises(ValueError, match="read-only"):
        lines.frequency[0] = 1
    with pytest.raises(AttributeError):
        lines.frequency = None


# The names of the command line's JSON, schema 2.
NAMES = {
    "peaks": {"index", "bin", "bin_std", "frequency", "hertz", "re", "im", "magnitude", "phase"},
    "lines": {
        "kind", "frequency", "frequency_std", "hertz", "hertz_std", "index", "bin", "level",
        "level_std", "phase", "snr_db",
    },
    "bands": {"low", "high", "low_hz", "high_hz", "power", "above_db"},
    "bursts": {
        "start", "length", "start_s", "length_s", "low", "high", "low_hz", "high_hz", "power",
        "above_db",
    },
    "sweeps": {
        "start", "length", "start_s", "length_s", "from", "to", "from_hz", "to_hz", "rate", "power",
        "above_db",
    },
    "families": {"spacing", "spacing_hz", "carrier", "orders", "members"},
    "reasons": {"code", "text"},
}  # fmt: skip
WHOLE = {
    "schema", "mode", "n", "k", "rate", "center", "floor", "verdict", "threshold_db", "clusters",
    "certificate", "seed", "samples_read", "seconds", "stages", "cost", *NAMES,
}  # fmt: skip


def everything(rng):
    """Harmonics, a band and packets."""
    t = np.arange(N) / FS
    x = packets(rng) + sum(0.02 * np.sin(2 * np.pi * 110.3 * k * t + k) for k in range(1, 7))
    band = np.convolve(rng.normal(size=N), np.cos(2 * np.pi * 3000 * t[:101]) * np.hanning(101))
    return x + 0.01 * band[:N]


def sweep(rng):
    """From 200 Hz upwards by 400 Hz a second, in white noise."""
    t = np.arange(N) / FS
    return 0.01 * rng.normal(size=N) + 0.05 * np.cos(2 * np.pi * (200 * t + 200 * t**2))


def test_to_dict_has_the_names_of_the_command_line(rng):
    findings = sparsefft.find(everything(rng), FS)
    found = findings.to_dict()
    found["sweeps"] = sparsefft.find(sweep(rng), FS).to_dict()["sweeps"]
    assert set(found) >= WHOLE
    for kind, names in NAMES.items():
        assert found[kind], f"the signal has no {kind}"
        for row in found[kind]:
            assert set(row) >= names, kind
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["schema"] == 2 and found["rate"] == FS and found["n"] == N
    line, row = findings.lines[0], found["lines"][0]
    assert row["hertz"] == line.frequency
    assert row["frequency"] == pytest.approx(line.frequency / FS)
    assert row["index"] == round(line.frequency / FS * N)
    assert found["peaks"][0]["magnitude"] == pytest.approx(
        N * line.amplitude / (2 if line.mirrored else 1)
    )
    burst, row = findings.bursts[0], found["bursts"][0]
    assert (row["start"], row["start_s"]) == (burst.start, burst.start / FS)
    assert row["low_hz"] == burst.low
    assert found["floor"]["density"][0] == pytest.approx(findings.floor.density[0] * FS)
    bare = sparsefft.find(everything(rng)).to_dict()
    assert bare["rate"] is None
    assert not [name for name in (*bare["lines"][0], *bare["bursts"][0]) if name.endswith("_s")]
    assert "hertz" not in bare["lines"][0]


def test_to_frame(rng):
    findings = sparsefft.find(everything(rng), FS)
    frame = findings.to_frame()
    assert list(frame.columns) == list(findings.lines.columns())
    assert frame.frequency.tolist() == findings.lines.frequency.tolist()
    assert frame.attrs["verdict"] == "complete" and frame.attrs["frequency_unit"] == "Hz"
    assert len(findings.bursts.to_frame()) == len(findings.bursts)


def test_to_frame_without_pandas(rng, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"to_frame\(\) needs pandas"):
        sparsefft.find(hum(rng)).to_frame()


def test_plot_without_matplotlib(rng, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"plot\(\) needs matplotlib"):
        sparsefft.find(hum(rng)).plot()


def test_text(rng):
    findings = sparsefft.find(everything(rng), FS)
    text = str(findings)
    assert text.startswith("Findings: complete: ")
    assert "could not be overlooked" in text
    assert f"{N:,} real samples at 8 kHz (8.19 s)" in text
    assert "frequency (Hz)" in text and "level (dB re 1)" in text
    assert "every 110.3 Hz: harmonics 1 2 3" in text
    for title in ("lines", "families", "bands", "bursts"):
        assert f"\n{title}\n" in text
    assert "samples read" in text.splitlines()[-1]
    assert len(text.splitlines()) < 60 and max(map(len, text.splitlines())) < 240
    for reason in findings.reasons:
        assert reason.text in text
    html = findings._repr_html_()
    assert html.count("<table>") == html.count("</table>") == 4
    assert "<svg" in html and "nan" not in html


def test_plot(rng):
    axes = sparsefft.find(everything(rng), FS).plot()
    over_time = axes.figure.axes[1]
    assert axes.get_ylabel() == "level (dB re 1)"
    assert over_time.get_xlabel() == "frequency (kHz)"
    assert over_time.get_ylabel() == "time from the start (s)"
    assert over_time.get_xlim() == (0, 4)
    plt.close(axes.figure)
    figure, ax = plt.subplots()
    assert sparsefft.find(hum(rng)).plot(ax) is ax
    assert ax.get_xlabel() == "frequency (cycles per sample)"
    assert len(figure.axes) == 1
    plt.close(figure)
    with pytest.raises(TypeError, match="ax must be None, one Axes"):
        sparsefft.find(hum(rng)).plot(3)


def test_units_suit_the_record(rng):
    x = hum(rng)
    for fs, over, words in (
        (1.0, "frequency (Hz)", "18.2 h"),
        (1e-7, "frequency (nHz)", "2.077e+04 years"),
        (2e9, "frequency (GHz)", "32.8 µs"),
    ):
        findings = sparsefft.find(x, fs)
        axes = findings.plot()
        assert axes.get_xlabel() == over and f"({words})" in str(findings)
        plt.close(axes.figure)
    axes = sparsefft.find(packets(rng), 0.1).plot()
    assert axes.figure.axes[1].get_ylabel() == "time from the start (days)"
    plt.close(axes.figure)


def test_pickle(rng):
    findings = sparsefft.find(everything(rng), FS)
    again = pickle.loads(pickle.dumps(findings))
    assert again.to_dict() == findings.to_dict()
    with pytest.raises(AttributeError):
        findings.n = 3


def test_silence_and_short_signals():
    silent = sparsefft.find(np.zeros(1000), FS)
    assert len(silent.lines) == len(silent.bursts) == 0
    repr(silent), silent._repr_html_(), plt.close(silent.plot().figure)
    for n in (1, 2, 3, 63):
        short = sparsefft.find(np.arange(n) + 1.0)
        assert short.verdict in ("certified", "complete", "partial")
        json.dumps(short.to_dict(), allow_nan=False)
        plt.close(short.plot().figure)


def test_a_drawn_seed_is_told():
    x = np.exp(0.3j * np.arange(1 << 16))
    assert sparsefft.find(x, seed=7).seed == 7
    drawn = sparsefft.find(x, seed="random")
    again = sparsefft.find(x, seed=drawn.seed)
    assert again.to_dict()["lines"] == drawn.to_dict()["lines"]


X = np.random.default_rng(5).normal(size=200)


@pytest.mark.parametrize("call", [sparsefft.find, sparsefft.tones], ids=["find", "tones"])
@pytest.mark.parametrize(
    ("x", "options", "error", "message"),
    [
        (X, {"fs": 0}, ValueError, "fs = 0: it must be greater than 0, samples per second"),
        (X, {"fs": -3.0}, ValueError, "fs = -3.0: it must be greater than 0"),
        (X, {"fs": np.nan}, ValueError, "fs = nan: it must be finite"),
        (X, {"fs": 10**400}, ValueError, "fs = 1000.*: it must be finite"),
        (X, {"fs": "48k"}, TypeError, "fs must be a real number .samples per second., not str"),
        (X, {"fs": True}, TypeError, "fs must be a real number"),
        (X, {"center": 1e6}, ValueError, "center = 1000000.0: it needs the rate, too; give fs"),
        (X, {"fs": 1, "center": "1M"}, TypeError, "center must be a real number"),
        (X, {"workers": 0}, ValueError, "workers = 0"),
        (X, {"workers": 1.5}, TypeError, "workers must be an integer"),
        (X, {"seed": -1}, ValueError, "seed = -1"),
        (X, {"seed": "new"}, ValueError, "seed = 'new': it must be an integer or 'random'"),
        (X, {"failure_probability": 2}, ValueError, "failure_probability = 2"),
        ([], {}, ValueError, "x has no samples"),
        (3.0, {}, ValueError, "x is a single number"),
        (X.reshape(2, 100), {}, ValueError, r"x has shape \(2, 100\).*x\[0\], x\[1\]"),
        (X.reshape(100, 2), {}, ValueError, r"x has shape \(100, 2\).*x\[:, 0\], x\[:, 1\]"),
        (["a"] * 80, {}, TypeError, "x has dtype <U1"),
        (np.ma.masked_greater(X, 2), {}, TypeError, r"x is a masked array.*x.filled\(0\)"),
        (np.full(5000, np.nan), {}, ValueError, r"x: sample \d+ is NaN"),
    ],
)
def test_bad_input(call, x, options, error, message):
    with pytest.raises(error, match=message):
        call(x, **options)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"effort": "slow"}, ValueError, "effort = 'slow': it must be 'usual', 'quick'"),
        ({"effort": 3}, TypeError, "effort must be a string"),
        ({"at_most": -1}, ValueError, "at_most = -1: it must be a non-negative integer"),
        ({"at_most": 2.5}, TypeError, "at_most must be a non-negative integer"),
        ({"memory": -1}, ValueError, "memory = -1: it must be a number of bytes"),
        ({"memory": "4 GB"}, TypeError, "memory must be a number of bytes"),
    ],
)
def test_bad_options(options, error, message):
    with pytest.raises(error, match=message):
        sparsefft.find(X, **options)


def test_options_are_by_name():
    with pytest.raises(TypeError, match="positional"):
        sparsefft.find(X, 1.0, 5)
    with pytest.raises(TypeError, match="positional"):
        sparsefft.tones(X, 1.0, 5)
