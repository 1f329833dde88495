//! Files of the cubin cache: one that is not whole is never run.

use std::{cell::OnceCell, fs, path::PathBuf};

use attn_kernels::cache::{CubinCache, Key};
use attn_kernels::compile::{Arch, Compiled};
use sha2::{Digest, Sha256};

use crate::harness::Seen;

thread_local! {
    static FOLDER: OnceCell<tempfile::TempDir> = const { OnceCell::new() };
}

const LIMIT: u64 = 1 << 30;

fn key() -> Key {
    Key::of("int x;", Arch::new(8, 0))
}

fn compiled(cubin: &[u8]) -> Compiled {
    let (log, compiler) = ("ptxas info\nline".to_owned(), "NVRTC 13.0.88".to_owned());
    Compiled { cubin: cubin.to_vec().into(), log, compiler, ms: 12.5 }
}

/// The folder, and the file of the key.
fn dir_and_file() -> (PathBuf, PathBuf) {
    FOLDER.with(|folder| {
        let dir = folder.get_or_init(|| tempfile::tempdir().expect("a folder")).path().to_owned();
        let name = key().to_string();
        let file = dir.join(&name[..2]).join(format!("{name}.cubin"));
        (dir, file)
    })
}

pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let (dir, file) = dir_and_file();
    let cubins: [&[u8]; 3] = [b"\x7fELF some code", b"", &[0xff; 300]];
    let entry = |cubin: &[u8]| {
        let _ = fs::remove_file(&file);
        let made = CubinCache::at(&dir, LIMIT).get_or_compile(&key(), || Ok::<_, String>(compiled(cubin)));
        made.expect("compiled");
        fs::read(&file).expect("kept")
    };
    cubins.map(entry).to_vec()
}

pub(crate) fn run(data: &[u8]) -> Seen {
    let (dir, file) = dir_and_file();
    fs::create_dir_all(file.parent().expect("a folder")).expect("made");
    fs::write(&file, data).expect("written");
    #[cfg(unix)]
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("ours");
    let found = CubinCache::at(&dir, LIMIT).get_or_compile(&key(), || Err("it is not whole"));
    match found {
        Ok((compiled, _)) => {
            assert!(is_whole(data), "an entry whose checksum differs was accepted");
            assert!(data.ends_with(&compiled.cubin));
            Seen::Accepted
        }
        Err(_) => Seen::Refused,
    }
}

/// Whether the checksum is that of the key and of all else behind the magic number. A fuzzer that follows comparisons
/// finds the checksum of an entry that it has changed, so an accepted entry need not be one of the corpus.
fn is_whole(data: &[u8]) -> bool {
    let (magic_and_lens, rest) = data.split_at(8 + 4 + 8);
    let (sum, body) = rest.split_at(32);
    let key = key().to_string();
    let digit = |at: usize| u8::from_str_radix(&key[at..at + 2], 16).expect("hexadecimal");
    let key: Vec<u8> = (0..key.len()).step_by(2).map(digit).collect();
    Sha256::new().chain_update(key).chain_update(&magic_and_lens[8..]).chain_update(body).finalize()[..] == *sum
}
