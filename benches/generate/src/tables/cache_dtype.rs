//! A cache of 8 bits, or of 16.

use attn::Dtype;
use generate::Error;

use super::{
    Floor, Row, TableModel, Turns,
    side::{Side, SideOptions},
    turns::Case,
};

/// Decoding of batches of (requests, keys of each) over caches of e4m3 and of the device's type.
pub fn cache_dtype(model: &TableModel, batches: &[(usize, usize)], turns: Turns) -> Result<Vec<Row>, Error> {
    let row = |&(requests, length): &(usize, usize)| -> Result<Row, Error> {
        let side = |cache_dtype: Option<Dtype>| {
            let options = SideOptions { cache_dtype, ..SideOptions::default() };
            Side::decoding(model, &vec![length; requests], turns.all_steps(), options)
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
