"""The kinds of findings, each a table: each property an array, each row an object."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Generic, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

Row = TypeVar("Row")
Self = TypeVar("Self", bound="Table[Any]")

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class Table(Sequence[Row], Generic[Row]):
    """Findings of one kind: ``table.low`` is a column, ``table[0]`` a row, ``table[:5]`` a part."""

    _row: ClassVar[type[Any]]

    def __post_init__(self) -> None:
        # Faster than fields(): an answer has five tables, and some take microseconds.
        for column in vars(self).values():
            column.flags.writeable = False

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    @overload
    def __getitem__(self, key: int) -> Row: ...
    @overload
    def __getitem__(self: Self, key: slice | NDArray[Any]) -> Self: ...
    def __getitem__(self, key: Any) -> Any:
        parts = {field.name: getattr(self, field.name)[key] for field in fields(self)}
        if isinstance(key, (slice, np.ndarray)):
            return type(self)(**parts)
        return self._row(**{name: _scalar(part) for name, part in parts.items()})

    def __iter__(self) -> Iterator[Row]:
        return (self[i] for i in range(len(self)))

    def columns(self) -> dict[str, NDArray[Any]]:
        """All columns by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def to_frame(self) -> Any:
        """A pandas DataFrame with these columns."""
        try:
            import pandas
        except ImportError as error:
            raise ImportError("to_frame() needs pandas: pip install sparsefft[pandas]") from error
        return pandas.DataFrame(self.columns())

    def __repr__(self) -> str:
        from ._findings_text import table_text

        return table_text(self)


def _scalar(value: Any) -> Any:
    """A number of Python; points in time stay, since those of Python have no nanoseconds."""
    return value if isinstance(value, np.datetime64) else value.item()


@dataclass(frozen=True)
class Line:
    """Something at one frequency. What was not seen or is not known is NaN."""

    #: ``"tone"``, ``"damped"``, ``"broad"``, ``"cluster"`` or ``"offset"`` (the mean).
    kind: str
    #: Mean frequency over the record; of a drifting line, too.
    frequency: float
    #: Its standard deviation; of what is broad, how far its power spreads; 0 of a coefficient of the
    #: grid, where that is the answer.
    frequency_std: float
    #: Peak value A of A cos(2 pi f t + phase), of complex samples A of A exp(i (2 pi f t + phase)).
    amplitude: float
    #: Its standard deviation.
    amplitude_std: float
    #: Phase at the first sample, in radians.
    phase: float
    #: Power of the line over that of the local floor in one bin of the whole record, in dB.
    snr_db: float
    #: Change of the frequency: Hz per second, or cycles per sample per sample.
    drift: float
    #: Its standard deviation.
    drift_std: float
    #: Width at half power, where it is wider than the record resolves.
    width: float
    #: Decay of the amplitude, exp(-damping t), t in seconds or samples; negative where it grows.
    damping: float
    #: Whether the samples are real, so that there is a mirror image at the negative frequency.
    mirrored: bool


@dataclass(frozen=True, eq=False, repr=False)
class Lines(Table[Line]):
    """Lines, strongest first; the columns are those of :class:`Line`."""

    _row = Line
    kind: NDArray[np.str_]
    frequency: Floats
    frequency_std: Floats
    amplitude: Floats
    amplitude_std: Floats
    phase: Floats
    snr_db: Floats
    drift: Floats
    drift_std: Floats
    width: Floats
    damping: Floats
    mirrored: NDArray[np.bool_]


@dataclass(frozen=True)
class Band:
    """A part of the spectrum that stands above its surroundings."""

    #: Lower edge. A band around half the rate has an edge beyond it.
    low: float
    #: Upper edge.
    high: float
    #: Where it is strongest.
    peak: float
    #: Mean power abs(x)**2 between the edges, mirror image included.
    power: float
    #: How far it stands above its surroundings, in dB.
    above_db: float
    #: Share of the time during which something happens in it; NaN where that was not seen.
    busy: float


@dataclass(frozen=True, eq=False, repr=False)
class Bands(Table[Band]):
    """Bands, those that stand out most first; the columns are those of :class:`Band`."""

    _row = Band
    low: Floats
    high: Floats
    peak: Floats
    power: Floats
    above_db: Floats
    busy: Floats


@dataclass(frozen=True)
class Burst:
    """Something that is there only part of the time."""

    #: First sample.
    start: int
    #: Number of samples.
    length: int
    #: When it begins: seconds from the first sample, or a point in time (UTC) or seconds on the
    #: axis of the container where that has one; samples where the rate is not known.
    time: Any
    #: How long it lasts, in seconds; in samples where the rate is not known.
    duration: float
    #: Lower edge.
    low: float
    #: Upper edge.
    high: float
    #: Mean power abs(x)**2 while it lasts, mirror image included.
    power: float
    #: Its strongest tile of time and frequency over the floor, in dB.
    above_db: float

    @property
    def span(self) -> slice:
        """Its samples: ``x[burst.span]``."""
        return slice(self.start, self.start + self.length)


@dataclass(frozen=True, eq=False, repr=False)
class Bursts(Table[Burst]):
    """Bursts in order of time; the columns are those of :class:`Burst`."""

    _row = Burst
    start: Integers
    length: Integers
    time: NDArray[Any]
    duration: Floats
    low: Floats
    high: Floats
    power: Floats
    above_db: Floats


@dataclass(frozen=True)
class Sweep:
    """A line whose frequency moves across the band."""

    #: First sample.
    start: int
    #: Number of samples.
    length: int
    #: When it begins, as of a :class:`Burst`.
    time: Any
    #: How long it lasts, as of a :class:`Burst`.
    duration: float
    #: Frequency at its first sample.
    first: float
    #: Frequency at its last sample.
    last: float
    #: Change of the frequency: Hz per second, or cycles per sample per sample.
    rate: float
    #: Mean power abs(x)**2 while it lasts, mirror image included.
    power: float
    #: Its strongest tile over the floor, in dB.
    above_db: float

    @property
    def span(self) -> slice:
        """Its samples: ``x[sweep.span]``."""
        return slice(self.start, self.start + self.length)


@dataclass(frozen=True, eq=False, repr=False)
class Sweeps(Table[Sweep]):
    """Sweeps in order of time; the columns are those of :class:`Sweep`."""

    _row = Sweep
    start: Integers
    length: Integers
    time: NDArray[Any]
    duration: Floats
    first: Floats
    last: Floats
    rate: Floats
    power: Floats
    above_db: Floats


@dataclass(frozen=True)
class Cluster:
    """Tones nearer than three bins, or one whose amplitude changes: not resolved."""

    #: Its middle.
    centre: float
    #: Its width.
    width: float
    #: Mean power abs(x)**2.
    power: float


@dataclass(frozen=True, eq=False, repr=False)
class Clusters(Table[Cluster]):
    """Clusters; the columns are those of :class:`Cluster`."""

    _row = Cluster
    centre: Floats
    width: Floats
    power: Floats


@dataclass(frozen=True)
class Family:
    """Lines with a common spacing."""

    #: The spacing; of harmonics the fundamental.
    spacing: float
    #: The frequency that sidebands lie around; None for harmonics.
    carrier: float | None
    #: Which multiples of the spacing are there.
    orders: tuple[int, ...]
    #: Places of the members in ``findings.lines``.
    members: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Floor:
    """The local floor, at the middles of its cells."""

    #: Frequencies.
    frequency: Floats
    #: Power per Hz, or per cycle per sample where the rate is not known. Two-sided: white noise of
    #: power s has s / fs everywhere. The one-sided density of scipy.signal.welch is twice that.
    density: Floats
    #: Its standard deviation in dB.
    std_db: Floats
    #: SNR in dB from which on a line there could not have been overlooked.
    threshold_db: Floats

    def __repr__(self) -> str:
        return f"Floor: {len(self.frequency)} cells"


@dataclass(frozen=True)
class Reason:
    """Something that a reader of the findings should know."""

    #: A code that does not change between versions.
    code: str
    #: One sentence.
    text: str


@dataclass(frozen=True)
class Attempt:
    """One attempt, whether its answer was taken or not."""

    #: ``"grid"``, ``"tones"`` or ``"survey"``.
    kind: str
    #: What came of it.
    verdict: str
    #: Samples read, counted with repetition.
    samples_read: int
    #: Seconds.
    seconds: float
    #: Seconds by stage.
    stages: dict[str, float]


@dataclass(frozen=True)
class Cost:
    """What all attempts have cost."""

    #: In their order.
    attempts: tuple[Attempt, ...]
    #: Largest memory of the survey in bytes; 0 if there was none.
    memory: int

    @property
    def samples_read(self) -> int:
        """Samples read by all attempts, counted with repetition."""
        return sum(attempt.samples_read for attempt in self.attempts)

    @property
    def seconds(self) -> float:
        """Seconds of all attempts."""
        return sum(attempt.seconds for attempt in self.attempts)
