"""``read``: recordings of every kind come with their rate, and what is wrong is said."""

import io
import json
import struct
import tarfile
import wave

import numpy as np
import pytest

import sparsefft

FS = 8000
N = 4000
T = np.arange(N) / FS
TONE = 0.5 * np.cos(2 * np.pi * 440.25 * T)


def wav(path, data, channels=1, width=2, rate=FS):
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(data)
    return path


def chunks(*parts, form=b"RIFF"):
    body = b"".join(name + struct.pack("<I", size) + data for name, size, data in parts)
    return form + struct.pack("<I", 4 + len(body)) + b"WAVE" + body


def fmt(tag, channels, bits, rate=FS):
    block = channels * bits // 8
    return struct.pack("<HHIIHH", tag, channels, rate, rate * block, block, bits)


def strongest(signal):
    findings = sparsefft.find(signal)
    lines = [line for line in findings.lines if line.kind != "offset"]
    return lines[0].frequency, float(findings.level_db(lines[0].amplitude)), findings


def is_mapped(array):
    while array is not None:
        if isinstance(array, np.memmap):
            return True
        array = getattr(array, "base", None)
    return False


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_wav(tmp_path, width):
    numbers = np.round(TONE * (2 ** (8 * width - 1) - 1)).astype(np.int64)
    if width == 1:
        data = (numbers + 128).astype("u1").tobytes()
    else:
        data = b"".join(int(v).to_bytes(width, "little", signed=True) for v in numbers)
    signal = sparsefft.read(wav(tmp_path / "x.wav", data, width=width))
    assert (signal.fs, len(signal), signal.full_scale) == (FS, N, 2.0 ** (8 * width - 1))
    np.testing.assert_array_equal(np.asarray(signal), numbers)
    assert is_mapped(signal.samples) == (width in (2, 4))
    frequency, level, findings = strongest(signal)
    assert frequency == pytest.approx(440.25, abs=0.05)
    assert level == pytest.approx(20 * np.log10(0.5), abs=0.1)
    assert findings.level_unit == "dBFS" and "dBFS" in str(findings)


@pytest.mark.parametrize("kind", ["<f4", "<f8"])
def test_wav_of_floats_and_extensible(tmp_path, kind):
    data = TONE.astype(kind).tobytes()
    bits = 8 * np.dtype(kind).itemsize
    extensible = fmt(0xFFFE, 1, bits) + struct.pack("<HHIH", 22, bits, 4, 3) + bytes(14)
    (tmp_path / "plain.wav").write_bytes(
        chunks((b"fmt ", 16, fmt(3, 1, bits)), (b"data", len(data), data))
    )
    (tmp_path / "long.wav").write_bytes(
        chunks((b"LIST", 3, b"abc\0"), (b"fmt ", 40, extensible), (b"data", len(data), data))
    )
    for name in ("plain.wav", "long.wav"):
        signal = sparsefft.read(tmp_path / name)
        np.testing.assert_array_equal(np.asarray(signal), TONE.astype(kind))
        assert is_mapped(signal.samples) and signal.full_scale == 1


def test_wav_streams_and_cut_files(tmp_path):
    data = np.round(TONE * 1000).astype("<i2").tobytes()
    head = (b"fmt ", 16, fmt(1, 1, 16))
    for size in (0, 0xFFFFFFFF, 2 * N, 4 * N):
        (tmp_path / "x.wav").write_bytes(chunks(head, (b"data", size, data)))
        assert len(sparsefft.read(tmp_path / "x.wav")) == N
    ds64 = (b"ds64", 28, struct.pack("<QQQI", 0, 100, 50, 0))
    (tmp_path / "x.wav").write_bytes(chunks(ds64, head, (b"data", 0xFFFFFFFF, data), form=b"RF64"))
    assert len(sparsefft.read(tmp_path / "x.wav")) == 50


def test_channels(tmp_path):
    left, right = np.round(TONE * 1000), np.round(TONE[::-1] * 500)
    data = np.stack([left, right], axis=1).astype("<i2").tobytes()
    path = wav(tmp_path / "x.wav", data, channels=2)
    with pytest.raises(
        ValueError, match=r"x.wav: it has 2 channels; pick one with channel=0 ... 1"
    ):
        sparsefft.read(path)
    np.testing.assert_array_equal(np.asarray(sparsefft.read(path, channel=0)), left)
    np.testing.assert_array_equal(np.asarray(sparsefft.read(path, channel=1)), right)
    np.testing.assert_array_equal(np.asarray(sparsefft.read(path, iq=True)), left + 1j * right)
    with pytest.raises(ValueError, match=r"channel = 2 does not exist; there are 0 ... 1"):
        sparsefft.read(path, channel=2)
    with pytest.raises(ValueError, match="channel and iq exclude each other"):
        sparsefft.read(path, channel=0, iq=True)
    packed = np.zeros((100, 2, 3), np.uint8)
    packed[:, 0, 0], packed[:, 1, 0] = np.arange(100), 1
    path = wav(tmp_path / "packed.wav", packed.tobytes(), channels=2, width=3)
    np.testing.assert_array_equal(np.asarray(sparsefft.read(path, iq=True)), np.arange(100) + 1j)
    three = np.zeros((100, 3, 3), np.uint8)
    three[:, 1, 0] = np.arange(100)
    path = wav(tmp_path / "three.wav", three.tobytes(), channels=3, width=3)
    np.testing.assert_array_equal(np.asarray(sparsefft.read(path, channel=1)), np.arange(100))


def test_npy(tmp_path):
    np.save(tmp_path / "x.npy", TONE)
    signal = sparsefft.read(tmp_path / "x.npy")
    assert signal.fs is None and is_mapped(signal.samples)
    np.testing.assert_array_equal(np.asarray(signal), TONE)
    assert sparsefft.read(str(tmp_path / "x.npy"), FS).fs == FS
    np.save(tmp_path / "two.npy", np.stack([TONE, 2 * TONE]))
    with pytest.raises(ValueError, match="it has 2 channels"):
        sparsefft.read(tmp_path / "two.npy")
    np.testing.assert_array_equal(
        np.asarray(sparsefft.read(tmp_path / "two.npy", channel=1)), 2 * TONE
    )
    np.save(tmp_path / "one.npy", TONE[:, None])
    assert sparsefft.read(tmp_path / "one.npy").shape == (N,)
    np.save(tmp_path / "objects.npy", np.array([None]), allow_pickle=True)
    with pytest.raises(ValueError, match="objects.npy: .*Python objects in dtype"):
        sparsefft.read(tmp_path / "objects.npy")


IQ = np.exp(2j * np.pi * 0.1234 * np.arange(N))


@pytest.mark.parametrize("name", ["cf32", "cf64", "cs8", "ci16", "cs16_be", "cu8", "cu16", "cs32"])
def test_raw_pairs(tmp_path, name):
    floats = "f" in name
    bits = 64 if "64" in name else 32 if "32" in name else 16 if "16" in name else 8
    full = 1 if floats else 2 ** (bits - 1) - 1
    bias = 2 ** (bits - 1) - 0.5 if "u" in name else 0.0
    kind = (">" if "_be" in name else "<") + name[1].replace("s", "i") + str(bits // 8)
    numbers = 0.9 * full * IQ.view(np.float64) + bias
    stored = (numbers if floats else np.round(numbers)).astype(kind)
    stored.tofile(tmp_path / "recording.bin")
    signal = sparsefft.read(tmp_path / "recording.bin", 2e6, format=name, center=1e9)
    expected = (stored.astype(np.float64) - bias).view(np.complex128)
    np.testing.assert_array_equal(np.asarray(signal), expected)
    assert signal.full_scale == (None if floats else 2.0 ** (bits - 1))
    assert is_mapped(signal.samples) == floats
    frequency, level, _ = strongest(signal)
    assert frequency == pytest.approx(1e9 + 0.1234 * 2e6, abs=1)
    assert level == pytest.approx(20 * np.log10(0.9), abs=0.2)
    # The suffix says it, too.
    stored.tofile(tmp_path / f"recording.{name}")
    np.testing.assert_array_equal(
        np.asarray(sparsefft.read(tmp_path / f"recording.{name}")), expected
    )


def test_raw_reals(tmp_path):
    np.arange(100, dtype="<i2").tofile(tmp_path / "x.s16")
    assert np.asarray(sparsefft.read(tmp_path / "x.s16")).tolist() == list(range(100))
    np.arange(100, dtype="u1").tofile(tmp_path / "x.u8")
    assert np.asarray(sparsefft.read(tmp_path / "x.u8"))[:2].tolist() == [-127.5, -126.5]


def test_parts(tmp_path):
    data = np.arange(N).astype("<i2")
    np.save(tmp_path / "x.npy", data)
    data.tofile(tmp_path / "x.s16")
    data.tofile(tmp_path / "x.cs16")
    (tmp_path / "odd.cs16").write_bytes(data.tobytes() + b"x")
    wav(tmp_path / "x.wav", data.tobytes())
    for name in ("x.npy", "x.s16", "x.wav"):
        part = sparsefft.read(tmp_path / name, FS, skip=800, count=100)
        assert np.asarray(part).tolist() == list(range(800, 900)) and part.start_time == 0.1
        assert len(sparsefft.read(tmp_path / name, skip=N - 1)) == 1
        with pytest.raises(ValueError, match=f"skip = {N}, but there are {N} samples"):
            sparsefft.read(tmp_path / name, skip=N)
        with pytest.raises(ValueError, match=f"skip = 1, count = {N}, but there are {N} samples"):
            sparsefft.read(tmp_path / name, skip=1, count=N)
    for name in ("x.cs16", "odd.cs16"):
        part = sparsefft.read(tmp_path / name, skip=10, count=2)
        assert np.asarray(part).tolist() == [20 + 21j, 22 + 23j]
    with pytest.raises(ValueError, match=f"read the whole ones with count={N // 2}"):
        sparsefft.read(tmp_path / "odd.cs16")
    for options, error in (
        ({"skip": -1}, ValueError), ({"count": 0}, ValueError), ({"skip": 1.5}, TypeError),
        ({"count": "3"}, TypeError), ({"channel": "left"}, TypeError),
    ):  # fmt: skip
        with pytest.raises(error, match=next(iter(options))):
            sparsefft.read(tmp_path / "x.wav", **options)


META = {
    "global": {"core:datatype": "ci16_le", "core:sample_rate": 2e6, "core:version": "1.0.0"},
    "captures": [
        {"core:sample_start": 0, "core:frequency": 1e8, "core:datetime": "2024-05-01T12:00:00.25Z"}
    ],
}


def sigmf(folder, meta, numbers):
    (folder / "x.sigmf-meta").write_text(json.dumps(meta))
    numbers.tofile(folder / "x.sigmf-data")


def test_sigmf(tmp_path):
    numbers = np.round(1000 * IQ.view(np.float64)).astype("<i2")
    sigmf(tmp_path, META, numbers)
    with tarfile.open(tmp_path / "x.sigmf", "w") as archive:
        for name in ("x.sigmf-meta", "x.sigmf-data"):
            archive.add(tmp_path / name, f"x/{name}")
    for name in ("x.sigmf-meta", "x.sigmf-data", "x.sigmf"):
        signal = sparsefft.read(tmp_path / name)
        np.testing.assert_array_equal(
            np.asarray(signal), numbers.astype(np.float64).view(np.complex128)
        )
        assert (signal.fs, signal.center) == (2e6, 1e8)
        assert signal.start_time == np.datetime64("2024-05-01T12:00:00.250", "ns")
        assert "from 2024-05-01T12:00:00.25" in repr(signal)
    findings = sparsefft.find(signal)
    assert findings.center == 1e8 and findings.to_dict()["start_time"].startswith("2024-05-01T12")


def test_sigmf_in_pieces(tmp_path):
    numbers = np.zeros(200, "<i2")
    second = {"core:sample_start": 50, "core:frequency": 2e8}
    sigmf(tmp_path, {**META, "captures": [*META["captures"], second]}, numbers)
    with pytest.raises(ValueError, match="capture at sample 50 has another .*count=50, .*skip=50"):
        sparsefft.read(tmp_path / "x.sigmf-meta")
    before = sparsefft.read(tmp_path / "x.sigmf-meta", count=50)
    after = sparsefft.read(tmp_path / "x.sigmf-meta", skip=50)
    assert (before.center, len(before), after.center, len(after)) == (1e8, 50, 2e8, 50)
    second["core:datetime"] = "2024-05-01T13:00:00Z"
    sigmf(tmp_path, {**META, "captures": [*META["captures"], second]}, numbers)
    after = sparsefft.read(tmp_path / "x.sigmf-meta", skip=60)
    assert after.start_time == np.datetime64("2024-05-01T13:00:00.000005", "ns")
    pieces = [
        {"core:sample_start": 0, "core:global_index": 0},
        {"core:sample_start": 50, "core:global_index": 70},
    ]
    sigmf(tmp_path, {**META, "captures": pieces}, numbers)
    with pytest.raises(ValueError, match="capture at sample 50 does not follow"):
        sparsefft.read(tmp_path / "x.sigmf-meta")
    pieces[1]["core:global_index"] = 50
    sigmf(tmp_path, {**META, "captures": pieces}, numbers)
    assert len(sparsefft.read(tmp_path / "x.sigmf-meta")) == 100


@pytest.mark.parametrize(
    ("meta", "message"),
    [
        ("{", "the SigMF metadata are damaged"),
        ("[]", "the SigMF metadata are damaged"),
        ('{"global": {}}', "the SigMF metadata are damaged .*core:datatype"),
        ('{"global": {"core:datatype": "cf16"}}', "format = 'cf16' is not known"),
        ('{"global": {"core:datatype": 7}}', "format = 7 is not known"),
        (
            '{"global": {"core:datatype": "cf32", "core:sample_rate": -1}}',
            "core:sample_rate = -1: it must be greater than 0",
        ),
        (
            '{"global": {"core:datatype": "cf32", "core:num_channels": "two"}}',
            "the SigMF metadata are damaged",
        ),
        (
            '{"global": {"core:datatype": "cf32", "core:num_channels": 0}}',
            "the SigMF metadata are damaged",
        ),
        ('{"global": {"core:datatype": "cf32"}, "captures": 3}', "the SigMF metadata are damaged"),
    ],
)
def test_damaged_sigmf(tmp_path, meta, message):
    (tmp_path / "x.sigmf-meta").write_text(meta)
    np.zeros(100, np.complex64).tofile(tmp_path / "x.sigmf-data")
    with pytest.raises(ValueError, match=message):
        sparsefft.read(tmp_path / "x.sigmf-meta")


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("x.dat", bytes(80), {}, "x.dat: its name does not say what it holds; .*format='cf32'"),
        ("x.dat", bytes(80), {"format": "c32"}, "format = 'c32' is not known"),
        ("x.dat", bytes(81), {"format": "cs16"}, "its 81 bytes are not a whole number of samples"),
        ("x.dat", b"", {"format": "cs16"}, "its 0 bytes are less than one sample of 4 bytes"),
        ("x.cf32", bytes(80), {"fs": 0}, "fs = 0: it must be greater than 0"),
        (
            "x.cf32",
            bytes(80),
            {"iq": True},
            "iq needs 2 channels of real numbers, not 1 of complex",
        ),
        ("x.wav", b"RF64....WAVEds64\x10\0\0\0abc", {}, "x.wav: "),
        ("x.flac", b"fLaC" + bytes(80), {}, "not read here; .*soundfile.read"),
        ("x.mseed", bytes(80), {}, "not read here; .*obspy.read"),
        ("x.h5", bytes(80), {}, "not read here; .*h5py"),
        ("x.wav", bytes(80), {}, "it does not begin like a .wav file"),
        ("x.npy", bytes(80), {}, "it does not begin like a .npy file"),
        ("x.wav", chunks(), {}, "the WAV file has no samples"),
        ("x.wav", chunks((b"data", 4, bytes(4))), {}, "no 'fmt ' chunk"),
        ("x.wav", chunks((b"fmt ", 16, fmt(1, 1, 16)), (b"data", 0, b"")), {}, "has no samples"),
        ("x.wav", chunks((b"fmt ", 16, fmt(6, 1, 8)), (b"data", 4, bytes(4))), {}, "WAV format 6"),
        ("x.wav", chunks((b"fmt ", 16, fmt(1, 0, 8)), (b"data", 4, bytes(4))), {}, "0 channels"),
        ("x.sigmf", bytes(80), {}, "x.sigmf: .*tar"),
    ],
)
def test_bad_files(tmp_path, name, content, options, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        sparsefft.read(tmp_path / name, **options)


def test_missing_files(tmp_path):
    with pytest.raises(FileNotFoundError):
        sparsefft.read(tmp_path / "none.wav")
    with pytest.raises(IsADirectoryError):
        sparsefft.read(tmp_path)


def test_random_bytes_give_a_sentence(tmp_path, rng):
    whole = chunks((b"fmt ", 16, fmt(1, 2, 24)), (b"data", 600, bytes(600)))
    buffer = io.BytesIO()
    np.save(buffer, TONE)
    for stored in (whole, buffer.getvalue()[:1000], json.dumps(META).encode()):
        for _ in range(100):
            damaged = bytearray(stored)
            for place in rng.integers(0, min(len(damaged), 120), 3):
                damaged[place] = rng.integers(256)
            path = tmp_path / ("x.sigmf-meta" if stored[:1] == b"{" else "x.bin")
            path.write_bytes(damaged[: rng.integers(1, len(damaged) + 1)])
            np.zeros(100, "<i4").tofile(tmp_path / "x.sigmf-data")
            try:
                assert len(sparsefft.read(path, channel=0)) > 0
            except ValueError as error:
                assert str(error).startswith(str(path)) and len(str(error).split()) > 4


def test_a_part_begins_later():
    signal = sparsefft.Signal(TONE, fs=FS, start_time=np.datetime64("2024-01-01", "ns"))
    part = signal[800:2800:2]
    assert (part.fs, len(part)) == (4000, 1000)
    assert part.start_time == np.datetime64("2024-01-01T00:00:00.1", "ns")
    assert signal[5] == TONE[5] and signal.duration == 0.5
    assert sparsefft.Signal(TONE)[10:].start_time is None
    with pytest.raises(ValueError, match="turns time round"):
        signal[::-1]
    with pytest.raises(ValueError, match="fs = 48000 Hz, but the recording says 8000 Hz"):
        sparsefft.find(signal, 48_000)


def test_every_function_takes_a_signal():
    n = 1 << 14
    x = np.exp(2j * np.pi * 77 * np.arange(n) / n)
    signal = sparsefft.Signal(x, fs=1e6)
    assert sparsefft.fft(signal, k=1).indices.tolist() == [77]
    assert sparsefft.rfft(sparsefft.Signal(x.real), k=1).indices.tolist() == [77]
    assert sparsefft.Plan(n, 1).transform(signal).indices.tolist() == [77]
    expected = 77e6 / n
    assert sparsefft.tones(signal).frequency[0] == pytest.approx(expected)
    assert sparsefft.find(signal).lines.frequency[0] == pytest.approx(expected)
    np.testing.assert_array_equal(np.asarray(signal, np.complex64), x.astype(np.complex64))
    assert np.array(signal) is not x
