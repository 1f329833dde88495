//! The cubin cache with damaged entries, concurrent processes and a size limit.
#![allow(clippy::unwrap_used)]

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, SystemTime};
use std::{env, fs};

use attn_kernels::cache::{CubinCache, Key, Origin};
use attn_kernels::compile::{Arch, Compiled};

const LIMIT: u64 = 1 << 30;

fn key(text: &str) -> Key {
    Key::of(text, Arch::new(8, 0))
}

fn cubin(bytes: usize) -> Compiled {
    Compiled { cubin: vec![7; bytes].into(), log: "log".into(), compiler: "test".into(), ms: 1.0 }
}

/// Looks a cubin up in a new cache object, as a new process would; returns its origin.
fn look_up(dir: &Path, limit: u64, text: &str) -> Origin {
    let cache = CubinCache::at(dir, limit);
    let (compiled, origin) = cache.get_or_compile(&key(text), || Ok::<_, Infallible>(cubin(1000))).unwrap();
    assert_eq!((compiled.cubin.len(), compiled.log.as_str()), (1000, "log"));
    origin
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let shards = fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).filter(|p| p.is_dir());
    let mut found: Vec<_> = shards.flat_map(|s| fs::read_dir(s).unwrap().map(|e| e.unwrap().path())).collect();
    found.sort();
    found
}

#[test]
fn a_cubin_is_compiled_once_and_read_afterwards() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(look_up(dir.path(), LIMIT, "a"), Origin::Compiled);
    assert_eq!(look_up(dir.path(), LIMIT, "a"), Origin::Disk);
    assert_eq!(look_up(dir.path(), LIMIT, "b"), Origin::Compiled);
    let cache = CubinCache::at(dir.path(), LIMIT);
    for origin in [Origin::Disk, Origin::Memory] {
        assert_eq!(cache.get_or_compile(&key("a"), || Ok::<_, Infallible>(cubin(1))).unwrap().1, origin);
    }
    assert_eq!((cache.stats().disk_hits, cache.stats().memory_hits, cache.stats().compiled), (1, 1, 0));
    let names: Vec<_> = entries(dir.path()).iter().map(|p| p.extension().unwrap().to_owned()).collect();
    assert_eq!(names, ["cubin", "cubin"], "no lock or temporary file stays");
}

#[test]
fn compile_errors_are_not_cached() {
    let dir = tempfile::tempdir().unwrap();
    let cache = CubinCache::at(dir.path(), LIMIT);
    assert_eq!(cache.get_or_compile(&key("a"), || Err::<Compiled, _>("no")).unwrap_err(), "no");
    assert_eq!(cache.get_or_compile(&key("a"), || Ok::<_, &str>(cubin(1000))).unwrap().1, Origin::Compiled);
}

#[test]
fn who_does_not_wait_is_told_that_a_kernel_is_being_compiled() {
    let dir = tempfile::tempdir().unwrap();
    // another object stands for another process
    let [cache, other] = [(), ()].map(|()| CubinCache::at(dir.path(), LIMIT));
    let ready = || Ok::<_, Infallible>(cubin(1000));
    let busy = || {
        for asked in [&cache, &other] {
            assert!(asked.try_get_or_compile(&key("a"), ready).is_none(), "it is being compiled");
        }
        assert_eq!(other.try_get_or_compile(&key("b"), ready).unwrap().unwrap().1, Origin::Compiled);
        ready()
    };
    assert_eq!(cache.try_get_or_compile(&key("a"), busy).unwrap().unwrap().1, Origin::Compiled);
    assert_eq!(other.try_get_or_compile(&key("a"), ready).unwrap().unwrap().1, Origin::Disk);
    assert_eq!(cache.try_get_or_compile(&key("a"), ready).unwrap().unwrap().1, Origin::Memory);
}

#[test]
fn damaged_entries_are_compiled_again() {
    type Damage = fn(&mut Vec<u8>);
    let damages: [Damage; 5] = [
        |file| file.truncate(file.len() / 2),
        |file| file.clear(),
        |file| file[200] ^= 1,
        |file| file[3] ^= 1,
        |file| file.extend_from_slice(b"more"),
    ];
    for damage in damages {
        let dir = tempfile::tempdir().unwrap();
        look_up(dir.path(), LIMIT, "a");
        let path = entries(dir.path()).remove(0);
        let mut file = fs::read(&path).unwrap();
        damage(&mut file);
        fs::write(&path, file).unwrap();
        let cache = CubinCache::at(dir.path(), LIMIT);
        let (compiled, origin) = cache.get_or_compile(&key("a"), || Ok::<_, Infallible>(cubin(1000))).unwrap();
        assert_eq!((origin, compiled.cubin.len(), cache.stats().damaged), (Origin::Compiled, 1000, 1));
        assert_eq!(look_up(dir.path(), LIMIT, "a"), Origin::Disk, "and kept again");
    }
}

#[test]
fn an_entry_under_a_wrong_name_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    look_up(dir.path(), LIMIT, "a");
    let from = entries(dir.path()).remove(0);
    let name = key("b").to_string();
    let to = dir.path().join(&name[..2]).join(format!("{name}.cubin"));
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::copy(from, to).unwrap();
    assert_eq!(look_up(dir.path(), LIMIT, "b"), Origin::Compiled);
}

#[test]
fn an_unwritable_folder_only_disables_the_cache() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "in the way").unwrap();
    let cache = CubinCache::at(&file.join("below"), LIMIT);
    assert!(cache.check_writable().is_err());
    let (_, origin) = cache.get_or_compile(&key("a"), || Ok::<_, Infallible>(cubin(1000))).unwrap();
    assert_eq!(origin, Origin::Compiled);
    assert!(cache.stats().io_failures > 0);
}

#[test]
fn the_least_recently_used_entry_is_evicted() {
    let dir = tempfile::tempdir().unwrap();
    let limit = 4 * 1200;
    for (age, text) in [(4, "a"), (3, "b"), (2, "c")] {
        look_up(dir.path(), limit, text);
        let name = key(text).to_string();
        let path = dir.path().join(&name[..2]).join(format!("{name}.cubin"));
        let time = SystemTime::now() - Duration::from_secs(age * 86_400);
        fs::File::options().append(true).open(path).unwrap().set_modified(time).unwrap();
    }
    assert_eq!(look_up(dir.path(), limit, "a"), Origin::Disk, "used again, so no longer the oldest");
    look_up(dir.path(), limit, "d");
    look_up(dir.path(), limit, "e");
    let total: u64 = entries(dir.path()).iter().map(|p| fs::metadata(p).unwrap().len()).sum();
    assert!(total <= limit, "{total} bytes");
    assert_eq!(look_up(dir.path(), LIMIT, "a"), Origin::Disk);
    assert_eq!(look_up(dir.path(), LIMIT, "e"), Origin::Disk);
    assert_eq!(look_up(dir.path(), LIMIT, "b"), Origin::Compiled);
}

#[cfg(unix)]
#[test]
fn the_folder_is_accessible_to_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let below = dir.path().join("cache");
    look_up(&below, LIMIT, "a");
    assert_eq!(fs::metadata(&below).unwrap().permissions().mode() & 0o777, 0o700);
}

#[cfg(unix)]
mod owners {
    use std::os::unix::fs::{PermissionsExt as _, chown};

    use attn_kernels::cache::UnsafeFolder;
    use attn_needs::{Need, has};

    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Gives a path to the user `nobody`; only the superuser can.
    fn given_away(path: &Path) -> bool {
        has(Need::Root, chown(path, Some(65534), None))
    }

    /// A planted entry of the key `a`, of 7 bytes, in a folder of that mode.
    fn planted(dir: &Path) -> PathBuf {
        let cache = CubinCache::at(dir, LIMIT);
        cache.get_or_compile(&key("a"), || Ok::<_, Infallible>(cubin(7))).unwrap();
        entries(dir).remove(0)
    }

    /// A look-up that compiles because the cache in the folder is not used, and the reason.
    fn refused(dir: &Path) -> UnsafeFolder {
        let before = entries(dir).iter().map(|path| fs::read(path).unwrap()).collect::<Vec<_>>();
        let cache = CubinCache::at(dir, LIMIT);
        let (compiled, origin) = cache.get_or_compile(&key("a"), || Ok::<_, Infallible>(cubin(1000))).unwrap();
        assert_eq!((compiled.cubin.len(), origin), (1000, Origin::Compiled), "what is planted is not used");
        let (_, again) = cache.get_or_compile(&key("a"), || Ok::<_, Infallible>(cubin(1000))).unwrap();
        assert_eq!((again, cache.stats().disk_hits), (Origin::Memory, 0), "kernels are kept in memory");
        let after = entries(dir).iter().map(|path| fs::read(path).unwrap()).collect::<Vec<_>>();
        assert_eq!(before, after, "nothing is written");
        let error = cache.check_writable().unwrap_err();
        assert!(error.get_ref().is_some_and(|inner| inner.is::<UnsafeFolder>()), "{error}");
        assert!(error.to_string().contains("ATTN_CACHE_DIR"), "{error}");
        cache.refused().unwrap().clone()
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_refused() {
        for mode in [0o777, 0o1777, 0o770, 0o702] {
            let dir = tempfile::tempdir().unwrap();
            planted(dir.path());
            set_mode(dir.path(), mode);
            assert_eq!(refused(dir.path()), UnsafeFolder::WritableByOthers { dir: dir.path().to_owned(), mode });
        }
        for mode in [0o700, 0o755] {
            let dir = tempfile::tempdir().unwrap();
            planted(dir.path());
            set_mode(dir.path(), mode);
            let cache = CubinCache::at(dir.path(), LIMIT);
            assert_eq!(cache.refused(), None);
            assert_eq!(cache.get_or_compile(&key("a"), || Err("not there")).unwrap().1, Origin::Disk, "{mode:o}");
        }
    }

    #[test]
    fn a_folder_of_another_user_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        planted(dir.path());
        if given_away(dir.path()) {
            let dir = dir.path().to_owned();
            assert_eq!(refused(&dir), UnsafeFolder::Foreign { dir: dir.clone(), owner: 65534, user: 0 });
        }
    }

    #[test]
    fn an_entry_that_another_user_may_have_written_is_compiled_again() {
        let dir = tempfile::tempdir().unwrap();
        let again = |dir: &Path| {
            let cache = CubinCache::at(dir, LIMIT);
            let (compiled, origin) = cache.get_or_compile(&key("a"), || Ok::<_, Infallible>(cubin(1000))).unwrap();
            assert_eq!((compiled.cubin.len(), origin), (1000, Origin::Compiled));
            // before and after the lock of its key was taken
            assert_eq!(cache.stats().foreign, 2);
            assert_eq!(look_up(dir, LIMIT, "a"), Origin::Disk, "and is replaced");
        };
        set_mode(&planted(dir.path()), 0o666);
        again(dir.path());
        fs::remove_file(entries(dir.path()).remove(0)).unwrap();
        if given_away(&planted(dir.path())) {
            again(dir.path());
        }
    }
}

/// The body of each process of `concurrent_processes_compile_once`; skipped when run alone.
#[test]
fn child() {
    let Some(dir) = env::var_os("ATTN_TEST_CACHE_CHILD") else { return };
    let dir = PathBuf::from(dir);
    let cache = CubinCache::at(&dir.join("cache"), LIMIT);
    for text in ["a", "b", "c"] {
        let compile = || {
            std::thread::sleep(Duration::from_millis(150));
            let unique = format!("{text}-{}", std::process::id());
            fs::write(dir.join(unique), "compiled").unwrap();
            Ok::<_, Infallible>(cubin(100_000))
        };
        let (compiled, _) = cache.get_or_compile(&key(text), compile).unwrap();
        assert_eq!(compiled.cubin.len(), 100_000);
    }
}

#[test]
fn concurrent_processes_compile_once() {
    let dir = tempfile::tempdir().unwrap();
    let spawn = |_| -> Child {
        Command::new(env::current_exe().unwrap())
            .args(["--exact", "cache::child"])
            .env("ATTN_TEST_CACHE_CHILD", dir.path())
            .spawn()
            .unwrap()
    };
    let children: Vec<Child> = (0..6).map(spawn).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let compiled = fs::read_dir(dir.path()).unwrap().filter(|e| e.as_ref().unwrap().path().is_file()).count();
    assert_eq!(compiled, 3, "each of three kernels by one process");
}
