//! Load balance: keys of a request split over CTAs by cost, or one CTA for all keys of a request and head.

use generate::{Error, model::forward::AttentionForm};

use super::{
    Floor, Row, TableModel, Turns,
    side::{Side, SideOptions},
    turns::Case,
};

/// The paper: 8.6 against 13.9 ms on lengths from 4,096 to 16,384.
const PAPER: f64 = 13.9 / 8.6;

/// Decoding of `requests` requests whose lengths are constant, uniform over `least..=4 least`, or as Zipf's law has
/// them, with the same mean.
pub fn load_balance(model: &TableModel, requests: usize, least: usize, turns: Turns) -> Result<Vec<Row>, Error> {
    let mean = least * 5 / 2;
    // evenly spread, in an order that is not sorted
    let uniform = |i: usize| least + (3 * least * (i * 7 % requests)) / (requests - 1).max(1);
    let harmonic: f64 = (1..=requests).map(|rank| (rank as f64).recip()).sum();
    let zipf = |i: usize| (requests as f64 * mean as f64 / harmonic / (i * 7 % requests + 1) as f64) as usize + 1;
    let cases: [(&str, Vec<usize>, Option<f64>); 3] = [
        ("constant", vec![mean; requests], None),
        ("uniform", (0..requests).map(uniform).collect(), Some(PAPER)),
        ("skewed", (0..requests).map(zipf).collect(), None),
    ];
    let row = |(name, lengths, paper): (&str, Vec<usize>, Option<f64>)| -> Result<Row, Error> {
        let (all, most) = (lengths.iter().sum::<usize>(), lengths.iter().max().copied().unwrap_or(0));
        let side = |unbalanced: bool| {
            let form = AttentionForm { unbalanced, ..AttentionForm::default() };
            Side::decoding(model, &lengths, turns.all_steps(), SideOptions { form, ..SideOptions::default() })
        };
        let floor = Floor::decode(requests, all as f64 * model.cache_bytes());
        let case = Case {
            table: "load balance",
            name: format!("{}: {requests} requests, {name}, mean {}, longest {most}", model.name, all / requests),
            sides: ["balanced", "one CTA"],
            floors: [floor; 2],
            paper,
        };
        case.decode(model, &mut [side(false)?, side(true)?], turns)
    };
    cases.into_iter().map(row).collect()
}
