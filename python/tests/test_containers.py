"""Series, DataArrays and Traces keep their rate and the time of their first sample."""

import types

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import sparsefft

N = 1 << 14
FS = 200.0
T = np.arange(N) / FS
X = np.cos(2 * np.pi * 7.31 * T) + 0.1 * np.random.default_rng(3).normal(size=N)
BEGIN = np.datetime64("2024-05-01T12:00:00", "ns")
CALLS = pytest.mark.parametrize("call", [sparsefft.find, sparsefft.tones], ids=["find", "tones"])


def frequency(answer):
    lines = answer.lines if hasattr(answer, "lines") else answer
    return lines.frequency[np.argmax(lines.amplitude)]


def dates(step="5ms", tz=None):
    return pd.date_range("2024-05-01T12:00:00", periods=N, freq=step, tz=tz)


@CALLS
@pytest.mark.parametrize(
    ("x", "start"),
    [
        (pd.Series(X, dates()), BEGIN),
        (pd.Series(X, dates(tz="Europe/Berlin")), BEGIN - np.timedelta64(2, "h")),
        (pd.Series(X, pd.timedelta_range("3s", periods=N, freq="5ms")), 3.0),
        (pd.Series(X, 2.5 + T), 2.5),
        (xr.DataArray(X, {"time": dates()}, "time"), BEGIN),
        (xr.DataArray(X, {"t": 2.5 + T}, "t"), 2.5),
        (xr.DataArray(X, {"t": ("t", 5 * np.arange(N), {"units": "ms"})}, "t"), 0.0),
    ],
    ids=["dates", "zone", "lengths", "seconds", "xarray", "xarray seconds", "xarray ms"],
)
def test_rate_and_beginning(call, x, start):
    found = call(x)
    assert found.fs == FS and found.start_time == start
    assert frequency(found) == pytest.approx(7.31, abs=1e-3)
    assert frequency(call(x, 200.01)) == pytest.approx(7.31, abs=1e-3)
    with pytest.raises(
        ValueError, match=r"fs = 100 Hz, but the (index|coordinate) of x says 200 Hz"
    ):
        call(x, 100)


class UTCDateTime:
    """As that of obspy."""

    def __init__(self, ns):
        self.ns = ns


def trace(data, **stats):
    return types.SimpleNamespace(data=data, stats=types.SimpleNamespace(**stats))


@CALLS
def test_traces(call):
    begin = UTCDateTime(int(BEGIN.astype(np.int64)))
    found = call(trace((1000 * X).astype(np.int32), sampling_rate=FS, starttime=begin))
    assert found.fs == FS and found.start_time == BEGIN
    assert frequency(found) == pytest.approx(7.31, abs=1e-3)
    with pytest.raises(ValueError, match=r"fs = 100 Hz, but x.stats.sampling_rate says 200 Hz"):
        call(trace(X, sampling_rate=FS), 100)
    with pytest.raises(TypeError, match="x is a masked array"):
        call(trace(np.ma.masked_greater(X, 1), sampling_rate=FS))
    with pytest.raises(ValueError, match="x.stats.sampling_rate = 0"):
        call(trace(X, sampling_rate=0))

    class Stream(list):
        traces = property(list)

    with pytest.raises(TypeError, match=r"x is a Stream of 2 traces; .*give x\[0\]"):
        call(Stream([trace(X, sampling_rate=FS)] * 2))


def test_times_of_bursts():
    x = 0.01 * X
    x[8000:9000] += np.random.default_rng(4).normal(size=1000)
    for series, expected in (
        (pd.Series(x, dates()), BEGIN + np.timedelta64(40, "s")),
        (pd.Series(x, 100 + T), 140.0),
    ):
        findings = sparsefft.find(series)
        (burst,) = (b for b in findings.bursts if b.length > 500)
        half = np.timedelta64(500, "ms") if isinstance(expected, np.datetime64) else 0.5
        assert abs(burst.time - expected) <= half
        assert type(burst.time) is type(expected)
        assert findings.bursts.to_frame().time.dtype.kind == np.asarray(expected).dtype.kind
    assert "2024-05-01 12:00:" in str(sparsefft.find(pd.Series(x, dates())))


@pytest.mark.parametrize(
    "x",
    [
        pd.Series(X),
        pd.Series(X, list("ab") * (N // 2)),
        pd.Series(X, 3 + 2 * np.arange(N)),
        pd.Series(X, np.arange(N, dtype=np.uint16)),
        pd.Series(X).iloc[::2],
        xr.DataArray(X, dims="time"),
        xr.DataArray(X, {"x": ("x", T, {"units": "m"})}, "x"),
    ],
    ids=["counted", "words", "every second", "small counts", "a range", "no coordinate", "metres"],
)
def test_what_tells_no_rate(x):
    found = sparsefft.find(x)
    assert found.fs is None and found.start_time is None
    assert sparsefft.find(x, FS).fs == FS


def test_rounded_times():
    # Milliseconds of 60 Hz: steps of 16 and 17 ms.
    milliseconds = np.round(np.arange(600) / 0.06).astype("m8[ms]")
    times = pd.DatetimeIndex(np.datetime64("2024-05-01", "ms") + milliseconds)
    assert sparsefft.find(pd.Series(X[:600], times)).fs == pytest.approx(60, rel=1e-4)
    assert sparsefft.find(pd.Series(X[:600], times), 60).fs == 60
    periods = pd.period_range("2024-05-01", periods=N, freq="s")
    assert sparsefft.find(pd.Series(X, periods)).fs == 1


def stand_in(data, values):
    """A DataArray with a coordinate that old versions of xarray refuse."""
    coordinate = types.SimpleNamespace(values=values, attrs={})
    return types.SimpleNamespace(data=data, values=data, dims=("t",), coords={"t": coordinate})


def gap(index):
    return index.delete(slice(100, 150))


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (
            pd.Series(X[:-50], gap(dates())),
            ValueError,
            "the index of x has steps from 0.005 to 0.255 s",
        ),
        (pd.Series(X[:-1], dates().delete(100)), ValueError, "steps from 0.005 to 0.01 s"),
        (pd.Series(X[:-50], gap(pd.Index(np.arange(N)))), ValueError, "has steps from 1 to 51,"),
        (pd.Series(X[::-1], dates()[::-1]), ValueError, "runs backwards"),
        (
            pd.Series(X, dates()[np.r_[1, 0, 2:N]]),
            ValueError,
            "the index of x has steps from -0.005",
        ),
        (
            pd.Series(X, np.where(T == 1, np.nan, T)),
            ValueError,
            "the index of x has missing values",
        ),
        (pd.Series(X, np.zeros(N)), ValueError, "the index of x has steps from 0 to 0 s"),
        (
            stand_in(X[:3], np.array(["0800", "0801", "0802"], "M8[s]")),
            ValueError,
            "times of the years 800 to 802, but only 1678 to 2261",
        ),
        (pd.Series(X).where(X < 1), ValueError, "x: sample .* is NaN"),
        (pd.Series(X, dtype=object), TypeError, "x has dtype object"),
        (pd.Series(X, dates())[:0], ValueError, "x has no samples"),
        (pd.DataFrame({"a": X, "b": X}), TypeError, r"a table of 2 columns; .*give x\['a'\]"),
        (xr.Dataset({"a": ("t", X)}), TypeError, r"Dataset of 1 variables; .*give x\['a'\]"),
        (xr.DataArray(X.reshape(2, -1), dims=("c", "t")), ValueError, r"x has shape \(2, 8192\)"),
        (xr.DataArray(X, {"t": T**2}, "t"), ValueError, "the coordinate 't' of x has steps from"),
    ],
)
def test_bad_containers(x, error, message):
    with pytest.raises(error, match=message):
        sparsefft.find(x)


def test_transforms_take_them_as_arrays():
    n = 1 << 12
    x = pd.Series(np.cos(2 * np.pi * 5 * np.arange(n) / n), 10.0 + np.arange(n))
    assert sparsefft.rfft(x, k=1).indices.tolist() == [5]
    assert sparsefft.fft(xr.DataArray(x.to_numpy(), dims="t"), k=2).indices.tolist() == [5, n - 5]
