//! Shapes to pixels, with tiny-skia; letters are outlines of the embedded font.

use super::scene::{Anchor, Colour, Shape};
use anyhow::{Context, Result};
use tiny_skia::{
    FillRule, LineCap, Paint, PathBuilder, Pixmap, PremultipliedColorU8, Rect, Stroke, StrokeDash,
    Transform,
};

static FONT: &[u8] = include_bytes!("../../assets/DejaVuSans-subset.ttf");

/// Renders shapes to a PNG file.
pub(super) fn render<'a>(
    width: f64,
    height: f64,
    shapes: impl Iterator<Item = &'a Shape>,
    zoom: f32,
) -> Result<Vec<u8>> {
    let size = |v: f64| (v as f32 * zoom).round() as u32;
    let mut pixels = Pixmap::new(size(width), size(height)).context("the picture is too large")?;
    let face = ttf_parser::Face::parse(FONT, 0).context("the embedded font is damaged")?;
    let view = Transform::from_scale(zoom, zoom);
    for shape in shapes {
        draw(&mut pixels, &face, view, shape);
    }
    pixels.encode_png().context("the picture cannot be encoded")
}

/// An image of n × m opaque pixels as a PNG file.
///
/// # Errors
/// The picture is empty or too large.
pub fn image(width: u32, height: u32, pixel: impl Fn(u32, u32) -> [u8; 3]) -> Result<Pixmap> {
    let mut pixels = Pixmap::new(width, height).context("the picture is too large")?;
    for (i, p) in pixels.pixels_mut().iter_mut().enumerate() {
        let [r, g, b] = pixel(i as u32 % width, i as u32 / width);
        if let Some(c) = PremultipliedColorU8::from_rgba(r, g, b, 255) {
            *p = c;
        }
    }
    Ok(pixels)
}

fn paint(c: Colour) -> Paint<'static> {
    let mut paint = Paint::default();
    paint.set_color_rgba8(c.0, c.1, c.2, (c.3 * 255.0).round() as u8);
    paint.anti_alias = true;
    paint
}

fn draw(pixels: &mut Pixmap, face: &ttf_parser::Face<'_>, view: Transform, shape: &Shape) {
    match shape {
        Shape::Rect { at, fill } => {
            let [x, y, w, h] = at.map(|v| v as f32);
            if let Some(rect) = Rect::from_xywh(x, y, w, h) {
                pixels.fill_rect(rect, &paint(*fill), view, None);
            }
        }
        Shape::Line { at, colour, width, dashed } => {
            let [a, b, c, d] = at.map(|v| v as f32);
            let mut path = PathBuilder::new();
            path.move_to(a, b);
            path.line_to(c, d);
            let dash = if *dashed { StrokeDash::new(vec![6.0, 4.0], 0.0) } else { None };
            let stroke = Stroke { width: *width as f32, dash, ..Stroke::default() };
            if let Some(path) = path.finish() {
                pixels.stroke_path(&path, &paint(*colour), &stroke, view, None);
            }
        }
        Shape::Area { points, fill } => {
            if let Some(path) = polygon(points, true) {
                pixels.fill_path(&path, &paint(*fill), FillRule::Winding, view, None);
            }
        }
        Shape::Path { points, colour, width } => {
            let stroke =
                Stroke { width: *width as f32, line_cap: LineCap::Round, ..Stroke::default() };
            if let Some(path) = polygon(points, false) {
                pixels.stroke_path(&path, &paint(*colour), &stroke, view, None);
            }
        }
        Shape::Disc { at, fill } => {
            let [x, y, r] = at.map(|v| v as f32);
            if let Some(path) = PathBuilder::from_circle(x, y, r) {
                pixels.fill_path(&path, &paint(*fill), FillRule::Winding, view, None);
            }
        }
        Shape::Text { at, text, size, anchor, colour, upwards } => {
            let scale = *size as f32 / f32::from(face.units_per_em());
            let mut letters = Letters { path: PathBuilder::new(), x: 0.0, scale };
            for c in text.chars() {
                let glyph = face.glyph_index(c).or_else(|| face.glyph_index('?'));
                if let Some(glyph) = glyph {
                    face.outline_glyph(glyph, &mut letters);
                    let advance = face.glyph_hor_advance(glyph).unwrap_or(0);
                    letters.x += f32::from(advance) * scale;
                }
            }
            let shift = match anchor {
                Anchor::Start => 0.0,
                Anchor::Middle => -letters.x / 2.0,
                Anchor::End => -letters.x,
            };
            let (x, y) = (at.0 as f32, at.1 as f32);
            let turn = if *upwards { -90.0 } else { 0.0 };
            let place = Transform::from_translate(shift, 0.0)
                .post_concat(Transform::from_rotate(turn))
                .post_translate(x, y)
                .post_concat(view);
            if let Some(path) = letters.path.finish() {
                pixels.fill_path(&path, &paint(*colour), FillRule::Winding, place, None);
            }
        }
    }
}

fn polygon(points: &[(f64, f64)], close: bool) -> Option<tiny_skia::Path> {
    let mut path = PathBuilder::new();
    for (i, &(x, y)) in points.iter().enumerate() {
        if i == 0 {
            path.move_to(x as f32, y as f32);
        } else {
            path.line_to(x as f32, y as f32);
        }
    }
    if close {
        path.close();
    }
    path.finish()
}

/// Collects glyph outlines; font coordinates point upwards, ours down.
struct Letters {
    path: PathBuilder,
    x: f32,
    scale: f32,
}

impl ttf_parser::OutlineBuilder for Letters {
    fn move_to(&mut self, x: f32, y: f32) {
        self.path.move_to(self.x + x * self.scale, -y * self.scale);
    }
    fn line_to(&mut self, x: f32, y: f32) {
        self.path.line_to(self.x + x * self.scale, -y * self.scale);
    }
    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let s = self.scale;
        self.path.quad_to(self.x + x1 * s, -y1 * s, self.x + x * s, -y * s);
    }
    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let (s, o) = (self.scale, self.x);
        self.path.cubic_to(o + x1 * s, -y1 * s, o + x2 * s, -y2 * s, o + x * s, -y * s);
    }
    fn close(&mut self) {
        self.path.close();
    }
}
