//! Curves over logarithmic axes, as SVG.

use std::fmt::Write;

/// A named curve.
pub struct Curve {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// Colours that the colour-blind tell apart (Okabe and Ito).
const COLOURS: [&str; 8] =
    ["#0072b2", "#56b4e9", "#009e73", "#e69f00", "#d55e00", "#cc79a7", "#999999", "#000000"];

const WIDTH: f64 = 820.0;
const HEIGHT: f64 = 460.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;

/// Draws curves of times; points that are not positive numbers are left out.
pub fn draw(title: &str, x_name: &str, y_name: &str, curves: &[Curve]) -> String {
    draw_as(title, x_name, y_name, curves, crate::measure::seconds)
}

/// The same for numbers of any kind.
pub fn draw_as(
    title: &str,
    x_name: &str,
    y_name: &str,
    curves: &[Curve],
    label: fn(f64) -> String,
) -> String {
    let good = |p: &&(f64, f64)| p.0 > 0.0 && p.1 > 0.0 && p.1.is_finite();
    let all = || curves.iter().flat_map(|c| c.points.iter().filter(good));
    let range = |of: fn(&(f64, f64)) -> f64| {
        all().map(of).fold((f64::INFINITY, 0.0f64), |(lo, hi), v| (lo.min(v), hi.max(v)))
    };
    let (x_lo, x_hi) = range(|p| p.0);
    let (y_lo, y_hi) = range(|p| p.1);
    let (y_lo, y_hi) = (10f64.powf(y_lo.log10().floor()), 10f64.powf(y_hi.log10().ceil()));
    let x_at =
        |v: f64| LEFT + (WIDTH - LEFT - RIGHT) * (v / x_lo).ln() / (x_hi / x_lo).ln().max(1e-9);
    let y_at =
        |v: f64| HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (v / y_lo).ln() / (y_hi / y_lo).ln();
    let mut out = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' font-family='sans-serif' font-size='12'>\n<rect width='100%' height='100%' fill='#ffffff'/>\n<text x='{LEFT}' y='22' font-size='15'>{title}</text>\n"
    );
    let mut decade = y_lo;
    while decade <= y_hi * 1.001 {
        let y = y_at(decade);
        let _ = writeln!(
            out,
            "<line x1='{LEFT}' x2='{}' y1='{y:.1}' y2='{y:.1}' stroke='#dddddd'/><text x='{}' y='{:.1}' text-anchor='end'>{}</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            y + 4.0,
            label(decade),
        );
        decade *= 10.0;
    }
    let mut power = x_lo.log2().ceil() as i32;
    let every = if (x_hi / x_lo).log2() > 8.0 { 2 } else { 1 };
    while 2f64.powi(power) <= x_hi * 1.001 {
        let x = x_at(2f64.powi(power));
        let _ = writeln!(
            out,
            "<line x1='{x:.1}' x2='{x:.1}' y1='{TOP}' y2='{}' stroke='#eeeeee'/><text x='{x:.1}' y='{}' text-anchor='middle'>2<tspan dy='-5' font-size='9'>{power}</tspan></text>",
            HEIGHT - BOTTOM,
            HEIGHT - BOTTOM + 18.0,
        );
        power += every;
    }
    let _ = writeln!(
        out,
        "<text x='{}' y='{}' text-anchor='middle'>{x_name}</text><text x='14' y='{}' transform='rotate(-90 14 {})' text-anchor='middle'>{y_name}</text>",
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 10.0,
        HEIGHT / 2.0,
        HEIGHT / 2.0,
    );
    for (i, (curve, colour)) in curves.iter().zip(COLOURS.iter().cycle()).enumerate() {
        let path: Vec<String> = curve
            .points
            .iter()
            .filter(good)
            .map(|(x, y)| format!("{:.1},{:.1}", x_at(*x), y_at(*y)))
            .collect();
        if path.is_empty() {
            continue;
        }
        // Else it would hide the other one.
        let dashes = match curves[..i].iter().any(|other| coincide(other, curve)) {
            true => " stroke-dasharray='7 7'",
            false => "",
        };
        let y = TOP + 18.0 * i as f64 + 8.0;
        let x = WIDTH - RIGHT + 14.0;
        let _ = writeln!(
            out,
            "<polyline points='{}' fill='none' stroke='{colour}' stroke-width='2'{dashes}/><line x1='{x}' x2='{}' y1='{y}' y2='{y}' stroke='{colour}' stroke-width='3'{dashes}/><text x='{}' y='{}'>{}</text>",
            path.join(" "),
            x + 18.0,
            x + 24.0,
            y + 4.0,
            curve.name,
        );
    }
    out + "</svg>\n"
}

/// Whether two curves lie one on the other, as far as both go.
fn coincide(a: &Curve, b: &Curve) -> bool {
    let same = |p: &(f64, f64), q: &(f64, f64)| p.0 == q.0 && (p.1 / q.1).ln().abs() < 0.1;
    let mut both = a.points.iter().zip(&b.points);
    !a.points.is_empty() && !b.points.is_empty() && both.all(|(p, q)| same(p, q))
}
