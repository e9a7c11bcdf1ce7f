//! Opening the database that a URL names.

use std::sync::Arc;

use anyhow::{Context, bail};
use ff_backend_sqlite::{Options, Sqlite};
use ff_core::Backend;

/// Opens `sqlite:<path>`; migrations are applied.
pub fn open(url: &str) -> anyhow::Result<Arc<dyn Backend>> {
    let path = url.strip_prefix("sqlite:").map(|path| path.strip_prefix("//").unwrap_or(path));
    let Some(path) = path.filter(|path| !path.is_empty() && !path.starts_with(':')) else {
        bail!("cannot open {url:?}: use sqlite:<path>, for example sqlite:fabric.db");
    };
    let store = Sqlite::open(Options::new(path)).with_context(|| format!("cannot open {url}"))?;
    Ok(Arc::new(store))
}
