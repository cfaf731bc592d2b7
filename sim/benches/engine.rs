//! How fast the engine is: events of its queue, and whole scenarios.

use divan::Bencher;
use divan::counter::ItemsCount;
use farhop_proto::base::{Duration, Instant, Seed};
use farhop_proto::stack::{FlowConfig, Scenario};
use farhop_sim::engine::{RunOptions, run};
use farhop_sim::radio::EventQueue;

fn main() {
    divan::main();
}

/// Events of one round.
const EVENTS: u64 = 100_000;

/// The classic hold model: the next event fires and is set again a random time later. One in four
/// also moves another, as carrier sense does with backoffs.
#[divan::bench(args = [100, 1_000, 10_000, 100_000])]
fn queue(bencher: Bencher<'_, '_>, handles: usize) {
    let mut rng = Seed(1).stream("queue");
    let mut later = move || Duration::from_nanos(1 + rng.below(1_000_000));
    let mut queue = EventQueue::new(handles);
    for handle in 0..handles {
        queue.set(handle, Instant::ZERO + later());
    }
    bencher.counter(ItemsCount::new(EVENTS)).bench_local(|| {
        for event in 0..EVENTS {
            let (now, handle) = queue.peek().expect("every handle has an event");
            queue.set(handle, now + later());
            if event % 4 == 0 {
                queue.set((handle * 7 + 1) % handles, now + later());
            }
        }
    });
}

fn simulate(bencher: Bencher<'_, '_>, mut scenario: Scenario) {
    scenario.duration_s = 5.0;
    let once = || run(&scenario, RunOptions::default()).expect("it runs");
    bencher.counter(ItemsCount::new(once().events)).bench_local(once);
}

#[divan::bench(sample_count = 10)]
fn tcp_over_the_demos_link(bencher: Bencher<'_, '_>) {
    let text = include_str!("../../scenarios/demo.toml");
    simulate(bencher, farhop_testkit::scenario(text));
}

/// Transfers from one node to another, all of which wait for the same link.
#[divan::bench(args = [10, 100, 1_000], sample_count = 10)]
fn tcp_flows_over_one_link(bencher: Bencher<'_, '_>, flows: usize) {
    let text = include_str!("../../scenarios/plain.toml");
    let mut all = farhop_testkit::scenario(text);
    all.flow = vec![FlowConfig { name: String::new(), ..all.flow[0].clone() }; flows];
    simulate(bencher, all);
}
