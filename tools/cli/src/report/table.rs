//! The numbers of the pictures as tables.

use std::fmt::Write as _;

use super::{roofs::Roofs, timed::Timed};
use crate::{output::figure, xml::escaped};

/// The headings, in the order of the cells.
const HEADINGS: [&str; 9] =
    ["", "case: run mode", "us", "GB/s", "TFLOP/s", "FLOP/byte", "floor, us", "floor is of", "floor / time"];

/// A row for each run.
pub(super) fn runs(runs: &[Timed], roofs: &Roofs) -> String {
    let mut html = "<table>\n<caption>Medians of the runs</caption>\n<thead><tr>".to_owned();
    for heading in HEADINGS {
        // writing to a string cannot fail
        let class = if heading.starts_with("case") { " class=\"words\"" } else { "" };
        let _ = write!(html, "<th scope=\"col\"{class}>{heading}</th>");
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for (n, run) in runs.iter().enumerate() {
        let floor = roofs.floor(run);
        let _ = write!(
            html,
            "<tr><td>{}</td><th scope=\"row\">{}<small>{}</small></th>",
            n + 1,
            escaped(&run.title()),
            escaped(&run.ran)
        );
        let us = floor.map(|floor| floor.us);
        for value in [Some(run.us()), Some(run.gbps), Some(run.tflops), run.intensity(), us] {
            html.push_str(&cell(value));
        }
        let by = floor.map_or("", |floor| floor.by);
        let share = us.map_or(String::new(), |us| format!("{:.0} %", 100.0 * us / run.us()));
        let _ = writeln!(html, "<td>{by}</td><td>{share}</td></tr>");
    }
    html + "</tbody>\n</table>\n"
}

/// A number, with all of its digits as the value of its element.
fn cell(value: Option<f64>) -> String {
    value.map_or("<td></td>".to_owned(), |value| {
        format!("<td><data value=\"{value}\">{}</data></td>", figure(Some(value)))
    })
}

/// A row for each run that is not possible, with the reason.
pub(super) fn cannot(cannot: &[(String, String)]) -> String {
    let mut html =
        "<table>\n<caption>Not run</caption>\n<thead><tr><th scope=\"col\" class=\"words\">case: run mode</th>\
         <th scope=\"col\" class=\"words\">why</th></tr></thead>\n<tbody>\n"
            .to_owned();
    for (title, why) in cannot {
        let _ = writeln!(
            html,
            "<tr><th scope=\"row\">{}</th><td class=\"words\">{}</td></tr>",
            escaped(title),
            escaped(why)
        );
    }
    html + "</tbody>\n</table>\n"
}
