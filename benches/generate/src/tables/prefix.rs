//! Time to the first token of requests that share a system prompt, with its pages cached, or without.

use std::time::{Duration, Instant};

use attn_cache::{Namespace, Pages, Prefix, Sequence};
use generate::Error;

use super::{
    Floor, PAGE_SIZE, Row, TableModel, Turns,
    side::{Side, SideOptions},
    turns::Case,
};

/// Prompts of one system prompt of each length, and `own` tokens of the request.
pub fn prefix_cache(model: &TableModel, systems: &[usize], own: usize, turns: Turns) -> Result<Vec<Row>, Error> {
    let row = |&system: &usize| -> Result<Row, Error> {
        let length = system + own;
        let side = || {
            let options = SideOptions {
                sequences: 1,
                step_tokens: length,
                context: length,
                pages: 2 * length.div_ceil(PAGE_SIZE) + 1,
                ..SideOptions::default()
            };
            Side::new(model, options)
        };
        let mut sides = [side()?, side()?];
        // the tokens do not matter here: they are those of positions
        let prompt: Vec<u32> = (0..length as u32).collect();
        let prefix = Prefix::new(&sides[0].pages);
        let namespace = Namespace::default();
        first_token(&mut sides[0], Sequence::new, length)?;
        sides[0].sequences[0].cache(&prefix, &namespace, &prompt[..system])?;
        let cached = prefix.lookup(&namespace, &prompt).tokens;
        let floor = |new: usize| Floor {
            tokens: new as f64,
            rows: 1.0,
            cache: length as f64 * model.cache_bytes(),
            pairs: new as f64 * (length as f64 - new as f64 / 2.0),
        };
        let case = Case {
            table: "prefix cache",
            name: format!("{}: system prompt of {system}, {own} tokens after it", model.name),
            sides: ["cached", "computed"],
            floors: [floor(length - cached), floor(length)],
            paper: None,
        };
        let found = |pages: &Pages| Sequence::with_prefix(pages, prefix.lookup(&namespace, &prompt));
        let with = |side: &mut Side| first_token(side, found, length);
        let without = |side: &mut Side| first_token(side, Sequence::new, length);
        case.measure(model, &mut sides, turns, [&with, &without])
    };
    systems.iter().map(row).collect()
}

/// Runs the prompt of a request, and returns the time to its logits.
fn first_token(side: &mut Side, begin: impl Fn(&Pages) -> Sequence, length: usize) -> Result<Duration, Error> {
    side.sequences.clear();
    let clock = Instant::now();
    let mut sequence = begin(&side.pages);
    sequence.append(length - sequence.len())?;
    side.sequences.push(sequence);
    side.run()?;
    Ok(clock.elapsed())
}
