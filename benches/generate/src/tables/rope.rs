//! Endless text: keys that attention kernels rotate, or a pass of its own.

use generate::{
    Error,
    model::{
        Endless,
        forward::{AttentionForm, KeyForm},
    },
};

use super::{
    Floor, PAGE_SIZE, Row, TableModel, Turns,
    side::{Side, SideOptions},
    turns::Case,
};

/// First keys that a text keeps, as in StreamingLLM's paper.
const SINKS: usize = 4;
/// The paper: 28 to 30 % less latency.
const PAPER: f64 = 1.28;

/// Decoding of `requests` endless texts for each window.
pub fn fused_rope(model: &TableModel, requests: usize, windows: &[usize], turns: Turns) -> Result<Vec<Row>, Error> {
    let row = |&window: &usize| -> Result<Row, Error> {
        // the window and the new token, with the rest of the page before them
        let kept = SINKS.div_ceil(PAGE_SIZE) + (window + 1).div_ceil(PAGE_SIZE) + 1;
        let length = 2 * window; // the window has moved on
        let side = |keys: KeyForm| -> Result<Side, Error> {
            let options = SideOptions {
                form: AttentionForm { keys, ..AttentionForm::default() },
                sequences: requests,
                step_tokens: requests,
                context: kept * PAGE_SIZE,
                // a text is longer when it is added
                pages: requests * kept + length.div_ceil(PAGE_SIZE) + 1,
                endless: Some(Endless { sinks: SINKS, window }),
                ..SideOptions::default()
            };
            let mut side = Side::new(model, options)?;
            (0..requests).try_for_each(|_| side.add(length))?;
            Ok(side)
        };
        let keys = (requests * (window + SINKS)) as f64 * model.cache_bytes();
        let case = Case {
            table: "fused rope",
            name: format!("{}: {requests} texts, window {window}", model.name),
            sides: ["fused", "own pass"],
            // the pass reads and writes all keys, which are half of the cache
            floors: [Floor::decode(requests, keys), Floor::decode(requests, 2.0 * keys)],
            paper: Some(PAPER),
        };
        case.decode(model, &mut [side(KeyForm::Raw)?, side(KeyForm::Pass)?], turns)
    };
    windows.iter().map(row).collect()
}
