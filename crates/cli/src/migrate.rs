//! `ff migrate`: brings a schema up to date, or says what that would take.

use std::io::Write;

use clap::Args;

use flowfabric::{Database, VARIABLE};

/// Bring a schema up to date.
#[derive(Args)]
pub struct Migrate {
    /// The database, as sqlite:<path> or postgres://user:password@host:port/database?schema=name
    #[arg(long, value_name = "URL", env = VARIABLE, hide_env_values = true)]
    database: String,
    /// Only say what is missing; change nothing
    #[arg(long)]
    dry_run: bool,
}

impl Migrate {
    /// Applies or names what is missing.
    pub async fn run(self) -> anyhow::Result<()> {
        let database = Database::parse(&self.database)?;
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
