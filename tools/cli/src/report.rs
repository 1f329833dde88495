//! The report of `attn bench`: one HTML page with a roofline, bars and tables, which needs no other file.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use attn::Engine;
use attn_testing::{BenchResult, Case, RunMode};

mod about;
mod axis;
mod bars;
mod page;
mod roofline;
mod roofs;
mod table;
mod timed;

use about::About;
use roofs::Roofs;
use timed::Timed;

use crate::output::message;

pub(crate) use timed::title;

/// The report of a run of the program.
pub(crate) struct Report {
    path: PathBuf,
    file: File,
    about: About,
    roofs: Roofs,
    runs: Vec<Timed>,
    /// Runs that are not possible, and why.
    cannot: Vec<(String, String)>,
}

impl Report {
    /// Opens the file, so that a path that cannot be written fails before the first run.
    pub(crate) fn create(path: &Path, engine: &Engine, commit: Option<&str>, reps: usize) -> Result<Self> {
        let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Report {
            path: path.to_owned(),
            file,
            about: About::new(engine, commit.map(str::to_owned), reps),
            roofs: Roofs::of(engine.device()),
            runs: Vec::new(),
            cannot: Vec::new(),
        })
    }

    /// Adds a run of a case, or why there is none.
    pub(crate) fn add(&mut self, case: &Case, mode: RunMode, outcome: &Result<BenchResult, String>) {
        match outcome {
            Ok(result) => self.runs.push(Timed::new(case, mode, result)),
            Err(why) => self.cannot.push((title(case.title(), mode), why.clone())),
        }
    }

    /// Writes the page.
    pub(crate) fn write(mut self) -> Result<()> {
        let html = page::html(&self.about, &self.roofs, &self.runs, &self.cannot);
        self.file.write_all(html.as_bytes()).with_context(|| format!("cannot write {}", self.path.display()))?;
        message!("report: {}", self.path.display());
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{roofs::Clocks, *};

    /// The roofs of an H200.
    pub(super) fn h200() -> Roofs {
        let clocks = Clocks { sms: 132, sm_khz: 1_980_000, memory_khz: 3_201_000, bus_bits: 6144 };
        Roofs::new("NVIDIA H200", (9, 0), clocks)
    }

    /// A run of so many microseconds.
    pub(super) fn run(case: &str, us: f64, gbps: f64, tflops: f64) -> Timed {
        let (case, ran) = (case.to_owned(), "decode on NVIDIA H200".to_owned());
        Timed { case, mode: RunMode::AsIs, ran, ms: us / 1e3, gbps, tflops, e4m3: false }
    }

    /// Runs of invented times: bound by memory, by compute, in e4m3, with a name that needs escaping.
    pub(super) fn runs() -> Vec<Timed> {
        vec![
            run("decode 32/8 64x4k", 250.0, 4300.0, 17.2),
            Timed { mode: RunMode::CudaCores, ..run("decode 32/8 64x4k", 400.0, 2687.5, 10.75) },
            run("prefill 4x4096 <causal> & \"alibi\"", 900.0, 149.0, 612.0),
            Timed { e4m3: true, ..run("prefill 4x4096 e4m3", 620.0, 108.0, 890.0) },
            run("window of 1k in 16k", 40.0, 9000.0, 2.3),
            run("no keys", 5.0, 0.0, 0.0),
        ]
    }

    #[test]
    fn a_page_names_what_is_missing_and_escapes_names() {
        let about = About {
            device: "A <b>".to_owned(),
            extents: None,
            driver: None,
            commit: Some("abc & def".to_owned()),
            date: "2026-01-01".to_owned(),
            command: "attn bench '<x>'".to_owned(),
            reps: 15,
        };
        let html = |roofs: &Roofs, runs: &[Timed], cannot: &[_]| page::html(&about, roofs, runs, cannot);
        let page = html(&h200(), &runs(), &[("a & b".to_owned(), "<no>".to_owned())]);
        for text in [
            "<h1>attn bench: A &lt;b&gt;</h1>",
            "commit abc &amp; def",
            "attn bench '&lt;x&gt;'",
            "<th scope=\"row\">a &amp; b</th><td class=\"words\">&lt;no&gt;</td>",
            "&lt;causal&gt; &amp; &quot;alibi&quot;",
            "Memory roof: 4917 GB/s",
            "Compute roof: 1071 TFLOP/s",
            "MMAs of e4m3 have twice the rate",
            "1 of 6 runs have no bytes or no FLOPs",
            "A floor of more than 100 %",
            "decode 32/8 64x4k: cuda_cores",
            "prefers-color-scheme: dark",
        ] {
            assert!(page.contains(text), "no `{text}` in:\n{page}");
        }
        assert!(!page.contains("NaN") && !page.contains("\"inf") && !page.contains("<causal>"), "{page}");
        let cpu = html(&Roofs::of(None), &runs(), &[]);
        assert!(cpu.contains("No roofs and no floors") && !cpu.contains("class=\"floor"), "{cpu}");
        assert!(!cpu.contains("<h2>Not run"), "{cpu}");
        let none = html(&Roofs::of(None), &[], &[("a".to_owned(), "b".to_owned())]);
        assert!(none.contains("<h2>Not run") && !none.contains("<svg"), "{none}");
    }
}
