//! The tables of the paper on the CPU with a tiny model: both sides of each row compute the same.

use attn::Engine;
use generate::{Error, model::config::LlamaConfig};
use generate_benches::tables::{
    Row, TableModel, Turns, cache_dtype, fused_rope, load_balance, parallel_generation, prefix_cache,
};

const TURNS: Turns = Turns { rounds: 2, steps: 2 };

fn model() -> Result<TableModel, Error> {
    TableModel::new(&Engine::cpu(), "tiny", LlamaConfig::tiny(), true)
}

/// Checks that both sides of each row have the same logits, up to rounding.
fn check(rows: &[Row], count: usize) {
    assert_eq!(rows.len(), count);
    for row in rows {
        assert!(row.agreement.difference < 1e-4 && row.agreement.same_tokens == 1.0, "{row}");
        assert!(row.us.iter().all(|&us| us > 0.0) && row.gain > 0.0, "{row}");
    }
}

#[test]
fn balanced_and_not() -> Result<(), Error> {
    check(&load_balance(&model()?, 4, 32, TURNS)?, 3);
    Ok(())
}

#[test]
fn rope_in_kernels_and_by_a_pass() -> Result<(), Error> {
    check(&fused_rope(&model()?, 2, &[20, 32], TURNS)?, 2);
    Ok(())
}

#[test]
fn continuations_together_and_apart() -> Result<(), Error> {
    let rows = parallel_generation(&model()?, [2, 640, 5], &[1, 4], TURNS)?;
    check(&rows, 2);
    assert!(rows[0].case.ends_with("levels 1") && rows[1].case.ends_with("levels 2"), "{}, {}", rows[0], rows[1]);
    Ok(())
}

#[test]
fn a_prefix_that_is_cached_and_computed() -> Result<(), Error> {
    check(&prefix_cache(&model()?, &[64], 9, TURNS)?, 1);
    Ok(())
}

#[test]
fn a_cache_of_8_bits_is_close() -> Result<(), Error> {
    let rows = cache_dtype(&model()?, &[(2, 40)], TURNS)?;
    // e4m3 rounds to 1 part in 16
    let difference = rows[0].agreement.difference;
    assert!(difference > 1e-4 && difference < 0.5, "{}", rows[0]);
    Ok(())
}
