//! Masks over parameter tensors: prefixes, documents, spans, trees, bits.

use crate::catalogue::entry::{list, rows};
use crate::catalogue::{At, Entry, Formula, Instance, Shape};

/// The first position of each document of a request.
const STARTS: [i64; 8] = [0, 5, 12, 31, 50, 90, 151, 1800];

/// The index of the document of a position, within its request.
fn document(pos: i64) -> usize {
    STARTS.iter().filter(|&&start| start <= pos).count() - 1
}

fn start(pos: i64) -> i64 {
    STARTS[document(pos)]
}

/// A document number for each (request, position), monotone over the batch.
fn document_number(b: i64, pos: i64) -> i64 {
    100 * b + document(pos) as i64
}

pub(super) fn entries() -> Vec<Entry> {
    vec![
        Entry::new(5, "global tokens and a window", |shape| {
            let is_global = |pos: i64| pos % 23 == 4;
            let (q, k) = (shape.per_query(|_, i| is_global(i)), shape.per_key(|_, j| is_global(j)));
            let expr = format!("global_window(window=6, of_query={}, of_key={})", list(&q), list(&k));
            let mask = move |at: &At| (at.i - at.j).abs() <= 6 || is_global(at.i) || is_global(at.j);
            Instance::new(expr, Formula::masked(mask))
        }),
        Entry::new(6, "prefix LM", |shape| {
            let prefix = |b: i64| 4 + 5 * b;
            let expr = format!("prefix_lm(prefix={})", list(&(0..shape.batch()).map(prefix).collect::<Vec<_>>()));
            Instance::new(expr, Formula::masked(move |at| at.j < prefix(at.b) || at.j <= at.i))
        }),
        Entry::new(7, "documents", |shape| {
            Instance::new(documents(shape), Formula::masked(|at| document(at.i) == document(at.j)))
        }),
        Entry::new(7, "documents, causal inside", |shape| {
            let mask = |at: &At| document(at.i) == document(at.j) && at.j <= at.i;
            Instance::new(format!("causal + {}", documents(shape)), Formula::masked(mask))
        }),
        Entry::new(7, "documents by their spans", |shape| {
            let end = |pos| STARTS.get(document(pos) + 1).copied().unwrap_or(100_000);
            let (first, past) = (shape.per_query(|_, i| start(i)), shape.per_query(|_, i| end(i)));
            let expr = format!("document_spans(start={}, end={})", list(&first), list(&past));
            Instance::new(expr, Formula::masked(|at| document(at.i) == document(at.j)))
        }),
        Entry::new(7, "documents with positions of their own", |shape| {
            let (q, k) = (shape.per_query(|_, i| start(i)), shape.per_key(|_, j| start(j)));
            let map = format!("packed_documents(start_of_query={}, start_of_key={})", list(&q), list(&k));
            let inner = |at: &At| (at.i - start(at.i), at.j - start(at.j));
            let mask = move |at: &At| start(at.i) == start(at.j) && inner(at).1 <= inner(at).0 && inner(at).1 % 3 != 1;
            // the inner mask depends on absolute positions: it drops every third key of a document
            let expr = format!("remap({map}, causal + every_third)");
            Instance::new(expr, Formula::masked(mask))
        }),
        Entry::new(8, "packed causal documents", |shape| {
            let starts = shape.per_query(|_, i| start(i));
            let expr = format!("causal_documents(start={})", list(&starts));
            Instance::new(expr, Formula::masked(|at| start(at.i) <= at.j && at.j <= at.i))
        }),
        Entry::new(8, "packed causal documents by offsets", |shape| {
            let of_query = shape.per_query(|_, i| document(i));
            let (of_query, offsets) = (list(&of_query), list(&STARTS));
            let expr = format!("document_offsets(documents={}, of_query={of_query}, offsets={offsets})", STARTS.len());
            Instance::new(expr, Formula::masked(|at| start(at.i) <= at.j && at.j <= at.i))
        }),
        Entry::new(9, "shared prefixes", |shape| {
            const PREFIX: [usize; STARTS.len()] = [0, 0, 0, 3, 3, 3, 0, 0];
            let end = |d: usize| STARTS.get(d + 1).copied().unwrap_or(100_000);
            let offsets: Vec<i64> = (0..STARTS.len()).map(|d| STARTS[d]).chain([100_000]).collect();
            let of_query = list(&shape.per_query(|_, i| document(i)));
            let (documents, offsets, prefix) = (STARTS.len(), list(&offsets), list(&PREFIX));
            let expr = format!(
                "shared_prefix(documents={documents}, of_query={of_query}, offsets={offsets}, prefix_of={prefix})"
            );
            let mask = move |at: &At| {
                let (d, p) = (document(at.i), PREFIX[document(at.i)]);
                STARTS[d] <= at.j && at.j <= at.i || d != p && STARTS[p] <= at.j && at.j < end(p)
            };
            Instance::new(expr, Formula::masked(mask))
        }),
        Entry::new(11, "draft trees", |shape| {
            let width = shape.lens.iter().map(|(q, _)| *q).max().unwrap_or(1);
            let mut bits = Vec::new();
            for &(nodes, _) in &shape.lens {
                bits.extend((0..nodes).flat_map(|node| (0..width).map(move |other| is_ancestor(other, node))));
            }
            let expr = format!("tree(width={width}, ancestors={})", rows(&bits, width as usize));
            let mask = |at: &At| {
                let context = at.kv_len - at.qo_len;
                at.j < context || is_ancestor(at.j - context, at.row)
            };
            Instance::new(expr, Formula::masked(mask))
        }),
        Entry::new(23, "a mask of bits", |shape| {
            let bit = |b: i64, row: i64, j: i64| (b * 7 + row * 5 + j * 3 + row * j) % 4 != 0;
            let (mut bits, mut offsets) = (Vec::new(), Vec::new());
            for (b, &(queries, keys)) in (0..).zip(&shape.lens) {
                offsets.push(bits.len());
                bits.extend((0..queries).flat_map(|row| (0..keys).map(move |j| bit(b, row, j))));
            }
            let (size, bits, offsets) = (bits.len(), list(&bits), list(&offsets));
            let expr = format!("custom_mask(size={size}, bits={bits}, offset={offsets})");
            Instance::new(expr, Formula::masked(move |at| bit(at.b, at.row, at.j)))
        }),
        Entry::new(24, "multi-item scoring", |shape| {
            // items start where documents start, from the second document on
            let prefix = |b: i64| STARTS[1 + b as usize % 3];
            let prefixes: Vec<i64> = (0..shape.batch()).map(prefix).collect();
            let starts = list(&shape.per_query(|_, i| start(i)));
            let expr = format!("multi_item(prefix_len={}, item_start={starts})", list(&prefixes));
            let mask = move |at: &At| {
                let in_prompt = at.i < prefix(at.b);
                // the delimiter opens an item, and no query sees it
                let same_item = start(at.i) == start(at.j) && at.j != start(at.j);
                at.j <= at.i && (in_prompt || at.j < prefix(at.b) || same_item)
            };
            Instance::new(expr, Formula::masked(mask))
        }),
        Entry::new(25, "FlashMask", |shape| {
            let columns: [fn(i64) -> i64; 4] = [|j| j + 9, |j| j + 9 + j % 4 * 10, |j| j - 8, |j| j - j % 3];
            let [a, b, c, d] = columns.map(|column| list(&shape.per_key(|_, j| column(j))));
            let expr = format!("flash_mask(lower_start={a}, lower_end={b}, upper_start={c}, upper_end={d})");
            let mask = move |at: &At| {
                let [a, b, c, d] = columns.map(|column| column(at.j));
                !(a..b).contains(&at.i) && !(c..d).contains(&at.i)
            };
            Instance::new(expr, Formula::masked(mask))
        }),
        Entry::new(26, "image spans", |shape| {
            let image = |pos: i64| if document(pos).is_multiple_of(2) { document(pos) as i64 } else { -1 };
            let (q, k) = (shape.per_query(|_, i| image(i)), shape.per_key(|_, j| image(j)));
            let expr = format!("image_spans(of_query={}, of_key={})", list(&q), list(&k));
            let mask = move |at: &At| at.j <= at.i || image(at.i) == image(at.j) && image(at.i) != -1;
            Instance::new(expr, Formula::masked(mask))
        }),
    ]
}

fn documents(shape: &Shape) -> String {
    let (q, k) = (shape.per_query(document_number), shape.per_key(document_number));
    format!("documents(of_query={}, of_key={})", list(&q), list(&k))
}

/// Whether `other` is `node` or one of its ancestors. A parent has a smaller number than its children.
fn is_ancestor(other: i64, node: i64) -> bool {
    let mut node = node;
    while node > other && node > 0 {
        node = (node * 5 + 3) % node.min(6 + node / 2);
    }
    node == other
}
