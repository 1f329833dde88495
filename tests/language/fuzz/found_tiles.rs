//! Random masks of users: how many of the empty and of the full tiles are found.

use std::ffi::c_void;

use attn_core::expr::Variant;
use attn_core::lang::{QueryTile, RowIndex, Tile, TileClass, VariantDesc};
use attn_core::registry;
use attn_kernels::splice::variant::parts_source;
use attn_tests::host::{self, HostArgs};
use rand::{SeedableRng, rngs::SmallRng};

use crate::fuzz::user_masks::{POSITIONS, UserMask};

/// Rows and keys of a tile.
const TILE: i32 = 64;
const TILES: i32 = POSITIONS / TILE;
/// Masks of one C++ text.
const TOGETHER: usize = 50;
/// Masks that a failure shows.
const WORST: usize = 3;

/// Counts of tiles of one class: all, found where planners and the CPU look, found at one look as kernels do.
#[derive(Debug, Default)]
struct Found {
    all: usize,
    refined: usize,
    at_once: usize,
}

impl Found {
    fn add(&mut self, truth: TileClass, refined: TileClass, at_once: TileClass) {
        self.all += 1;
        self.refined += usize::from(refined == truth);
        self.at_once += usize::from(at_once == truth);
    }

    fn says(&self, what: &str) -> String {
        let share = |found: usize| 100.0 * found as f64 / self.all as f64;
        format!("{what}: {:.2} % of {} found, {:.2} % at one look", share(self.refined), self.all, share(self.at_once))
    }
}

/// C++ that classifies every tile by all of its elements.
fn text(parts: &[&VariantDesc]) -> String {
    let parts_text = parts_source(parts).expect("the parts go together");
    let cases: String = (0..parts.len())
        .map(|i| format!("    case {i}: return classes<lang::{}>(params, out);\n", parts[i].type_name))
        .collect();
    format!(
        "{}\n{parts_text}
template <class Mask>
void classes(const void* params, unsigned char* out) {{
  const Mask& mask = *static_cast<const Mask*>(params);
  for (int row = 0; row < {POSITIONS}; row += {TILE})
    for (int key = 0; key < {POSITIONS}; key += {TILE}) {{
      bool some = false, all = true;
      for (int q = row; q < row + {TILE} && !(some && !all); ++q)
        for (int k = key; k < key + {TILE}; ++k) {{
          const int words[11] = {{0, q, q, q, 0, 0, {POSITIONS}, {POSITIONS}, k, k, 0}};
          const bool keep = mask.logits_mask(*reinterpret_cast<const LogitIndex*>(words));
          some |= keep;
          all &= keep;
        }}
      *out++ = all ? 2 : some ? 1 : 0;
    }}
}}
extern \"C\" void truth(int mask, const void* params, unsigned char* out) {{
  switch (mask) {{
{cases}  }}
}}
",
        host::lang()
    )
}

fn tile(first_row: i32, first_key: i32) -> Tile {
    let row = |qo_pos| RowIndex {
        qo_row: qo_pos,
        qo_token: qo_pos,
        qo_pos,
        qo_len: POSITIONS,
        kv_len: POSITIONS,
        ..RowIndex::default()
    };
    let last_key = first_key + TILE - 1;
    Tile {
        rows: QueryTile::of(row(first_row), row(first_row + TILE - 1), 1),
        kv_pos_min: first_key,
        kv_pos_max: last_key,
        kv_token_min: first_key,
        kv_token_max: last_key,
    }
}

/// Tiles of all masks.
#[derive(Debug, Default)]
struct Tally {
    empty: Found,
    full: Found,
    /// Masks with the most tiles that are not found: how many these are, and the text.
    worst: Vec<(usize, String)>,
}

impl Tally {
    /// Compares the classes of a mask with the true ones.
    fn add(&mut self, mask: &UserMask, variant: &Variant, truth: &[u8]) {
        let (mut missed, mut known) = (0, 0);
        for (at, &class) in (0..).zip(truth) {
            let truth = [TileClass::Skip, TileClass::Partial, TileClass::Full][usize::from(class)];
            let (row, key) = (at / TILES * TILE, at % TILES * TILE);
            let tile = tile(row, key);
            let (at_once, refined) = (variant.tile_class(tile), variant.refined_tile_class(tile));
            for class in [at_once, refined] {
                let sound = class == truth || class == TileClass::Partial;
                assert!(sound, "queries from {row}, keys from {key}: {truth:?}, not {class:?}\n{}", mask.text);
            }
            let found = match truth {
                TileClass::Skip => &mut self.empty,
                TileClass::Full => &mut self.full,
                TileClass::Partial => continue,
            };
            found.add(truth, refined, at_once);
            known += 1;
            missed += usize::from(refined != truth);
        }
        self.worst.push((missed, format!("{missed} of {known}:\n{}", mask.text)));
        self.worst.sort_by_key(|&(missed, _)| std::cmp::Reverse(missed));
        self.worst.truncate(WORST);
    }
}

/// Reads a mask and registers it.
fn read(mask: &UserMask) -> &'static VariantDesc {
    let read = attn_text::load(&[("mask.rs", &mask.text)]).unwrap_or_else(|error| panic!("{error}\n{}", mask.text));
    registry::register(&read).expect("no two share a name");
    read[0]
}

/// Makes masks, and checks that most tiles are found and that none is wrong.
#[allow(clippy::print_stdout)] // the figures of a test
fn check(masks: usize) {
    let seed = std::env::var("ATTN_FUZZ_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(5);
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut tally = Tally::default();
    for first in (0..masks).step_by(TOGETHER) {
        let numbers = first..masks.min(first + TOGETHER);
        let made: Vec<UserMask> = numbers.map(|k| UserMask::random(&mut rng, k)).collect();
        let parts: Vec<&VariantDesc> = made.iter().map(read).collect();
        let folder = tempfile::tempdir().expect("a temporary folder");
        let library = host::library_of_random_text(folder.path(), &text(&parts));
        type Truth = unsafe extern "C" fn(i32, *const c_void, *mut u8);
        // SAFETY: `text` defines this signature.
        let truth = unsafe { library.get::<Truth>(b"truth") }.expect("it is there");
        for (number, mask) in made.iter().enumerate() {
            let variant = mask.variant();
            let mut classes = vec![0; (TILES * TILES) as usize];
            // SAFETY: the parameters are those of the part, and there is room for each tile.
            unsafe { truth(number as i32, HostArgs::of(&variant).as_ptr(), classes.as_mut_ptr()) };
            tally.add(mask, &variant, &classes);
        }
    }
    let Tally { empty, full, worst } = tally;
    let figures = format!("seed {seed}: {}; {}", empty.says("empty"), full.says("full"));
    println!("{figures}");
    let most = |found: usize, of: usize, percent: usize| found * 100 >= of * percent;
    let enough = most(empty.refined, empty.all, 99) && most(full.refined, full.all, 97);
    let worst: Vec<String> = worst.into_iter().map(|(_, text)| text).collect();
    assert!(enough, "{figures}; the worst:\n{}", worst.join("\n"));
    assert!(empty.all > 20 * masks && full.all > 5 * masks, "{figures}");
}

#[test]
fn most_tiles_of_random_masks_are_found() {
    check(100);
}

#[test]
#[ignore = "minutes: `cargo xtask test --all`"]
fn most_tiles_of_a_thousand_random_masks_are_found() {
    check(1000);
}
