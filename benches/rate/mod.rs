//! How often something can be done in a second, by so many threads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long a turn takes.
pub const TURN: Duration = Duration::from_millis(700);

/// Records a second that `threads` threads append in one turn; each is told its number.
pub fn rate(threads: usize, append: impl Fn(usize) + Sync) -> f64 {
    let (stop, count) = (AtomicBool::new(false), AtomicU64::new(0));
    let start = Instant::now();
    thread::scope(|scope| {
        for thread in 0..threads {
            let (stop, count, append) = (&stop, &count, &append);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    append(thread);
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        thread::sleep(TURN);
        stop.store(true, Ordering::Relaxed);
    });
    count.into_inner() as f64 / start.elapsed().as_secs_f64()
}

pub fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}
