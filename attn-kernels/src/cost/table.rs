//! Made by `cargo xtask costs` of `costs/*.jsonl`; not to be edited.

use attn_core::spec::KernelKind;

use super::{HookClass, Measured, row, warpgroups};

/// Architecture, kernel, rows of a tile, whether keys have 8 bits, head_dim, hooks, CTAs of an SM; launch, piece, block, first, merge, spread.
#[rustfmt::skip]
pub(super) const TABLE: &[Measured] = &[
    // sm_90: NVIDIA H200, 2026-11-22, commit d41c37e
    row(9, KernelKind::Decode, 8, false, 128, HookClass::None, 3, [8130, 854, 3047, 0, 921, 136]),
    row(9, KernelKind::Decode, 8, false, 128, HookClass::Logits, 3, [8460, 732, 3056, 0, 874, 144]),
    row(9, KernelKind::Decode, 8, false, 128, HookClass::Rewrites, 3, [7386, 3354, 3295, 0, 1252, 123]),
    row(9, KernelKind::Decode, 16, false, 128, HookClass::None, 2, [8494, 2002, 1836, 311, 878, 247]),
    row(9, KernelKind::Decode, 16, false, 128, HookClass::Logits, 2, [8501, 2063, 1853, 299, 1045, 259]),
    row(9, KernelKind::Decode, 16, false, 128, HookClass::Rewrites, 2, [8681, 4907, 2486, 66, 829, 264]),
    row(9, KernelKind::Prefill, 128, false, 128, HookClass::None, 2, [7274, 7207, 2513, 383, 6574, 2002]),
    row(9, KernelKind::Prefill, 128, false, 128, HookClass::Logits, 2, [8187, 6481, 2818, 355, 6681, 1987]),
    row(9, KernelKind::Prefill, 128, false, 128, HookClass::Rewrites, 2, [9991, 11818, 2558, 4103, 6749, 1899]),
    row(9, KernelKind::Decode, 8, true, 128, HookClass::None, 2, [8696, 2009, 1086, 0, 1358, 80]),
    row(9, KernelKind::Decode, 8, true, 128, HookClass::Logits, 2, [8514, 1999, 1100, 0, 1281, 81]),
    row(9, KernelKind::Decode, 8, true, 128, HookClass::Rewrites, 2, [6599, 3287, 2489, 0, 1306, 124]),
    row(9, KernelKind::Decode, 16, true, 128, HookClass::None, 2, [8917, 3553, 914, 189, 1514, 156]),
    row(9, KernelKind::Decode, 16, true, 128, HookClass::Logits, 2, [9159, 3695, 926, 161, 1370, 209]),
    row(9, KernelKind::Decode, 16, true, 128, HookClass::Rewrites, 2, [6766, 4953, 2592, 51, 1906, 200]),
    row(9, KernelKind::Prefill, 128, true, 128, HookClass::None, 2, [9809, 7555, 2325, 4227, 7517, 1904]),
    row(9, KernelKind::Prefill, 128, true, 128, HookClass::Logits, 2, [10666, 7351, 2698, 4195, 7475, 1930]),
    row(9, KernelKind::Prefill, 128, true, 128, HookClass::Rewrites, 2, [11176, 12082, 2533, 5494, 7082, 1919]),
    row(9, KernelKind::Decode, 8, false, 64, HookClass::None, 3, [7924, 925, 1615, 0, 1258, 68]),
    row(9, KernelKind::Decode, 8, false, 64, HookClass::Logits, 3, [8133, 876, 1637, 0, 1127, 77]),
    row(9, KernelKind::Decode, 8, false, 64, HookClass::Rewrites, 3, [7847, 2984, 1724, 0, 1408, 75]),
    row(9, KernelKind::Decode, 16, false, 64, HookClass::None, 2, [8021, 1625, 802, 301, 886, 129]),
    row(9, KernelKind::Decode, 16, false, 64, HookClass::Logits, 2, [7935, 1739, 831, 281, 988, 119]),
    row(9, KernelKind::Decode, 16, false, 64, HookClass::Rewrites, 2, [9233, 2993, 1339, 45, 1075, 134]),
    row(9, KernelKind::Prefill, 128, false, 64, HookClass::None, 2, [5525, 6151, 1472, 208, 4280, 991]),
    row(9, KernelKind::Prefill, 128, false, 64, HookClass::Logits, 2, [6081, 6140, 1828, 182, 4351, 983]),
    row(9, KernelKind::Prefill, 128, false, 64, HookClass::Rewrites, 2, [9007, 8817, 1457, 2144, 4506, 927]),
    row(9, KernelKind::Decode, 8, true, 64, HookClass::None, 2, [6853, 2068, 578, 0, 1490, 49]),
    row(9, KernelKind::Decode, 8, true, 64, HookClass::Logits, 2, [6901, 2132, 572, 0, 1451, 51]),
    row(9, KernelKind::Decode, 8, true, 64, HookClass::Rewrites, 3, [6527, 2888, 1697, 0, 1793, 43]),
    row(9, KernelKind::Decode, 16, true, 64, HookClass::None, 3, [8402, 2683, 706, 91, 1338, 86]),
    row(9, KernelKind::Decode, 16, true, 64, HookClass::Logits, 3, [8261, 2659, 756, 68, 1322, 82]),
    row(9, KernelKind::Decode, 16, true, 64, HookClass::Rewrites, 2, [7352, 2634, 1403, 49, 874, 168]),
    row(9, KernelKind::Prefill, 128, true, 64, HookClass::None, 2, [10050, 5682, 1410, 2432, 4001, 958]),
    row(9, KernelKind::Prefill, 128, true, 64, HookClass::Logits, 2, [10184, 5603, 1727, 2403, 4086, 972]),
    row(9, KernelKind::Prefill, 128, true, 64, HookClass::Rewrites, 2, [9637, 8216, 1378, 3123, 4086, 934]),
    row(9, KernelKind::Decode, 8, false, 256, HookClass::None, 1, [9344, 1725, 1735, 372, 1328, 143]),
    row(9, KernelKind::Decode, 8, false, 256, HookClass::Logits, 1, [9191, 1817, 1750, 347, 1696, 147]),
    row(9, KernelKind::Decode, 8, false, 256, HookClass::Rewrites, 1, [7951, 4499, 3855, 37, 1344, 144]),
    row(9, KernelKind::Prefill, 128, false, 256, HookClass::None, 1, [9438, 7194, 3095, 135, 12608, 4094]),
    row(9, KernelKind::Prefill, 128, false, 256, HookClass::Logits, 1, [7592, 7546, 3301, 204, 12272, 4098]),
    row(9, KernelKind::Prefill, 128, false, 256, HookClass::Rewrites, 1, [10496, 12641, 2983, 3776, 12688, 3934]),
    row(9, KernelKind::Decode, 8, true, 256, HookClass::None, 2, [8730, 2776, 1879, 258, 1366, 158]),
    row(9, KernelKind::Decode, 8, true, 256, HookClass::Logits, 2, [8997, 2792, 1890, 254, 1347, 165]),
    row(9, KernelKind::Decode, 8, true, 256, HookClass::Rewrites, 2, [6909, 4827, 4850, 57, 1517, 191]),
    row(9, KernelKind::Prefill, 128, true, 256, HookClass::None, 1, [10852, 7681, 3013, 3498, 13232, 3994]),
    row(9, KernelKind::Prefill, 128, true, 256, HookClass::Logits, 1, [11161, 7827, 3244, 3495, 13904, 3894]),
    row(9, KernelKind::Prefill, 128, true, 256, HookClass::Rewrites, 1, [11342, 12631, 2934, 4773, 12112, 3951]),
];
