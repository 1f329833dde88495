//! The key of a cubin: a hash of its source, the options of both compilers, and its architecture.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::compile::Arch;
use crate::compile::options::{NVCC_OPTIONS, NVRTC_OPTIONS};

/// SHA-256 of source, options and architecture. A start from the cache has no compiler, so all options count.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key([u8; 32]);

impl Key {
    /// The key of a translation unit for an architecture.
    ///
    /// `#line` directives do not count: the path of a variant's source changes messages, not code.
    #[must_use]
    pub fn of(source: &str, arch: Arch) -> Self {
        let mut hash = Sha256::new();
        for line in source.lines().filter(|line| !line.trim_start().starts_with("#line")) {
            hash.update(line.as_bytes());
            hash.update(b"\n");
        }
        for option in NVRTC_OPTIONS.iter().chain(&NVCC_OPTIONS) {
            hash.update(b"\0");
            hash.update(option.as_bytes());
        }
        hash.update(format!("\0{arch}").as_bytes());
        Key(hash.finalize().into())
    }

    /// The key with these 64 hexadecimal digits.
    pub(super) fn from_hex(digits: &str) -> Option<Self> {
        let byte = |at: usize| u8::from_str_radix(digits.get(2 * at..2 * at + 2)?, 16).ok();
        let bytes = (0..32).map(byte).collect::<Option<Vec<u8>>>()?;
        Some(Key(bytes.try_into().ok()?)).filter(|_| digits.len() == 64)
    }

    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_depends_on_code_and_arch_and_not_on_line_directives() {
        let arch = Arch::new(8, 0);
        let key = Key::of("#line 3 \"/home/me/a.rs\"\nint x;\n", arch);
        assert_eq!(key, Key::of("#line 4 \"/home/you/a.rs\"\nint x;\n", arch));
        assert_eq!(Key::from_hex(&key.to_string()), Some(key));
        assert_eq!((Key::from_hex("ab"), Key::from_hex(&format!("{key}0"))), (None, None));
        assert_ne!(key, Key::of("int y;\n", arch));
        assert_ne!(key, Key::of("int x;\n", Arch::for_device(9, 0)));
    }
}
