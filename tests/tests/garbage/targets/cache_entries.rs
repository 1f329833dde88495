//! Files of the cubin cache: one that is not whole is never run.

use std::{cell::OnceCell, fs, path::PathBuf};

use attn_kernels::{
    cache::{CubinCache, Key},
    compile::{Arch, Compiled},
};

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
            // a checksum covers all of it: what is accepted was written so
            assert!(corpus_holds(data), "a changed entry was accepted");
            assert!(data.ends_with(&compiled.cubin));
            Seen::Accepted
        }
        Err(_) => Seen::Refused,
    }
}

fn corpus_holds(data: &[u8]) -> bool {
    thread_local! {
        static SOUND: OnceCell<Vec<Vec<u8>>> = const { OnceCell::new() };
    }
    SOUND.with(|sound| sound.get_or_init(corpus).iter().any(|entry| entry == data))
}
