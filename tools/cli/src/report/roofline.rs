//! The roofline: a point for each run, arithmetic intensity against operations a second, under the roofs of the device.

use std::fmt::Write as _;

use attn_testing::RunMode;

use super::axis::{LogAxis, power_of_ten};
use super::roofs::Roofs;
use super::timed::Timed;
use crate::{output::figure, xml::escaped};

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 450.0;
/// The plot.
const LEFT: f64 = 64.0;
const RIGHT: f64 = 736.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 392.0;

/// The axes of the plot.
struct Plot {
    x: LogAxis,
    y: LogAxis,
}

/// The roofline as SVG, with classes of the page's style. A run's number is its row in the table.
pub(super) fn svg(runs: &[Timed], roofs: &Roofs) -> String {
    let points: Vec<(usize, &Timed, f64)> =
        runs.iter().enumerate().filter_map(|(n, run)| Some((n + 1, run, run.intensity()?))).collect();
    let rates: Vec<(f64, &str)> = rates(runs, roofs);
    let plot = Plot::around(&points, roofs, &rates);
    // writing to a string cannot fail
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-labelledby=\"roofline-title roofline-desc\">\n\
         <title id=\"roofline-title\">Roofline</title>\n\
         <desc id=\"roofline-desc\">{} of {} runs as points: FLOP a byte of K and V against TFLOP/s, both axes \
         logarithmic. {} The table has the numbers.</desc>\n",
        points.len(),
        runs.len(),
        escaped(&roofs.sentences.join(" ")),
    );
    grid(&mut svg, &plot);
    lines(&mut svg, &plot, roofs, &rates);
    let mut labels = Labels::default();
    let placed = points.iter().map(|(_, run, intensity)| (plot.x.at(*intensity), plot.y.at(run.tflops)));
    labels.taken.extend(placed.map(|(x, y)| [x - 4.0, y - 4.0, x + 4.0, y + 4.0]));
    for (number, run, intensity) in points {
        let (x, y) = (plot.x.at(intensity), plot.y.at(run.tflops));
        let class = if run.mode == RunMode::AsIs { "point" } else { "point mode" };
        let _ = write!(
            svg,
            "<g><title>{number}. {}: {} FLOP/byte, {} TFLOP/s</title><circle class=\"{class}\" cx=\"{x:.1}\" \
             cy=\"{y:.1}\" r=\"4\"/>",
            escaped(&run.title()),
            figure(Some(intensity)),
            figure(Some(run.tflops)),
        );
        let text = number.to_string();
        if let Some((left, base)) = labels.position(x, y, &text) {
            let _ = write!(svg, "<text class=\"number\" x=\"{left:.1}\" y=\"{base:.1}\">{text}</text>");
        }
        svg.push_str("</g>\n");
    }
    svg + "</svg>\n"
}

/// The compute roofs of these runs.
fn rates(runs: &[Timed], roofs: &Roofs) -> Vec<(f64, &'static str)> {
    let exact = roofs.compute.map(|rate| (rate, "compute"));
    let e4m3 = roofs.e4m3.filter(|_| runs.iter().any(|run| run.e4m3)).map(|rate| (rate, "compute, e4m3"));
    exact.into_iter().chain(e4m3).collect()
}

impl Plot {
    fn around(points: &[(usize, &Timed, f64)], roofs: &Roofs, rates: &[(f64, &str)]) -> Self {
        let intensities = || points.iter().map(|(_, _, intensity)| *intensity);
        let ridges = roofs.memory.into_iter().flat_map(|gbps| rates.iter().map(move |(rate, _)| rate * 1e3 / gbps));
        let x = LogAxis::around(intensities().chain(ridges), (LEFT, RIGHT));
        // without a compute roof the memory roof goes on to the last point
        let memory = roofs.memory.filter(|_| rates.is_empty()).zip(intensities().reduce(f64::max));
        let tops = rates.iter().map(|(rate, _)| *rate).chain(memory.map(|(gbps, most)| gbps * most / 1e3));
        let y = LogAxis::around(points.iter().map(|(_, run, _)| run.tflops).chain(tops), (BOTTOM, TOP));
        Plot { x, y }
    }
}

/// The lines of decades, their labels, and the names of the axes.
fn grid(svg: &mut String, plot: &Plot) {
    for exponent in plot.x.decades() {
        let x = plot.x.at(10f64.powi(exponent));
        let label = power_of_ten(exponent);
        let _ = writeln!(
            svg,
            "<path class=\"grid\" d=\"M{x:.1} {TOP}V{BOTTOM}\"/><text class=\"tick\" x=\"{x:.1}\" y=\"{}\" \
             text-anchor=\"middle\">{label}</text>",
            BOTTOM + 17.0
        );
    }
    for exponent in plot.y.decades() {
        let y = plot.y.at(10f64.powi(exponent));
        let label = power_of_ten(exponent);
        let _ = writeln!(
            svg,
            "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/><text class=\"tick\" x=\"{}\" y=\"{:.1}\" \
             text-anchor=\"end\">{label}</text>",
            LEFT - 6.0,
            y + 4.0
        );
    }
    let (middle, center) = ((LEFT + RIGHT) / 2.0, (TOP + BOTTOM) / 2.0);
    let _ = writeln!(
        svg,
        "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">FLOP a byte of K and V</text>\n\
         <text x=\"14\" y=\"{center}\" text-anchor=\"middle\" transform=\"rotate(-90 14 {center})\">TFLOP/s</text>",
        BOTTOM + 42.0
    );
}

/// The memory roof up to the highest compute roof, and each compute roof from there on.
fn lines(svg: &mut String, plot: &Plot, roofs: &Roofs, rates: &[(f64, &str)]) {
    let ((x_low, x_high), (y_low, y_high)) = (plot.x.ends(), plot.y.ends());
    if let Some(gbps) = roofs.memory {
        let top = rates.iter().map(|(rate, _)| *rate).reduce(f64::max).unwrap_or(y_high);
        let from = x_low.max(y_low * 1e3 / gbps);
        let to = (top * 1e3 / gbps).min(x_high);
        let rate = |intensity: f64| plot.y.at(intensity * gbps / 1e3);
        let (x0, y0, x1, y1) = (plot.x.at(from), rate(from), plot.x.at(to), rate(to));
        let angle = (y1 - y0).atan2(x1 - x0).to_degrees();
        let (x, y) = (x0 + 0.3 * (x1 - x0), y0 + 0.3 * (y1 - y0));
        let _ = writeln!(
            svg,
            "<path class=\"roof\" d=\"M{x0:.1} {y0:.1}L{x1:.1} {y1:.1}\"/>\
             <text class=\"roof-name\" transform=\"translate({x:.1} {y:.1}) rotate({angle:.1})\" y=\"-7\">memory, {} \
             GB/s</text>",
            figure(Some(gbps))
        );
    }
    for (rate, name) in rates {
        let ridge = roofs.memory.map_or(x_low, |gbps| rate * 1e3 / gbps);
        let (x, y) = (plot.x.at(ridge), plot.y.at(*rate));
        let _ = writeln!(
            svg,
            "<path class=\"roof\" d=\"M{x:.1} {y:.1}H{RIGHT}\"/><text class=\"roof-name\" x=\"{}\" y=\"{:.1}\" \
             text-anchor=\"end\">{name}, {} TFLOP/s</text>",
            RIGHT - 4.0,
            // above the line if the plot goes on there
            if y - TOP > 18.0 { y - 6.0 } else { y + 15.0 },
            figure(Some(*rate))
        );
    }
}

/// Numbers beside points, which cover neither points nor each other. A number without space is left out; the point's
/// title has it.
#[derive(Default)]
struct Labels {
    /// Boxes: left, top, right, bottom.
    taken: Vec<[f64; 4]>,
}

impl Labels {
    /// The left end and the baseline of a number.
    fn position(&mut self, x: f64, y: f64, text: &str) -> Option<(f64, f64)> {
        let wide = 6.5 * text.len() as f64;
        for (left, base) in
            [(x + 6.0, y + 4.0), (x - 6.0 - wide, y + 4.0), (x - wide / 2.0, y - 7.0), (x - wide / 2.0, y + 15.0)]
        {
            let [this_left, top, right, bottom] = [left, base - 9.0, left + wide, base];
            let inside = this_left >= LEFT && right <= RIGHT && top >= TOP && bottom <= BOTTOM;
            let free =
                |other: &[f64; 4]| right <= other[0] || this_left >= other[2] || bottom <= other[1] || top >= other[3];
            if inside && self.taken.iter().all(free) {
                self.taken.push([this_left, top, right, bottom]);
                return Some((left, base));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{h200, run, runs};

    #[test]
    fn points_lie_under_the_roofs_of_a_gpu() {
        insta::assert_snapshot!(svg(&runs(), &h200()));
    }

    #[test]
    fn a_run_without_bytes_or_operations_has_no_point() {
        let none = svg(&[run("empty", 1.0, 0.0, 0.0), run("no keys", 1.0, 5.0, 0.0)], &Roofs::of(None));
        assert!(
            !none.contains("<circle") && none.contains("0 of 2 runs") && !none.contains("class=\"roof\""),
            "{none}"
        );
        assert!(!none.contains("NaN") && !none.contains("inf"), "{none}");
    }

    #[test]
    fn numbers_cover_nothing() {
        let mut labels = Labels::default();
        let boxes: Vec<_> = (0..5).filter_map(|_| labels.position(200.0, 200.0, "12")).collect();
        assert_eq!(boxes.len(), 4, "four sides of a point");
        assert_eq!(labels.position(RIGHT, 200.0, "12").map(|(left, _)| left < RIGHT - 13.0), Some(true), "inside");
    }
}
