//! The costs that plans are made by: those that a user measured, before those that are built in.

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::{env, fs};

use super::{CostKey, Costs, HookClass, json_lines, measured::Measured};

/// The environment variable that names a file of costs.
const ENVIRONMENT: &str = "ATTN_COSTS";

/// The built-in rows.
static BUILT_IN: LazyLock<Vec<Measured>> =
    LazyLock::new(|| json_lines::rows(include_str!("../../costs/sm_90.jsonl")).expect("a test reads the file"));

/// Measured costs of kernels, by which the kernel of a batch is chosen and its work is cut. Cheap to clone.
///
/// The default is the built-in table. Rows that `attn calibrate --out FILE` wrote on another GPU come before it: each
/// replaces the built-in row of its kernel and architecture, and of rows that are equally near to a kernel it is the
/// one that counts. So a file may have some kernels alone, and rows of several GPUs.
///
/// ```
/// use attn_kernels::cost::CostTable;
///
/// let about = r#"{"about": {"arch": "sm_120", "device": "a GPU"}}"#;
/// let kernel = r#""kernel": "decode", "rows": 8, "kv": "16-bit", "head_dim": 128, "hooks": "none", "ctas_per_sm": 2"#;
/// let ns = r#""launch": 5000, "item": 900, "block": 2100, "first": 0, "merge_launch": 900, "merge": 140"#;
/// let costs = CostTable::parse(&format!("{about}\n{{{kernel}, {ns}}}"))?;
/// assert_eq!(costs.loaded_rows(), 1);
/// # Ok::<(), attn_kernels::cost::CostsError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CostTable {
    /// The rows that were read, and after them the built-in ones of other kernels. `None` is the built-in table.
    rows: Option<Arc<[Measured]>>,
    loaded: usize,
}

impl CostTable {
    /// Reads what `attn calibrate` writes: a line `{"about": {"arch": "sm_90", ..}}`, and after it a line for each
    /// kernel. Blank lines are skipped, and so are the measured times of a row, and its notes in `meta`.
    ///
    /// # Errors
    ///
    /// The first line that is no such line; a kernel that is there twice; a text without rows.
    pub fn parse(text: &str) -> Result<Self, CostsError> {
        Self::of_text(text, "costs")
    }

    /// Reads a file, as [`CostTable::parse`] reads its text.
    ///
    /// # Errors
    ///
    /// A file that cannot be read; as [`CostTable::parse`].
    pub fn load(path: impl AsRef<Path>) -> Result<Self, CostsError> {
        let path = path.as_ref();
        Self::of_file(path, &path.display().to_string())
    }

    /// The costs of the file that `ATTN_COSTS` names; without it the built-in ones.
    ///
    /// # Errors
    ///
    /// The errors of [`CostTable::load`].
    pub fn from_env() -> Result<Self, CostsError> {
        match env::var_os(ENVIRONMENT).filter(|path| !path.is_empty()) {
            None => Ok(Self::default()),
            Some(path) => Self::of_file(path.as_ref(), &format!("{ENVIRONMENT}={}", path.display())),
        }
    }

    fn of_file(path: &Path, file: &str) -> Result<Self, CostsError> {
        let of_file = |source| CostsError::Read { file: file.to_owned(), source };
        Self::of_text(&fs::read_to_string(path).map_err(of_file)?, file)
    }

    fn of_text(text: &str, file: &str) -> Result<Self, CostsError> {
        let of_file = |(line, why)| CostsError::Line { file: file.to_owned(), line, why };
        let read = json_lines::rows(text).map_err(of_file)?;
        if read.is_empty() {
            return Err(CostsError::NoRows { file: file.to_owned() });
        }
        let others = BUILT_IN.iter().filter(|row| !read.iter().any(|of| of.is_of_kernel_of(row)));
        Ok(CostTable { rows: Some(read.iter().chain(others).copied().collect()), loaded: read.len() })
    }

    /// The number of rows that were read.
    #[must_use]
    pub fn loaded_rows(&self) -> usize {
        self.loaded
    }

    pub(super) fn rows(&self) -> &[Measured] {
        self.rows.as_deref().unwrap_or(&BUILT_IN)
    }

    /// The costs of a kernel: those of the nearest row, the first of equally near ones, scaled unless it is its own.
    #[must_use]
    pub fn of(&self, key: &CostKey, hooks: HookClass) -> Costs {
        let rows = self.rows();
        let row = rows.iter().min_by_key(|row| row.distance(key, hooks)).unwrap_or(&rows[0]);
        if row.distance(key, hooks) == 0 { row.costs } else { row.scaled_to(key) }
    }
}

/// Costs that cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // of fields, which the messages name
pub enum CostsError {
    /// A file that cannot be read.
    #[error("{file}: {source}; `attn calibrate --out FILE` writes the costs of a GPU")]
    Read { file: String, source: std::io::Error },
    /// A line that is neither a row nor says what the rows after it are of.
    #[error("{file}, line {line}: {why}")]
    Line { file: String, line: usize, why: String },
    /// No rows.
    #[error("{file}: there are no costs in it; `attn calibrate --out FILE` writes a line for each kernel")]
    NoRows { file: String },
}

#[cfg(test)]
mod tests;
