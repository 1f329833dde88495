//! Endless text: keys that attention kernels rotate, or a pass of its own.

use super::{
    Floor, PAGE_SIZE, Row, TableModel, Turns,
    side::{Side, SideOptions},
    turns::Case,
};
use crate::{
    Error,
    model::{forward::AttentionForm, streaming::Streaming},
};

/// The paper: 28 to 30 % less latency.
const PAPER: f64 = 1.28;

/// Decoding of `requests` endless texts for each window.
///
/// # Errors
///
/// Out of memory; failures of the device.
pub fn fused_rope(model: &TableModel, requests: usize, windows: &[usize], turns: Turns) -> Result<Vec<Row>, Error> {
    let row = |&window: &usize| -> Result<Row, Error> {
        let kept = Streaming::with_window(window).kept_pages(PAGE_SIZE, 1);
        let length = 2 * window; // the window has moved on
        let side = |fused: bool| -> Result<Side, Error> {
            let streaming = Streaming { fused, ..Streaming::with_window(window) };
            let options = SideOptions {
                form: AttentionForm { streaming: Some(streaming), ..AttentionForm::default() },
                cache_dtype: None,
                sequences: requests,
                step_tokens: requests,
                context: kept * PAGE_SIZE,
                // a text is longer when it is added
                pages: requests * kept + length.div_ceil(PAGE_SIZE) + 1,
            };
            let mut side = Side::new(model, &options)?;
            (0..requests).try_for_each(|_| side.add(length))?;
            Ok(side)
        };
        let keys = (requests * (window + 4)) as f64 * model.cache_bytes();
        let case = Case {
            table: "fused rope",
            name: format!("{}: {requests} texts, window {window}", model.name),
            sides: ["fused", "own pass"],
            // the pass reads and writes all keys, which are half of the cache
            floors: [Floor::decode(requests, keys), Floor::decode(requests, 2.0 * keys)],
            paper: Some(PAPER),
        };
        case.decode(model, &mut [side(true)?, side(false)?], turns)
    };
    windows.iter().map(row).collect()
}
