//! Ranks that are processes, as a launcher starts them: each is this program again, with a rank in its environment. One
//! GPU shows a group of one and two ranks of one device; several GPUs show sums, and a rank that is killed.
#![allow(clippy::print_stdout)]

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, process, thread};

use attn::parallel::Communicator;
use attn::{Dtype, Engine, Error};
use attn_needs::{Need, needed};

/// What the processes do.
const TASK: &str = "ATTN_TEST_TASK";
/// How long a rank waits for others.
const LIMIT: Duration = Duration::from_secs(8);
const TEST: &str = "processes_gpu::a_rank_does_its_task";

/// The work of a rank; it does nothing in the program that starts them.
#[test]
fn a_rank_does_its_task() {
    let Ok(task) = env::var(TASK) else { return };
    match rank(&task) {
        Ok(()) => {}
        Err(error) => {
            println!("{error}");
            process::exit(3);
        }
    }
}

fn rank(task: &str) -> Result<(), Error> {
    let (engine, communicator) = Communicator::from_env(LIMIT)?;
    let (rank, ranks) = (communicator.rank(), communicator.ranks());
    let (stream, own) = (engine.stream()?, engine.upload(&vec![rank as f32 + 1.0; 1000])?);
    let mut sum = engine.alloc(Dtype::F32, 1000)?;
    communicator.all_reduce(&stream, own.tensor(&[1000])?, sum.tensor_mut(&[1000])?)?;
    communicator.wait(&stream)?;
    assert_eq!(engine.download::<f32>(&sum)?, vec![(ranks * (ranks + 1) / 2) as f32; 1000]);
    if task == "die" {
        if rank == 1 {
            process::abort();
        }
        communicator.all_reduce(&stream, own.tensor(&[1000])?, sum.tensor_mut(&[1000])?)?;
        communicator.wait(&stream)?;
    }
    Ok(())
}

/// Starts the ranks, of which rank `r` has device `r % devices`.
fn start(task: &str, ranks: usize, devices: usize, port: u16) -> Vec<Child> {
    let child = |rank: usize| {
        let of_rank = [("RANK", rank), ("WORLD_SIZE", ranks), ("LOCAL_RANK", rank % devices)];
        let mut command = Command::new(env::current_exe().expect("a program"));
        command.args([TEST, "--exact", "--nocapture"]).env(TASK, task).env("NCCL_COMM_ID", format!("127.0.0.1:{port}"));
        command.envs(of_rank.map(|(name, value)| (name, value.to_string())));
        command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("a process")
    };
    (0..ranks).map(child).collect()
}

/// What ranks said, and whether they succeeded.
fn ends(ranks: Vec<Child>) -> Vec<(bool, String)> {
    let end = |rank: Child| {
        let output = rank.wait_with_output().expect("an end");
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    ranks.into_iter().map(end).collect()
}

/// The GPUs; none if there is no NCCL.
fn gpus() -> usize {
    if needed(Need::Gpu, Engine::cuda(0)).is_none() || needed(Need::Nccl, Communicator::unique_id()).is_none() {
        return 0;
    }
    (0..8).take_while(|&device| Engine::cuda(device).is_ok()).count()
}

#[test]
fn processes_add_up() {
    let gpus = gpus();
    for ranks in [1, 2, 4, 8].into_iter().filter(|&ranks| ranks <= gpus) {
        for (success, said) in ends(start("add", ranks, gpus, 29_610 + ranks as u16)) {
            assert!(success, "{ranks} ranks: {said}");
        }
    }
}

/// They meet, and NCCL refuses them. Each process has an error in time.
#[test]
fn two_ranks_of_one_device_are_refused() {
    if gpus() == 0 {
        return;
    }
    let start_of_test = Instant::now();
    for (success, said) in ends(start("add", 2, 1, 29_621)) {
        assert!(!success && said.contains("NCCL could not join the group"), "{said}");
    }
    assert!(start_of_test.elapsed() < 6 * LIMIT);
}

#[test]
fn the_others_learn_of_a_killed_rank() {
    let gpus = gpus();
    if gpus < 2 {
        return;
    }
    let start_of_test = Instant::now();
    let ends = ends(start("die", gpus.min(4), gpus, 29_631));
    for (rank, (success, said)) in ends.iter().enumerate().filter(|(rank, _)| *rank != 1) {
        assert!(!success && said.contains("another of"), "rank {rank}: {said}");
    }
    assert!(start_of_test.elapsed() < 6 * LIMIT);
    // the device goes on
    thread::sleep(Duration::from_millis(100));
    assert!(Engine::cuda(0).and_then(|engine| engine.upload(&[1f32])).is_ok());
}
