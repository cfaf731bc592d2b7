//! Runs many measurements on all cores, with a progress bar.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use indicatif::{ProgressBar, ProgressStyle};

/// A bar on the terminal for `count` steps of `what`.
pub(crate) fn bar(what: &str, count: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:<12} {bar:30} {pos}/{len}, {eta} left");
    ProgressBar::new(count as u64)
        .with_style(style.expect("a fixed template"))
        .with_message(what.to_owned())
}

/// Prints a text above a bar, or by itself where there is no terminal.
pub(crate) fn tell(bar: &ProgressBar, what: &str) {
    if bar.is_hidden() {
        let (done, all) = (bar.position(), bar.length().unwrap_or_default());
        eprintln!("{} {done}/{all}: {what}", bar.message());
    } else {
        bar.println(what);
    }
}

/// The results of `measure` for each item, in the order of the items.
pub(crate) fn map<T: Sync, R: Send>(
    what: &str,
    items: &[T],
    measure: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let bar = bar(what, items.len());
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::with_capacity(items.len()));
    std::thread::scope(|scope| {
        for _ in 0..cores.min(items.len()) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { break };
                    let result = measure(item);
                    results.lock().expect("no measurement panicked").push((index, result));
                    bar.inc(1);
                }
            });
        }
    });
    bar.finish_and_clear();
    let mut results = results.into_inner().expect("no measurement panicked");
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

/// The median; the mean of the middle two if the number of values is even.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        length if length % 2 == 1 => sorted[middle],
        _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_items() {
        let items: Vec<u64> = (0..100).collect();
        assert_eq!(map("squares", &items, |item| item * item)[99], 9801);
    }

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        assert_eq!(median(&[4.0, 1.0, 3.0]), 3.0);
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
        assert!(median(&[]).is_nan());
    }
}
