//! Storms: servers, random clients and faults, for minutes in the suite and for hours by hand.

use crate::process::{self, Failed, Outcome, Step};

/// How long the storms of the suite last, on each store.
const SUITE_SECONDS: u32 = 120;
/// How long a soak lasts on each store when nobody says.
const SOAK_MINUTES: u32 = 60;
const STORES: [&str; 2] = ["postgres", "sqlite"];
const USAGE: &str = "usage: cargo xtask soak [--minutes N]";

/// One storm; the arguments say which.
pub fn storm(args: &[String]) -> Outcome {
    build()?;
    Step::built("ff-storm")?.args(args).run()
}

/// A long storm on each store, and the prompt mode on each.
pub fn soak(args: &[String]) -> Outcome {
    let minutes = match args {
        [] => SOAK_MINUTES,
        [option, number] if option == "--minutes" => {
            number.parse().map_err(|why| Failed::new(USAGE, why))?
        }
        _ => return Err(Failed::new(USAGE, args.join(" "))),
    };
    build()?;
    let mut steps = on_each_store(60 * minutes, None)?;
    for store in STORES {
        // It brings its own number of servers, and ends when everything that it created has.
        steps.push(Step::built("ff-storm")?.words(&format!("--store {store} --mode prompt")));
    }
    process::run_all(steps)
}

/// The storms of the suite, once everything is built: always the same ones.
pub fn of_suite() -> Result<Vec<Step>, Failed> {
    on_each_store(SUITE_SECONDS, Some(25))
}

/// Builds the storm and the servers in it: with the whole workspace, so that nothing is compiled again for
/// other features than the tests have.
pub fn build() -> Outcome {
    Step::cargo("build --workspace --bins").run()
}

fn on_each_store(seconds: u32, seed: Option<u32>) -> Result<Vec<Step>, Failed> {
    let step = |store: &str| {
        let line = format!("--store {store} --servers 3 --seconds {seconds}");
        let seed = seed.map(|seed| format!("--seed {seed}")).unwrap_or_default();
        Ok(Step::built("ff-storm")?.words(&line).words(&seed))
    };
    STORES.into_iter().map(step).collect()
}
