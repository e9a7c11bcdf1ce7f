//! `ff migrate`: brings a schema up to date, or says what that would take.

use std::io::Write;

use clap::Args;

use crate::place::Place;

/// Bring a schema up to date.
#[derive(Args)]
pub struct Migrate {
    /// Only say what is missing; change nothing
    #[arg(long)]
    dry_run: bool,
}

impl Migrate {
    /// Applies or names what is missing.
    pub async fn run(self, place: &Place) -> anyhow::Result<()> {
        let database = place.database("migrate")?;
        let standing = database.standing().await?;
        let mut out = std::io::stdout();
        if standing.missing.is_empty() {
            writeln!(out, "up to date at version {}", standing.version)?;
            return Ok(());
        }
        if !self.dry_run {
            database.migrate().await?;
        }
        let word = if self.dry_run { "missing" } else { "applied" };
        for (number, name) in standing.missing {
            writeln!(out, "{word} {number} {name}")?;
        }
        Ok(())
    }
}
