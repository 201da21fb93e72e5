//! Plain loops, compiled a second time for processors with vectors of 256 bits.
//!
//! The loops are the same, and neither compilation reorders sums or contracts products, so that the
//! answer does not depend on the processor.

/// Defines a function whose loops use the vectors that the processor has.
macro_rules! vectorized {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $kind:ty),* $(,)?) $(-> $out:ty)?
     $body:block) => {
        $(#[$meta])*
        $vis fn $name($($arg: $kind),*) $(-> $out)? {
            #[inline(always)] // compiled into its callers' instruction set
            fn plain($($arg: $kind),*) $(-> $out)? $body
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                fn fast($($arg: $kind),*) $(-> $out)? {
                    plain($($arg),*)
                }
                if crate::cpu::has_fma() {
                    // SAFETY: the processor has the instructions.
                    return unsafe { fast($($arg),*) };
                }
            }
            plain($($arg),*)
        }
    };
}
pub(super) use vectorized;

/// Values that are examined at once before any of them is looked at by itself.
const GROUP: usize = 32;

vectorized! {
    /// Collects the places of values above a limit.
    pub(super) fn places_above(values: &[f32], limit: f32, out: &mut Vec<u32>) {
        for (g, group) in values.chunks(GROUP).enumerate() {
            // Most groups have none.
            if group.iter().fold(false, |any, v| any | (*v > limit)) {
                let first = (g * GROUP) as u32;
                let above = (first..).zip(group).filter(|(_, v)| **v > limit);
                out.extend(above.map(|(k, _)| k));
            }
        }
    }
}

vectorized! {
    /// Collects the places of powers above so many times their densities.
    pub(super) fn places_over(power: &[f64], density: &[f64], times: f64, out: &mut Vec<usize>) {
        for (g, (power, density)) in power.chunks(GROUP).zip(density.chunks(GROUP)).enumerate() {
            let pairs = || power.iter().zip(density);
            if pairs().fold(false, |any, (p, d)| any | (*p > times * d)) {
                let above = (g * GROUP..).zip(pairs()).filter(|(_, (p, d))| **p > times * **d);
                out.extend(above.map(|(k, _)| k));
            }
        }
    }
}

vectorized! {
    /// Collects the places of powers above a limit.
    pub(super) fn exceeding(power: &[f64], limit: f64, out: &mut Vec<usize>) {
        for (g, group) in power.chunks(GROUP).enumerate() {
            if group.iter().fold(false, |any, p| any | (*p > limit)) {
                let above = (g * GROUP..).zip(group).filter(|(_, p)| **p > limit);
                out.extend(above.map(|(k, _)| k));
            }
        }
    }
}

vectorized! {
    /// Sums over `width` neighbours: `sums[i]` = values\[i\] + … + values\[i + width - 1\], as far as
    /// there are values. Sums of 1, 2, 4 … are put together, so that nothing accumulates.
    pub(super) fn running_sums(
        values: &[f32],
        width: usize,
        doubled: &mut Vec<f32>,
        sums: &mut Vec<f32>,
    ) {
        let count = (values.len() + 1).saturating_sub(width);
        sums.clear();
        sums.resize(count, 0.0);
        if count == 0 {
            return;
        }
        doubled.clear();
        doubled.extend_from_slice(values);
        let (mut at, mut size, mut left) = (0, 1, width);
        while left > 0 {
            if left & 1 == 1 {
                sums.iter_mut().zip(&doubled[at..]).for_each(|(s, d)| *s += d);
                at += size;
            }
            left >>= 1;
            if left > 0 {
                let len = doubled.len();
                let pairs = len.saturating_sub(size);
                let whole = pairs / 16 * 16;
                for i in (0..whole).step_by(16) {
                    // All are read before any of them is written.
                    let mut both = [0.0f32; 16];
                    let (a, b) = (&doubled[i..i + 16], &doubled[i + size..i + size + 16]);
                    both.iter_mut().zip(a).zip(b).for_each(|((s, a), b)| *s = a + b);
                    doubled[i..i + 16].copy_from_slice(&both);
                }
                for i in whole..pairs {
                    doubled[i] += doubled[i + size];
                }
                doubled.truncate(len.saturating_sub(size));
                size *= 2;
            }
        }
    }
}

vectorized! {
    /// The sum of values.
    pub(super) fn sum_of(values: &[f32]) -> f32 {
        let mut parts = [0.0f32; LANES];
        for chunk in values.chunks(LANES) {
            parts.iter_mut().zip(chunk).for_each(|(p, v)| *p += v);
        }
        parts.iter().sum()
    }
}

/// Independent sums that a sum is made of, put together in a fixed order.
const LANES: usize = 16;

vectorized! {
    /// The largest absolute value.
    pub(super) fn largest_of(values: &[f64]) -> f64 {
        let mut parts = [0.0f64; LANES];
        for chunk in values.chunks(LANES) {
            for (m, v) in parts.iter_mut().zip(chunk) {
                let v = v.abs();
                *m = if v > *m { v } else { *m };
            }
        }
        parts.iter().fold(0.0, |m, v| m.max(*v))
    }
}

vectorized! {
    /// The sum of the squares of scaled values.
    pub(super) fn sum_of_squares(values: &[f64], scale: f64) -> f64 {
        let mut parts = [0.0f64; LANES];
        for chunk in values.chunks(LANES) {
            for (sum, v) in parts.iter_mut().zip(chunk) {
                let v = v * scale;
                *sum += v * v;
            }
        }
        parts.iter().sum()
    }
}

vectorized! {
    /// The sum of scaled values.
    pub(super) fn scaled_sum(values: &[f64], scale: f64) -> f64 {
        let mut parts = [0.0f64; LANES];
        for chunk in values.chunks(LANES) {
            parts.iter_mut().zip(chunk).for_each(|(sum, v)| *sum += v * scale);
        }
        parts.iter().sum()
    }
}

vectorized! {
    /// The least and the largest of positive values.
    pub(super) fn range_of(values: &[f64]) -> (f64, f64) {
        let (mut low, mut high) = ([f64::INFINITY; LANES], [0.0f64; LANES]);
        for chunk in values.chunks(LANES) {
            for ((low, high), v) in low.iter_mut().zip(&mut high).zip(chunk) {
                *low = if *v < *low { *v } else { *low };
                *high = if *v > *high { *v } else { *high };
            }
        }
        let low = low.iter().fold(f64::INFINITY, |m, v| m.min(*v));
        (low, high.iter().fold(0.0, |m, v| m.max(*v)))
    }
}

vectorized! {
    /// The sum of values times weights, each product at most `cap`.
    pub(super) fn capped_sum(values: &[f32], weights: &[f32], cap: f32) -> f32 {
        let mut parts = [0.0f32; LANES];
        for (values, weights) in values.chunks(LANES).zip(weights.chunks(LANES)) {
            for ((sum, v), w) in parts.iter_mut().zip(values).zip(weights) {
                let v = v * w;
                *sum += if v < cap { v } else { cap };
            }
        }
        parts.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_neighbours_are_sums() {
        let values: Vec<f32> = (0..77).map(|i| ((i * i) % 13) as f32).collect();
        let (mut doubled, mut sums) = (Vec::new(), Vec::new());
        for width in [1usize, 5, 6, 9, 24, 25, 77, 78] {
            running_sums(&values, width, &mut doubled, &mut sums);
            let plain: Vec<f32> = values.windows(width).map(|w| w.iter().sum()).collect();
            assert_eq!(sums, plain, "{width}");
        }
        assert_eq!(sum_of(&values), values.iter().sum::<f32>());
    }

    #[test]
    fn what_stands_above_is_collected_in_order() {
        let values: Vec<f32> = (0..100).map(|i| if i % 37 == 5 { 3.0 } else { 1.0 }).collect();
        let mut places = Vec::new();
        places_above(&values, 2.0, &mut places);
        assert_eq!(places, [5, 42, 79]);
        let (power, density) = ([1.0, 9.0, 9.0], [1.0, 1.0, 2.0]);
        let mut places = Vec::new();
        places_over(&power, &density, 7.0, &mut places);
        assert_eq!(places, [1]);
    }
}
