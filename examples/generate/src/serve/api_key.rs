//! The key of a server.

use std::fmt;

use sha2::{Digest, Sha256};

/// A key that clients must send. Its hash is kept, so that a comparison takes as long for every key.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey([u8; 32]);

impl ApiKey {
    /// A key; `None` for an empty one.
    pub fn new(key: &str) -> Option<Self> {
        (!key.is_empty()).then(|| ApiKey(Sha256::digest(key).into()))
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey")
    }
}
