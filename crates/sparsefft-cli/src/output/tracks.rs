//! Peaks of blocks linked to tracks.
//!
//! A track is a frequency and a drift, each with its uncertainty, carried from block to block by a
//! Kalman filter. Only a peak within a few standard deviations of the prediction continues it: what
//! the scatter of a peak and the drifts that are possible allow, and never the next station.

use super::waterfall::Dot;

/// Blocks that a track may miss.
const MISSES: usize = 2;
/// Standard deviation of a peak's frequency in bins of its block: under a Hann window, 12 dB above
/// the noise, 0.2 from the noise, and 0.05 from the parabola. Smaller ones break tracks of weak
/// lines.
const DOT_STD: f64 = 0.3;
/// Width at half the amplitude, in bins, of a steady line under a Hann window.
const HANN_WIDTH: f64 = 2.0;
/// Standard deviation of an unknown drift that leaves a line as narrow as a steady one, in bins per
/// block length: with 2 more it is wider by an eighth.
const DRIFT_STD: f64 = 1.0;
/// Bounds on how far an unknown drift is thought to move a line between two blocks, in bins
/// (standard deviation): of narrow ones, and of those whose width tells a drift. Between blocks
/// that lie farther apart a larger one is not told from another line.
const MOVE_STD: f64 = 2.0;
const WIDE_MOVE_STD: f64 = 16.0;
/// How much a drift itself changes over one block length, in bins per block length.
const DRIFT_WALK: f64 = 0.1;
/// Standard deviations between prediction and peak: three lose 0.3 % of the true continuations.
const GATE: f64 = 3.0;
/// Drift in bins per block length from which a track must be long and straight. A keyed line is as
/// wide as a fast one; its hops make a chain by chance with odds of about one in three per block.
const FAST: f64 = 2.0;
/// Least dots of such a track, and its largest mean square of normalised innovations: 1 for a line,
/// 3 for what lies anywhere within the gate.
const FAST_DOTS: usize = 10;
const FAST_SQUARE: f64 = 1.5;
/// Ratio of amplitudes between neighbouring dots of one track: 6 dB.
const ALIKE: f64 = 2.0;

/// A tone followed through the blocks.
#[derive(Debug, Clone, PartialEq)]
pub struct Track {
    /// Its dots, in order of time.
    pub dots: Vec<Dot>,
}

impl Track {
    /// Change of frequency from its first to its last dot, in cycles per sample.
    pub fn drift(&self) -> f64 {
        self.dots[self.dots.len() - 1].cycles - self.dots[0].cycles
    }

    /// Mean amplitude.
    pub fn strength(&self) -> f64 {
        self.dots.iter().map(|d| d.amplitude).sum::<f64>() / self.dots.len() as f64
    }
}

/// How the blocks lie.
#[derive(Debug, Clone, Copy)]
pub struct Grid {
    /// Samples in a block.
    pub width: u64,
    /// Samples from the start of a block to that of the next.
    pub step: f64,
}

/// A frequency in bins, a drift in bins per block length, and their covariance.
#[derive(Debug, Clone, Copy)]
struct State {
    place: f64,
    drift: f64,
    var_place: f64,
    cov: f64,
    var_drift: f64,
}

impl State {
    fn new(dot: &Dot, bins: f64, step: f64) -> Self {
        // Under a Hann window a line that crosses d bins is wider by d/2, added in squares.
        let wider = (dot.width.powi(2) - HANN_WIDTH.powi(2)).max(0.0);
        let narrow = DRIFT_STD.min(MOVE_STD / step);
        let std = narrow.max((2.0 * wider.sqrt()).min(WIDE_MOVE_STD / step));
        let place = dot.cycles * bins;
        State { place, drift: 0.0, var_place: DOT_STD.powi(2), cov: 0.0, var_drift: std.powi(2) }
    }

    /// The state a time of so many block lengths later.
    fn after(self, time: f64) -> Self {
        State {
            place: self.place + time * self.drift,
            drift: self.drift,
            var_place: self.var_place + time * (2.0 * self.cov + time * self.var_drift),
            cov: self.cov + time * self.var_drift,
            var_drift: self.var_drift + time * DRIFT_WALK.powi(2),
        }
    }

    /// Variance of a peak around the predicted place.
    fn spread(&self) -> f64 {
        self.var_place + DOT_STD.powi(2)
    }

    /// The state once a peak was seen.
    fn seen(self, place: f64) -> Self {
        let (off, spread) = (place - self.place, self.spread());
        let (a, b) = (self.var_place / spread, self.cov / spread);
        State {
            place: self.place + a * off,
            drift: self.drift + b * off,
            var_place: (1.0 - a) * self.var_place,
            cov: (1.0 - a) * self.cov,
            var_drift: self.var_drift - b * self.cov,
        }
    }
}

/// A track that may go on.
struct Open {
    track: Track,
    state: State,
    last: Dot,
    /// Sum of the squared normalised innovations.
    square: f64,
}

impl Open {
    /// The track, if it lasts and, where it is fast, is straight.
    fn close(self, grid: Grid, shortest: usize) -> Option<Track> {
        let dots = self.track.dots.len();
        if dots < shortest.max(2) {
            return None;
        }
        let blocks = (self.last.block - self.track.dots[0].block) as f64;
        let time = blocks * grid.step / grid.width as f64;
        let fast = (self.track.drift() * grid.width as f64 / time).abs() > FAST;
        let straight = dots >= FAST_DOTS && self.square / (dots - 1) as f64 <= FAST_SQUARE;
        (!fast || straight).then_some(self.track)
    }
}

/// Links dots to tracks that last at least `shortest` blocks, strongest first.
pub fn tracks(rows: &[Vec<Dot>], grid: Grid, shortest: usize) -> Vec<Track> {
    let bins = grid.width as f64;
    let step = (grid.step / bins).max(1e-9);
    let (mut open, mut closed): (Vec<Open>, Vec<Track>) = (Vec::new(), Vec::new());
    for (block, row) in rows.iter().enumerate() {
        let mut free: Vec<bool> = vec![true; row.len()];
        // Long tracks choose first.
        open.sort_by_key(|t| std::cmp::Reverse(t.track.dots.len()));
        let mut next = Vec::new();
        for mut one in open {
            let state = one.state.after((block - one.last.block) as f64 * step);
            let alike =
                |d: &Dot| (1.0 / ALIKE..ALIKE).contains(&(d.amplitude / one.last.amplitude));
            let nearest = (0..row.len())
                .filter(|&i| free[i] && alike(&row[i]))
                .map(|i| (i, (row[i].cycles * bins - state.place).abs()))
                .min_by(|a, b| a.1.total_cmp(&b.1));
            match nearest {
                Some((i, off)) if off <= GATE * state.spread().sqrt() => {
                    free[i] = false;
                    one.track.dots.push(row[i]);
                    let square = one.square + off * off / state.spread();
                    let state = state.seen(row[i].cycles * bins);
                    next.push(Open { track: one.track, state, last: row[i], square });
                }
                _ if block - one.last.block <= MISSES => next.push(one),
                _ => closed.extend(one.close(grid, shortest)),
            }
        }
        next.extend((0..row.len()).filter(|&i| free[i]).map(|i| Open {
            track: Track { dots: vec![row[i]] },
            state: State::new(&row[i], bins, step),
            last: row[i],
            square: 0.0,
        }));
        open = next;
    }
    closed.extend(open.into_iter().filter_map(|t| t.close(grid, shortest)));
    closed.sort_by(|a, b| b.strength().total_cmp(&a.strength()));
    closed
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRID: Grid = Grid { width: 1024, step: 512.0 };

    /// Rows of dots of amplitude 1 at these bins.
    fn rows(bins: &[&[f64]]) -> Vec<Vec<Dot>> {
        let dot =
            |block, bin: &f64| Dot { block, cycles: bin / 1024.0, amplitude: 1.0, width: 2.0 };
        bins.iter()
            .enumerate()
            .map(|(b, row)| row.iter().map(|bin| dot(b, bin)).collect())
            .collect()
    }

    /// Keyed stations 20 bins apart, each only on while its neighbour is off.
    #[test]
    fn a_track_ends_where_its_line_ends() {
        let alternating: Vec<&[f64]> =
            (0..24).map(|b| if b / 6 % 2 == 0 { &[100.0][..] } else { &[120.0][..] }).collect();
        let found = tracks(&rows(&alternating), GRID, 3);
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(found.iter().all(|t| t.drift() == 0.0 && t.dots.len() == 6));
    }

    /// Shifts by 4 bins in an order without trend, as of frequency-shift keying.
    #[test]
    fn hops_are_no_drift() {
        let hops = [0.0, 28.0, 8.0, 16.0, 4.0, 24.0, 12.0, 20.0].map(|h| [300.0 + h]);
        let many: Vec<&[f64]> = (0..80).map(|b| &hops[b * 5 % 8][..]).collect();
        assert_eq!(tracks(&rows(&many), GRID, 3), []);
    }

    #[test]
    fn a_steady_drift_is_followed_over_a_gap() {
        let places: Vec<[f64; 1]> = (0..40).map(|b| [50.0 + 0.8 * f64::from(b)]).collect();
        let mut drifting: Vec<&[f64]> = places.iter().map(|p| &p[..]).collect();
        drifting[20] = &[];
        drifting[21] = &[];
        let found = tracks(&rows(&drifting), GRID, 3);
        assert_eq!((found.len(), found[0].dots.len()), (1, 38), "{found:?}");
        assert!((found[0].drift() * 1024.0 - 0.8 * 39.0).abs() < 1e-9);
    }

    /// Lines that cross keep their drifts.
    #[test]
    fn tracks_cross() {
        let places: Vec<[f64; 2]> =
            (0..41).map(|b| [100.0 + 0.5 * f64::from(b), 120.0 - 0.5 * f64::from(b)]).collect();
        let both: Vec<&[f64]> = places.iter().map(|p| &p[..]).collect();
        let found = tracks(&rows(&both), GRID, 30);
        let mut drifts: Vec<f64> = found.iter().map(|t| t.drift() * 1024.0).collect();
        drifts.sort_by(f64::total_cmp);
        assert_eq!(drifts.len(), 2, "{found:?}");
        assert!((drifts[0] + 20.0).abs() < 1.0 && (drifts[1] - 20.0).abs() < 1.0, "{drifts:?}");
    }
}
