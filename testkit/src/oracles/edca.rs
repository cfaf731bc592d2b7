//! Saturated access categories as a fixed point with contention zones (Robinson and Randhawa 2004).
//!
//! After each busy period the slots fall into zones: in the first only the categories with the
//! smallest AIFSN contend, and with each further AIFSN more join. A category's collision
//! probability is the mean over the zones in which it contends, weighted by how often a slot lies
//! in them. Attempts per slot follow from it as in Bianchi 2000, with a finite number of attempts.

/// One access category.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Category {
    /// Number of its saturated stations.
    pub stations: u32,
    /// Smallest contention window.
    pub window_min: u32,
    /// Largest contention window.
    pub window_max: u32,
    /// AIFSN, in slots.
    pub aifsn: u32,
    /// Most transmissions of a frame.
    pub attempts: u32,
}

impl Category {
    /// Attempts per slot in which the category contends, if each fails with probability `p`.
    fn attempts_per_slot(&self, p: f64) -> f64 {
        let (mut window, mut reach) = (self.window_min, 1.0);
        let (mut attempts, mut slots) = (0.0, 0.0);
        for _ in 0..self.attempts {
            attempts += reach;
            slots += reach * (f64::from(window) / 2.0 + 1.0);
            reach *= p;
            window = (2 * window + 1).min(self.window_max);
        }
        attempts / slots
    }
}

/// The result for a category.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Its share of all successful frames.
    pub share: f64,
    /// The share of its attempts that collide.
    pub collision: f64,
}

/// The results for categories that contend with one another, all in range of each other.
///
/// Panics without a category.
pub fn outcomes(categories: &[Category]) -> Vec<Outcome> {
    let smallest = categories.iter().map(|category| category.aifsn).min().expect("a category");
    let mut tau: Vec<f64> =
        categories.iter().map(|category| category.attempts_per_slot(0.2)).collect();
    let mut collision = vec![0.0; categories.len()];
    for _ in 0..20_000 {
        let zones = zones(categories, &tau, smallest);
        for (index, category) in categories.iter().enumerate() {
            let (mut weight, mut clear) = (0.0, 0.0);
            for zone in zones.iter().filter(|zone| zone.aifsn >= category.aifsn) {
                weight += zone.weight;
                clear += zone.weight * zone.clear(categories, &tau, index);
            }
            collision[index] = 1.0 - clear / weight;
        }
        for (index, category) in categories.iter().enumerate() {
            let next = category.attempts_per_slot(collision[index]);
            // Damped, because the plain iteration oscillates.
            tau[index] += 0.2 * (next - tau[index]);
        }
    }
    let zones = zones(categories, &tau, smallest);
    let successes: Vec<f64> = (0..categories.len())
        .map(|index| {
            let category = &categories[index];
            let own = zones.iter().filter(|zone| zone.aifsn >= category.aifsn);
            let clear: f64 =
                own.map(|zone| zone.weight * zone.clear(categories, &tau, index)).sum();
            f64::from(category.stations) * tau[index] * clear
        })
        .collect();
    let sum: f64 = successes.iter().sum();
    let outcome = |(success, collision): (&f64, &f64)| Outcome {
        share: success / sum,
        collision: *collision,
    };
    successes.iter().zip(&collision).map(outcome).collect()
}

/// The slots in which all categories up to an AIFSN contend.
struct Zone {
    aifsn: u32,
    /// How often a slot lies in it, relative to the other zones.
    weight: f64,
}

impl Zone {
    /// The probability that a station of a category is alone when it sends in this zone.
    fn clear(&self, categories: &[Category], tau: &[f64], index: usize) -> f64 {
        let others = categories.iter().zip(tau).enumerate();
        let quiet = others.map(|(other, (category, tau))| {
            if category.aifsn > self.aifsn {
                return 1.0;
            }
            let stations = category.stations - u32::from(other == index);
            (1.0 - tau).powi(stations as i32)
        });
        quiet.product()
    }
}

/// The zones with their weights: a slot is reached if all before it since the last transmission
/// were idle.
fn zones(categories: &[Category], tau: &[f64], smallest: u32) -> Vec<Zone> {
    let largest = categories.iter().map(|category| category.aifsn).max().unwrap_or(smallest);
    let mut zones = Vec::new();
    let mut reached = 1.0;
    for aifsn in smallest..=largest {
        let idle: f64 = categories
            .iter()
            .zip(tau)
            .filter(|(category, _)| category.aifsn <= aifsn)
            .map(|(category, tau)| (1.0 - tau).powi(category.stations as i32))
            .product();
        // The last zone lasts until some station sends.
        let weight = if aifsn == largest { reached / (1.0 - idle) } else { reached };
        zones.push(Zone { aifsn, weight });
        reached *= idle;
    }
    zones
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEST_EFFORT: Category =
        Category { stations: 5, window_min: 31, window_max: 1023, aifsn: 2, attempts: 255 };

    #[test]
    fn one_category_alone_is_bianchis_model() {
        // `radio.md` 12: n = 5, 10, 20 with windows of 32 to 1024.
        for (stations, collision) in [(5, 0.178), (10, 0.290), (20, 0.399)] {
            let found = outcomes(&[Category { stations, ..BEST_EFFORT }])[0];
            assert!((found.collision - collision).abs() < 0.004, "{stations}: {found:?}");
            assert_eq!(found.share, 1.0);
        }
    }

    #[test]
    fn equal_categories_share_equally_and_smaller_windows_or_gaps_get_more() {
        let share = |first: Category| outcomes(&[first, BEST_EFFORT])[0].share;
        assert!((share(BEST_EFFORT) - 0.5).abs() < 1e-9);
        let by_window = share(Category { window_min: 15, ..BEST_EFFORT });
        let by_gap = outcomes(&[BEST_EFFORT, Category { aifsn: 4, ..BEST_EFFORT }])[0].share;
        assert!(by_window > 0.6 && by_window < 0.75, "{by_window}");
        assert!(by_gap > 0.55 && by_gap < 0.85, "{by_gap}");
    }
}
