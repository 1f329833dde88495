//! Lengths of the serving grid.

pub(super) use crate::harness::grid::cells::Lengths;

/// Prefill: tile edges, odd lengths, chunks behind a context, empty requests, more queries than keys, KV splits.
pub(super) const PREFILL: [Lengths; 18] = [
    (&[1], &[1]),
    (&[63], &[63]),
    (&[64, 65], &[64, 65]),
    (&[127], &[129]),
    (&[128, 1], &[128, 128]),
    (&[129, 31], &[257, 31]),
    (&[17, 1, 130, 2], &[17, 513, 130, 1000]),
    (&[0, 7, 9, 0, 3], &[5, 7, 0, 0, 300]),
    (&[70, 5], &[40, 1]),
    (&[129, 40], &[64, 0]),
    (&[33], &[2081]),
    (&[40, 3], &[2113, 2049]),
    (&[5, 0, 65], &[4099, 3, 65]),
    (&[16, 90], &[3000, 90]),
    (&[64, 64, 20], &[64, 320, 500]),
    (&[37; 12], &[54; 12]),
    (&[3], &[20_001]),
    (&[80, 2], &[600, 599]),
];

/// Decode: one or a few queries a request; lengths around tiles, splits and pages.
pub(super) const DECODE: [Lengths; 18] = [
    (&[1], &[1]),
    (&[1, 1], &[63, 64]),
    (&[1, 1, 1, 1, 1], &[65, 127, 128, 129, 2]),
    (&[1, 1, 1], &[255, 256, 257]),
    (&[0, 1, 1, 0], &[9, 70, 0, 0]),
    (&[1; 7], &[5, 80, 16, 17, 15, 333, 1]),
    (&[1], &[2049]),
    (&[1, 1, 1], &[4095, 4096, 4097]),
    (&[1, 1, 1], &[0, 33, 2500]),
    (&[1], &[16_385]),
    (&[1; 6], &[7, 3001, 60, 9000, 512, 1]),
    (&[1; 17], &[97; 17]),
    (&[1; 40], &[54; 40]),
    (&[1, 1], &[60_001, 3]),
    // several queries
    (&[3, 1], &[2, 1]),
    (&[2, 1, 5], &[40, 590, 17]),
    (&[4], &[2200]),
    (&[2, 1, 3], &[40, 5000, 17]),
];

/// The first of [`DECODE`] whose requests have several queries.
pub(super) const SEVERAL: usize = 14;

/// Chunks of prompts together with requests that decode, also of one kind alone, and of none.
pub(super) const MIXED: [Lengths; 16] = [
    (&[64, 1, 1, 1], &[300, 65, 590, 16]),
    (&[130, 1, 1, 0, 1], &[130, 2049, 33, 9, 0]),
    (&[17, 33, 1, 1, 1, 1], &[2100, 33, 513, 5, 80, 1]),
    (&[1, 1, 70, 2, 5], &[4096, 7, 70, 3, 300]),
    (&[40, 5, 1], &[20, 1, 0]),
    (&[1; 12], &[33, 1, 2, 600, 64, 65, 16, 15, 17, 128, 129, 5]),
    (&[128], &[128]),
    (&[0, 0, 1], &[9, 0, 5]),
    (&[3, 100, 1, 1], &[2600, 100, 2600, 1]),
    (&[1, 65, 1, 63, 1], &[1, 65, 64, 63, 500]),
    (&[16, 16, 1, 1, 1, 1, 1, 1], &[160, 1600, 97, 97, 97, 97, 97, 97]),
    (&[127, 1, 1], &[127, 127, 127]),
    (&[9, 8, 7, 6, 5, 4, 3, 2, 1], &[9, 80, 7, 60, 5, 40, 3, 20, 1]),
    (&[33, 1], &[33, 12_001]),
    (&[2, 80], &[599, 81]),
    (&[7], &[9001]),
];

/// Groups of neighbouring requests, and the keys that each shares.
pub(super) type Shared = (&'static [u32], &'static [u32]);

/// A cascade: its shared levels, outermost first, and each request's own.
#[derive(Clone, Copy)]
pub(super) struct Cascade {
    pub(super) shared: &'static [Shared],
    pub(super) own: Lengths,
}

/// Cascades: two to four levels, prefixes shorter and longer than what follows, groups of one, groups without requests
/// and without keys, prompts together with decoding. The first [`WHOLE`] share whole pages of every size.
pub(super) const CASCADES: [Cascade; 16] = [
    Cascade { shared: &[(&[5], &[320])], own: (&[1; 5], &[17, 1, 0, 64, 33]) },
    Cascade { shared: &[(&[3, 2], &[640, 320])], own: (&[1, 7, 1, 20, 1], &[5, 7, 40, 31, 130]) },
    Cascade { shared: &[(&[4], &[320]), (&[2, 2], &[320, 640])], own: (&[1, 1, 3, 1], &[33, 8, 3, 1]) },
    Cascade { shared: &[(&[6], &[300])], own: (&[1, 1, 0, 1, 1, 1], &[17, 1, 0, 64, 33, 5]) },
    Cascade { shared: &[(&[3, 3], &[512, 129])], own: (&[1; 6], &[1, 70, 200, 16, 15, 17]) },
    Cascade { shared: &[(&[5], &[256]), (&[2, 3], &[64, 97])], own: (&[1, 1, 1, 1, 2], &[40, 3, 9, 1, 2]) },
    Cascade { shared: &[(&[3], &[700])], own: (&[17, 5, 33], &[17, 37, 40]) },
    Cascade { shared: &[(&[2, 2], &[0, 160])], own: (&[1, 1, 1, 9], &[20, 0, 30, 9]) },
    Cascade { shared: &[(&[2, 0, 2], &[65, 32, 48])], own: (&[1, 1, 1, 1], &[7, 8, 9, 0]) },
    Cascade { shared: &[(&[1, 1, 1], &[33, 700, 1])], own: (&[1, 40, 1], &[64, 40, 5]) },
    Cascade { shared: &[(&[4], &[2049])], own: (&[1; 4], &[100, 1, 37, 600]) },
    Cascade {
        shared: &[(&[8], &[128]), (&[4, 4], &[31, 0]), (&[2, 2, 2, 2], &[9, 16, 0, 5])],
        own: (&[1; 8], &[3, 4, 0, 7, 17, 2, 1, 90]),
    },
    Cascade { shared: &[(&[12], &[128])], own: (&[1; 12], &[37; 12]) },
    Cascade { shared: &[(&[20], &[64])], own: (&[1; 20], &[17; 20]) },
    Cascade { shared: &[(&[2], &[5])], own: (&[70, 1], &[2100, 2100]) },
    Cascade { shared: &[(&[3], &[400])], own: (&[10, 1, 60], &[0, 0, 0]) },
];

/// The number of [`CASCADES`] that share whole pages of up to 64 keys, and of 5.
pub(super) const WHOLE: usize = 3;
