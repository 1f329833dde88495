//! Decode from sm_90 on: the work of a single Q tile as a parameter, and clusters that merge in shared memory, run on
//! the host, thread by thread. They agree with the f64 reference, and have the bits of the list in memory and of the
//! merge behind a semaphore.

use attn_core::spec::PrefillBackend;
use attn_testing::{Case, LayoutKind, Lens, grid};
use attn_tests::simt;

fn decode(cases: impl IntoIterator<Item = Case>) -> Vec<Case> {
    simt::on_tensor_cores("decode", PrefillBackend::Sm90, cases).collect()
}

/// One request, whose keys the 6 CTAs of the emulated device share. They merge by the seed ([`simt::Merges`]).
fn one_request(variant: &str, [qo_heads, kv_heads, head_dim]: [u32; 3], lens: [u32; 2], paged: bool, how: u64) -> Case {
    Case {
        kernel: "decode".to_owned(),
        qo_heads,
        kv_heads,
        head_dim,
        kv_layout: if paged { LayoutKind::Paged } else { LayoutKind::Ragged },
        qo_lens: Lens::List(vec![lens[0]]),
        kv_lens: Lens::List(vec![lens[1]]),
        seed: how,
        ..Case::new(variant)
    }
}

fn cases(how: u64) -> Vec<Case> {
    decode([
        one_request("full", [4, 1, 128], [1, 900], true, how),
        one_request("causal + sink", [2, 2, 64], [3, 770], false, how),
        // 16 rows
        one_request("causal", [8, 1, 128], [2, 1000], true, how),
        one_request("causal + alibi", [8, 1, 128], [2, 300], true, how),
        // more keys than a worker has in one step, and fewer
        one_request("sliding_window(window=300)", [4, 1, 128], [1, 5000], true, how),
        one_request("full", [2, 2, 64], [1, 40], false, how),
        one_request("causal + rope + value_norm", [4, 1, 128], [1, 700], true, how),
        one_request("full", [4, 1, 256], [1, 600], true, how),
    ])
}

#[test]
fn the_list_in_memory() {
    simt::check(cases(0));
}

#[test]
fn the_parameter_and_a_semaphore() {
    simt::check(cases(1));
}

#[test]
fn the_parameter_and_a_cluster() {
    simt::check(cases(2));
}

#[test]
fn clusters_have_the_bits_of_semaphores() {
    let [list, parameter, cluster] = [simt::Merges::List, simt::Merges::Semaphore, simt::Merges::Cluster]
        .map(|merges| simt::bits_merged(cases(1), merges));
    assert!(list == parameter && list == cluster);
}

#[test]
fn the_small_grid() {
    simt::check(decode(grid::small()));
}
