"""What every function does with its arguments before the native half sees them."""

from __future__ import annotations

import math
import numbers
import operator
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _native

# DLPack's numbers of the kinds of memory that a CPU can read: its own, and pinned.
_HOST = (1, 3)
# Those that a GPU of CUDA reads: its own, and managed.
_CUDA = (2, 13)

_TO_HOST = "copy the array to the host, with x.get() for CuPy or x.cpu() for PyTorch,"


def worker_count(workers: int | None) -> int:
    """The number of threads that ``workers`` asks for, as scipy.fft counts; 0 if it does not."""
    if workers is None:
        return 0
    count = index(workers, "workers", "an integer or None")
    cores = os.cpu_count() or 1
    if count < 0:
        count += 1 + cores
    if count <= 0:
        raise ValueError(
            f"workers = {workers}: it must be at least 1, or -1 ... -{cores} to count from all cores"
        )
    return min(count, _native.most_threads())


def index(value: Any, name: str, allowed: str) -> int:
    """An integer; a bool has an index, too, but is a mistake."""
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise TypeError(f"{name} must be {allowed}, not {type(value).__name__}")


def check_norm(norm: Any) -> None:
    """Says what is wrong with a name of a scale."""
    allowed = "None, 'backward', 'ortho' or 'forward'"
    if norm is not None and not isinstance(norm, str):
        raise TypeError(f"norm must be {allowed}, not {type(norm).__name__}")
    if norm not in (None, "backward", "ortho", "forward"):
        raise ValueError(f"norm = {norm!r}: it must be {allowed}")


def spacing(d: Any, n: int) -> float:
    """A sample spacing by which n bins can be divided without an overflow."""
    if isinstance(d, bool) or not isinstance(d, numbers.Real):
        raise TypeError(f"d must be a real number, not {type(d).__name__}")
    try:
        value = float(d)
        if n * abs(value) < math.inf and 1 / abs(value) < math.inf:
            return value
    except (OverflowError, ZeroDivisionError):
        pass
    raise ValueError(f"d = {d}: it must be finite and not 0")


def drawn(seed: Any) -> Any:
    """``seed``, or one that is drawn if it is ``"random"``; the plan checks any other."""
    if isinstance(seed, str):
        if seed != "random":
            raise ValueError(f"seed = {seed!r}: it must be an integer or 'random'")
        return _native.random_seed()
    return seed


def gpu_number(device: str) -> int | None:
    """The GPU that ``device`` names, after a look whether one can be used; None if it names none."""
    if device == "auto" or device == "cpu":
        return None
    name, colon, number = device.partition(":") if isinstance(device, str) else ("", "", "")
    if name != "cuda" or (colon and not (number.isascii() and number.isdigit())):
        raise ValueError(
            f"device = {device!r}: it must be 'auto', 'cpu', 'cuda' or, with a number, 'cuda:1'"
        )
    need_cuda(f"device={device!r} was asked for")
    return int(number or 0)


def samples(x: Any, device: str) -> Any:
    """``x`` as an array in memory, or where a GPU holds it, as an array there; never a copy."""
    if isinstance(x, np.ndarray):
        return host_array(x)
    where = _on_gpu(x)
    if where is None:
        return host_array(x)
    need_cuda(where)
    if device == "cpu":
        raise ValueError(f"device = 'cpu', but {where}; {_TO_HOST}")
    return _native.DeviceArray(x, None if device == "auto" else gpu_number(device))


def host_array(x: Any) -> NDArray[Any]:
    """``x`` as an array in memory, without a copy where it is one already."""
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(
            "x is a masked array, and nothing says what its gaps stand for; fill them with "
            "x.filled(0), or take a part without gaps: x.data[start:stop]"
        )
    if isinstance(x, np.ndarray):
        return x
    if isinstance(x, (str, os.PathLike)):
        raise TypeError(
            f"x is a {type(x).__name__}, not samples; those of a file are sparsefft.read({str(x)!r})"
        )
    where = _on_gpu(x)
    if where is not None:
        raise RuntimeError(f"{where}, where this function cannot read it; {_TO_HOST}")
    if hasattr(x, "__dlpack_device__") and not hasattr(x, "__array__"):
        array: NDArray[Any] = np.from_dlpack(x)
        return array
    return np.asarray(x)


def _on_gpu(x: Any) -> str | None:
    """Where ``x`` lies, in words, if only a GPU can read it."""
    if hasattr(x, "__dlpack_device__"):
        kind, _ = x.__dlpack_device__()
        if kind in _CUDA:
            return "x lies in CUDA memory"
        if kind not in _HOST:
            raise RuntimeError(
                f"x lies in device memory that is not read (DLPack device {int(kind)}); {_TO_HOST}"
            )
        return None
    # PyTorch raises for tensors that are not on a GPU, which hasattr takes for no.
    return "x lies in CUDA memory" if hasattr(x, "__cuda_array_interface__") else None


def need_cuda(what: str) -> None:
    """Says why no GPU can be used, and what to do, if none can."""
    why = _native.no_cuda()
    if why is not None:
        raise RuntimeError(f"{what}, but {why}; {_TO_HOST} and use device='cpu'")
