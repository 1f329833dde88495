//! Parallel generation: continuations of one prompt, whose keys are read once for all or once for each.

use attn_cache::Sequence;
use generate::{
    Error,
    model::forward::{AttentionForm, Cascades},
};

use super::{
    Floor, PAGE_SIZE, Row, TableModel, Turns,
    side::{Side, SideOptions},
    turns::Case,
};

/// The paper: 13 to 17 % less latency at 4 continuations.
const PAPER: (usize, f64) = (4, 1.13);

/// Decoding of `prompts` prompts of `length` tokens with each number of continuations, which have `own` tokens so far.
pub fn parallel_generation(
    model: &TableModel,
    [prompts, length, own]: [usize; 3],
    continuations: &[usize],
    turns: Turns,
) -> Result<Vec<Row>, Error> {
    let most = continuations.iter().max().copied().unwrap_or(0) * prompts;
    let tail = own + 1 + turns.all_steps();
    // a cache of a tiny model on the CPU saves few bytes
    let least_saved = if model.engine().is_cpu() { 0 } else { Cascades::default().least_saved };
    let side = |cascades: Option<Cascades>| {
        let options = SideOptions {
            form: AttentionForm { cascades, ..AttentionForm::default() },
            sequences: most,
            step_tokens: most,
            context: length + tail,
            pages: prompts * length.div_ceil(PAGE_SIZE) + most * (tail / PAGE_SIZE + 2),
            ..SideOptions::default()
        };
        Side::new(model, options)
    };
    let mut sides = [side(Some(Cascades { levels: 2, least_saved }))?, side(None)?];
    let row = |&n: &usize| -> Result<Row, Error> {
        for side in &mut sides {
            side.sequences.clear();
            for _ in 0..prompts {
                let mut prompt = Sequence::new(&side.pages);
                prompt.append(length)?;
                prompt.commit();
                for _ in 0..n {
                    let mut continuation = prompt.fork()?;
                    continuation.append(own)?;
                    continuation.commit();
                    side.sequences.push(continuation);
                }
            }
        }
        sides[0].decode()?;
        sides[1].decode()?;
        let (requests, levels) = (prompts * n, sides[0].levels());
        let cache = |prompts: usize| (prompts * length + requests * own) as f64 * model.cache_bytes();
        let case = Case {
            table: "parallel generation",
            name: format!("{}: {prompts} x {length} tokens, n = {n}, levels {levels}", model.name),
            sides: ["cascade", "apart"],
            floors: [Floor::decode(requests, cache(prompts)), Floor::decode(requests, cache(requests))],
            paper: (n == PAPER.0).then_some(PAPER.1),
        };
        case.decode(model, &mut sides, turns)
    };
    continuations.iter().map(row).collect()
}
