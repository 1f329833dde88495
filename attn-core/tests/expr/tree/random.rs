//! Random masks against a direct evaluation.

use attn::expr::Node;
use attn::lang::{LogitIndex, RowIndex};
use attn::{Variant, VariantSpec, compose};
use proptest::prelude::*;

use crate::common::{Causal, Even, SoftCap};
use crate::tree::{Between, Blocks, at, keys_of, parse, registry};

/// An arbitrary mask.
fn any_mask() -> impl Strategy<Value = Variant> {
    let leaf = prop_oneof![
        Just(Variant::from(Causal)),
        Just(Variant::from(Even)),
        Just(Variant::full()),
        (0..9, 0..9).prop_map(|(begin, end)| Between { begin, end }.into()),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let several = proptest::collection::vec(inner.clone(), 2..4);
        prop_oneof![
            several.clone().prop_map(|masks| Node::or(masks).into()),
            inner.clone().prop_map(|mask| Node::Not(mask).into()),
            several.prop_map(|masks| masks.into_iter().fold(Variant::full(), |a, b| a.and(b).expect("masks"))),
            (1..5, inner.clone()).prop_map(|(size, mask)| compose!(remap(Blocks { size }, Same(mask)))),
            (proptest::collection::vec(0..2, 3), inner.clone(), inner).prop_map(|(heads, a, b)| Node::per_head(
                heads,
                vec![a, b]
            )
            .into()),
        ]
    })
}

/// A mask that is a `Variant` already, as an operand of `compose!`.
struct Same(Variant);

impl attn::expr::compose::Part for Same {
    type Normalizer = attn::expr::compose::Keeps;
    type Sink = attn::expr::compose::NoSink;
    type Position = attn::expr::compose::Mask;
    fn into_variant(self) -> Variant {
        self.0
    }
}

/// The mask of one logit, evaluated directly.
fn attends(variant: &Variant, at: LogitIndex) -> bool {
    variant.nodes().iter().all(|node| match node {
        Node::Part(part) => {
            let mut keep = [true];
            part.mask_tile(&mut keep, at);
            keep[0]
        }
        Node::Or(masks) => masks.iter().any(|mask| attends(mask, at)),
        Node::Not(mask) => !attends(mask, at),
        Node::Remap { map, inner } => {
            let size = Variant::from(Node::Part(map.clone())).to_string();
            let size: i32 = size.trim_start_matches("blocks(size=").trim_end_matches(')').parse().expect("a size");
            let row = RowIndex { qo_pos: at.qo_pos % size, ..at.row };
            at.qo_pos / size == at.kv_pos / size && attends(inner, LogitIndex { row, kv_pos: at.kv_pos % size, ..at })
        }
        Node::PerHead(heads) => attends(&heads.branches()[heads.heads()[at.qo_head as usize] as usize], at),
        other => panic!("{other:?}"),
    })
}

proptest! {
    #[test]
    fn expressions_round_trip(mask in any_mask(), cap in 1f32..9.0) {
        let variant = mask.and(SoftCap { cap }).expect("they compose");
        let text = variant.to_string();
        prop_assert_eq!(&parse(&text).expect(&text), &variant);
        let json = serde_json::to_string(&VariantSpec::from(&variant)).expect("plain data");
        let spec: VariantSpec = serde_json::from_str(&json).expect(&json);
        prop_assert_eq!(&spec.build_with(&registry()).expect(&json), &variant);
    }

    #[test]
    fn masks_agree_with_a_direct_evaluation(mask in any_mask(), qo_pos in 0..10, qo_head in 0..3) {
        let row = RowIndex { qo_pos, qo_head, ..RowIndex::default() };
        let mut keep = [true; 150];
        mask.mask_tile(&mut keep, LogitIndex { row, kv_pos: 0, kv_token: 0, kv_slot: 0 });
        for (kv_pos, got) in (0..).zip(keep) {
            let want = attends(&mask, LogitIndex { row, kv_pos, kv_token: kv_pos, kv_slot: 0 });
            prop_assert_eq!(got, want, "{}: key {}", mask, kv_pos);
        }
    }

    #[test]
    fn branches_of_a_union_are_disjoint_and_cover_all_keys(
        a in any_mask(),
        b in any_mask(),
        c in any_mask(),
        qo_pos in 0..10,
    ) {
        let variant: Variant = Node::union(vec![a, b, c]).into();
        let row = at(qo_pos, 0).row;
        let mut keys: Vec<_> = variant.branches().iter().flat_map(|branch| keys_of(branch, row, 20)).collect();
        keys.sort_unstable();
        prop_assert_eq!(keys, keys_of(&variant, row, 20));
    }

    #[test]
    fn no_text_panics(text in "(or|not|remap|per_head|union|causal|even|blocks|heads|[()\\[\\]=,+ 01]){0,20}") {
        if let Ok(variant) = parse(&text) {
            prop_assert_eq!(parse(&variant.to_string()).expect(&text), variant);
        }
    }
}
