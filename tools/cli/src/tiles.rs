//! `attn tiles`: which tiles a mask skips, as text or as a picture.

use std::{fs, path::PathBuf, process::ExitCode};

use anyhow::{Context as _, Result, bail};
use attn_core::expr::Variant;
use attn_core::lang::{Hook, TileClass};
use attn_testing::{Case, Lens, case_variant};
use serde_json::json;

use crate::global::Global;
use crate::output::{Output, check_distinct, message, with};
use crate::rust_text::RustText;

mod map;
mod picture;

use map::{Shape, TileMap};

#[derive(clap::Args)]
pub(crate) struct Tiles {
    /// A variant expression: 'causal + sliding_window(window=1024)', or a source file with one variant. Required
    /// tensors are random, from the seed.
    #[arg(value_name = "EXPR")]
    expr: String,
    #[command(flatten)]
    rust: RustText,
    /// Queries of the request.
    #[arg(long, default_value_t = 2048, value_parser = clap::value_parser!(u32).range(..MAX_LEN))]
    qo: u32,
    /// Keys of the request.
    #[arg(long, default_value_t = 2048, value_parser = clap::value_parser!(u32).range(..MAX_LEN))]
    kv: u32,
    /// Queries and keys of a tile.
    #[arg(long, default_value = "128x128", value_name = "ROWSxKEYS", value_parser = extents)]
    tile: (u32, u32),
    /// Query heads and KV heads.
    #[arg(long, default_value = "4x2", value_name = "QOxKV", value_parser = extents)]
    heads: (u32, u32),
    /// The query head whose tiles are classified.
    #[arg(long, default_value_t = 0)]
    head: u32,
    /// The seed of random tensors.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Also evaluates every element of the mask, and counts how many empty and full tiles were found. Fails if a class
    /// is wrong.
    #[arg(long)]
    check: bool,
    /// Draws the tiles with axes and a legend.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Draws the tiles alone, as pixels.
    #[arg(long, value_name = "FILE")]
    png: Option<PathBuf>,
}

/// Lengths are below this, so that coordinates are those of kernels.
const MAX_LEN: i64 = 1 << 30;

/// Parses `128x64`.
fn extents(text: &str) -> Result<(u32, u32), String> {
    let number = |text: &str| text.trim().parse::<u32>().ok().filter(|&n| n > 0 && i64::from(n) < MAX_LEN);
    let pair = text.split_once('x').and_then(|(a, b)| number(a).zip(number(b)));
    pair.ok_or_else(|| format!("`{text}` is not two numbers from 1 and below 2^30, such as 128x64"))
}

/// Counts and draws the tiles of a mask.
pub(crate) fn run(args: &Tiles, global: &Global) -> Result<ExitCode> {
    let written = [("--svg", &args.svg), ("--png", &args.png), ("--out", &global.out)];
    check_distinct(written.into_iter().filter_map(|(option, file)| Some((option, file.as_ref()?))))?;
    let variant = bound(args)?;
    if args.check {
        // every element of the mask is evaluated on the CPU
        attn_core::cpu::check_variant(&variant)?;
    }
    let shape = Shape { qo: args.qo, kv: args.kv, tile: args.tile, heads: args.heads, head: args.head };
    let map = TileMap::new(&variant, &shape);
    let count = |class| map.classes.iter().filter(|c| **c == class).count();
    let (skip, full, partial) = (count(TileClass::Skip), count(TileClass::Full), count(TileClass::Partial));
    let mut record = json!({
        "variant": args.expr, "qo": args.qo, "kv": args.kv, "tile": [args.tile.0, args.tile.1], "head": args.head,
        "tiles": map.classes.len(), "skip": skip, "full": full, "partial": partial,
        "visited": 1.0 - skip as f64 / map.classes.len().max(1) as f64,
    });
    let mut sound = true;
    let mut row = [map.classes.len(), skip, full, partial].iter().map(ToString::to_string).collect::<Vec<_>>();
    if args.check {
        let truth = map.truth(&variant, &shape);
        sound = truth.unsound == 0;
        record = with(
            record,
            json!({
                "empty": truth.empty, "empty_found": truth.empty_found, "all_attended": truth.full,
                "all_attended_found": truth.full_found, "unsound": truth.unsound,
            }),
        );
        row.push(format!("{} of {}", truth.empty_found, truth.empty));
        row.push(format!("{} of {}", truth.full_found, truth.full));
        row.push(truth.unsound.to_string());
    }
    let mut columns = vec!["tiles", "skip", "full", "partial"];
    if args.check {
        columns.extend(["empty tiles found", "full tiles found", "wrong"]);
    }
    let mut output = Output::new(global, &columns)?;
    if output.is_table() {
        output.text(&picture::text(&map, output.width()))?;
    }
    output.record(&record, || row)?;
    output.finish()?;
    if variant.has_kv_list() {
        message!("the keys come from a list: its tiles are not classified");
    }
    if !variant.has(Hook::LogitsMask) {
        message!("the variant has no mask");
    }
    let write = |path: &PathBuf, bytes: Vec<u8>| {
        fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
    };
    if let Some(path) = &args.svg {
        let (rows, keys) = args.tile;
        let subtitle = format!("tiles of {rows} queries x {keys} keys, query head {}", args.head);
        write(path, picture::svg(&map, &args.expr, &subtitle, args.tile).into_bytes())?;
    }
    if let Some(path) = &args.png {
        write(path, picture::png(&map)?)?;
    }
    if !sound {
        message!("a tile class is wrong: either the library is, or a `kv_range` leaves out keys that the mask keeps");
    }
    Ok(if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The variant with synthetic tensors, bound to the shape.
fn bound(args: &Tiles) -> Result<Variant> {
    let (qo_heads, kv_heads) = args.heads;
    if qo_heads % kv_heads != 0 || args.head >= qo_heads {
        bail!(
            "--heads {qo_heads}x{kv_heads} --head {}: query heads are a multiple of KV heads, \
             and the head is one of them",
            args.head
        );
    }
    let tiles = u64::from(args.qo.div_ceil(args.tile.0)) * u64::from(args.kv.div_ceil(args.tile.1));
    if tiles > MAX_TILES {
        bail!("{tiles} tiles are too many; at most {MAX_TILES}: larger tiles (--tile), or fewer queries and keys");
    }
    let mut case = Case::new(args.rust.expression(&args.expr)?);
    (case.qo_heads, case.kv_heads, case.seed) = (qo_heads, kv_heads, args.seed);
    case.heads().check()?;
    (case.qo_lens, case.kv_lens) = (Lens::List(vec![args.qo]), Lens::List(vec![args.kv]));
    Ok(case_variant(&case)?.bind(&case.dims())?)
}

/// The most tiles that are classified.
const MAX_TILES: u64 = 1 << 22;
