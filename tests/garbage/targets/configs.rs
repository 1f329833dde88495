//! Target: configurations of models (`config.json`), as `models::from_config` reads them.

use attn::models::{Layer, from_config};

use super::expressions;
use crate::harness::Seen;

pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/data/models");
    let entries = std::fs::read_dir(folder).expect("the samples");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths.into_iter().map(|path| std::fs::read(path).expect("a file")).collect()
}

pub(crate) fn run(data: &[u8]) -> Seen {
    attn_core::registry::register(attn_variants::variants()).expect("no two share a name");
    let model = match from_config(&String::from_utf8_lossy(data)) {
        Ok(model) => model,
        Err(error) => {
            assert!(error.to_string().len() < 2000, "a message repeats the input: {error}");
            return Seen::Refused;
        }
    };
    assert!((1..=1024).contains(&model.layers.len()));
    let mut last: Option<&Layer> = None;
    for layer in model.layers.iter().filter(|layer| last.replace(layer) != Some(*layer)).take(4) {
        assert!(layer.sm_scale.is_none_or(|scale| scale.is_finite() && scale > 0.0), "{:?}", layer.sm_scale);
        expressions::check(&layer.variant);
    }
    Seen::Accepted
}
