//! A drawing as a list of shapes, written as SVG or rendered to PNG.
//!
//! Coordinates are pixels from the upper left corner. Text uses one embedded font in the PNG and
//! the viewer's sans-serif in the SVG.

use std::fmt::Write;

/// A colour: red, green, blue, and opacity from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Colour(pub u8, pub u8, pub u8, pub f32);

/// Which end of a text its position is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Anchor {
    /// The text starts here.
    Start,
    /// The text is centred here.
    Middle,
    /// The text ends here.
    End,
}

/// One shape.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// A filled rectangle.
    Rect {
        /// Left, top, width, height.
        at: [f64; 4],
        /// Fill.
        fill: Colour,
    },
    /// A straight line.
    Line {
        /// x and y of both ends.
        at: [f64; 4],
        /// Stroke.
        colour: Colour,
        /// Thickness.
        width: f64,
        /// Whether it is dashed.
        dashed: bool,
    },
    /// A polygon, filled.
    Area {
        /// Corners.
        points: Vec<(f64, f64)>,
        /// Fill.
        fill: Colour,
    },
    /// A connected line.
    Path {
        /// Corners.
        points: Vec<(f64, f64)>,
        /// Stroke.
        colour: Colour,
        /// Thickness.
        width: f64,
    },
    /// A filled disc.
    Disc {
        /// Centre and radius.
        at: [f64; 3],
        /// Fill.
        fill: Colour,
    },
    /// Text on a baseline.
    Text {
        /// Position of the anchor on the baseline.
        at: (f64, f64),
        /// The words.
        text: String,
        /// Height of the font.
        size: f64,
        /// Which end the position is.
        anchor: Anchor,
        /// Fill.
        colour: Colour,
        /// Whether it runs upwards.
        upwards: bool,
    },
}

/// A drawing.
#[derive(Debug, Clone)]
pub struct Scene {
    /// Width in pixels.
    pub width: f64,
    /// Height in pixels.
    pub height: f64,
    shapes: Vec<(Shape, String)>,
}

impl Scene {
    /// An empty drawing.
    pub fn new(width: f64, height: f64) -> Self {
        Scene { width, height, shapes: Vec::new() }
    }

    /// Adds a shape.
    pub fn add(&mut self, shape: Shape) {
        self.shapes.push((shape, String::new()));
    }

    /// Adds a shape with attributes for the SVG, such as `class="peak"`.
    pub fn add_with(&mut self, shape: Shape, attributes: String) {
        self.shapes.push((shape, attributes));
    }

    /// Adds text.
    pub fn text(
        &mut self,
        at: (f64, f64),
        text: impl Into<String>,
        size: f64,
        anchor: Anchor,
        colour: Colour,
    ) {
        self.add(Shape::Text { at, text: text.into(), size, anchor, colour, upwards: false });
    }

    /// The drawing as SVG.
    pub fn to_svg(&self, title: &str) -> String {
        let (w, h) = (self.width, self.height);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{h}\" \
             viewBox=\"0 0 {w} {h}\" role=\"img\" font-family=\"DejaVu Sans, Verdana, sans-serif\">\
             \n<title>{}</title>\n",
            escape(title)
        );
        for (shape, attributes) in &self.shapes {
            out += &svg_shape(shape, attributes);
            out.push('\n');
        }
        out + "</svg>\n"
    }

    /// The drawing as PNG, `zoom` pixels per unit.
    ///
    /// # Errors
    /// The picture is too large to be held.
    pub fn to_png(&self, zoom: f32) -> anyhow::Result<Vec<u8>> {
        super::raster::render(self.width, self.height, self.shapes.iter().map(|s| &s.0), zoom)
    }
}

fn paint(kind: &str, c: Colour) -> String {
    let mut s = format!("{kind}=\"#{:02x}{:02x}{:02x}\"", c.0, c.1, c.2);
    if c.3 < 1.0 {
        let _ = write!(s, " {kind}-opacity=\"{}\"", c.3);
    }
    s
}

fn list(points: &[(f64, f64)]) -> String {
    let each: Vec<String> = points.iter().map(|(x, y)| format!("{x:.2},{y:.2}")).collect();
    each.join(" ")
}

fn svg_shape(shape: &Shape, more: &str) -> String {
    let more = if more.is_empty() { String::new() } else { format!(" {more}") };
    match shape {
        Shape::Rect { at: [x, y, w, h], fill } => format!(
            "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{w:.2}\" height=\"{h:.2}\" {}{more}/>",
            paint("fill", *fill)
        ),
        Shape::Line { at: [a, b, c, d], colour, width, dashed } => format!(
            "<line x1=\"{a:.2}\" y1=\"{b:.2}\" x2=\"{c:.2}\" y2=\"{d:.2}\" {} \
             stroke-width=\"{width}\"{}{more}/>",
            paint("stroke", *colour),
            if *dashed { " stroke-dasharray=\"6 4\"" } else { "" }
        ),
        Shape::Area { points, fill } => {
            format!("<polygon points=\"{}\" {}{more}/>", list(points), paint("fill", *fill))
        }
        Shape::Path { points, colour, width } => format!(
            "<polyline points=\"{}\" fill=\"none\" {} stroke-width=\"{width}\"{more}/>",
            list(points),
            paint("stroke", *colour)
        ),
        Shape::Disc { at: [x, y, r], fill } => {
            format!(
                "<circle cx=\"{x:.2}\" cy=\"{y:.2}\" r=\"{r}\" {}{more}/>",
                paint("fill", *fill)
            )
        }
        Shape::Text { at: (x, y), text, size, anchor, colour, upwards } => format!(
            "<text x=\"{x:.2}\" y=\"{y:.2}\" font-size=\"{size}\" text-anchor=\"{}\" {}{}{more}>{}\
             </text>",
            match anchor {
                Anchor::Start => "start",
                Anchor::Middle => "middle",
                Anchor::End => "end",
            },
            paint("fill", *colour),
            if *upwards {
                format!(" transform=\"rotate(-90 {x:.2} {y:.2})\"")
            } else {
                String::new()
            },
            escape(text)
        ),
    }
}

/// Text that is safe inside XML and HTML.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// Ticks at round numbers: multiples of 1, 2 or 5 times a power of ten, about `count` of them
/// between low and high.
pub fn ticks(low: f64, high: f64, count: usize) -> Vec<f64> {
    let rough = (high - low) / count.max(1) as f64;
    if !(rough.is_finite() && rough > 0.0) {
        return vec![low];
    }
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= rough * 0.999);
    let step = step.unwrap_or(10.0 * power);
    let first = (low / step - 1e-9).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    (first..=last).map(|i| i as f64 * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(-0.5, 0.5, 5), [-0.4, -0.2, 0.0, 0.2, 0.4]);
        assert_eq!(ticks(0.0, 100.0, 10).len(), 11);
        assert_eq!(ticks(3.0, 3.0, 4), [3.0]);
        for t in ticks(99.1e6, 100.9e6, 6) {
            assert!((99.1e6..=100.9e6).contains(&t));
        }
    }

    #[test]
    fn names_cannot_break_the_markup() {
        let svg = Scene::new(10.0, 10.0).to_svg("<script>&\"'\u{1b}");
        assert!(svg.contains("&lt;script&gt;&amp;&quot;&#39; "), "{svg}");
    }
}
