//! A file of the cache: a header with a checksum, metadata of the compilation, the cubin.
//!
//! ```text
//! magic      8 bytes   "ATTNCUB2"
//! meta_len   u32 LE
//! cubin_len  u64 LE
//! checksum  32 bytes   SHA-256 of key, lengths, meta and cubin
//! meta                 compiler \n milliseconds \n log
//! cubin
//! ```

use sha2::{Digest, Sha256};

use super::Key;
use crate::compile::Compiled;

const MAGIC: &[u8; 8] = b"ATTNCUB2";
const HEADER: usize = 8 + 4 + 8 + 32;

pub(super) fn encode(key: &Key, compiled: &Compiled) -> Vec<u8> {
    let meta = format!("{}\n{:.3}\n{}", compiled.compiler.replace('\n', " "), compiled.ms, compiled.log);
    let mut file = Vec::with_capacity(HEADER + meta.len() + compiled.cubin.len());
    file.extend_from_slice(MAGIC);
    file.extend_from_slice(&(meta.len() as u32).to_le_bytes());
    file.extend_from_slice(&(compiled.cubin.len() as u64).to_le_bytes());
    let sum = checksum(key, &file[MAGIC.len()..], meta.as_bytes(), &compiled.cubin);
    file.extend_from_slice(&sum);
    file.extend_from_slice(meta.as_bytes());
    file.extend_from_slice(&compiled.cubin);
    file
}

/// `None` if the file is truncated, corrupt, or the entry of another key.
pub(super) fn decode(key: &Key, file: &[u8]) -> Option<Compiled> {
    let (header, body) = file.split_at_checked(HEADER)?;
    let (magic, header) = header.split_at(MAGIC.len());
    let (lens, sum) = header.split_at(4 + 8);
    let (meta_len, cubin_len) = lens.split_at(4);
    let meta_len = usize::try_from(u32::from_le_bytes(meta_len.try_into().ok()?)).ok()?;
    let cubin_len = usize::try_from(u64::from_le_bytes(cubin_len.try_into().ok()?)).ok()?;
    if magic != MAGIC || meta_len.checked_add(cubin_len)? != body.len() {
        return None;
    }
    let (meta, cubin) = body.split_at(meta_len);
    if checksum(key, lens, meta, cubin) != sum {
        return None;
    }
    let mut parts = std::str::from_utf8(meta).ok()?.splitn(3, '\n');
    let compiler = parts.next()?.to_owned();
    let ms = parts.next()?.parse().ok()?;
    let log = parts.next()?.to_owned();
    Some(Compiled { cubin: cubin.to_vec().into(), log, compiler, ms })
}

/// `lens` are the two lengths as the header has them, so that no byte moves from one part to the other.
fn checksum(key: &Key, lens: &[u8], meta: &[u8], cubin: &[u8]) -> [u8; 32] {
    let sum = Sha256::new().chain_update(key.bytes()).chain_update(lens);
    sum.chain_update(meta).chain_update(cubin).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::Arch;

    #[test]
    fn an_entry_survives_the_round_trip_and_no_damage() {
        let key = Key::of("a", Arch::new(8, 0));
        let compiled = Compiled {
            cubin: vec![1, 2, 3, 4].into(),
            log: "line\nline".into(),
            compiler: "NVRTC 13.0".into(),
            ms: 12.5,
        };
        let file = encode(&key, &compiled);
        let back = decode(&key, &file).expect("whole");
        assert_eq!(
            (&back.cubin, &back.log, &back.compiler, back.ms),
            (&compiled.cubin, &compiled.log, &compiled.compiler, 12.5)
        );

        assert!(decode(&Key::of("b", Arch::new(8, 0)), &file).is_none(), "an entry under another name");
        for len in 0..file.len() {
            assert!(decode(&key, &file[..len]).is_none(), "torn at {len}");
        }
        for at in 0..file.len() {
            let mut bad = file.clone();
            bad[at] ^= 0x10;
            assert!(decode(&key, &bad).is_none(), "bit flipped at {at}");
        }
        // the last byte of the metadata as the first of the cubin
        let mut moved = file.clone();
        moved[8] -= 1;
        moved[12] += 1;
        assert!(decode(&key, &moved).is_none(), "a byte moved between the parts");
    }
}
