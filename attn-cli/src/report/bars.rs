//! A bar for each run: its time, and in it the floor.

use std::fmt::Write as _;

use attn_testing::RunMode;

use super::{roofs::Roofs, timed::Timed};
use crate::{output::figure, xml::escaped};

const WIDTH: f64 = 760.0;
/// The height of a run: a line of text and a bar.
const ROW: f64 = 33.0;
const BAR: f64 = 12.0;
/// Space between cases.
const GAP: f64 = 8.0;
/// The most characters of a name beside the times.
const NAME: usize = 80;
/// All bars have one scale if the longest is at most this many times the shortest.
const ONE_SCALE: f64 = 25.0;

/// Bars as SVG, with classes of the page's style. A run's number is its row in the table.
pub(super) fn svg(runs: &[Timed], roofs: &Roofs) -> String {
    let cases: Vec<&[Timed]> = runs.chunk_by(|run, next| run.case == next.case && next.mode != RunMode::AsIs).collect();
    let height = ROW * runs.len() as f64 + GAP * cases.len() as f64;
    // writing to a string cannot fail
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-labelledby=\"bars-title bars-desc\">\n\
         <title id=\"bars-title\">Time of each run</title>\n\
         <desc id=\"bars-desc\">A bar for each of {} runs, as long as its median time; the dark part is its floor. \
         The table has the numbers.</desc>\n",
        runs.len(),
    );
    let (mut y, mut number) = (0.0, 0);
    for case in cases {
        let scale = WIDTH / longest(if has_one_scale(runs) { runs } else { case });
        for run in case {
            number += 1;
            bar(&mut svg, run, roofs, number, y, scale);
            y += ROW;
        }
        y += GAP;
    }
    svg + "</svg>\n"
}

/// Whether all bars have one scale. Otherwise those of a case have.
pub(super) fn has_one_scale(runs: &[Timed]) -> bool {
    let shortest = runs.iter().map(Timed::us).fold(f64::INFINITY, f64::min);
    longest(runs) <= ONE_SCALE * shortest
}

/// The time of the longest bar, above 0.
fn longest(runs: &[Timed]) -> f64 {
    runs.iter().map(Timed::us).fold(f64::MIN_POSITIVE, f64::max)
}

fn bar(svg: &mut String, run: &Timed, roofs: &Roofs, number: usize, y: f64, scale: f64) {
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
    let (base, top, time) = (y + 13.0, y + 18.0, run.us() * scale);
    let class = if run.mode == RunMode::AsIs { "time" } else { "time mode" };
    let _ = writeln!(
        svg,
        "<g><title>{number}. {}: {times}</title>\
         <text x=\"0\" y=\"{base}\"><tspan class=\"number\">{number}</tspan> {}</text>\
         <text x=\"{WIDTH}\" y=\"{base}\" text-anchor=\"end\">{times}</text>\
         <rect class=\"{class}\" x=\"0\" y=\"{top}\" width=\"{time:.1}\" height=\"{BAR}\"/>",
        escaped(&title),
        escaped(&name),
    );
    if let Some(floor) = floor {
        let inside = (floor.us * scale).min(time);
        let _ = writeln!(
            svg,
            "<rect class=\"floor\" x=\"0\" y=\"{top}\" width=\"{inside:.1}\" height=\"{BAR}\"/>\
             <path class=\"floor-end\" d=\"M{:.1} {}v{}\"/>",
            (floor.us * scale).clamp(1.0, WIDTH - 1.0),
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
    fn bars_have_one_scale_unless_some_would_not_be_seen() {
        let near = [run("a", 10.0, 1.0, 1.0), run("b", 40.0, 1.0, 1.0)];
        assert_eq!(widths(&near), ["190.0", "760.0"]);
        let far = [
            run("a", 1.0, 1.0, 1.0),
            Timed { mode: RunMode::Flat, ..run("a", 2.0, 1.0, 1.0) },
            run("b", 1000.0, 1.0, 1.0),
        ];
        assert_eq!(widths(&far), ["380.0", "760.0", "760.0"]);
    }

    #[test]
    fn without_roofs_there_are_no_floors() {
        let svg = svg(&[run("x".repeat(200).as_str(), 3.0, 1.0, 1.0)], &Roofs::of(None));
        assert!(!svg.contains("floor ") && !svg.contains("class=\"floor"), "{svg}");
        assert!(svg.contains(&format!("{}…</text>", "x".repeat(NAME))), "{svg}");
    }
}
