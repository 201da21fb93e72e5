//! A recipe in words.

use super::recipe::{First, Menu, Method, Peeling, Recipe};
use crate::problem::{Algorithm, Fallback, Noise};
use std::fmt;

impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.n;
        match self.k {
            Some(k) => writeln!(f, "goal: at most {k} of {n} Fourier coefficients")?,
            None => writeln!(f, "goal: all large ones among {n} Fourier coefficients")?,
        }
        match self.noise {
            Noise::Exact => writeln!(f, "noise: none, by your word")?,
            Noise::Snr(db) => writeln!(f, "noise: the weakest coefficient has {db} dB")?,
            Noise::Unknown => writeln!(f, "noise: unknown; the first bins tell")?,
        }
        writeln!(f, "algorithm: {}", self.algorithm)?;
        match &self.method {
            Method::Peel(peeling) => peel(f, self, peeling)?,
            Method::Vote(vote) => vote.explain(f, n)?,
            Method::Dense => {
                writeln!(f, "  read all {n} samples, run a dense FFT, keep the largest outputs")?
            }
        }
        if self.algorithm != Algorithm::Dense {
            let dense = match self.fallback {
                Fallback::Never => "never a dense FFT: the answer is then `uncertified`",
                Fallback::Auto if !self.fallback.allows(n) => {
                    "no dense FFT, which would read too much: the answer is then `uncertified`"
                }
                _ => "a dense FFT if that does not help or would cost more",
            };
            let more = match &self.method {
                Method::Vote(_) => "more buckets and no comb",
                Method::Peel(Peeling { menu: Some(menu), .. }) if menu.attempts < 2 => {
                    "no more than that"
                }
                _ => "four times the bins",
            };
            writeln!(f, "  if anything stays unexplained: {more}, then {dense}")?;
        }
        if let Method::Peel(Peeling { menu: Some(menu), .. }) = &self.method {
            one_pass(f, self, menu)?;
        }
        write!(f, "cost:")?;
        for e in &self.estimates {
            write!(
                f,
                " {} {} ({} samples);",
                e.algorithm,
                Time(e.nanoseconds),
                Share(e.samples, n)
            )?;
        }
        write!(f, " seed {}", self.seed)
    }
}

/// The steps of `exact` and `robust`.
fn peel(f: &mut fmt::Formatter<'_>, recipe: &Recipe, p: &Peeling) -> fmt::Result {
    let begin = p.begin;
    let more = match p.first.bins() {
        all if begin < all => format!(", {all} if there is noise"),
        _ => String::new(),
    };
    match p.first {
        First::Comb { .. } => {
            let step = recipe.n / begin as u64;
            writeln!(
                f,
                "  comb: {begin} bins{more}, from lines of 4 samples, every {step} samples; no leakage"
            )?;
        }
        First::Window { .. } => writeln!(
            f,
            "  window: {begin} buckets{more}, from a random walk through the signal (n has no divisor \
             that suits a comb)"
        )?,
    }
    match (&p.ladder[..], recipe.noise) {
        ([_], Noise::Unknown) if p.quiet_only => {
            writeln!(f, "  if the bins turn out very noisy: a dense FFT, which is then as quick")?;
        }
        ([_], Noise::Unknown) => {
            writeln!(f, "  ladder: more lines at growing offsets, if the bins turn out noisy")?;
        }
        ([_], _) => {}
        (offsets, _) => writeln!(f, "  ladder: lines at offsets {offsets:?}, against the noise")?,
    }
    let quiet = !matches!(recipe.noise, Noise::Snr(_)) && p.menu.is_none();
    let crowds = match p.first {
        First::Comb { .. } if quiet => "; without noise, three or four from eight shifts",
        First::Window { buckets } if begin < buckets => {
            "; without noise, up to three from a bucket and its neighbours"
        }
        _ => "",
    };
    writeln!(
        f,
        "  locate and estimate: bins with one or two frequencies, from their phases{crowds}"
    )?;
    writeln!(f, "  peel: bins with more, through window hashes with fresh permutations")?;
    writeln!(
        f,
        "  certify: {} buckets of an independent hash must be explained; noise counts as a \
         coefficient above {:.1} standard deviations",
        p.verify, p.sigmas
    )
}

/// What a one-pass transform keeps.
fn one_pass(f: &mut fmt::Formatter<'_>, recipe: &Recipe, menu: &Menu) -> fmt::Result {
    // As measured over random frequencies; docs/distributed.md has the table.
    let (finest, chance) = match menu.finest {
        First::Comb { bins } => (format!("a comb of {bins} bins"), 1000),
        First::Window { buckets } => (format!("a window of {buckets} buckets"), 20),
    };
    let samples = menu.samples;
    writeln!(
        f,
        "  one pass: {} attempt{}, {finest} with {} lines, {} windows of {} buckets with {} lines, \
         {} buckets that certify",
        menu.attempts,
        if menu.attempts == 1 { "" } else { "s" },
        menu.first.offsets.len() + usize::from(menu.spare.is_some()),
        menu.rounds,
        menu.buckets,
        menu.window.offsets.len(),
        menu.verify
    )?;
    writeln!(
        f,
        "  sketch: at most {} samples, {} bytes as complex f32 or {} as f64; a second pass for \
         fewer than 1 in {chance} signals with random frequencies, certain if more than k stand out",
        Share(samples, recipe.n),
        8 * samples,
        16 * samples
    )
}

/// Nanoseconds, readable.
struct Time(f64);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            t if t < 1e3 => write!(f, "{t:.0} ns"),
            t if t < 1e6 => write!(f, "{:.1} µs", t / 1e3),
            t if t < 1e9 => write!(f, "{:.1} ms", t / 1e6),
            t => write!(f, "{:.1} s", t / 1e9),
        }
    }
}

/// A number of samples and its share of all.
struct Share(u64, u64);

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 >= self.1 {
            return f.write_str("all");
        }
        let percent = 100.0 * self.0 as f64 / self.1 as f64;
        if percent < 0.001 {
            write!(f, "{} = {percent:.0e} % of the", self.0)
        } else {
            write!(f, "{} = {percent:.3} % of the", self.0)
        }
    }
}
