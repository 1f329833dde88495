//! Prints records as a table or as JSON lines.

use std::env;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use comfy_table::{
    Attribute, Cell as TableCell, Color, ColumnConstraint, ContentArrangement, Table, TableStyle, Width, presets,
};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;

use crate::global::Global;

/// The width of a table in columns where neither a terminal nor COLUMNS gives one.
const DEFAULT_WIDTH: u16 = 120;

/// Writes a line to stderr. That nobody reads it is no error: `attn list 2>&1 | head`.
macro_rules! message {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($text)*);
    }};
}
pub(crate) use message;

/// The exit code of a command whose JSON lines nobody reads any more, as of one that SIGPIPE ends: a check that was cut
/// short is not taken for one that passed.
const CUT_SHORT: i32 = 128 + 13;

/// Where records go.
pub(crate) struct Output {
    /// JSON lines: stdout with `--json`, a file with `--out`.
    lines: Vec<Box<dyn std::io::Write + Send>>,
    /// Whether one of them is a file.
    to_file: bool,
    table: Option<Table>,
    /// The columns whose words are not split.
    whole_words: &'static [usize],
}

impl Output {
    /// The outputs that the command line names. `columns` are the headings of the table.
    pub(crate) fn new(global: &Global, columns: &[&str]) -> Result<Self> {
        let mut lines: Vec<Box<dyn std::io::Write + Send>> = Vec::new();
        if let Some(path) = &global.out {
            let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
            lines.push(Box::new(BufWriter::new(file)));
        }
        if global.json {
            lines.push(Box::new(std::io::stdout()));
        }
        let table = (!global.json).then(|| {
            let mut table = plain_table(presets::UTF8_HORIZONTAL_ONLY);
            table.set_header(columns.iter().map(|head| TableCell::new(head).add_attribute(Attribute::Bold)));
            table
        });
        Ok(Output { lines, to_file: global.out.is_some(), table, whole_words: &[] })
    }

    /// Whether stdout gets a table.
    pub(crate) fn is_table(&self) -> bool {
        self.table.is_some()
    }

    /// Makes these columns of the table wide enough for their longest word.
    pub(crate) fn keep_words(mut self, columns: &'static [usize]) -> Self {
        self.whole_words = columns;
        self
    }

    /// The columns of stdout.
    pub(crate) fn width(&self) -> usize {
        self.table.as_ref().map_or(DEFAULT_WIDTH.into(), width)
    }

    /// Writes text before the table.
    pub(crate) fn text(&self, text: &str) -> Result<()> {
        is_open(std::io::stdout().write_all(text.as_bytes())).map(drop)
    }

    /// Writes a record at once, without a row.
    pub(crate) fn line(&mut self, record: &Value) -> Result<()> {
        let line = format!("{record}\n");
        self.each(|lines| lines.write_all(line.as_bytes()).and_then(|()| lines.flush()))
    }

    /// Writes to all that takes JSON lines. A closed pipe is left out from then on; the file of `--out` goes on.
    fn each(&mut self, mut write: impl FnMut(&mut dyn std::io::Write) -> std::io::Result<()>) -> Result<()> {
        let mut open = Vec::with_capacity(self.lines.len());
        for mut lines in self.lines.drain(..) {
            if is_open(write(&mut *lines))? {
                open.push(lines);
            } else if self.table.is_none() && !self.to_file {
                std::process::exit(CUT_SHORT);
            }
        }
        self.lines = open;
        Ok(())
    }

    /// Writes a record at once. The table prints its row at the end.
    pub(crate) fn record(&mut self, record: &Value, row: impl FnOnce() -> Vec<String>) -> Result<()> {
        self.line(record)?;
        if let Some(table) = &mut self.table {
            let mut cells = row().into_iter();
            let first = cells.next().map(|name| TableCell::new(name).fg(Color::Cyan));
            table.add_row(first.into_iter().chain(cells.map(TableCell::new)));
        }
        Ok(())
    }

    /// Prints the table, if there is one.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.each(|lines| lines.flush())?;
        if let Some(mut table) = self.table.filter(|t| !t.is_empty()) {
            for &column in self.whole_words {
                let width = longest_word(&table, column) + PADDING;
                if let Some(column) = table.column_mut(column) {
                    column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(width)));
                }
            }
            is_open(writeln!(std::io::stdout(), "{}", table.trim_fmt()))?;
        }
        Ok(())
    }
}

/// The columns of a cell beside its text.
const PADDING: u16 = 2;

fn longest_word(table: &Table, column: usize) -> u16 {
    let cells = table.column_cells_iter(column).flatten().map(TableCell::content);
    let words = cells.map(|text| text.split_whitespace().map(|word| word.chars().count()).max().unwrap_or(0));
    words.max().unwrap_or(0).try_into().unwrap_or(u16::MAX - PADDING)
}

/// A table as wide as the terminal, with colours on a terminal alone.
pub(crate) fn plain_table(style: TableStyle) -> Table {
    let mut table = Table::new();
    table.load_style(style).set_content_arrangement(ContentArrangement::Dynamic);
    if env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) {
        table.force_no_tty();
    }
    // on a terminal the table asks for its width
    if !table.is_tty() {
        let columns = env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
        table.set_width(columns.unwrap_or(DEFAULT_WIDTH));
    }
    table
}

/// The columns that a table may take.
pub(crate) fn width(table: &Table) -> usize {
    table.width().unwrap_or(DEFAULT_WIDTH).into()
}

/// Words in lines of at most `width` characters. Lines after the first begin with `indent`.
pub(crate) fn wrap(text: &str, width: usize, indent: &str) -> String {
    let mut wrapped = String::new();
    let mut column = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > width {
            wrapped.push('\n');
            wrapped.push_str(indent);
            column = indent.len();
        } else if column > 0 {
            wrapped.push(' ');
            column += 1;
        }
        wrapped.push_str(word);
        column += length;
    }
    wrapped
}

/// Whether what was written to is read. A closed pipe is no error: `attn list | head`.
fn is_open(result: std::io::Result<()>) -> Result<bool> {
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        other => other.map(|()| true).context("cannot write the results"),
    }
}

/// Checks that files of the command line, each with its option, are different ones: what is written would overwrite the
/// others. `-` is stdin.
pub(crate) fn check_distinct<'a>(files: impl IntoIterator<Item = (&'static str, &'a PathBuf)>) -> Result<()> {
    let mut seen: Vec<(&str, PathBuf)> = Vec::new();
    for (option, path) in files.into_iter().filter(|(_, path)| path.as_os_str() != "-") {
        let absolute = path.canonicalize().unwrap_or_else(|_| path.clone());
        if let Some((other, _)) = seen.iter().find(|(_, there)| *there == absolute) {
            bail!("{other} and {option} name one file, {}: it would be overwritten", path.display());
        }
        seen.push((option, absolute));
    }
    Ok(())
}

/// A progress bar on stderr. It draws nothing where stderr is no terminal.
pub(crate) fn progress(len: usize) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(len as u64), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {wide_msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// A number for a table, with four significant digits.
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

/// An object with more fields.
pub(crate) fn with(mut object: Value, more: Value) -> Value {
    if let (Value::Object(object), Value::Object(more)) = (&mut object, more) {
        object.extend(more);
    }
    object
}

/// An error and its causes in one line. A cause that the error repeats is left out.
pub(crate) fn causes(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if line.is_empty() {
            line = cause;
        } else if !line.contains(&cause) {
            line = format!("{line}: {cause}");
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::wrap;

    #[test]
    fn text_is_wrapped_with_an_indent() {
        assert_eq!(wrap("one two  three four", 9, "  "), "one two\n  three\n  four");
        assert_eq!(wrap("unbreakable word", 4, ""), "unbreakable\nword");
        assert_eq!(wrap("", 4, "  "), "");
    }
}
