//! Where a record is cut: positions that depend on its length, its kind and the memory limit alone.

use super::super::{SHORT_BLOCK, bursts::FEWEST_BLOCKS, spectrum::window};
use std::ops::Range;
use std::sync::Arc;

/// Longest unit in samples: beyond, the planes of power leave the cache and no more is gained.
const LONGEST_UNIT: u64 = 1 << 20;
/// Shortest unit in samples: shorter ones hold too few blocks for a quantile over time.
const SHORTEST_UNIT: u64 = 1 << 12;
/// Fewest units of a record: what changes over time is told by comparing units.
const FEWEST_UNITS: u64 = 16;
/// Longest frame in samples: its transform stays in a cache of 1 MiB in 32-bit numbers.
const LONGEST_FRAME: u64 = 1 << 16;
/// Frames of a unit, without overlap; one of the overlapped ones is lost at its end.
const FRAMES: u64 = 8;
/// Long blocks of a unit, without overlap: enough for a quantile over time good to a tenth.
const LONG_BLOCKS: usize = 256;
/// Most channels of which the level in each unit is kept.
const MOST_LEVELS: usize = 1 << 10;
/// Bytes for each sample of a unit in work, real and complex: samples in 64 bits, the plane of the
/// long blocks three times and a mark for each tile, in the longest unit, which is half as long again.
const WORKER_BYTES: [u64; 2] = [38, 72];
/// Bytes of one kept event.
pub(super) const EVENT_BYTES: u64 = 200;
/// Most events that are kept, the strongest.
pub(super) const MOST_EVENTS: usize = 1 << 14;
/// Sums that are held at a time: one for each power of two of units, some more while units arrive
/// in another order.
pub(super) const NODES: u64 = 64;

/// How a record is cut into units, frames and blocks.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Layout {
    pub(super) n: u64,
    pub(super) real: bool,
    /// The limit that the units were chosen for, in bytes.
    pub(super) memory: u64,
    /// Samples of a unit; the last one holds from half to one and a half times as many.
    pub(super) unit: u64,
    /// Units.
    pub(super) units: u64,
    /// Samples of a frame, of which the mean power spectrum is taken.
    pub(super) frame: usize,
    /// Samples of the blocks that bursts are seen in.
    pub(super) blocks: Vec<usize>,
    /// Channels of which the level in each unit is kept.
    pub(super) levels: usize,
    /// The window of a frame: made once, since a cosine costs as much as a sample's whole transform.
    pub(super) window: Arc<Vec<f64>>,
}

impl Layout {
    /// Fewest samples that can be cut.
    pub(super) const SHORTEST: u64 = FEWEST_UNITS * SHORTEST_UNIT;

    /// The layout for a record, or the least memory that it needs.
    pub(super) fn new(n: u64, real: bool, memory: u64) -> Result<Self, u64> {
        let each = WORKER_BYTES[usize::from(!real)];
        // A third of the memory for one unit in work leaves as much for a second one, and for what is
        // kept.
        let most = (memory / (3 * each)).max(1).ilog2();
        let unit = (1u64 << most).min(LONGEST_UNIT).min(1 << (n / FEWEST_UNITS).max(1).ilog2());
        let unit = unit.max(SHORTEST_UNIT);
        let units = ((n + unit / 2) / unit).max(1);
        let frame = (unit / FRAMES).min(LONGEST_FRAME) as usize;
        let long = (unit as usize / LONG_BLOCKS).max(SHORT_BLOCK);
        let mut blocks = vec![SHORT_BLOCK, long];
        blocks.dedup();
        blocks.retain(|l| unit as usize / 2 >= FEWEST_BLOCKS * l);
        let half = if real { long / 2 } else { long };
        let levels = half.min(MOST_LEVELS);
        let window = (0..frame).map(|i| window(i as f64 / frame as f64)).collect();
        let window = Arc::new(window);
        let mut layout = Layout { n, real, memory, unit, units, frame, blocks, levels, window };
        while layout.levels > 64 && layout.kept_bytes() > memory / 4 {
            layout.levels /= 2;
        }
        let need = layout.kept_bytes() + layout.worker_bytes() + layout.zoom_bytes();
        if need > memory { Err(need) } else { Ok(layout) }
    }

    /// Bins of a frame's spectrum.
    pub(super) fn bins(&self) -> usize {
        if self.real { self.frame / 2 + 1 } else { self.frame }
    }

    /// Channels of the short blocks, of which the mean power in each unit is kept.
    pub(super) fn means(&self) -> usize {
        if self.real { SHORT_BLOCK / 2 + 1 } else { SHORT_BLOCK }
    }

    /// The samples of a unit.
    pub(super) fn range(&self, unit: u64) -> Range<u64> {
        let end = if unit + 1 == self.units { self.n } else { (unit + 1) * self.unit };
        unit * self.unit..end
    }

    /// The unit of a sample.
    pub(super) fn unit_of(&self, sample: u64) -> u64 {
        (sample / self.unit).min(self.units - 1)
    }

    /// Bytes of what is kept of the whole record.
    pub(super) fn kept_bytes(&self) -> u64 {
        let rows = 4 * (self.levels + self.means()) as u64 + 96;
        let spectra = (2 * u64::from(self.units.ilog2() + 1)).min(NODES) + 8;
        self.units * rows + spectra * 8 * self.bins() as u64 + EVENT_BYTES * MOST_EVENTS as u64 / 8
    }

    /// Bytes of one unit in work.
    pub(super) fn worker_bytes(&self) -> u64 {
        self.unit * WORKER_BYTES[usize::from(!self.real)] + 64 * self.frame as u64
    }

    /// Bytes of the series of one candidate, and of its spectrum.
    pub(super) fn zoom_bytes(&self) -> u64 {
        56 * (self.n / (self.frame as u64 / 4) + 1)
    }

    /// Units that may be in work at a time.
    pub(super) fn workers(&self) -> usize {
        #[cfg(feature = "rayon")]
        let threads = rayon::current_num_threads();
        #[cfg(not(feature = "rayon"))]
        let threads = 1;
        let room = self.memory.saturating_sub(self.kept_bytes()) * 3 / 4;
        threads.min((room / self.worker_bytes()) as usize).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_cover_the_record_once_and_fit_into_memory() {
        for n in [65_536, 100_003, 1 << 24, (1 << 24) + 777, 10_u64.pow(10)] {
            for memory in [16 << 20, 64 << 20, 4 << 30] {
                let Ok(layout) = Layout::new(n, false, memory) else {
                    assert!(n > 1 << 24, "{n} {memory}");
                    continue;
                };
                let mut at = 0;
                for unit in 0..layout.units {
                    let range = layout.range(unit);
                    assert_eq!(range.start, at);
                    let length = range.end - range.start;
                    assert!(2 * length >= layout.unit && 2 * length < 3 * layout.unit + 2);
                    assert_eq!(layout.unit_of(range.start), unit);
                    assert_eq!(layout.unit_of(range.end - 1), unit);
                    at = range.end;
                }
                assert_eq!(at, n);
                let workers = layout.workers() as u64;
                assert!(layout.kept_bytes() + workers * layout.worker_bytes() <= memory);
            }
        }
    }
}
