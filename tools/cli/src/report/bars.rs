//! A bar for each run: its time, and in it the floor.

use std::fmt::Write as _;

use attn_testing::RunMode;

use super::axis::{LogAxis, power_of_ten};
use super::roofs::Roofs;
use super::timed::Timed;
use crate::{output::figure, xml::escaped};

const WIDTH: f64 = 760.0;
/// The height of a run: a line of text and a bar.
const ROW: f64 = 33.0;
const BAR: f64 = 12.0;
/// Space between cases.
const GAP: f64 = 8.0;
/// The most characters of a name beside the times.
const NAME: usize = 80;
/// The height of the labels of a logarithmic axis.
const TICKS: f64 = 18.0;
/// The axis is linear if the longest bar is at most this many times the shortest.
const LINEAR: f64 = 25.0;

/// How times become widths.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scale {
    /// Pixels a microsecond, from 0.
    Linear(f64),
    /// Where the shortest bar would not be seen otherwise.
    Log(LogAxis),
}

impl Scale {
    pub(super) fn of(runs: &[Timed], roofs: &Roofs) -> Self {
        let times = || runs.iter().map(Timed::us);
        let (shortest, longest) = (times().fold(f64::INFINITY, f64::min), times().fold(f64::MIN_POSITIVE, f64::max));
        if longest <= LINEAR * shortest {
            return Scale::Linear(WIDTH / longest);
        }
        let floors = runs.iter().filter_map(|run| roofs.floor(run)).map(|floor| floor.us);
        // half of it, so that the shortest bar has a width
        let low = floors.fold(shortest, f64::min) / 2.0;
        Scale::Log(LogAxis::around([low, longest], (0.0, WIDTH)))
    }

    fn at(&self, us: f64) -> f64 {
        match self {
            Scale::Linear(pixels) => (us * pixels).min(WIDTH),
            Scale::Log(axis) => axis.at(us),
        }
    }
}

/// Bars as SVG, with classes of the page's style. A run's number is its row in the table.
pub(super) fn svg(runs: &[Timed], roofs: &Roofs) -> String {
    let scale = Scale::of(runs, roofs);
    let cases = runs.chunk_by(|run, next| run.case == next.case && next.mode != RunMode::AsIs);
    let top = if matches!(scale, Scale::Log(_)) { TICKS } else { 0.0 };
    let height = top + ROW * runs.len() as f64 + GAP * cases.clone().count() as f64;
    // writing to a string cannot fail
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-labelledby=\"bars-title bars-desc\">\n\
         <title id=\"bars-title\">Time of each run</title>\n\
         <desc id=\"bars-desc\">A bar for each of {} runs, as long as its median time; the part up to the mark is its \
         floor. The table has the numbers.</desc>\n",
        runs.len(),
    );
    if let Scale::Log(axis) = scale {
        ticks(&mut svg, &axis, height);
    }
    let (mut y, mut number) = (top, 0);
    for case in cases {
        for run in case {
            number += 1;
            bar(&mut svg, run, roofs, number, y, &scale);
            y += ROW;
        }
        y += GAP;
    }
    svg + "</svg>\n"
}

/// The lines of decades, with labels at the top.
fn ticks(svg: &mut String, axis: &LogAxis, height: f64) {
    let decades = axis.decades();
    let (first, last) = (*decades.start(), *decades.end());
    for exponent in decades {
        let x = axis.at(10f64.powi(exponent));
        let anchor = match exponent {
            _ if exponent == first => "start",
            _ if exponent == last => "end",
            _ => "middle",
        };
        let _ = writeln!(
            svg,
            "<path class=\"grid\" d=\"M{x:.1} {TICKS}V{height}\"/><text class=\"tick\" x=\"{x:.1}\" y=\"12\" \
             text-anchor=\"{anchor}\">{} us</text>",
            power_of_ten(exponent)
        );
    }
}

fn bar(svg: &mut String, run: &Timed, roofs: &Roofs, number: usize, y: f64, scale: &Scale) {
    let floor = roofs.floor(run);
    let mut times = format!("{} us", figure(Some(run.us())));
    if let Some(floor) = floor {
        let _ = write!(times, ", floor {} us ({:.0} %)", figure(Some(floor.us)), 100.0 * floor.us / run.us());
    }
    let title = run.title();
    let mut name: String = title.chars().take(NAME).collect();
    if name.len() < title.len() {
        name.push('…');
    }
    let (base, top, time) = (y + 13.0, y + 18.0, scale.at(run.us()));
    let class = if run.mode == RunMode::AsIs { "time" } else { "time mode" };
    let _ = writeln!(
        svg,
        "<g><title>{number}. {}: {times}</title>\
         <text class=\"name\" x=\"0\" y=\"{base}\"><tspan class=\"number\">{number}</tspan> {}</text>\
         <text class=\"name\" x=\"{WIDTH}\" y=\"{base}\" text-anchor=\"end\">{times}</text>\
         <rect class=\"{class}\" x=\"0\" y=\"{top}\" width=\"{time:.1}\" height=\"{BAR}\"/>",
        escaped(&title),
        escaped(&name),
    );
    if let Some(floor) = floor {
        let end = scale.at(floor.us);
        let _ = writeln!(
            svg,
            "<rect class=\"floor\" x=\"0\" y=\"{top}\" width=\"{:.1}\" height=\"{BAR}\"/>\
             <path class=\"floor-end\" d=\"M{:.1} {}v{}\"/>",
            end.min(time),
            end.clamp(1.0, WIDTH - 1.0),
            top - 2.0,
            BAR + 4.0,
        );
    }
    svg.push_str("</g>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{h200, run, runs};

    #[test]
    fn bars_hold_their_floors() {
        insta::assert_snapshot!(svg(&runs(), &h200()));
    }

    /// The widths of the bars of times.
    fn widths(runs: &[Timed]) -> Vec<String> {
        let svg = svg(runs, &Roofs::of(None));
        let bars = svg.split("<rect class=\"time").skip(1);
        bars.map(|bar| {
            bar.split("width=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a width").to_owned()
        })
        .collect()
    }

    #[test]
    fn the_axis_is_linear_unless_some_bars_would_not_be_seen() {
        let near = [run("a", 10.0, 1.0, 1.0), run("b", 40.0, 1.0, 1.0)];
        assert_eq!(widths(&near), ["190.0", "760.0"]);
        let far = [run("a", 10.0, 1.0, 1.0), run("b", 10_000.0, 1.0, 1.0)];
        assert_eq!(widths(&far), ["190.0", "760.0"], "of four decades, the first of which begins at 1 us");
        let svg = svg(&far, &Roofs::of(None));
        assert!([">1 us<", ">10000 us<"].iter().all(|label| svg.contains(label)), "{svg}");
    }

    #[test]
    fn without_roofs_there_are_no_floors() {
        let svg = svg(&[run("x".repeat(200).as_str(), 3.0, 1.0, 1.0)], &Roofs::of(None));
        assert!(!svg.contains("floor ") && !svg.contains("class=\"floor"), "{svg}");
        assert!(svg.contains(&format!("{}…</text>", "x".repeat(NAME))), "{svg}");
    }
}
