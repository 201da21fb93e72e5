//! A small spectrum in braille: 2 × 4 dots per character.

use super::{Style, View};

const ROWS: usize = 8;

/// Draws each peak as a stem over the frequency axis, height in dB, with both axes labelled.
pub(super) fn spectrum(view: &View<'_>, style: Style) -> String {
    let peaks = view.strongest();
    let Some(strongest) = peaks.first() else { return String::new() };
    let top = (view.level(strongest) / 10.0).ceil() * 10.0;
    let weakest = peaks.last().map_or(top, |p| view.level(p));
    let floor = view.level_of(view.spectrum.certificate().detection_limit);
    // The stems stand on the level below which nothing can be seen, if that is near.
    let low = (weakest - 6.0).max(floor.min(weakest - 6.0)).max(top - 200.0);
    let bottom = ((low / 10.0).floor() * 10.0).min(top - 10.0);

    let columns = style.width.min(100) - 10;
    let (dots_x, dots_y) = (2 * columns, 4 * ROWS);
    let mut heights = vec![0usize; dots_x];
    let n = view.spectrum.n();
    for p in &peaks {
        let cycles = p.frequency(n);
        let x = if view.real { cycles * 2.0 } else { cycles + 0.5 };
        let column = ((x * dots_x as f64) as usize).min(dots_x - 1);
        let share = (view.level(p) - bottom) / (top - bottom);
        let height = ((share * dots_y as f64).round() as usize).clamp(1, dots_y);
        heights[column] = heights[column].max(height);
    }
    let mut out = String::new();
    for row in 0..ROWS {
        // Adding zero turns -0 into 0.
        let level = (top - (top - bottom) * row as f64 / ROWS as f64).round() + 0.0;
        let label = if row % 2 == 0 { format!("{level:6.0} dB") } else { " ".repeat(9) };
        let mut line = String::new();
        for c in 0..columns {
            let mut dots = 0u32;
            for (side, bits) in
                [[0x40, 0x04, 0x02, 0x01], [0x80, 0x20, 0x10, 0x08]].iter().enumerate()
            {
                for (up, bit) in bits.iter().enumerate() {
                    let y = (ROWS - 1 - row) * 4 + up;
                    if heights[2 * c + side] > y {
                        dots |= bit;
                    }
                }
            }
            line.push(char::from_u32(0x2800 + dots).unwrap_or(' '));
        }
        out += &format!("{label}│{}\n", style.accent(&line));
    }
    let ends = if view.real { [0.0, 0.25, 0.5] } else { [-0.5, 0.0, 0.5] };
    let [a, b, c] = ends.map(|x| match view.rate {
        Some(_) => crate::units::si(view.axis(x), "Hz", 2),
        None => format!("{x}"),
    });
    let width = |s: &str| s.chars().count();
    let gap = |taken: usize, goal: usize| " ".repeat(goal.saturating_sub(taken).max(1));
    let left = gap(width(&a) + width(&b) / 2, columns / 2);
    let line = format!("{a}{left}{b}");
    let right = gap(width(&line) + width(&c), columns);
    let unit = if view.rate.is_none() { "  cycles per sample" } else { "" };
    out +=
        &format!("{}└{}\n{}{line}{right}{c}", " ".repeat(9), "─".repeat(columns), " ".repeat(10));
    if !unit.is_empty() {
        out += &format!("\n{}{unit}", " ".repeat(10 + columns / 2 - 10));
    }
    out.push('\n');
    out
}
