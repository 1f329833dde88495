//! Target: the JSON form of variants.

use attn_core::{Variant, VariantSpec};

use super::expressions;
use crate::harness::Seen;

pub(crate) fn corpus() -> Vec<Vec<u8>> {
    attn_core::registry::register(attn_variants::variants()).expect("no two share a name");
    let of = |text: Vec<u8>| {
        let variant = Variant::parse(std::str::from_utf8(&text).expect("UTF-8")).ok()?;
        Some(serde_json::to_vec(&VariantSpec::from(&variant)).expect("plain data"))
    };
    let mut corpus: Vec<Vec<u8>> = expressions::corpus().into_iter().filter_map(of).collect();
    corpus.push(br#""causal + soft_cap(cap=30)""#.to_vec());
    corpus.push(br#"[{"name":"causal"},{"or":["causal",[{"not":"full"}]]}]"#.to_vec());
    corpus
}

pub(crate) fn run(data: &[u8]) -> Seen {
    attn_core::registry::register(attn_variants::variants()).expect("no two share a name");
    let Ok(spec) = serde_json::from_slice::<VariantSpec>(data) else { return Seen::Refused };
    let Ok(variant) = spec.build() else { return Seen::Refused };
    expressions::check(&variant);
    let text = serde_json::to_string(&VariantSpec::from(&variant)).expect("plain data");
    let again: VariantSpec = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(again.build().unwrap_or_else(|error| panic!("{text}: {error}")).to_string(), variant.to_string());
    Seen::Accepted
}
