//! Tile classes as text, SVG and PNG. Rows are tiles of queries, columns are tiles of keys.

use std::fmt::Write as _;

use anyhow::Result;
use attn_core::lang::TileClass;

use super::map::TileMap;
use crate::xml::escaped;

/// The most rows of a picture in text.
const ROWS: usize = 150;
/// The side of a tile in pixels, at least.
const TILE: usize = 8;

/// A row of text for each row of tiles: two characters a tile if they fit into the width, else one.
pub(super) fn text(map: &TileMap, width: usize) -> String {
    if map.columns > width || map.rows > ROWS {
        return "too many tiles for a terminal: --svg FILE or --png FILE draws them\n".to_owned();
    }
    let repeat = if 2 * map.columns <= width { 2 } else { 1 };
    let mut text = String::new();
    for row in map.classes.chunks(map.columns.max(1)) {
        for class in row {
            let mark = match class {
                TileClass::Skip => "·",
                TileClass::Partial => "▒",
                TileClass::Full => "█",
            };
            text.push_str(&mark.repeat(repeat));
        }
        text.push('\n');
    }
    text + "· skip   █ full (no mask)   ▒ partial (mask)   rows: queries, columns: keys\n"
}

/// The colour of a class: red, green, blue.
fn colour(class: TileClass) -> [u8; 3] {
    match class {
        TileClass::Skip => [0xf4, 0xf4, 0xf2],
        TileClass::Partial => [0xe8, 0x9c, 0x3b],
        TileClass::Full => [0x2f, 0x6d, 0xa8],
    }
}

/// Space around the tiles, in pixels: tick labels and the name of an axis at the left and the top, the legend below.
const LEFT: usize = 72;
const TOP: usize = 84;
const BELOW: usize = 44;
const RIGHT: usize = 24;
/// The legend needs this width.
const LEGEND: usize = 330;
/// The width of a character of the title, at most.
const CHARACTER: usize = 8;
/// Labels of an axis are at least this far apart.
const LABELS: usize = 48;

/// Tiles with axes in tokens, a title and a legend. Equal tiles in a row are one rectangle.
pub(super) fn svg(map: &TileMap, title: &str, subtitle: &str, (tile_rows, tile_columns): (u32, u32)) -> String {
    // few tiles are drawn larger
    let side = (384 / map.columns.max(map.rows).max(1)).clamp(TILE, LABELS);
    let (width, height) = (map.columns * side, map.rows * side);
    let text_width = title.chars().count().max(subtitle.chars().count()) * CHARACTER;
    let all_width = LEFT + width.max(LEGEND).max(text_width) + RIGHT;
    let all_height = TOP + height + BELOW;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {all_width} {all_height}\" width=\"{all_width}\" \
         height=\"{all_height}\" font-family=\"sans-serif\" font-size=\"11\" fill=\"#222\">\n\
         <title>{title}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT}\" y=\"18\" font-size=\"13\" font-weight=\"bold\">{title}</text>\n\
         <text x=\"{LEFT}\" y=\"35\">{subtitle}</text>\n",
        title = escaped(title),
        subtitle = escaped(subtitle),
    );
    // writing to a string cannot fail
    let _ = writeln!(svg, "<g shape-rendering=\"crispEdges\">");
    for (y, row) in map.classes.chunks(map.columns.max(1)).enumerate() {
        let mut x = 0;
        for run in row.chunk_by(PartialEq::eq) {
            let (left, top, wide) = (LEFT + x * side, TOP + y * side, run.len() * side);
            let fill = hex(colour(run[0]));
            let _ =
                writeln!(svg, "<rect x=\"{left}\" y=\"{top}\" width=\"{wide}\" height=\"{side}\" fill=\"{fill}\"/>");
            x += run.len();
        }
    }
    let _ = writeln!(svg, "</g>");
    let _ = writeln!(
        svg,
        "<rect x=\"{LEFT}\" y=\"{TOP}\" width=\"{width}\" height=\"{height}\" fill=\"none\" stroke=\"#888\"/>"
    );
    let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"{}\">key (kv_pos)</text>", TOP - 22);
    let middle = TOP + height / 2;
    let _ = writeln!(
        svg,
        "<text x=\"14\" y=\"{middle}\" text-anchor=\"middle\" transform=\"rotate(-90 14 {middle})\">query (row)</text>"
    );
    for tile in ticks(map.columns, side) {
        let (x, token) = (LEFT + tile * side, tile * tile_columns as usize);
        let (from, to) = (TOP - 4, TOP);
        let _ = writeln!(svg, "<path d=\"M{x} {from}V{to}\" stroke=\"#888\"/>");
        let _ = writeln!(svg, "<text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{token}</text>", TOP - 7);
    }
    for tile in ticks(map.rows, side) {
        let (y, token) = (TOP + tile * side, tile * tile_rows as usize);
        let _ = writeln!(svg, "<path d=\"M{} {y}H{LEFT}\" stroke=\"#888\"/>", LEFT - 4);
        let _ = writeln!(svg, "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{token}</text>", LEFT - 7, y + 4);
    }
    let legend =
        [(TileClass::Skip, "skipped"), (TileClass::Full, "full: no mask"), (TileClass::Partial, "partial: mask")];
    for (i, (class, label)) in legend.into_iter().enumerate() {
        let (x, y) = (LEFT + i * 110, TOP + height + 18);
        let fill = hex(colour(class));
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{y}\" width=\"12\" height=\"12\" fill=\"{fill}\" stroke=\"#888\"/>\n\
             <text x=\"{}\" y=\"{}\">{label}</text>",
            x + 17,
            y + 10
        );
    }
    svg + "</svg>\n"
}

/// The tiles that get a label on an axis: at most nine, a power of two apart.
fn ticks(tiles: usize, side: usize) -> impl Iterator<Item = usize> {
    let step = tiles.div_ceil(8).max(LABELS.div_ceil(side)).next_power_of_two();
    (0..=tiles).step_by(step)
}

fn hex([r, g, b]: [u8; 3]) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// The tiles alone, without axes.
pub(super) fn png(map: &TileMap) -> Result<Vec<u8>> {
    let (width, height) = (map.columns * TILE, map.rows * TILE);
    let mut pixels = Vec::with_capacity(3 * width * height);
    for y in 0..height {
        let row = &map.classes[y / TILE * map.columns..][..map.columns];
        pixels.extend((0..width).flat_map(|x| colour(row[x / TILE])));
    }
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width as u32, height as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&pixels)?;
    writer.finish()?;
    Ok(bytes)
}
