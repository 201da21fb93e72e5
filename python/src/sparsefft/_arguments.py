"""What every function does with its arguments before the native half sees them."""

from __future__ import annotations

import operator
import os
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

# DLPack's numbers of the kinds of memory that a CPU can read: its own, and pinned.
_HOST = (1, 3)


def worker_count(workers: int | None) -> int:
    """The number of threads that ``workers`` asks for, as scipy.fft counts; 0 if it does not."""
    if workers is None:
        return 0
    try:
        count = operator.index(workers)
    except TypeError:
        kind = type(workers).__name__
        raise TypeError(f"workers must be an integer or None, not {kind}") from None
    cores = os.cpu_count() or 1
    if count < 0:
        count += 1 + cores
    if count <= 0:
        raise ValueError(
            f"workers = {workers}: it must be at least 1, or -1 ... -{cores} to count from all cores"
        )
    return count


def host_array(x: Any, device: str) -> NDArray[Any]:
    """``x`` as an array in memory, without a copy where it is one already."""
    if device != "auto" and device != "cpu":
        if device != "cuda":
            raise ValueError(f"device = {device!r}: it must be 'auto', 'cpu' or 'cuda'")
        no_cuda("device='cuda' was asked for")
    if isinstance(x, np.ndarray):
        return x
    if hasattr(x, "__cuda_array_interface__"):
        no_cuda("x lies in CUDA memory")
    if hasattr(x, "__dlpack_device__"):
        kind, _ = x.__dlpack_device__()
        if kind not in _HOST:
            no_cuda(f"x lies in device memory (DLPack device {int(kind)})")
        if not hasattr(x, "__array__"):
            array: NDArray[Any] = np.from_dlpack(x)
            return array
    return np.asarray(x)


def no_cuda(what: str) -> NoReturn:
    """Says what to do about an array that only a GPU can read."""
    raise RuntimeError(
        f"{what}, but this build of sparsefft has no sparse CUDA backend; copy the array to the "
        "host, with x.get() for CuPy or x.cpu() for PyTorch, and use device='cpu'"
    )
