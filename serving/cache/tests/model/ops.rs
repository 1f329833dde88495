//! The operations that the test applies to the cache and to the naive model. Each is made of four random bytes, since
//! proptest shrinks bytes towards 0: to fewer kinds, smaller numbers and shorter prompts.

/// An operation. A sequence, a hit or a page is named by a number, which is taken modulo how many there are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// A request comes: look its prompt up, and append what is left.
    Admit {
        namespace: usize,
        prompt: u8,
        len: usize,
    },
    /// Look up, and keep the hit without a sequence.
    Lookup {
        namespace: usize,
        prompt: u8,
        len: usize,
    },
    /// Drop a kept hit.
    DropHit {
        hit: usize,
    },
    Append {
        sequence: usize,
        n: usize,
        token: u32,
    },
    /// A step over the sequences whose bits are set; `grouped`: in the order of shared prefixes.
    Step {
        mask: u8,
        grouped: bool,
        /// The costs by which levels are chosen.
        cost: u8,
        /// A sequence that changes between the build of the step and its commit.
        change: Option<Change>,
    },
    /// A step that is built and dropped: it never runs.
    Abandon {
        mask: u8,
        grouped: bool,
    },
    Fork {
        sequence: usize,
    },
    Truncate {
        sequence: usize,
        by: usize,
    },
    /// Draft tokens that are taken back before they are written, and a fork that goes on from there.
    Withdraw {
        sequence: usize,
        n: usize,
    },
    Window {
        sequence: usize,
        window: usize,
        sinks: usize,
    },
    Release {
        sequence: usize,
        begin: usize,
        len: usize,
    },
    Compact {
        sequence: usize,
    },
    Cache {
        sequence: usize,
        keep: usize,
    },
    End {
        sequence: usize,
    },
    Evict {
        want: usize,
    },
    Reserve {
        need: usize,
    },
    ClearNamespace {
        namespace: usize,
    },
    SwapOut {
        sequence: usize,
    },
    SwapIn {
        sequence: usize,
    },
}

/// A change of a sequence: a token is appended, and the last one is taken back before unless it `grows`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) sequence: usize,
    pub(crate) grows: bool,
}

impl Op {
    pub(crate) fn new([kind, a, b, c]: [u8; 4]) -> Op {
        let (x, y, z) = (usize::from(a), usize::from(b), usize::from(c));
        match kind % 32 {
            0..=4 => Op::Admit { namespace: (x % 8).saturating_sub(5), prompt: b, len: z % 20 + 1 },
            5 => Op::Lookup { namespace: (x % 8).saturating_sub(5), prompt: b, len: z % 20 + 1 },
            6 => Op::DropHit { hit: x },
            7..=10 => Op::Append { sequence: x, n: y % 6, token: u32::from(c % 2) },
            11..=16 => Op::Step {
                mask: if a % 4 == 0 { b } else { u8::MAX },
                grouped: a % 8 < 5,
                cost: c,
                change: (a >> 3 == 1).then_some(Change { sequence: y / 2, grows: b % 2 == 0 }),
            },
            17..=18 => Op::Fork { sequence: x },
            19 => Op::Truncate { sequence: x, by: y % 7 },
            20 => Op::Withdraw { sequence: x, n: y % 4 + 1 },
            21 if a % 4 == 0 => Op::Release { sequence: y, begin: z % 16, len: z / 16 },
            22 if a % 2 == 0 => Op::Compact { sequence: y },
            21..=22 => Op::Window { sequence: x, window: y % 8, sinks: z % 4 },
            23..=25 => Op::Cache { sequence: x, keep: y % 24 },
            26..=27 => Op::End { sequence: x },
            28 if y % 4 == 1 => Op::Abandon { mask: a, grouped: c % 2 == 0 },
            28 if y % 8 == 0 => Op::ClearNamespace { namespace: x % 3 },
            28 => Op::Evict { want: x % 5 },
            29 => Op::Reserve { need: x % 12 },
            30 => Op::SwapOut { sequence: x },
            _ => Op::SwapIn { sequence: x },
        }
    }
}

/// The tokens of a prompt: few different ones, so that many prompts share prefixes.
pub(crate) fn prompt(seed: u8, len: usize) -> Vec<u32> {
    (0..len).map(|i| u32::from(seed >> (i % 8) & 1) & u32::from(i % 4 == 3)).collect()
}
