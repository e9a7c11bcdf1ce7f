//! The floor: plain prepared SQL through the same driver, on the same disk, in the same run.

pub mod postgres;
pub mod sqlite;

use std::time::Instant;

fn per_second(count: u32, begun: Instant) -> f64 {
    f64::from(count) / begun.elapsed().as_secs_f64()
}

fn median(mut took: Vec<f64>) -> f64 {
    took.sort_by(f64::total_cmp);
    took[took.len() / 2]
}
