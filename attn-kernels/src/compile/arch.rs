//! GPU architectures, as compilers name them.

use std::{fmt, str::FromStr};

/// A target of compilation: `sm_90a`, `sm_80`, `sm_120`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Arch {
    major: u32,
    minor: u32,
    scope: Scope,
}

/// The devices that a cubin of an architecture runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Scope {
    /// Same major version, same or later minor version.
    Portable,
    /// `f`: the same rule, with the features of the family.
    Family,
    /// `a`: this architecture alone.
    Exact,
}

impl Arch {
    /// A portable architecture: `Arch::new(8, 0)` is `sm_80`.
    #[must_use]
    pub const fn new(major: u32, minor: u32) -> Self {
        Arch { major, minor, scope: Scope::Portable }
    }

    /// The architecture to compile for on a device of this compute capability.
    #[must_use]
    pub const fn for_device(major: u32, minor: u32) -> Self {
        let scope = match (major, minor) {
            (9, 0) | (10, 0) => Scope::Exact,
            _ => Scope::Portable,
        };
        Arch { major, minor, scope }
    }

    /// Whether the architecture has warpgroup MMA (`wgmma`): only `sm_90a` does.
    pub const fn has_wgmma(self) -> bool {
        self.major == 9 && matches!(self.scope, Scope::Exact)
    }

    /// Whether the architecture has the MMA shapes and the copies of the kernels on tensor cores: those from sm_80 on.
    pub const fn has_mma(self) -> bool {
        self.major >= 8
    }

    /// Compute capability, major part.
    pub const fn major(self) -> u32 {
        self.major
    }

    /// Compute capability, minor part.
    pub const fn minor(self) -> u32 {
        self.minor
    }

    /// Whether a cubin of this architecture runs on a device of this compute capability.
    pub const fn runs_on(self, major: u32, minor: u32) -> bool {
        match self.scope {
            Scope::Exact => self.major == major && self.minor == minor,
            Scope::Portable | Scope::Family => self.major == major && self.minor <= minor,
        }
    }

    /// Shared memory that one CTA may use, in bytes, after opting in.
    pub const fn max_smem(self) -> u32 {
        let kib = match (self.major, self.minor) {
            (..=7, _) => 64,
            (8, 0 | 7) => 163,
            (9..=11, _) => 227,
            _ => 99,
        };
        kib * 1024
    }

    /// The least [`Arch::max_smem`] of all GPUs that the cubins run on: sm_86 has less than sm_80.
    pub const fn min_smem(self) -> u32 {
        match self.scope {
            Scope::Portable | Scope::Family if self.major == 8 => Arch::new(8, 6).max_smem(),
            _ => self.max_smem(),
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = match self.scope {
            Scope::Portable => "",
            Scope::Family => "f",
            Scope::Exact => "a",
        };
        write!(f, "sm_{}{}{suffix}", self.major, self.minor)
    }
}

/// Text that names no supported architecture.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a GPU architecture of attn-rs; write for example 80, 8.9, 90a, sm_100a (sm_75 is the oldest)")]
pub struct UnknownArch(pub String);

impl FromStr for Arch {
    type Err = UnknownArch;

    fn from_str(text: &str) -> Result<Self, UnknownArch> {
        let unknown = || UnknownArch(text.to_owned());
        let bare = text.trim().strip_prefix("sm_").unwrap_or(text.trim());
        let (digits, scope) = match bare.strip_suffix('a') {
            Some(rest) => (rest, Scope::Exact),
            None => match bare.strip_suffix('f') {
                Some(rest) => (rest, Scope::Family),
                None => (bare, Scope::Portable),
            },
        };
        let digits = digits.replacen('.', "", 1);
        if !(2..=3).contains(&digits.len()) || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(unknown());
        }
        let (major, minor) = digits.split_at(digits.len() - 1);
        let major: u32 = major.parse().map_err(|_| unknown())?;
        let minor = minor.parse().map_err(|_| unknown())?;
        if (major, minor) < (7, 5) { Err(unknown()) } else { Ok(Arch { major, minor, scope }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_parses() {
        for (text, shown) in [
            ("75", "sm_75"),
            ("80", "sm_80"),
            ("8.9", "sm_89"),
            ("90a", "sm_90a"),
            ("sm_100a", "sm_100a"),
            ("sm_120", "sm_120"),
            ("103f", "sm_103f"),
        ] {
            assert_eq!(text.parse::<Arch>().expect(text).to_string(), shown);
        }
        for text in ["", "8", "70", "sm_", "native", "90b", "9000", "sm_9x"] {
            assert!(text.parse::<Arch>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_cubin_runs_on_later_minor_versions_and_an_exact_one_on_its_own() {
        let sm80 = Arch::new(8, 0);
        assert!(sm80.runs_on(8, 0) && sm80.runs_on(8, 9));
        assert!(!sm80.runs_on(9, 0) && !Arch::new(8, 6).runs_on(8, 0));
        let sm90a = Arch::for_device(9, 0);
        assert_eq!(sm90a.to_string(), "sm_90a");
        assert!(sm90a.runs_on(9, 0) && !sm90a.runs_on(10, 0));
        let sm100a: Arch = "100a".parse().expect("known");
        assert!(sm100a.runs_on(10, 0) && !sm100a.runs_on(10, 3));
    }
}
