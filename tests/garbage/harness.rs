//! Runs a target over its cases and over mutated inputs.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{env, fs};

use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};

use crate::found;
use crate::mutate::{Mutator, pick};

/// The longest that one input may take, on a slow machine and without optimisation.
const PATIENCE: Duration = Duration::from_secs(20);
/// The longest input in bytes.
const LONGEST: usize = 1 << 16;
/// The most inputs from which others are made: the corpus, and inputs that were accepted.
const KEPT: usize = 2000;

/// What a target says of an input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Seen {
    /// It was refused.
    Refused,
    /// It was accepted: others are made of it.
    Accepted,
}

/// Runs a target over its committed cases, what libFuzzer found, its corpus, and `rounds` inputs or for
/// `ATTN_FUZZ_SECONDS`.
///
/// # Panics
///
/// An input fails; it was saved.
pub(crate) fn fuzz(name: &str, corpus: &[Vec<u8>], rounds: usize, target: fn(&[u8]) -> Seen) {
    assert!(corpus.len() > 2, "a corpus of {name}");
    let found = found::inputs(name);
    if let Some(to) = env::var_os("ATTN_FUZZ_CORPUS") {
        let folder = Path::new(&to).join(name);
        fs::create_dir_all(&folder).expect("a folder for the corpus");
        let write = |(i, input): (usize, &Vec<u8>)| fs::write(folder.join(i.to_string()), input);
        corpus.iter().chain(&found).enumerate().try_for_each(write).expect("the corpus is written");
    }
    for case in committed(name).into_iter().chain(found) {
        run(name, &case, target);
    }
    let seconds: Option<u64> = env::var("ATTN_FUZZ_SECONDS").ok().map(|text| text.parse().expect("seconds"));
    let seed = seed(seconds.is_some());
    let mut random = SmallRng::seed_from_u64(seed);
    let mut inputs = corpus.to_vec();
    let accepted = inputs.iter().filter(|input| run(name, input, target) == Seen::Accepted).count();
    assert!(accepted * 2 > inputs.len(), "{name}: only {accepted} of {} inputs of the corpus are sound", inputs.len());
    let mutator = Mutator::new(corpus);
    // a long run keeps the input that is running: one that ends the process cannot be saved afterwards
    let running = seconds.map(|_| folder(name).join("running"));
    let (began, mut done, mut good) = (Instant::now(), 0, 0);
    let goes_on = |done| match seconds {
        Some(seconds) => began.elapsed() < Duration::from_secs(seconds),
        None => done < rounds,
    };
    while goes_on(done) {
        let mut input = pick(&inputs, &mut random).clone();
        for _ in 0..random.random_range(1..=4) {
            mutator.mutate(&mut input, &inputs, &mut random);
        }
        input.truncate(LONGEST);
        if let Some(path) = &running {
            fs::write(path, &input).expect("the folder of failures can be written");
        }
        if run(name, &input, target) == Seen::Accepted {
            good += 1;
            // the corpus itself stays
            match inputs.len() < KEPT {
                true => inputs.push(input),
                false => {
                    let at = random.random_range(corpus.len()..KEPT);
                    inputs[at] = input;
                }
            }
        }
        done += 1;
    }
    running.map(fs::remove_file).transpose().expect("it was written");
    assert!(good > 0, "{name}: no input of {done} was accepted, so little was reached");
    #[allow(clippy::print_stderr)] // what a long run has done
    {
        eprintln!("{name}: seed {seed}, {done} inputs, {good} accepted, {:.1} s", began.elapsed().as_secs_f64());
    }
}

/// A fixed seed, or for long runs one of the clock, unless it is given.
fn seed(changing: bool) -> u64 {
    match env::var("ATTN_FUZZ_SEED") {
        Ok(text) => text.parse().expect("ATTN_FUZZ_SEED is a number"),
        Err(_) if changing => SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_nanos() as u64),
        Err(_) => 1,
    }
}

/// The inputs that failed once.
fn committed(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/fuzz").join(name);
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths.into_iter().map(|path| fs::read(path).expect("a file")).collect()
}

fn run(name: &str, input: &[u8], target: fn(&[u8]) -> Seen) -> Seen {
    let began = Instant::now();
    let result = catch_unwind(AssertUnwindSafe(|| target(input)));
    let why = match result {
        Ok(seen) if began.elapsed() < PATIENCE => return seen,
        Ok(_) => format!("it took {:.1} s", began.elapsed().as_secs_f64()),
        Err(payload) => said(&*payload),
    };
    let saved = save(name, input);
    panic!("{name}: {why}\nthe input is in {}:\n{}", saved.display(), String::from_utf8_lossy(input));
}

fn said(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str).or(payload.downcast_ref::<&str>().copied());
    text.unwrap_or("it panicked").to_owned()
}

/// Writes an input that failed, under a name made of its content.
fn save(name: &str, input: &[u8]) -> PathBuf {
    let hash = input.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3) // FNV-1a
    });
    let path = folder(name).join(format!("{hash:016x}"));
    fs::write(&path, input).expect("the input is saved");
    path
}

/// The folder of inputs that fail.
fn folder(name: &str) -> PathBuf {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/fuzz-failures");
    let folder = env::var_os("ATTN_FUZZ_SAVE").map_or_else(default, PathBuf::from).join(name);
    fs::create_dir_all(&folder).expect("the folder of failures can be made");
    folder
}
