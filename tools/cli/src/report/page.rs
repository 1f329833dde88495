//! The page: what ran where, the pictures, the tables. It loads nothing, and is well-formed XML.

use std::fmt::Write as _;

use super::{about::About, bars, roofline, roofs::Roofs, table, timed::Timed};
use crate::xml::escaped;

/// The style of the page and of the pictures, in two colour schemes.
const STYLE: &str = include_str!("page.css");

/// The page as HTML.
pub(super) fn html(about: &About, roofs: &Roofs, runs: &[Timed], cannot: &[(String, String)]) -> String {
    let device = escaped(&about.device);
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <title>attn bench: {device}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <h1>attn bench: {device}</h1>\n<dl>\n"
    );
    for (what, text) in about.lines() {
        // writing to a string cannot fail
        let _ = writeln!(html, "<dt>{what}</dt><dd>{}</dd>", escaped(&text));
    }
    html.push_str("</dl>\n");
    if !runs.is_empty() {
        section(&mut html, "Roofline", &roofline_notes(roofs, runs), &roofline::svg(runs, roofs));
        section(&mut html, "Time", &time_notes(roofs, runs), &bars::svg(runs, roofs));
        section(&mut html, "Numbers", &[], &scrolled("Numbers of the runs", &table::runs(runs, roofs)));
    }
    if !cannot.is_empty() {
        section(&mut html, "Not run", &[], &scrolled("Runs that are not possible", &table::cannot(cannot)));
    }
    html + "</main>\n</body>\n</html>\n"
}

fn section(html: &mut String, heading: &str, notes: &[String], content: &str) {
    let _ = writeln!(html, "<section>\n<h2>{heading}</h2>");
    if !notes.is_empty() {
        html.push_str("<ul>\n");
        for note in notes {
            let _ = writeln!(html, "<li>{}</li>", escaped(note));
        }
        html.push_str("</ul>\n");
    }
    let _ = writeln!(html, "{content}</section>");
}

/// A table that is wider than the page scrolls in its own region.
fn scrolled(name: &str, table: &str) -> String {
    format!("<div class=\"scrolled\" role=\"region\" aria-label=\"{name}\" tabindex=\"0\">\n{table}</div>\n")
}

fn roofline_notes(roofs: &Roofs, runs: &[Timed]) -> Vec<String> {
    let mut notes = roofs.sentences.clone();
    if roofs.memory.is_some() || roofs.compute.is_some() {
        notes.push("Clocks are the highest ones of the driver; a device under load may run below them.".to_owned());
    }
    if roofs.compute.is_some() {
        notes.push("Kernels on CUDA cores and cases over f32 have lower rates.".to_owned());
    }
    if roofs.e4m3.is_some() && runs.iter().any(|run| run.e4m3) {
        notes.push("MMAs of e4m3 have twice the rate of 16 bits.".to_owned());
    }
    notes.push("Numbers are rows of the table; rings are further run modes of a case.".to_owned());
    notes.push(
        "FLOPs are those of attended pairs. Bytes are those of K and V, once each; keys that a mask hides count as \
         well, those that no list names do not."
            .to_owned(),
    );
    let missing = runs.iter().filter(|run| run.intensity().is_none()).count();
    if missing > 0 {
        notes.push(format!("{missing} of {} runs have no bytes or no FLOPs, and no point.", runs.len()));
    }
    notes
}

fn time_notes(roofs: &Roofs, runs: &[Timed]) -> Vec<String> {
    let axis = match bars::Scale::of(runs, roofs) {
        bars::Scale::Linear(_) => "The axis begins at 0.",
        bars::Scale::Log(_) => "The axis is logarithmic: equal distances are equal ratios.",
    };
    let mut notes = vec![format!("{axis} Grey bars are further run modes of a case.")];
    if roofs.memory.is_some() || roofs.compute.is_some() {
        notes.push(
            "The part up to the mark is the floor: the time that the bytes or the FLOPs alone need under the roofs \
             that are known, whichever is longer."
                .to_owned(),
        );
    }
    if runs.iter().any(|run| roofs.floor(run).is_some_and(|floor| floor.us > run.us())) {
        notes.push(
            "A floor of more than 100 % is of a kernel that skips tiles of hidden keys, whose bytes count in it."
                .to_owned(),
        );
    }
    notes
}
