//! Random masks: no tile class is wrong, and the C++ has the host's classes.

use attn_core::expr::Variant;
use attn_core::lang::{Dims, QueryTile, Tile, TileClass};
use attn_core::registry;
use attn_tests::host::HostVariant;
use rand::{Rng, SeedableRng, rngs::SmallRng};

use crate::fuzz::{evaluate, generate, inputs::Inputs};

const MASKS: usize = 150;
/// Masks whose C++ is compiled.
const COMPILED: usize = 15;

/// The text of a variant `fuzz_mask_K`.
fn source(mask: &str, k: usize) -> String {
    format!(
        "#[device_type] #[derive(Clone, Copy)] {}\n#[derive(Clone, VariantParams)] struct X {{ a: i32, n: i32, u: u32, \
         flag: bool, x: f32, #[shape(4)] t: Tensor1<i32> }}\n#[attention_variant(name = \"fuzz_mask_{k}\")]\n{mask}",
        generate::STRUCT
    )
}

/// A tile whose coordinates are those of inputs, and of more queries and keys.
fn tile(inputs: &Inputs, rows: i32, keys: i32) -> Tile {
    let [qo_pos, qo_head, kv_pos] = inputs.at;
    let rows = QueryTile {
        qo_pos_min: qo_pos,
        qo_pos_max: qo_pos + rows - 1,
        qo_head_min: qo_head,
        qo_head_max: qo_head,
        ..QueryTile::default()
    };
    Tile { rows, kv_pos_min: kv_pos, kv_pos_max: kv_pos + keys - 1, kv_token_min: kv_pos, kv_token_max: kv_pos }
}

#[test]
fn classes_of_random_masks_are_sound() {
    let seed = std::env::var("ATTN_FUZZ_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(77);
    let mut rng = SmallRng::seed_from_u64(seed);
    let (mut made, mut compiled, mut known, mut derived) = (0, 0, 0, 0);
    while made < MASKS {
        let text = generate::mask(&mut rng);
        let file = source(&text, made);
        // a literal whose type cannot be inferred, and an attribute of a pattern, are refused
        let Ok(variants) = attn_text::load(&[("mask.rs", &file)]) else { continue };
        let item: syn::ItemImpl = syn::parse_str(&text).expect("an impl");
        registry::register(&variants).expect("no two share a name");
        derived += usize::from(!variants[0].mask.over.is_empty());
        for round in 0..4 {
            let mut inputs = Inputs { x: 1.5, ..Inputs::random(&mut rng) };
            inputs.n = if round < 3 { rng.random_range(-3..12) } else { inputs.n.clamp(-70, 70) };
            inputs.at[0] = rng.random_range(0..200);
            inputs.at[2] = rng.random_range(0..200);
            let Inputs { a, n, u, flag, table, .. } = &inputs;
            let expr = format!("fuzz_mask_{made}(a={a}, n={n}, u={u}, flag={flag}, x=1.5, t={table:?})");
            let variant = Variant::parse(&expr).expect(&expr).bind(&Dims::default()).expect(&expr);
            let host = (round == 0 && made % (MASKS / COMPILED) == 0).then(|| {
                compiled += 1;
                let folder = tempfile::tempdir().expect("a temporary folder");
                HostVariant::compile(&variant, folder.path())
            });
            for _ in 0..5 {
                let (rows, keys) = (rng.random_range(1..12), rng.random_range(1..12));
                let tile = tile(&inputs, rows, keys);
                let class = variant.tile_class(tile);
                if let Some(host) = &host {
                    assert_eq!(host.tile_class(tile), class, "{inputs:?}, {tile:?}:\n{text}");
                }
                if class == TileClass::Partial {
                    continue;
                }
                known += 1;
                // the evaluator is slow: the corners, and elements between
                let between = (rng.random_range(0..rows), rng.random_range(0..keys));
                for (q, k) in [(0, 0), (0, keys - 1), (rows - 1, 0), (rows - 1, keys - 1), between] {
                    let [qo_pos, qo_head, kv_pos] = inputs.at;
                    let one = Inputs { at: [qo_pos + q, qo_head, kv_pos + k], table: inputs.table, ..inputs };
                    let kept = evaluate::mask(&item, &one);
                    assert_eq!(kept, class == TileClass::Full, "{one:?} in {tile:?}, {class:?}:\n{text}");
                }
            }
        }
        made += 1;
    }
    assert!(compiled >= COMPILED && known > MASKS && derived > MASKS * 3 / 4, "{compiled}, {known}, {derived}");
}
