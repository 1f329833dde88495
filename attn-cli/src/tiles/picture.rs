//! Tiles as text, SVG and PNG: queries downwards, keys to the right.

use std::fmt::Write as _;

use anyhow::Result;
use attn_core::lang::TileClass;

use super::Map;

/// A terminal shows no more tiles than this in a row.
const WIDEST: usize = 150;
/// Pixels of a tile.
const TILE: usize = 8;

/// Two characters a tile where there is room.
pub(super) fn text(map: &Map) -> String {
    if map.columns > WIDEST || map.rows > WIDEST {
        return "too many tiles for a terminal: --svg FILE or --png FILE draws them\n".to_owned();
    }
    let wide = if 2 * map.columns <= WIDEST { 2 } else { 1 };
    let mut text = String::new();
    for row in map.classes.chunks(map.columns.max(1)) {
        for class in row {
            let mark = match class {
                TileClass::Skip => "·",
                TileClass::Partial => "▒",
                TileClass::Full => "█",
            };
            text.push_str(&mark.repeat(wide));
        }
        text.push('\n');
    }
    text + "· skipped   █ without mask   ▒ with mask   (queries downwards, keys to the right)\n"
}

/// Red, green, blue.
fn colour(class: TileClass) -> [u8; 3] {
    match class {
        TileClass::Skip => [0xf4, 0xf4, 0xf2],
        TileClass::Partial => [0xe8, 0x9c, 0x3b],
        TileClass::Full => [0x2f, 0x6d, 0xa8],
    }
}

/// A rectangle for each run of equal tiles in a row.
pub(super) fn svg(map: &Map) -> String {
    let (width, height) = (map.columns * TILE, map.rows * TILE);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         shape-rendering=\"crispEdges\">\n<title>tiles: light skipped, blue without mask, orange with mask</title>\n"
    );
    for (y, row) in map.classes.chunks(map.columns.max(1)).enumerate() {
        let mut x = 0;
        for run in row.chunk_by(PartialEq::eq) {
            let [r, g, b] = colour(run[0]);
            let (left, top, wide) = (x * TILE, y * TILE, run.len() * TILE);
            // writing to a string cannot fail
            let _ = writeln!(
                svg,
                "<rect x=\"{left}\" y=\"{top}\" width=\"{wide}\" height=\"{TILE}\" fill=\"#{r:02x}{g:02x}{b:02x}\"/>"
            );
            x += run.len();
        }
    }
    svg + "</svg>\n"
}

/// The same as pixels.
pub(super) fn png(map: &Map) -> Result<Vec<u8>> {
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
