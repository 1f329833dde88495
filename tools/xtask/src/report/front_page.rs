//! README's chart and its rows: a few cases of one interleaved benchmark, at one commit.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::{summary::Section, tables};

/// Where the chart is.
pub(super) const CHART: &str = "book/src/performance/prefill.svg";
/// The section that the rows are from.
const SECTION: &str = "interleaved-prefill";
/// The cases: gains of every kind, the smallest last.
const CASES: [&str; 6] = [
    "prefill d128 32/8 full 1x16384 ragged",
    "prefill d128 32/8 causal 4x4096 ragged",
    "prefill d128 32/8 causal 4x4096 paged",
    "prefill d128 32/8 causal + soft_cap(cap=30) 1x16384 ragged",
    "prefill d64 32/32 causal 16x1024 ragged",
    "prefill d256 8/8 causal 1x16384 ragged",
];

/// The section and its rows, in the order of [`CASES`].
fn rows(sections: &[Section]) -> Result<(&Section, Vec<&Value>)> {
    let section = sections.iter().find(|section| section.name() == SECTION);
    let section = section.with_context(|| format!("no section `{SECTION}`"))?;
    let row = |name: &&str| section.rows.iter().find(|row| tables::case(row) == *name);
    let rows = CASES.iter().map(|name| row(name).with_context(|| format!("`{SECTION}` has no case `{name}`")));
    Ok((section, rows.collect::<Result<_>>()?))
}

/// The table below the chart.
pub(super) fn table(sections: &[Section]) -> Result<String> {
    let (section, rows) = rows(sections)?;
    Ok(format!("{}\n{}\n", tables::compared(rows, "best baseline"), tables::about(section)))
}

const WIDTH: f64 = 860.0;
const LEFT: f64 = 330.0;
/// Pixels of the best baseline's time.
const UNIT: f64 = 360.0;
const BAR: f64 = 13.0;
const GAP: f64 = 14.0;
const TOP: f64 = 44.0;
/// Runner, its name in the legend, its colour.
const RUNNERS: [(&str, &str, &str); 4] = [
    ("ours", "attn-rs", "#2f6fb0"),
    ("flashinfer-fa3", "FlashInfer fa3", "#8a8a8a"),
    ("fa4", "FlashAttention-4", "#a7a7a7"),
    ("cudnn", "cuDNN", "#c4c4c4"),
];

/// The chart: time of each runner over the best baseline's, a group of bars a case; shorter is faster.
pub(super) fn chart(sections: &[Section]) -> Result<String> {
    let (section, rows) = rows(sections)?;
    let mut body = String::new();
    let mut y = TOP;
    for row in rows {
        let time = |runner: &str| row["us"][runner].as_f64();
        let best = RUNNERS[1..].iter().filter_map(|(runner, ..)| time(runner)).fold(f64::INFINITY, f64::min);
        let bars: Vec<_> = RUNNERS.iter().filter_map(|&(runner, _, colour)| Some((time(runner)?, colour))).collect();
        let height = BAR * bars.len() as f64;
        let name = tables::case(row).trim_start_matches("prefill ");
        let middle = y + height / 2.0 + 4.0;
        writeln!(body, r#"<text x="{:.0}" y="{middle:.1}" text-anchor="end">{name}</text>"#, LEFT - 8.0)?;
        for (at, (us, colour)) in bars.into_iter().enumerate() {
            let (top, length) = (y + BAR * at as f64, us / best * UNIT);
            writeln!(
                body,
                r#"<rect x="{LEFT}" y="{top:.1}" width="{length:.1}" height="{:.0}" fill="{colour}"/>"#,
                BAR - 1.0
            )?;
            let (x, below) = (LEFT + length + 4.0, top + BAR - 3.0);
            writeln!(body, r##"<text x="{x:.1}" y="{below:.1}" font-size="10" fill="#555">{us:.0} us</text>"##)?;
        }
        y += height + GAP;
    }
    let bottom = y;
    let mut axis = String::new();
    for quarter in 0..=4 {
        let x = LEFT + UNIT * f64::from(quarter) / 4.0;
        let colour = if quarter == 4 { "#333" } else { "#ddd" };
        writeln!(axis, r#"<line x1="{x}" y1="{:.0}" x2="{x}" y2="{bottom:.0}" stroke="{colour}"/>"#, TOP - 6.0)?;
        let label = f64::from(quarter) / 4.0;
        writeln!(axis, r#"<text x="{x}" y="{:.0}" text-anchor="middle">{label:.2}</text>"#, bottom + 14.0)?;
    }
    let mut legend = String::new();
    for (at, (_, name, colour)) in RUNNERS.iter().enumerate() {
        let x = LEFT + 130.0 * at as f64;
        writeln!(legend, r#"<rect x="{x}" y="12" width="12" height="12" fill="{colour}"/>"#)?;
        writeln!(legend, r#"<text x="{}" y="22">{name}</text>"#, x + 18.0)?;
    }
    let word = |key: &str| section.about.get(key).and_then(Value::as_str).unwrap_or_default();
    let caption =
        format!("time / best baseline, bf16, {}, commit {}; shorter is faster", word("device"), word("commit"));
    let height = bottom + 44.0;
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" width=\"{WIDTH}\" \
         height=\"{height:.0}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <title>Prefill: {caption}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         {legend}{axis}{body}<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"middle\">{caption}</text>\n</svg>\n",
        LEFT + UNIT / 2.0,
        bottom + 34.0,
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sections() -> Vec<Section> {
        let about = json!({"name": SECTION, "device": "H200", "commit": "abc"}).as_object().expect("an object").clone();
        let row = |name: &&str| json!({"case": name, "us": {"ours": 90.0, "cudnn": 100.0}, "ratio": {"ours": 0.9}});
        vec![Section { about, rows: CASES.iter().map(row).collect() }]
    }

    #[test]
    fn the_chart_has_a_bar_for_each_runner_of_each_case() {
        let chart = chart(&sections()).expect("a chart");
        assert_eq!(chart.matches(r##"fill="#2f6fb0""##).count(), CASES.len() + 1, "{chart}");
        assert!(chart.contains(">100 us<") && chart.contains("commit abc"), "{chart}");
    }

    #[test]
    fn a_case_that_was_not_measured_is_an_error() {
        let mut sections = sections();
        sections[0].rows.pop();
        assert!(table(&sections).is_err() && chart(&sections).is_err());
        assert!(table(&[]).is_err());
    }
}
