//! Source files with variants, read at run time: they give variants or mistakes with their places.

use attn_core::lang::{FieldType, ParamValue, ParamValues, QueryTile, Tile, VariantDesc};
use attn_core::{Registry, Variant};
use attn_text::TextError;

use crate::harness::Seen;

/// Source files of stock variants, and one with helpers, types and constants.
pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../variants/src");
    let files = ["masks/causal", "masks/sliding_window", "scale/soft_cap", "bias/alibi", "masks/image_spans"];
    let read = |file| std::fs::read(format!("{root}/{file}.rs")).expect(file);
    let mut corpus: Vec<Vec<u8>> = files.map(read).to_vec();
    corpus.push(include_bytes!("rust_text/helpers.txt").to_vec());
    corpus
}

pub(crate) fn run(data: &[u8]) -> Seen {
    let text = String::from_utf8_lossy(data).into_owned();
    // on a stack as large as that of a program
    let thread = std::thread::Builder::new().stack_size(8 << 20).spawn(move || read(&text)).expect("a thread");
    thread.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload))
}

fn read(text: &str) -> Seen {
    let variants = match attn_text::load(&[("fuzz.rs", text)]) {
        Ok(variants) => variants,
        Err(error) => {
            if let TextError::Rust(mistakes) = &error {
                // under libFuzzer every place is line 0 to proc-macro2
                let lines = text.lines().count().max(1) + 1;
                let placed = mistakes.iter().all(|mistake| mistake.line <= lines);
                assert!(!mistakes.is_empty() && placed, "places in the text: {mistakes:?}");
            }
            assert!(!error.to_string().is_empty());
            return Seen::Refused;
        }
    };
    assert!(!variants.is_empty(), "a text without variants is an error");
    let mut registry = Registry::empty();
    if registry.register_all(&variants).is_err() {
        return Seen::Refused; // two share a name
    }
    for desc in variants {
        over_tiles(desc);
        if let Ok(variant) = Variant::parse_with(desc.name, &registry) {
            let _ = attn_kernels::splice::variant::variant_source(&variant);
        }
    }
    Seen::Accepted
}

/// Evaluates the mask over tiles, whatever its parameters are.
fn over_tiles(desc: &'static VariantDesc) {
    let mut values = ParamValues::default();
    for field in desc.fields.iter().filter(|field| field.default.is_none()) {
        if let FieldType::Scalar(elem) = field.ty {
            let value = if elem.is_float() { ParamValue::Float(1.5) } else { ParamValue::Int(64) };
            values.set(field.name, value);
        }
    }
    let Ok(variant) = (desc.make)(desc, &values) else { return };
    for (qo, kv) in [(0, 0), (0, 64), (i32::MAX - 100, i32::MAX - 100)] {
        let rows = QueryTile { qo_pos_min: qo, qo_pos_max: qo + 49, qo_len: 300, kv_len: 500, ..QueryTile::default() };
        let keys = Tile { rows, kv_pos_min: kv, kv_pos_max: kv + 49, kv_token_min: kv, kv_token_max: kv + 49 };
        let _ = variant.mask_over(&keys);
    }
}
