//! Records to JSON lines or to a table.

use std::{
    fs::File,
    io::{BufWriter, IsTerminal as _, Write as _},
    time::Duration,
};

use anyhow::{Context as _, Result};
use comfy_table::{ContentArrangement, Table, presets};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;

use crate::Global;

/// Where records go.
pub(crate) struct Output {
    lines: Option<Box<dyn std::io::Write + Send>>,
    table: Option<Table>,
}

impl Output {
    /// As the command line says; `columns` are the heads of the table.
    pub(crate) fn new(global: &Global, columns: &[&str]) -> Result<Self> {
        let as_table = global.table || (!global.json && (global.out.is_some() || std::io::stdout().is_terminal()));
        let lines: Option<Box<dyn std::io::Write + Send>> = match &global.out {
            Some(path) => {
                let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
                Some(Box::new(BufWriter::new(file)))
            }
            None if as_table => None,
            None => Some(Box::new(std::io::stdout())),
        };
        let table = as_table.then(|| {
            let mut table = Table::new();
            table.load_style(presets::UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
            if !std::io::stdout().is_terminal() {
                table.set_width(160);
            }
            table.set_header(columns.iter().copied());
            table
        });
        Ok(Output { lines, table })
    }

    /// Whether a person reads it.
    pub(crate) fn is_table(&self) -> bool {
        self.table.is_some()
    }

    /// Writes text before the table.
    pub(crate) fn text(&self, text: &str) -> Result<()> {
        quiet_on_closed_pipe(std::io::stdout().write_all(text.as_bytes()))
    }

    /// Writes a record at once, without a row.
    pub(crate) fn line(&mut self, record: &Value) -> Result<()> {
        if let Some(lines) = &mut self.lines {
            let line = format!("{record}\n");
            quiet_on_closed_pipe(lines.write_all(line.as_bytes()).and_then(|()| lines.flush()))?;
        }
        Ok(())
    }

    /// Writes a record at once, and its row when all are there.
    pub(crate) fn record(&mut self, record: &Value, row: impl FnOnce() -> Vec<String>) -> Result<()> {
        self.line(record)?;
        if let Some(table) = &mut self.table {
            table.add_row(row());
        }
        Ok(())
    }

    /// Prints the table, if there is one.
    pub(crate) fn finish(mut self) -> Result<()> {
        if let Some(lines) = &mut self.lines {
            quiet_on_closed_pipe(lines.flush())?;
        }
        if let Some(table) = self.table.filter(|t| !t.is_empty()) {
            quiet_on_closed_pipe(writeln!(std::io::stdout(), "{table}"))?;
        }
        Ok(())
    }
}

/// `attn list | head` is no error.
fn quiet_on_closed_pipe(result: std::io::Result<()>) -> Result<()> {
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        other => Ok(other.context("cannot write the results")?),
    }
}

/// A bar on stderr; nothing where that is not a terminal.
pub(crate) fn progress(len: usize) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(len as u64), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {wide_msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// A figure for a table: four significant digits.
pub(crate) fn figure(x: Option<f64>) -> String {
    match x {
        None => String::new(),
        Some(0.0) => "0".to_owned(),
        Some(x) if x.abs() < 1e-2 || x.abs() >= 1e6 => format!("{x:.2e}"),
        Some(x) if x.abs() < 10.0 => format!("{x:.3}"),
        Some(x) if x.abs() < 1000.0 => format!("{x:.1}"),
        Some(x) => format!("{x:.0}"),
    }
}

/// Fields added to an object.
pub(crate) fn with(mut object: Value, more: Value) -> Value {
    if let (Value::Object(object), Value::Object(more)) = (&mut object, more) {
        object.extend(more);
    }
    object
}
