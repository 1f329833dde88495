//! Tables that cases fill parameter tensors with.

use std::collections::BTreeMap;

use attn::Heads;
use attn_core::cpu::check_tile_classes;

use super::{STOCK, of};
use crate::{Case, Lens, Table, case_variant, grid::serving};

fn case(variant: &str, qo: &[u32], kv: &[u32]) -> Case {
    Case { qo_lens: Lens::List(qo.to_vec()), kv_lens: Lens::List(kv.to_vec()), seed: 5, ..Case::new(variant) }
}

#[test]
fn documents_of_queries_are_those_of_their_keys() {
    let case = case("causal", &[300, 0, 40], &[900, 7, 40]);
    let [q, k] = [(Table::QueryDocuments, 340), (Table::KeyDocuments, 947)]
        .map(|(table, len)| table.elements(&case, &[len]).expect("as long as the batch"));
    assert_eq!((&q[..300], &q[300..]), (&k[600..900], &k[907..]));
    assert!(k.is_sorted() && k.windows(2).all(|pair| pair[1] - pair[0] <= 2));
    let [starts, ends] = [Table::KeyDocumentStarts, Table::KeyDocumentEnds]
        .map(|table| table.elements(&case, &[947]).expect("as long as the batch"));
    for (key, at) in (0..900).zip(0i64..) {
        let inside = starts[key] <= at && at < ends[key];
        assert!(inside && k[starts[key] as usize] == k[key] && k[ends[key] as usize - 1] == k[key], "{key}");
    }
    let documents = k[899] - k[0] + 1;
    assert!((3..200).contains(&documents), "{documents}");
    assert!(Table::KeyDocuments.elements(&case, &[946]).is_none(), "another length");
}

#[test]
fn trees_have_parents_before_children() {
    let case = case("causal", &[100, 3], &[200, 3]);
    let bits = Table::Ancestors.elements(&case, &[103, 64]).expect("a row a query");
    let row = |query: usize| &bits[query * 64..][..64];
    for node in 0..64 {
        assert!(row(node)[node] == 1 && row(node)[node + 1..].iter().all(|&bit| bit == 0), "{node}");
        // an ancestor's ancestors are ancestors
        for above in (0..node).filter(|&above| row(node)[above] == 1) {
            assert!((0..64).all(|of| row(above)[of] <= row(node)[of]), "{above} of {node}");
        }
    }
    let seen: Vec<i64> = (0..64).map(|node| row(node).iter().sum()).collect();
    assert!(seen.iter().max() > Some(&4) && seen.iter().max() < Some(&40), "{seen:?}");
    assert_eq!((row(100)[0], row(101)[1]), (1, 1), "the second request has a tree of its own");
}

#[test]
fn every_stock_table_is_of_a_parameter() {
    let registry = attn_core::registry::Registry::global().expect("no two share a name");
    for (variant, field, table) in STOCK {
        let desc = registry.get(variant).expect(variant);
        assert!(desc.fields.iter().any(|f| f.name == field), "{variant}.{field}");
        assert_eq!(of(&Case::new("full"), variant, field), Some(table));
    }
}

#[test]
fn a_case_names_tables_of_other_parameters() {
    let tables = BTreeMap::from([("document_spans.start".to_owned(), Table::QueryDocumentStarts)]);
    let named = Case { tables, ..case("document_spans", &[90], &[90]) };
    let line = serde_json::to_string(&named).expect("JSON");
    assert!(line.contains(r#""tables":{"document_spans.start":"query_document_starts"}"#), "{line}");
    let read = Case::parse_lines(&line).expect("a case");
    assert_eq!(read[0], named);
    let starts = |case: &Case| case_variant(case).expect("stock").to_string();
    assert_ne!(starts(&named), starts(&Case { tables: BTreeMap::new(), ..named.clone() }));
    assert!(Case::parse_lines(&line.replace("query_document_starts", "query_docs")).is_err(), "no such table");
}

/// Real tables at lengths past one tile: classes are sound, and tiles of each class occur.
#[test]
fn tile_classes_over_real_tables_are_sound() {
    let cases: Vec<Case> = serving().into_iter().filter(|case| case.title().contains("table, ")).collect();
    assert!(cases.len() >= 90, "{}", cases.len());
    for case in &cases {
        let variant = case_variant(case).expect("stock").bind(&case.dims()).expect("it fits");
        let [qo, kv] =
            [&case.qo_lens, &case.kv_lens].map(|lens| attn_core::batch::indptr(&lens.to_vec()).expect("short"));
        let layout = attn::Batch::ragged(&qo, &kv).validate().expect("sound");
        let heads = Heads { qo: 2, kv: 1, ..case.heads() };
        for (rows, keys) in [(128, 128), (64, 64), (17, 33)] {
            check_tile_classes(&variant, &layout, heads, rows, keys)
                .unwrap_or_else(|wrong| panic!("{} {rows}x{keys}: {wrong}", case.title()));
        }
    }
}

/// With integers of 0 to 3 every key after the third position was alike.
#[test]
fn masks_over_tables_differ_along_all_keys() {
    for case in serving().into_iter().filter(|case| case.title().contains("table, ")) {
        let variant = case_variant(&case).expect("stock").bind(&case.dims()).expect("it fits");
        let [qo, kv] =
            [&case.qo_lens, &case.kv_lens].map(|lens| attn_core::batch::indptr(&lens.to_vec()).expect("short"));
        let layout = attn::Batch::ragged(&qo, &kv).validate().expect("sound");
        let all: u64 = (0..layout.batch()).map(|r| (layout.qo_len(r) * layout.kv_len(r)) as u64).sum();
        let share = crate::attended(&variant, &layout, case.heads()) as f64 / (all * u64::from(case.qo_heads)) as f64;
        // the last query of a request may see every key before it: a prefix, or the items that it belongs to
        let most = if case.kernel == "decode" { 1.0 } else { 0.995 };
        assert!(share > 0.005 && share <= most, "{}: {share}", case.title());
    }
}
