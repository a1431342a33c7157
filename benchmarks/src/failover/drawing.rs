//! A chart as SVG: axes with round numbers, and data in its own units.

use std::fmt::Write;

/// The width and height of a chart.
const SIZE: (f64, f64) = (960.0, 420.0);
/// The margins left of, above, right of and below the data.
const MARGINS: (f64, f64, f64, f64) = (78.0, 44.0, 210.0, 54.0);
/// The approximate number of ticks on an axis.
const TICKS: f64 = 8.0;
/// The colour of measured data.
pub(super) const BLUE: &str = "#2563a8";
/// The colour of targets.
pub(super) const GREY: &str = "#8a8f98";
const FONT: &str = "font-family=\"Helvetica, Arial, sans-serif\"";

/// A chart that is being drawn.
pub(super) struct ChartCanvas {
    body: String,
    x: (f64, f64),
    y: (f64, f64),
    notes: usize,
}

/// Returns round numbers within `from..=to`, and the distance between them.
fn ticks((from, to): (f64, f64)) -> (f64, Vec<f64>) {
    let rough = ((to - from) / TICKS).max(1e-9);
    let power = 10f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    let step = steps
        .into_iter()
        .find(|step| *step >= rough)
        .unwrap_or(power);
    let first = (from / step).ceil() as i64;
    let last = (to / step + 1e-9).floor() as i64;
    (
        step,
        (first..=last).map(|tick| tick as f64 * step).collect(),
    )
}

/// Formats a number for readers.
fn number(value: f64, step: f64) -> String {
    if step < 1.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    let negative = value < 0.0 && digits != "0";
    if negative { format!("−{text}") } else { text }
}

/// Escapes XML markup in a text.
fn plain(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

impl ChartCanvas {
    /// Creates an empty chart with these axes.
    pub fn new(
        title: &str,
        (x_label, x): (&str, (f64, f64)),
        (y_label, y): (&str, (f64, f64)),
    ) -> ChartCanvas {
        let mut drawing = ChartCanvas {
            body: String::new(),
            x,
            y,
            notes: 0,
        };
        let (left, right) = (drawing.across(x.0), drawing.across(x.1));
        let (low, high) = (drawing.up(y.0), drawing.up(y.1));
        drawing.text((left, high - 20.0), "start", (15, "#111"), title);
        let (step, marks) = ticks(y);
        for mark in marks {
            let at = drawing.up(mark);
            drawing.line((left, at), (right, at), "#e3e5e8", 1.0);
            let name = number(mark, step);
            drawing.text((left - 8.0, at + 4.0), "end", (12, "#444"), &name);
        }
        let (step, marks) = ticks(x);
        for mark in marks {
            let at = drawing.across(mark);
            drawing.line((at, low), (at, low + 5.0), "#444", 1.0);
            let name = number(mark, step);
            drawing.text((at, low + 19.0), "middle", (12, "#444"), &name);
        }
        drawing.line((left, low), (right, low), "#444", 1.0);
        drawing.line((left, low), (left, high), "#444", 1.0);
        let middle = (left + right) / 2.0;
        drawing.text((middle, low + 42.0), "middle", (13, "#111"), x_label);
        let (at, middle) = (18.0, (low + high) / 2.0);
        let turned = format!("transform=\"rotate(-90 {at} {middle})\"");
        let _ = writeln!(
            drawing.body,
            "<text x=\"{at}\" y=\"{middle}\" {turned} text-anchor=\"middle\" font-size=\"13\" \
             fill=\"#111\">{}</text>",
            plain(y_label)
        );
        drawing
    }

    fn across(&self, x: f64) -> f64 {
        let (from, to) = self.x;
        let width = SIZE.0 - MARGINS.0 - MARGINS.2;
        MARGINS.0 + (x.clamp(from, to) - from) / (to - from).max(1e-9) * width
    }

    fn up(&self, y: f64) -> f64 {
        let (from, to) = self.y;
        let height = SIZE.1 - MARGINS.1 - MARGINS.3;
        SIZE.1 - MARGINS.3 - (y.clamp(from, to) - from) / (to - from).max(1e-9) * height
    }

    // Writing into a string does not fail.
    fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str, width: f64) {
        let ((x1, y1), (x2, y2)) = (from, to);
        let _ = writeln!(
            self.body,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" \
             stroke=\"{colour}\" stroke-width=\"{width}\"/>"
        );
    }

    fn text(&mut self, (x, y): (f64, f64), anchor: &str, (size, colour): (u8, &str), text: &str) {
        let _ = writeln!(
            self.body,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{size}\" \
             fill=\"{colour}\">{}</text>",
            plain(text)
        );
    }

    /// Draws one value for each interval of `width` on the horizontal axis, from `from` on.
    pub fn steps(&mut self, from: f64, width: f64, values: &[f64]) {
        let mut line = String::new();
        let low = self.up(self.y.0);
        let mut end = self.across(from);
        let _ = write!(line, "{end:.1},{low:.1}");
        for (at, value) in values.iter().enumerate() {
            let begin = self.across(from + at as f64 * width);
            end = self.across(from + (at + 1) as f64 * width);
            let y = self.up(*value);
            let _ = write!(line, " {begin:.1},{y:.1} {end:.1},{y:.1}");
        }
        let _ = write!(line, " {end:.1},{low:.1}");
        let _ = writeln!(
            self.body,
            "<polyline points=\"{line}\" fill=\"{BLUE}\" fill-opacity=\"0.18\" stroke=\"{BLUE}\" \
             stroke-width=\"1.1\" stroke-linejoin=\"round\"/>"
        );
    }

    /// Draws a line through points.
    pub fn curve(&mut self, points: &[(f64, f64)]) {
        let points = points.iter();
        let points = points.map(|(x, y)| format!("{:.1},{:.1}", self.across(*x), self.up(*y)));
        let points: Vec<String> = points.collect();
        let _ = writeln!(
            self.body,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{BLUE}\" stroke-width=\"2\"/>",
            points.join(" ")
        );
    }

    /// Draws a horizontal line with a label.
    pub fn level(&mut self, y: f64, words: &str) {
        let (at, left, right) = (self.up(y), self.across(self.x.0), self.across(self.x.1));
        let _ = writeln!(
            self.body,
            "<line x1=\"{left:.1}\" y1=\"{at:.1}\" x2=\"{right:.1}\" y2=\"{at:.1}\" \
             stroke=\"{GREY}\" stroke-dasharray=\"5 4\"/>"
        );
        self.text((right - 4.0, at - 5.0), "end", (11, GREY), words);
    }

    /// Draws a vertical line, if it is in range, and adds its label beside the chart.
    pub fn mark(&mut self, x: f64, colour: &str, words: &str) {
        if (self.x.0..=self.x.1).contains(&x) {
            let (at, low, high) = (self.across(x), self.up(self.y.0), self.up(self.y.1));
            self.line((at, low), (at, high), colour, 1.4);
        }
        self.note(colour, words);
    }

    /// Adds a line of the legend beside the chart.
    pub fn note(&mut self, colour: &str, words: &str) {
        let y = MARGINS.1 + 6.0 + 19.0 * self.notes as f64;
        let x = SIZE.0 - MARGINS.2 + 18.0;
        self.line((x, y), (x + 14.0, y), colour, 3.0);
        self.text((x + 21.0, y + 4.0), "start", (12, "#111"), words);
        self.notes += 1;
    }

    /// Returns the chart as SVG.
    pub fn svg(&self) -> String {
        let (width, height) = SIZE;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" {FONT}>\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n{}</svg>\n",
            self.body
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_numbers() {
        assert_eq!(ticks((0.0, 8.0)), (1.0, (0..=8).map(f64::from).collect()));
        let (step, marks) = ticks((-50.0, 310.0));
        assert_eq!(
            (step, marks[0], marks[marks.len() - 1]),
            (50.0, -50.0, 300.0)
        );
        let (step, marks) = ticks((0.0, 1.0));
        assert_eq!((step, marks.len()), (0.2, 6));
        // An empty range must not loop for ever.
        assert_eq!(ticks((0.0, 0.0)).1, [0.0]);
    }

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(number(1_234_567.0, 1000.0), "1,234,567");
        assert_eq!(number(-50.0, 50.0), "−50");
        assert_eq!(number(-0.2, 1.0), "0");
        assert_eq!(number(0.4, 0.2), "0.4");
    }

    #[test]
    fn values_outside_are_drawn_at_edge() {
        let mut drawing = ChartCanvas::new("a < b", ("x", (0.0, 10.0)), ("y", (0.0, 1.0)));
        drawing.steps(0.0, 5.0, &[0.5, 9.0, 0.5]);
        drawing.mark(99.0, BLUE, "later & elsewhere");
        let svg = drawing.svg();
        assert!(svg.contains("a &lt; b") && svg.contains("later &amp; elsewhere"));
        let right = format!("{:.1},", SIZE.0 - MARGINS.2);
        assert!(svg.contains(&right), "{svg}");
        assert_eq!(svg.matches("<svg").count(), svg.matches("</svg>").count());
    }
}
