from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

_Found: TypeAlias = tuple[NDArray[np.int64], NDArray[np.complexfloating[Any, Any]], Run]

__version__: str

class Run:
    def certificate(self) -> dict[str, Any]: ...
    def report(self) -> dict[str, Any]: ...

class DeviceArray:
    def __init__(self, x: Any, ordinal: int | None) -> None: ...
    @property
    def shape(self) -> list[int]: ...
    @property
    def ndim(self) -> int: ...

class Plan:
    def __init__(
        self,
        n: int,
        k: int | None,
        *,
        real: bool,
        tol: float | None,
        snr: float | None,
        failure_probability: float | None,
        algorithm: str,
        taper: str | tuple[str, float] | None,
        fallback: str,
        seed: int,
        one_pass: bool = False,
    ) -> None: ...
    @property
    def algorithm(self) -> str: ...
    def explain(self) -> str: ...
    def sample_indices(self) -> NDArray[np.int64]: ...
    def transform(
        self,
        x: NDArray[Any] | DeviceArray,
        axis: int,
        norm: str | None,
        workers: int,
        gpu: int | None = None,
    ) -> Any: ...
    def transform_from(
        self, f: Callable[[NDArray[np.int64]], Any], norm: str | None, workers: int
    ) -> _Found: ...

class Sketch:
    def __init__(self, plan: Plan, bytes: bytes | None) -> None: ...
    def add(self, x: NDArray[Any], start: int, step: int) -> None: ...
    def merge(self, other: Sketch) -> None: ...
    def finish(self, norm: str | None) -> _Found: ...
    def to_bytes(self) -> bytes: ...
    def missing(self) -> list[tuple[int, int, int]]: ...
    def counts(self) -> tuple[int, int, int]: ...

def find(
    x: NDArray[Any],
    *,
    at_most: int | None,
    effort: str,
    memory: int | None,
    seed: int,
    failure_probability: float | None,
    workers: int,
) -> dict[str, Any]: ...
def tones(plan: Plan, x: NDArray[Any], workers: int) -> dict[str, Any]: ...
def no_cuda() -> str | None: ...
def random_seed() -> int: ...
def most_threads() -> int: ...
def synthesize(
    n: int,
    indices: NDArray[np.int64],
    values: NDArray[np.complex128],
    start: int,
    stop: int,
) -> NDArray[np.complex128]: ...
def dense(
    x: NDArray[Any],
    out: NDArray[Any],
    n: int,
    inverse: bool,
    norm: str | None,
    workers: int,
) -> None: ...
def _after_fork() -> None: ...
def _panic_for_tests(workers: int) -> None: ...
