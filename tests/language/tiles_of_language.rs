//! Tile classes of masks that go through helpers, loops, arrays, 64 bits, unions and cycles: all are found, none is
//! wrong, and Rust text has those of compiled code.

use std::collections::BTreeMap;

use attn_core::lang::{QueryTile, Tile};
use attn_core::{Variant, registry};
use attn_tests::{catalogue::mask_file::MaskLine, language_stress};
use rand::{Rng, SeedableRng, rngs::SmallRng};

const SIZE: i32 = 2048;

/// Each mask, and how many tiles of 128 x 128 are empty and full.
const MASKS: &[(&str, usize, usize)] = &[
    ("mask_pair", 210, 0),
    ("mask_pairs_taken", 210, 0),
    ("mask_struct", 210, 0),
    ("mask_struct_fields", 210, 0),
    ("mask_array_returned", 210, 0),
    ("mask_array", 210, 0),
    ("mask_index_taken", 225, 0),
    ("mask_u64", 240, 0),
    ("mask_cycle", 64, 0),
    ("mask_one_cell", 192, 0),
    ("mask_union", 182, 46),
    ("mask_distances", 225, 0),
    ("mask_powers", 80, 16),
    ("mask_leaves", 212, 44),
    ("mask_loop(steps=3, more=2)", 214, 42),
    ("mask_loop(steps=0, more=2)", 256, 0),
    ("mask_loop_of_table(spans=3, start=[-1, 256, 1024])", 234, 20),
];

fn line(expr: &str) -> MaskLine {
    let (name, expr) = (expr.to_owned(), expr.to_owned());
    MaskLine { row: 0, name, skip: "A".to_owned(), expr, tensors: BTreeMap::new(), qo: SIZE, kv: SIZE }
}

#[test]
fn every_empty_and_full_tile_is_found() {
    registry::register(language_stress::variants()).expect("no two share a name");
    let mut report = String::new();
    for (expr, empty, full) in MASKS {
        let counts = line(expr).count().expect("no class is wrong");
        let found = (counts.empty, counts.full) == (*empty, *full)
            && (counts.empty_at_once, counts.full_at_once) == (counts.empty, counts.full);
        if !found {
            report += &format!("{expr}: {counts}; wanted {empty} empty, {full} full\n");
        }
    }
    assert!(report.is_empty(), "{report}");
}

/// Masks whose classes were wrong, or whose expansion did not end.
const OTHERS: [&str; 5] =
    ["mask_unsigned(kind=0)", "mask_unsigned(kind=2)", "mask_break_in_value", "mask_continue_in_value", "mask_halves"];

#[test]
fn no_class_is_wrong() {
    registry::register(language_stress::variants()).expect("no two share a name");
    for expr in OTHERS {
        line(expr).count().unwrap_or_else(|error| panic!("{expr}: {error}"));
    }
}

/// A random tile with small and large bounds.
fn tile(rng: &mut SmallRng) -> Tile {
    let mut span = |most: i32| {
        let first = rng.random_range(0..most);
        (first, first + rng.random_range(0..200))
    };
    let ((qo_pos_min, qo_pos_max), (kv_pos_min, kv_pos_max)) = (span(4000), span(4000));
    let rows = QueryTile { qo_pos_min, qo_pos_max, qo_len: 4200, kv_len: 4200, ..QueryTile::default() };
    Tile { rows, kv_pos_min, kv_pos_max, kv_token_min: kv_pos_min, kv_token_max: kv_pos_max }
}

#[test]
fn rust_text_has_the_classes_of_compiled_masks() {
    registry::register(language_stress::variants()).expect("no two share a name");
    let text = include_str!("../src/language_stress/masks.rs").replace("name = \"mask_", "name = \"text_mask_");
    let read = attn_text::load(&[("masks.rs", &text)]).expect("Rust text");
    registry::register(&read).expect("no two share a name");
    let mut rng = SmallRng::seed_from_u64(3);
    for (expr, ..) in MASKS {
        let bind = |expr: &str| line(expr).variant();
        let (compiled, text): (Variant, Variant) = (bind(expr), bind(&format!("text_{expr}")));
        let mut known = 0;
        for _ in 0..2000 {
            let tile = tile(&mut rng);
            assert_eq!(compiled.tile_class(tile), text.tile_class(tile), "{expr}: {tile:?}");
            known += usize::from(compiled.tile_class(tile) != attn_core::lang::TileClass::Partial);
        }
        assert!(known > 0, "{expr}");
    }
}
