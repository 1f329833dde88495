//! The tables of the paper on a model, as `benches/generate/src/bin/paper_tables.rs` wrote them: two sides a row.

use std::fmt::Write as _;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::summary::Section;
use super::tables::{about, case};

/// A table with a heading for each run of rows of one table, in sections of the page `model`.
pub(super) fn tables(sections: &[Section]) -> Result<String> {
    let mut out = String::new();
    for section in sections.iter().filter(|section| section.about.get("page").is_some_and(|page| page == "model")) {
        let title = |row: &Value| {
            let title = row["table"].as_str().with_context(|| format!("{}: a row of no table", section.name()))?;
            Ok::<_, anyhow::Error>(title.to_owned())
        };
        // the tables of several models are one
        let mut rows = section.rows.iter().map(|row| Ok((title(row)?, row))).collect::<Result<Vec<_>>>()?;
        let order: Vec<String> = rows.iter().map(|(title, _)| title.clone()).collect();
        rows.sort_by_key(|(title, _)| order.iter().position(|other| other == title));
        let mut heading = String::new();
        for (title, row) in rows {
            if title != heading {
                heading.clone_from(&title);
                let [on, off] = sides(row)?;
                let _ = write!(
                    out,
                    "\n## {}{}\n\n| case | {on}, us | {off}, us | {off} / {on} | by the floor | paper \
                     | logits apart |\n|---|---:|---:|---:|---:|---:|---:|\n",
                    title[..1].to_uppercase(),
                    &title[1..],
                );
            }
            let pair = |key: &str| [0, 1].map(|side| row[key][side].as_f64());
            let ([Some(on), Some(off)], [Some(on_floor), Some(off_floor)]) = (pair("us"), pair("floor_us")) else {
                bail!("{}: a row without two sides", section.name());
            };
            let gain = row["gain"].as_f64().context("a row without a gain")?;
            let paper = row["paper"].as_f64().map_or(String::new(), |paper| format!("{paper:.2}"));
            let apart = row["agreement"]["difference"].as_f64().unwrap_or(f64::NAN);
            let _ = writeln!(
                out,
                "| {} | {on:.0} | {off:.0} | {gain:.3} | {:.2} | {paper} | {apart:.1e} |",
                case(row),
                off_floor / on_floor
            );
        }
        let _ = writeln!(out, "\n{}", about(section));
    }
    Ok(out)
}

/// The names of both sides.
fn sides(row: &Value) -> Result<[&str; 2]> {
    let side = |at: usize| row["sides"][at].as_str().context("a row without the names of its sides");
    Ok([side(0)?, side(1)?])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row() -> Value {
        json!({
            "table": "fused rope", "case": "tiny: 2 texts", "sides": ["fused", "own pass"], "us": [100.4, 150.0],
            "gain": 1.49, "floor_us": [50.0, 80.0], "paper": 1.28, "agreement": {"difference": 1.5e-4},
        })
    }

    #[test]
    fn each_table_has_a_heading_and_names_its_sides() {
        let about = json!({"name": "model", "page": "model", "device": "H200"}).as_object().expect("an object").clone();
        let mut other_table = row();
        other_table["table"] = "a second".into();
        let section = Section { about, rows: vec![row(), other_table, row()] };
        let text = tables(std::slice::from_ref(&section)).expect("tables");
        assert!(text.contains("\n## A second\n"), "{text}");
        assert!(
            text.starts_with("\n## Fused rope\n\n| case | fused, us | own pass, us | own pass / fused |"),
            "{text}"
        );
        assert_eq!(text.matches("\n| tiny: 2 texts | 100 | 150 | 1.490 | 1.60 | 1.28 | 1.5e-4 |").count(), 3, "{text}");
        assert_eq!(text.matches("##").count(), 2);
        assert!(text.ends_with("\ndevice H200.\n") || text.contains("device H200"), "{text}");
        let other = Section { about: serde_json::Map::new(), ..section.clone() };
        assert_eq!(tables(&[other]).expect("none"), "");
        let broken = Section { rows: vec![json!({"table": "t", "sides": ["a", "b"]})], ..section };
        assert!(tables(&[broken]).is_err());
    }
}
