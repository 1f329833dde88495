//! The lengths of a batch, and what each of its tokens draws.

use crate::random::Random;

/// A token of a request.
pub(super) struct Token {
    pub(super) request: usize,
    pub(super) pos: i64,
}

/// The lengths that tables are made for.
pub(super) struct Lengths {
    pub(super) qo_lens: Vec<u32>,
    pub(super) kv_lens: Vec<u32>,
    pub(super) seed: u64,
}

impl Lengths {
    /// The number of requests.
    pub(super) fn requests(&self) -> usize {
        self.qo_lens.len()
    }

    /// The cuts of each request.
    pub(super) fn cuts<C>(&self, make: fn(u32, &mut Random) -> C) -> Vec<C> {
        let of = |(request, &len): (usize, &u32)| make(len, &mut Random::new(self.seed, 2000 + request as u64));
        self.kv_lens.iter().enumerate().map(of).collect()
    }

    /// A stream of its own for each token.
    pub(super) fn random(&self, at: &Token, stream: u64) -> Random {
        Random::new(self.seed, stream + at.request as u64 * 0x1_0000_0000 + at.pos as u64)
    }

    /// The keys of the prefix of a request.
    pub(super) fn prefix(&self, request: usize) -> i64 {
        Random::new(self.seed, 5000 + request as u64).below(u64::from(self.kv_lens[request]) + 1) as i64
    }

    /// A value for each query, whose position counts from the end of the keys.
    pub(super) fn queries(&self, of: impl Fn(&Token) -> i64) -> Vec<i64> {
        let lens = self.qo_lens.iter().zip(&self.kv_lens).enumerate();
        let tokens = lens.flat_map(|(request, (&qo, &kv))| {
            (0..qo).map(move |row| Token { request, pos: (i64::from(kv) - i64::from(qo) + i64::from(row)).max(0) })
        });
        tokens.map(|at| of(&at)).collect()
    }

    /// A value for each key.
    pub(super) fn keys(&self, of: impl Fn(&Token) -> i64) -> Vec<i64> {
        let lens = self.kv_lens.iter().enumerate();
        let tokens = lens.flat_map(|(request, &kv)| (0..i64::from(kv)).map(move |pos| Token { request, pos }));
        tokens.map(|at| of(&at)).collect()
    }
}
