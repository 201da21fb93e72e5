//! Residual lines: samples that were read, less the answer, without a window.

use super::checksum::Eight;
use super::evidence::{ReadSet, read_again};
use super::grown;
use super::rest::Rest;
use crate::algorithms::Run;
use crate::cpu::rows::{Row, dispatch_rows};
use crate::cpu::wide::Vector;
use crate::samples::{Line, non_finite_in, progression, read_in_parts};
use crate::stages::bucket_fft::BucketFft;
use crate::stages::number::Rng;
use crate::stages::unity::Unity;
use crate::{Complex, Error};

/// The residual of one offset of a comb: its samples are the inverse transform of the peeled bins.
///
/// The lines at start, start + step, … of n samples are U\[b\] transformed back; applied twice, the
/// transform reverses the order: FFT(U)\[(B - j) mod B\] is line j.
pub(crate) fn add_comb(
    rest: &mut Rest,
    fft: &BucketFft,
    bins: &[Line],
    [start, n]: [u64; 2],
    buffer: &mut Vec<Line>,
) {
    let size = fft.size();
    let (lines, scratch) = grown(buffer, size + fft.scratch_len()).split_at_mut(size);
    fft.process(bins, lines, scratch, 1.0);
    // Line 0, then the others in reversed order; those past the end of the record come first.
    let step = n / size as u64;
    let (rounds, first) = (start / step, start % step);
    let wrapped = (size as u64 - rounds) as usize % size;
    let apart = 1.0 / size as f64;
    let begin = first as f64 / n as f64;
    let order = (wrapped..size).chain(0..wrapped);
    let lines = order.map(|j| lines[if j == 0 { 0 } else { size - j }]);
    rest.add(lines.enumerate().map(|(i, line)| (begin + i as f64 * apart, line)));
}

/// Reads so many lines, evenly over the record from a random place on, that are compared with the
/// answer and serve nothing else. `None` where the record is too short for them.
pub(crate) fn read_witness(
    run: &mut Run<'_>,
    count: usize,
    attempt: u32,
) -> Result<Option<ReadSet>, Error> {
    /// Stream of random numbers for the first line.
    const STREAM: u64 = 0x7769_746e;
    let n = run.plan.problem.n;
    let step = n / count as u64;
    if step < 4 {
        return Ok(None);
    }
    let start = Rng::new(run.plan.recipe.seed, STREAM + u64::from(attempt)).below(step - 3);
    let mut buffer = run.workspace.take_at_least(count);
    let lines = &mut buffer[..count];
    let outcome = read_in_parts(run.signal, start, step, lines);
    let set = ReadSet::lines(start, step, count);
    let set = run.workspace.evidence.note_lines(set, lines, run.signal.in_memory());
    let bad = non_finite_in(lines, start, step, n);
    run.workspace.give(buffer);
    run.samples_read += 4 * count as u64;
    run.samples_compared += 4 * count as u64;
    outcome.and(bad.map_or(Ok(Some(set)), Err))
}

/// The residual of at most so many lines of a set, evenly chosen.
pub(crate) fn add_lines(
    run: &Run<'_>,
    rest: &mut Rest,
    set: &ReadSet,
    answer: &[Eight],
    most: usize,
    (buffer, turning): (&mut Vec<Line>, &mut Vec<Turning>),
) -> Result<(), Error> {
    let every = set.count.div_ceil(most.max(1)).max(1);
    let count = set.count.div_ceil(every);
    let n = run.plan.problem.n;
    let step = progression(0, set.step, every as u64, n);
    let whole = step.checked_mul(count as u64) == Some(n);
    let lines = if whole && count >= LEAST_COMB && answer.len() >= LEAST_EIGHTS {
        let fft = run.plan.fft(count);
        let room = grown(buffer, 3 * count + fft.scratch_len());
        read_again(run, set, [0, every], &mut room[..count])?;
        subtract_from_comb(Unity::new(n), &fft, set.start, answer, room);
        &room[..count]
    } else {
        let lines = grown(buffer, count);
        read_again(run, set, [0, every], lines)?;
        subtract(Unity::new(n), [set.start, step], answer, lines, turning);
        lines
    };
    if set.start + (count as u64 - 1) * step < n {
        let time = |i: usize| (set.start + i as u64 * step) as f64 / n as f64;
        rest.add(lines.iter().copied().enumerate().map(|(i, line)| (time(i), line)));
        return Ok(());
    }
    let mut times: Vec<(f64, Line)> = lines
        .iter()
        .copied()
        .enumerate()
        .map(|(i, line)| (progression(set.start, step, i as u64, n) as f64 / n as f64, line))
        .collect();
    times.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    rest.add(times.into_iter());
    Ok(())
}

/// Lines of a comb, and eights of frequencies, from which on one transform makes the answer's lines
/// sooner than every frequency by itself does.
const LEAST_COMB: usize = 64;
const LEAST_EIGHTS: usize = 4;

/// Subtracts the answer from the lines of a whole comb that begins at `start`: the frequencies of its
/// bins are added up there and transformed back, as in [`add_comb`]. The lines come first in `room`;
/// behind them is room for twice as many, and for the transform.
fn subtract_from_comb(
    unity: Unity,
    fft: &BucketFft,
    start: u64,
    answer: &[Eight],
    room: &mut [Line],
) {
    let size = fft.size();
    let (lines, room) = room.split_at_mut(size);
    let (bins, room) = room.split_at_mut(size);
    let (model, scratch) = room.split_at_mut(size);
    bins.fill(Line::ZERO);
    for [frequencies, a_re, a_im, root_re, root_im] in answer {
        for j in 0..8 {
            let f = frequencies[j] as u64;
            let root = Complex::new(root_re[j], root_im[j]);
            let mut value = Complex::new(a_re[j], a_im[j]) * unity.power(f, start);
            let bin = &mut bins[(f % size as u64) as usize];
            for tau in 0..4 {
                bin.re[tau] += value.re;
                bin.im[tau] += value.im;
                value *= root;
            }
        }
    }
    fft.process(bins, model, scratch, 1.0);
    for (j, line) in lines.iter_mut().enumerate() {
        let model = &model[if j == 0 { 0 } else { size - j }];
        for tau in 0..4 {
            line.re[tau] -= model.re[tau];
            line.im[tau] -= model.im[tau];
        }
    }
}

/// Subtracts the answer from lines that begin at `start`, `start + step`, …
fn subtract(
    unity: Unity,
    [start, step]: [u64; 2],
    answer: &[Eight],
    lines: &mut [Line],
    turning: &mut Vec<Turning>,
) {
    // Fresh phases every few lines keep rounding small.
    const BLOCK: usize = 128;
    turning.clear();
    for eight in answer {
        let &[frequencies, _, _, root_re, root_im] = eight;
        let turn = frequencies.map(|f| unity.power(f as u64, step));
        turning.push(Turning {
            value: [[0.0; 8]; 2],
            root: [root_re, root_im],
            turn: [turn.map(|z| z.re), turn.map(|z| z.im)],
        });
    }
    for (i, block) in lines.chunks_mut(BLOCK).enumerate() {
        let first = progression(start, step, (i * BLOCK) as u64, unity.order());
        for (one, eight) in turning.iter_mut().zip(answer) {
            let [frequencies, a_re, a_im, ..] = eight;
            let value: [Complex<f64>; 8] = std::array::from_fn(|j| {
                Complex::new(a_re[j], a_im[j]) * unity.power(frequencies[j] as u64, first)
            });
            one.value = [value.map(|v| v.re), value.map(|v| v.im)];
        }
        subtract_all(turning, block);
    }
}

/// Eight frequencies: their values at the first sample of the present line, the factors e^{2πif/n}
/// to the next sample, and those to the next line. Real parts, then imaginary parts.
#[derive(Debug)]
pub(crate) struct Turning {
    value: [[f64; 8]; 2],
    root: [[f64; 8]; 2],
    turn: [[f64; 8]; 2],
}

dispatch_rows! {
    /// Subtracts frequencies from lines that follow each other.
    fn subtract_all(turning: &mut [Turning], lines: &mut [Line]) = subtract_all_body
}

#[inline(always)] // the body that `dispatch_rows!` compiles once per instruction set
fn subtract_all_body<const FMA: bool, R: Row>(turning: &mut [Turning], lines: &mut [Line]) {
    let count = R::Wide::COUNT;
    for line in lines {
        let mut sums = [[R::Wide::splat(0.0); 2]; 4];
        for one in turning.iter_mut() {
            for half in 0..8 / count {
                let part =
                    |of: &[[f64; 8]; 2]| [R::Wide::part(&of[0], half), R::Wide::part(&of[1], half)];
                let (value, root, turn) = (part(&one.value), part(&one.root), part(&one.turn));
                let mut sample = value;
                for sum in &mut sums {
                    *sum = [sum[0] + sample[0], sum[1] + sample[1]];
                    sample = times(sample, root);
                }
                let next = times(value, turn);
                for (to, part) in one.value.iter_mut().zip(next) {
                    to[count * half..count * (half + 1)].copy_from_slice(&part.each()[..count]);
                }
            }
        }
        for (tau, [re, im]) in sums.into_iter().enumerate() {
            line.re[tau] -= re.each().iter().sum::<f64>();
            line.im[tau] -= im.each().iter().sum::<f64>();
        }
    }
}

/// Complex products.
#[inline(always)] // must inherit the instruction set of its caller
fn times<V: Vector>([a, b]: [V; 2], [c, d]: [V; 2]) -> [V; 2] {
    [b.negate_mul_add(d, a * c), a.mul_add(d, b * c)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::eights_of;
    use crate::stages::peel::Coefficient;

    #[test]
    fn nothing_is_left_of_lines_that_hold_the_answer() {
        let (n, start, step) = (1_000_003u64, 999_990, 12_345);
        let (unity, mut rng) = (Unity::new(n), Rng::new(4, 1));
        let tones: Vec<Coefficient> = (0..11)
            .map(|_| {
                let f = rng.below(n);
                Coefficient { f, a: unity.root(rng.below(n)), z: unity.root(f) }
            })
            .collect();
        let value =
            |t: u64| -> Complex<f64> { tones.iter().map(|c| c.a * unity.power(c.f, t)).sum() };
        let mut lines = vec![Line::ZERO; 200];
        for (i, line) in (0u64..).zip(&mut lines) {
            let t = progression(start, step, i, n);
            (0..4).for_each(|tau| line.set_lane(tau, value((t + tau as u64) % n)));
        }
        let mut answer = Vec::new();
        eights_of(tones.iter().copied(), &mut answer);
        subtract(unity, [start, step], &answer, &mut lines, &mut Vec::new());
        let largest = lines.iter().flat_map(|l| (0..4).map(|tau| l.lane(tau).norm()));
        assert!(largest.fold(0.0, f64::max) < 1e-12);
    }

    #[test]
    fn the_bins_of_a_comb_become_its_lines_in_order_of_time() {
        let (n, size, start) = (1u64 << 12, 16, 3900u64);
        let (step, mut rng) = (n / size as u64, Rng::new(9, 2));
        let samples: Vec<f64> = (0..n).map(|_| rng.below(1000) as f64).collect();
        let mut input = vec![Line::ZERO; size];
        for (j, line) in (0u64..).zip(&mut input) {
            let t = (start + j * step) % n;
            (0..4).for_each(|tau| {
                line.set_lane(tau, samples[((t + tau as u64) % n) as usize].into());
            });
        }
        let fft = BucketFft::new(size);
        let mut bins = vec![Line::ZERO; size];
        let mut scratch = vec![Line::ZERO; fft.scratch_len()];
        fft.process(&input, &mut bins, &mut scratch, 1.0 / size as f64);
        let mut rest = Rest::default();
        add_comb(&mut rest, &fft, &bins, [start, n], &mut Vec::new());
        let (times, lines) = rest.strands().next().unwrap();
        assert!(times.is_sorted());
        for (time, line) in times.iter().zip(lines) {
            let t = (time * n as f64).round() as usize;
            assert!((line.re[0] - samples[t]).abs() < 1e-9 && line.im[0].abs() < 1e-9);
        }
    }

    #[test]
    fn combs_lose_the_answer_at_once_as_they_do_line_by_line() {
        let n = 1u64 << 14;
        let mut rng = Rng::new(17, 1);
        let unity = Unity::new(n);
        let mut answer = Vec::new();
        eights_of(tones(n, &mut rng, 77).into_iter(), &mut answer);
        for (size, start) in [(64usize, 0u64), (64, 255), (256, 16_380), (1024, 7000)] {
            let fft = BucketFft::new(size);
            let noise = |i: usize, tau: usize| ((i * 7 + tau * 3) % 11) as f64;
            let mut room = vec![Line { re: [5.0; 4], im: [6.0; 4] }; 3 * size + fft.scratch_len()];
            for (i, line) in room[..size].iter_mut().enumerate() {
                (0..4).for_each(|tau| line.set_lane(tau, noise(i, tau).into()));
            }
            let mut lines = room[..size].to_vec();
            subtract(unity, [start, n / size as u64], &answer, &mut lines, &mut Vec::new());
            subtract_from_comb(unity, &fft, start, &answer, &mut room);
            for (at_once, line) in room.iter().zip(&lines) {
                for tau in 0..4 {
                    let off = (at_once.lane(tau) - line.lane(tau)).norm();
                    assert!(off < 1e-11, "{size} {start}: {off}");
                }
            }
        }
    }

    use crate::cpu::ticks::Stopwatch;
    use crate::plan::{Plan, Workspace};
    use crate::problem::Problem;

    fn tones(n: u64, rng: &mut Rng, count: usize) -> Vec<Coefficient> {
        let unity = Unity::new(n);
        let tone = |f| Coefficient { f, a: unity.root(f / 3), z: unity.root(f) };
        (0..count).map(|_| tone(rng.below(n))).collect()
    }

    /// Lines in order of time of which exactly the answer is taken away, also around the record's end.
    #[test]
    fn residual_lines_are_samples_less_the_answer_in_order_of_time() {
        let (n, mut rng) = (5000u64, Rng::new(6, 1));
        let (unity, tones) = (Unity::new(n), tones(n, &mut rng, 9));
        let rest_of: Vec<f64> = (0..n).map(|_| rng.below(1000) as f64).collect();
        let x: Vec<Complex<f64>> = (0..n)
            .map(|t| {
                let tones: Complex<f64> = tones.iter().map(|c| c.a * unity.power(c.f, t)).sum();
                tones + rest_of[t as usize]
            })
            .collect();
        let mut answer = Vec::new();
        eights_of(tones.iter().copied(), &mut answer);
        let plan = Plan::new(Problem::new(n).sparsity(9)).unwrap();
        let mut workspace = Workspace::default();
        let run = Run::new(plan.prepared(), &x, &mut workspace, Stopwatch::start());
        // The last ends before the record, at its end, and beyond; then every second and third line.
        for (start, step, count, most, every) in [
            (3, 31, 150, 150, 1),
            (200, 300, 17, 17, 1),
            (199, 300, 17, 17, 1),
            (201, 300, 17, 17, 1),
            (4000, 77, 130, 1000, 1),
            (3, 31, 150, 75, 2),
            (3, 31, 151, 75, 3),
            (2500, 31, 151, 75, 3),
            (3, 31, 4, 0, 4),
        ] {
            let mut rest = Rest::default();
            let set = ReadSet::lines(start, step, count);
            let (mut lines, mut turning) = (Vec::new(), Vec::new());
            add_lines(&run, &mut rest, &set, &answer, most, (&mut lines, &mut turning)).unwrap();
            let (times, lines) = rest.strands().next().unwrap();
            let mut places: Vec<u64> =
                (0..count as u64).step_by(every).map(|i| (start + i * step) % n).collect();
            places.sort_unstable();
            let found: Vec<u64> = times.iter().map(|t| (t * n as f64).round() as u64).collect();
            assert_eq!(found, places, "{set:?}");
            for (line, place) in lines.iter().zip(&places) {
                for tau in 0..4 {
                    let expected = rest_of[((place + tau as u64) % n) as usize];
                    assert!((line.lane(tau) - expected).norm() < 1e-9, "{set:?} at {place}");
                }
            }
        }
    }

    /// Every place of a comb, from a start within the first step to one in the last.
    #[test]
    fn combs_that_begin_anywhere_are_in_order_of_time() {
        let (n, size) = (1024u64, 16usize);
        let fft = BucketFft::new(size);
        for start in [0u64, 5, 63, 64, 69, 500, 960, 1023] {
            let mut input = vec![Line::ZERO; size];
            for (j, line) in (0u64..).zip(&mut input) {
                (0..4).for_each(|tau| {
                    let t = (start + 64 * j) % n + tau as u64;
                    line.set_lane(tau, Complex::new(t as f64, 1.0));
                });
            }
            let mut bins = vec![Line::ZERO; size];
            let mut scratch = vec![Line::ZERO; fft.scratch_len()];
            fft.process(&input, &mut bins, &mut scratch, 1.0 / size as f64);
            let mut rest = Rest::default();
            // A buffer that is larger than needed, with other content.
            let mut buffer = vec![Line { re: [9.0; 4], im: [9.0; 4] }; 500];
            add_comb(&mut rest, &fft, &bins, [start, n], &mut buffer);
            let (times, lines) = rest.strands().next().unwrap();
            for (i, (time, line)) in (0u64..).zip(times.iter().zip(lines)) {
                let t = start % 64 + 64 * i;
                assert!((time * n as f64 - t as f64).abs() < 1e-9, "{start}: {time}");
                (0..4).for_each(|tau| {
                    let expected = Complex::new((t + tau as u64) as f64, 1.0);
                    assert!((line.lane(tau) - expected).norm() < 1e-9, "{start}, line {i}");
                });
            }
        }
    }

    #[test]
    fn a_witness_lies_evenly_over_the_record() {
        for (n, count, step) in
            [(1000u64, 250usize, 4u64), (1003, 250, 4), (1000, 251, 0), (9999, 100, 99)]
        {
            let mut x = vec![Complex::new(1.0, 0.0); n as usize];
            let plan = Plan::new(Problem::new(n).sparsity(1)).unwrap();
            let mut starts = Vec::new();
            for attempt in 0..8 {
                let mut workspace = Workspace::default();
                let mut run = Run::new(plan.prepared(), &x, &mut workspace, Stopwatch::start());
                let set = read_witness(&mut run, count, attempt).unwrap();
                assert_eq!(set.is_some(), step > 0, "{n} {count}");
                let read = 4 * count as u64 * u64::from(step > 0);
                assert_eq!((run.samples_read, run.samples_compared), (read, read));
                assert_eq!(run.workspace.evidence.sets().len(), usize::from(step > 0));
                if let Some(set) = set {
                    assert_eq!((set.step, set.count, set.width), (step, count, 4));
                    assert!(set.start + 3 < step && set.place(count - 1, n) + 3 < n);
                    starts.push(set.start);
                }
            }
            starts.sort_unstable();
            starts.dedup();
            // Eight of 96 places: at most two are equal but with a probability of 5 %; the seed is fixed.
            assert!(step < 90 || starts.len() >= 6, "{starts:?}");
            // What is read is examined.
            if step == 4 {
                x[800] = Complex::new(0.0, f64::NAN);
                let mut workspace = Workspace::default();
                let mut run = Run::new(plan.prepared(), &x, &mut workspace, Stopwatch::start());
                let refused = read_witness(&mut run, count, 0).unwrap_err();
                assert!(matches!(refused, Error::NonFinite { index: 800, .. }), "{refused}");
            }
        }
    }
}
