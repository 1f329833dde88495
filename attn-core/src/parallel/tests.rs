//! Collectives of threads, and what becomes of the others when one of them fails.

use std::thread;
use std::time::{Duration, Instant};

use super::{Collective, ParallelError, ThreadRank};
use crate::tensor::{TensorMut, TensorRef};

const LONG: Duration = Duration::from_secs(60);

/// Runs each rank in a thread of its own, and returns their results in order.
fn on_threads<T: Send>(ranks: Vec<ThreadRank>, run: impl Fn(ThreadRank) -> T + Sync) -> Vec<T> {
    let run = &run;
    thread::scope(|scope| {
        let threads: Vec<_> = ranks.into_iter().map(|rank| scope.spawn(move || run(rank))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a rank panics")).collect()
    })
}

fn gather(rank: &ThreadRank, own: &[f32], all: &mut [f32]) -> Result<(), ParallelError> {
    let shape = [rank.ranks(), own.len()];
    let mut all = TensorMut::host(all, &shape).expect("long enough");
    rank.run(Collective::AllGather, &TensorRef::host(own, &[own.len()]).expect("sound"), &mut all)
}

#[test]
fn tensors_of_all_ranks_arrive_in_their_order() {
    for ranks in [1, 2, 3, 8] {
        let results = on_threads(ThreadRank::group(ranks, LONG), |rank| {
            let own = rank.rank() as f32;
            let (mut all, mut parts, mut before) = (vec![0.0; 2 * ranks], vec![0.0; ranks], [0.0]);
            // many rounds: a fast rank does not overtake a slow one
            for round in 0..50 {
                let x = own + 100.0 * round as f32;
                gather(&rank, &[x, -x], &mut all).expect("all come");
                let send: Vec<f32> = (0..ranks).map(|to| 10.0 * x + to as f32).collect();
                let (send, mut receive) = (TensorRef::host(&send, &[ranks]), TensorMut::host(&mut parts, &[ranks]));
                let receive = receive.as_mut().expect("sound");
                rank.run(Collective::AllToAll, &send.expect("sound"), receive).expect("all come");
                let (send, mut receive) = ([x], TensorMut::host(&mut before, &[1]).expect("sound"));
                rank.run(Collective::Shift, &TensorRef::host(&send, &[1]).expect("sound"), &mut receive)
                    .expect("all come");
                let (send, mut sums) = ([x, -x], [0.0; 2]);
                let (send, mut receive) = (TensorRef::host(&send, &[2]), TensorMut::host(&mut sums, &[2]));
                let receive = receive.as_mut().expect("sound");
                rank.run(Collective::AllReduce, &send.expect("sound"), receive).expect("all come");
                let all_ranks: f32 = (0..ranks).map(|from| from as f32 + 100.0 * round as f32).sum();
                assert_eq!(sums, [all_ranks, -all_ranks]);
                rank.barrier().expect("all come");
                for from in 0..ranks {
                    let x = from as f32 + 100.0 * round as f32;
                    assert_eq!((all[2 * from], all[2 * from + 1], parts[from]), (x, -x, 10.0 * x + own));
                }
                assert_eq!(before[0], ((rank.rank() + ranks - 1) % ranks) as f32 + 100.0 * round as f32);
            }
            rank.rank()
        });
        assert_eq!(results, (0..ranks).collect::<Vec<_>>());
    }
}

/// The errors of ranks of which the last one does something else, in less time than the limit of the group.
fn errors_beside(other: impl Fn(ThreadRank) + Sync) -> Vec<ParallelError> {
    let start = Instant::now();
    let results = on_threads(ThreadRank::group(3, LONG), |rank| {
        if rank.rank() == 2 {
            other(rank);
            return None;
        }
        let error = gather(&rank, &[0.0; 4], &mut [0.0; 12]).expect_err("a rank fails");
        // the group stays broken
        assert_eq!(rank.barrier(), Err(error.clone()));
        Some(error)
    });
    assert!(start.elapsed() < LONG / 4, "nothing waits for the limit");
    results.into_iter().flatten().collect()
}

#[test]
fn every_rank_learns_of_another_call_of_one_of_them() {
    let calls = "all_gather of f32 [4]".to_owned();
    let mismatch = |other_call: &str| ParallelError::Mismatch {
        rank: 0,
        call: calls.clone(),
        other: 2,
        other_call: other_call.to_owned(),
    };
    let shapes = errors_beside(|rank| {
        let error = gather(&rank, &[0.0; 5], &mut [0.0; 15]).expect_err("another shape");
        assert!(matches!(error, ParallelError::Mismatch { other: 2, .. }), "{error}");
    });
    assert_eq!(shapes, vec![mismatch("all_gather of f32 [5]"); 2]);
    let other = errors_beside(|rank| rank.barrier().map_or((), |()| panic!("another call")));
    assert_eq!(other, vec![mismatch("barrier"); 2]);
}

#[test]
fn every_rank_learns_of_one_that_leaves_or_aborts() {
    assert_eq!(errors_beside(drop), vec![ParallelError::Left { rank: 2 }; 2]);
    let aborted = errors_beside(|rank| {
        rank.abort("out of memory");
        thread::sleep(Duration::from_millis(50));
    });
    assert_eq!(aborted, vec![ParallelError::Aborted { rank: 2, why: "out of memory".to_owned() }; 2]);
    // a rank whose tensors do not fit tells the others
    let unfit = errors_beside(|rank| {
        let (own, mut all) = ([0.0f32; 4], [0.0f32; 8]);
        let mut all = TensorMut::host(&mut all, &[2, 4]).expect("sound");
        rank.run(Collective::AllGather, &TensorRef::host(&own, &[4]).expect("sound"), &mut all)
            .expect_err("two of three ranks");
        thread::sleep(Duration::from_millis(50));
    });
    let why = "all_gather of f32 [4] needs [3, 4] to receive into, not f32 [2, 4]".to_owned();
    assert_eq!(unfit, vec![ParallelError::Aborted { rank: 2, why }; 2]);
}

#[test]
fn ranks_that_do_not_come_in_time_are_named() {
    let limit = Duration::from_millis(100);
    let results = on_threads(ThreadRank::group(3, limit), |rank| {
        if rank.rank() == 1 {
            thread::sleep(5 * limit);
        }
        rank.barrier().expect_err("one is late")
    });
    let late = ParallelError::TimedOut { missing: vec![1], call: "barrier".to_owned(), limit };
    assert_eq!(results, vec![late; 3]);
}
