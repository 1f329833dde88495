//! A cache of 8 bits, or of 16.

use attn::Dtype;

use super::{
    Floor, PAGE_SIZE, Row, TableModel, Turns,
    side::{Side, SideOptions},
    turns::Case,
};
use crate::{Error, model::forward::AttentionForm};

/// Decoding of batches of (requests, keys of each) over caches of e4m3 and of the device's type.
///
/// # Errors
///
/// Out of memory; failures of the device.
pub fn cache_dtype(model: &TableModel, batches: &[(usize, usize)], turns: Turns) -> Result<Vec<Row>, Error> {
    let row = |&(requests, length): &(usize, usize)| -> Result<Row, Error> {
        let steps = turns.all_steps();
        let side = |cache_dtype: Option<Dtype>| -> Result<Side, Error> {
            let options = SideOptions {
                form: AttentionForm::default(),
                cache_dtype,
                sequences: requests,
                step_tokens: requests,
                context: length + steps,
                pages: requests * ((length + steps) / PAGE_SIZE + 2),
            };
            let mut side = Side::new(model, &options)?;
            (0..requests).try_for_each(|_| side.add(length))?;
            Ok(side)
        };
        let cache = (requests * length) as f64 * model.cache_bytes();
        let case = Case {
            table: "cache of 8 bits",
            name: format!("{}: {requests} requests of {length}", model.name),
            sides: ["e4m3", "f16"],
            floors: [Floor::decode(requests, cache / 2.0), Floor::decode(requests, cache)],
            paper: None,
        };
        case.decode(model, &mut [side(Some(Dtype::E4m3))?, side(None)?], turns)
    };
    batches.iter().map(row).collect()
}
