"""``read``: recordings with their rate, memory-mapped where the file allows it."""

from __future__ import annotations

import itertools
import json
import os
import re
import struct
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._arguments import index
from ._record import Signal, Start, finite, later, positive

#: Numbers of raw formats, after the ``c`` or ``r`` before them.
_NUMBERS = {
    "f32": "f4", "f64": "f8", "s8": "i1", "i8": "i1", "u8": "u1", "s16": "i2", "i16": "i2",
    "u16": "u2", "s32": "i4", "i32": "i4", "u32": "u4",
}  # fmt: skip
_FORMAT = re.compile(r"(c|r|)(f32|f64|[siu]8|[siu]16|[siu]32)(_le|_be|)")

#: Samples that are converted at a time.
_BLOCK = 1 << 20

#: What opens the files that are not read here, and gives what find takes.
_OTHERS = {
    **dict.fromkeys(
        ("flac", "ogg", "mp3", "aif", "aiff", "m4a", "opus", "caf"),
        "x, fs = soundfile.read(path); sparsefft.find(x, fs)",
    ),
    **dict.fromkeys(("mat",), "scipy.io.loadmat(path)['name'].ravel()"),
    **dict.fromkeys(("h5", "hdf5"), "h5py.File(path)['name'][:]"),
    **dict.fromkeys(("nc", "zarr"), "xarray.open_dataset(path)['name']"),
    **dict.fromkeys(("mseed", "miniseed", "sac", "segy"), "obspy.read(path)[0]"),
    **dict.fromkeys(("csv", "txt", "tsv"), "numpy.loadtxt(path)"),
    **dict.fromkeys(("npz",), "numpy.load(path)['name']"),
    **dict.fromkeys(("parquet",), "pandas.read_parquet(path)['name']"),
}


@dataclass(frozen=True)
class _Raw:
    """A raw format."""

    number: np.dtype[Any]
    complex: bool

    @property
    def size(self) -> int:
        """Bytes of one sample."""
        return self.number.itemsize * (2 if self.complex else 1)

    @property
    def bias(self) -> float:
        """The middle of the range, where unsigned numbers mean zero."""
        return full_scale(self.number) - 0.5 if self.number.kind == "u" else 0.0


def full_scale(number: np.dtype[Any]) -> float:
    """abs(x) of a full-scale sample: 1 for floats, 2**(b-1) for integers of b bits."""
    return float(2 ** (8 * number.itemsize - 1)) if number.kind in "iu" else 1.0


def read(
    path: str | os.PathLike[str],
    fs: float | None = None,
    *,
    format: str | None = None,
    channel: int | None = None,
    iq: bool = False,
    skip: int = 0,
    count: int | None = None,
    center: float | None = None,
) -> Signal:
    """The samples of a recording, with their rate.

    ``.npy``, WAV (PCM of 8 to 32 bits and floats), SigMF (the metadata, the data or an archive),
    and raw numbers in a named format. Files are memory-mapped, so that only what is used is read;
    pairs of integers, offset binary and 24 bits are converted to floats or integers in memory,
    which keeps every bit.

    Parameters
    ----------
    path : str or path
        The file.
    fs : float, optional
        Samples per second, for files that do not say it.
    format : str, optional
        Of raw numbers: ``"cf32"`` (pairs of floats, real and imaginary part), ``"cs16"``,
        ``"cu8"``, ``"f32"``, ``"s16"`` ... with ``_le`` (as a rule) or ``_be`` for the byte order.
        The suffix of the name says it, too.
    channel : int, optional
        Of a file with several, counted from 0.
    iq : bool
        The two channels of the file are real and imaginary part.
    skip : int
        Begin after so many samples.
    count : int, optional
        Read so many samples; without it, all of them.
    center : float, optional
        Frequency in Hz that 0 stands for, for files that do not say it.

    Returns
    -------
    Signal
        Every function of this package takes it in place of an array.

    Raises
    ------
    FileNotFoundError, OSError
        As ``open``.
    ValueError
        A file that is damaged, not what its name says, or needs a choice; the message says which.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "two_tones.cf32"
    >>> t = np.arange(100_000)
    >>> noise = 0.1 * np.random.default_rng(0).normal(size=t.size)
    >>> (np.exp(2j * np.pi * 0.123456 * t) + noise).astype(np.complex64).tofile(path)
    >>> signal = read(path, fs=1e6)
    >>> signal
    Signal: 100000 samples of complex64 at 1 MHz, 100 ms
    >>> sparsefft.find(signal).lines.frequency.round()
    array([123456.])
    """
    file = Path(path)
    choice = _Choice.checked(channel, iq, skip, count)
    given = positive(fs, "fs", "samples per second")
    tuned = None if center is None else finite(center, "center", "a frequency in Hz")
    try:
        signal = _read(file, format, choice)
    except (ValueError, struct.error) as error:
        raise ValueError(f"{file}: {error}") from None
    rate = signal.fs if given is None else given
    start = signal.start_time
    if choice.skip and rate is not None:
        start = later(0.0 if start is None else start, choice.skip / rate)
    middle = signal.center if tuned is None else tuned
    return Signal(signal.samples, rate, start, middle, signal.full_scale)


def _read(file: Path, format: str | None, choice: _Choice) -> Signal:
    suffix = file.suffix.lower().lstrip(".")
    if format is not None:
        return _raw(file, _parse(format), 0, None, choice)
    with file.open("rb") as stream:
        magic = stream.read(12)
    if magic.startswith(b"\x93NUMPY"):
        # What full scale was, an array does not say.
        return Signal(_npy(file, choice))
    if magic[:4] in (b"RIFF", b"RF64") and magic[8:12] == b"WAVE":
        return _wav(file, choice)
    if suffix in ("sigmf-meta", "sigmf-data", "sigmf"):
        return _sigmf(file, choice)
    if suffix in _OTHERS:
        raise ValueError(
            f"files of this kind are not read here; give find what {_OTHERS[suffix]} gives"
        )
    if suffix in ("npy", "wav"):
        raise ValueError(
            f"it does not begin like a .{suffix} file; it is damaged, or holds raw numbers: "
            "say which with format='s16' or the like"
        )
    if _FORMAT.fullmatch(suffix):
        return _raw(file, _parse(suffix), 0, None, choice)
    raise ValueError(
        "its name does not say what it holds; say it with format='cf32', 'cs16', 'cu8', 'f32', "
        "'s16' or the like"
    )


def _npy(file: Path, choice: _Choice) -> NDArray[Any]:
    try:
        array: NDArray[Any] = np.load(file, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError):
        raise
    except Exception as error:
        # The header is a Python expression; what its parser raises is anything.
        raise ValueError(f"the .npy header is damaged ({type(error).__name__}: {error})") from None
    if array.ndim == 1:
        array = array[:, None]
    elif array.ndim != 2:
        raise ValueError(
            f"its shape is {array.shape}, but one signal has one dimension; take a part of "
            "numpy.load(path)"
        )
    elif array.shape[1] > array.shape[0]:
        # Channels are fewer than samples, whichever axis they lie along.
        array = array.T
    part = array[choice.part(len(array))]
    return choice.take(array.shape[1], array.dtype.kind == "c", lambda i: part[:, i])


def _parse(format: str) -> _Raw:
    match = _FORMAT.fullmatch(format) if isinstance(format, str) else None
    if match is None:
        raise ValueError(
            f"format = {format!r} is not known; it is 'c' for pairs of real and imaginary part, "
            "then f32, f64, s8, u8, s16, u16, s32 or u32, then perhaps _be: 'cf32', 'cs16_be'"
        )
    order = ">" if match[3] == "_be" else "<"
    return _Raw(np.dtype(order + _NUMBERS[match[2]]), match[1] == "c")


def _map(file: Path, number: np.dtype[Any], offset: int, shape: tuple[int, ...]) -> NDArray[Any]:
    return np.memmap(file, number, "r", offset, shape)


def _raw(
    file: Path, kind: _Raw, offset: int, stated: int | None, choice: _Choice, channels: int = 1
) -> Signal:
    """Numbers from a byte on, as many bytes as stated or as there are."""
    held = file.stat().st_size - offset
    size = held if stated is None else stated
    block = kind.size * channels
    if size < block:
        raise ValueError(
            f"its {size} bytes are less than one sample of {block} bytes; check the format"
        )
    if size % block and stated is None and choice.count is None:
        raise ValueError(
            f"its {size} bytes are not a whole number of samples of {block} bytes; check the "
            f"format, or read the whole ones with count={size // block}"
        )
    part = choice.part(size // block)
    per_sample = 2 if kind.complex else 1
    shape = (part.stop - part.start, channels, per_sample)
    numbers = _map(file, kind.number, offset + part.start * block, shape)
    if kind.complex and kind.number.kind == "f":
        numbers = numbers.view(f"{kind.number.byteorder}c{2 * kind.number.itemsize}")

    def channel(i: int) -> NDArray[Any]:
        if numbers.shape[2] == 2:
            return _complex(numbers[:, i, 0], numbers[:, i, 1], kind.bias)
        return _unbiased(numbers[:, i, 0], kind.bias)

    samples = choice.take(channels, kind.complex, channel)
    # Raw floats are in any unit.
    scale = full_scale(kind.number) if kind.number.kind in "iu" else None
    return Signal(samples, full_scale=scale)


def _float_for(number: np.dtype[Any]) -> str:
    """The float that holds every such integer, and the halves of offset binary."""
    return "f4" if number.itemsize <= 2 else "f8"


def _complex(real: NDArray[Any], imag: NDArray[Any], bias: float) -> NDArray[Any]:
    kind = "c8" if _float_for(real.dtype) == "f4" else "c16"
    samples = np.empty(len(real), kind)
    for start in range(0, len(real), _BLOCK):
        part = slice(start, start + _BLOCK)
        samples.real[part] = real[part]
        samples.imag[part] = imag[part]
    if bias:
        samples -= bias * (1 + 1j)
    return samples


def _unbiased(numbers: NDArray[Any], bias: float) -> NDArray[Any]:
    if not bias:
        return numbers
    samples: NDArray[Any] = np.array(numbers, _float_for(numbers.dtype))
    samples -= bias
    return samples


@dataclass(frozen=True)
class _Choice:
    """Which channel of a file is the signal, and which part of it."""

    channel: int | None
    iq: bool
    skip: int
    count: int | None

    @staticmethod
    def checked(channel: Any, iq: Any, skip: Any, count: Any) -> _Choice:
        """With a sentence for what makes no sense in any file."""
        if channel is not None:
            channel = index(channel, "channel", "an integer or None")
            if iq:
                raise ValueError("channel and iq exclude each other; leave one out")
        skip = index(skip, "skip", "an integer")
        if skip < 0:
            raise ValueError(f"skip = {skip}: it must not be negative")
        if count is not None:
            count = index(count, "count", "an integer or None")
            if count < 1:
                raise ValueError(f"count = {count}: it must be at least 1")
        return _Choice(channel, bool(iq), skip, count)

    def part(self, n: int) -> slice:
        """The samples that are wanted of so many."""
        if self.skip >= max(n, 1):
            raise ValueError(f"skip = {self.skip}, but there are {n} samples")
        stop = n if self.count is None else self.skip + self.count
        if stop > n:
            raise ValueError(f"skip = {self.skip}, count = {self.count}, but there are {n} samples")
        return slice(self.skip, stop)

    def take(
        self, channels: int, is_complex: bool, get: Callable[[int], NDArray[Any]]
    ) -> NDArray[Any]:
        """The signal among so many channels, of which ``get`` gives one."""
        if self.iq:
            if channels != 2 or is_complex:
                kind = "complex" if is_complex else "real"
                raise ValueError(
                    f"iq needs 2 channels of real numbers, not {channels} of {kind} ones"
                )
            return _complex(get(0), get(1), 0.0)
        if self.channel is None and channels > 1:
            pairs = ", or iq=True if they are real and imaginary part" if channels == 2 else ""
            raise ValueError(
                f"it has {channels} channels; pick one with channel=0 ... {channels - 1}{pairs}"
            )
        channel = self.channel or 0
        if not 0 <= channel < channels:
            raise ValueError(f"channel = {channel} does not exist; there are 0 ... {channels - 1}")
        return get(channel)


def _wav(file: Path, choice: _Choice) -> Signal:
    """WAV: chunks, of which 'fmt ' says what the numbers of 'data' are."""
    held = file.stat().st_size
    with file.open("rb") as stream:
        head, at = None, 12
        long_size = None
        while True:
            stream.seek(at)
            chunk = stream.read(8)
            if len(chunk) < 8:
                raise ValueError("the WAV file has no samples; it is cut off or damaged")
            name, size = chunk[:4], struct.unpack("<I", chunk[4:])[0]
            at += 8
            if name == b"ds64":
                long_size = struct.unpack("<Q", stream.read(16)[8:])[0]
            elif name == b"fmt ":
                head = stream.read(min(size, 40))
            elif name == b"data":
                break
            at += size + size % 2
    if head is None or len(head) < 16:
        raise ValueError("the WAV file has no 'fmt ' chunk before its samples; it is damaged")
    tag, channels, rate, _, block, bits = struct.unpack("<HHIIHH", head[:16])
    if tag == 0xFFFE and len(head) >= 26:
        # WAVE_FORMAT_EXTENSIBLE: the tag is the start of a GUID.
        tag = struct.unpack("<H", head[24:26])[0]
    if size == 0xFFFFFFFF and long_size:
        size = long_size
    # A stream has no length; a file that is cut off is read as far as it goes.
    size = held - at if size in (0, 0xFFFFFFFF) else min(size, held - at)
    return _wav_samples(file, (tag, bits), (channels, rate, block), (at, size), choice)


def _wav_samples(
    file: Path,
    kind: tuple[int, int],
    layout: tuple[int, int, int],
    place: tuple[int, int],
    choice: _Choice,
) -> Signal:
    (tag, bits), (channels, rate, block), (offset, size) = kind, layout, place
    width = block // channels if channels else 0
    known = {(1, 1): "u1", (1, 2): "<i2", (1, 3): "u1", (1, 4): "<i4", (3, 4): "<f4", (3, 8): "<f8"}
    if width * channels != block or (tag, width) not in known or -(-bits // 8) != width:
        raise ValueError(
            f"WAV format {tag} with {bits} bits and {channels} channels in {block} bytes is not "
            "read here; convert it to PCM of 8, 16, 24 or 32 bits or to 32-bit floats"
        )
    if size < block:
        raise ValueError("the WAV file has no samples; it is cut off or damaged")
    number, packed = np.dtype(known[tag, width]), (tag, width) == (1, 3)
    part = choice.part(size // block)
    shape = (part.stop - part.start, channels, 3 if packed else 1)
    numbers = _map(file, number, offset + part.start * block, shape)

    def channel(i: int) -> NDArray[Any]:
        if packed:
            return _int24(numbers[:, i])
        # Numbers of 8 bits are offset binary.
        return _unbiased(numbers[:, i, 0], 128.0 if width == 1 else 0.0)

    scale = 2.0**23 if packed else full_scale(number)
    samples = choice.take(channels, False, channel)
    return Signal(samples, float(rate) or None, full_scale=scale)


def _int24(triples: NDArray[Any]) -> NDArray[np.int32]:
    """24-bit integers, low byte first, as 32-bit ones."""
    wide = np.zeros((len(triples), 4), np.uint8)
    wide[:, 1:] = triples
    # The sign is in the highest byte; shifting back fills up with it.
    shifted: NDArray[np.int32] = wide.view("<i4")[:, 0] >> 8
    return shifted


def _sigmf(file: Path, choice: _Choice) -> Signal:
    """SigMF: metadata beside the samples, or both in an archive."""
    text, data, place = _sigmf_files(file)
    try:
        meta = json.loads(text)
        known, captures = meta["global"], meta.get("captures") or [{}]
        datatype, first = known["core:datatype"], _capture(captures, choice)
        skipped = _whole(captures[0], "core:header_bytes", 0)
        trailing = _whole(known, "core:trailing_bytes", 0)
        channels = _whole(known, "core:num_channels", 1)
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"the SigMF metadata are damaged ({type(error).__name__}: {error})"
        ) from None
    if "core:dataset" in known:
        data = file.with_name(str(known["core:dataset"]))
    kind = _parse(datatype)
    offset, size = place or (0, data.stat().st_size)
    size = max(size - skipped - trailing, 0)
    size -= size % (kind.size * channels)
    signal = _raw(data, kind, offset + skipped, size, choice, channels)
    rate = positive(known.get("core:sample_rate"), "core:sample_rate", "samples per second")
    tuned = first.get("core:frequency")
    start: Start | None = _time(first.get("core:datetime"))
    if start is not None and rate is not None:
        # That of the file, whichever capture tells it.
        start = later(start, -first.get("core:sample_start", 0) / rate)
    return Signal(
        signal.samples,
        rate,
        start,
        None if tuned is None else finite(tuned, "core:frequency", "a frequency in Hz"),
        signal.full_scale,
    )


def _sigmf_files(file: Path) -> tuple[bytes, Path, tuple[int, int] | None]:
    """The metadata, the file of the samples, and in an archive their first byte and size."""
    if file.suffix.lower() != ".sigmf":
        return file.with_suffix(".sigmf-meta").read_bytes(), file.with_suffix(".sigmf-data"), None
    try:
        with tarfile.open(file, "r:") as archive:
            members = {Path(m.name).suffix: m for m in archive.getmembers() if m.isfile()}
            stream = archive.extractfile(members[".sigmf-meta"])
            data = members[".sigmf-data"]
            return stream.read() if stream else b"", file, (data.offset_data, data.size)
    except (tarfile.TarError, KeyError) as error:
        raise ValueError(
            f"it is no tar archive of a .sigmf-meta and a .sigmf-data file ({error})"
        ) from None


def _whole(known: dict[str, Any], key: str, default: int) -> int:
    """A number of bytes or channels, at least as many as there are by default."""
    value = known.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < default:
        raise TypeError(f"{key} is {value!r}")
    return value


def _capture(captures: list[dict[str, Any]], choice: _Choice) -> dict[str, Any]:
    """The capture that holds the wanted samples, which must follow each other at one frequency."""
    wanted = captures[0]
    for before, capture in itertools.pairwise(captures):
        at, begun = capture.get("core:sample_start", 0), before.get("core:sample_start", 0)
        if choice.count is not None and at >= choice.skip + choice.count:
            break
        here, there = before.get("core:global_index"), capture.get("core:global_index")
        gap = here is not None and there is not None and there - here != at - begun
        moved = capture.get("core:frequency") != before.get("core:frequency")
        if capture.get("core:header_bytes"):
            raise ValueError(
                f"the SigMF capture at sample {at} begins with bytes that are no samples; read "
                f"what is before it with count={at - choice.skip}"
            )
        if at <= choice.skip:
            wanted = capture
        elif moved or gap:
            why = "has another frequency" if moved else "does not follow the one before it"
            raise ValueError(
                f"the SigMF capture at sample {at} {why}; read what is before it with "
                f"count={at - choice.skip}, or from it on with skip={at}"
            )
    return wanted


def _time(stamp: Any) -> np.datetime64 | None:
    """A time in UTC, as ISO 8601 has it; None if it is none."""
    if not isinstance(stamp, str):
        return None
    try:
        return np.datetime64(stamp.removesuffix("Z"), "ns")
    except ValueError:
        return None
