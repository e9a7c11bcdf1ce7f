//! Where a database is, and how sessions on it are set up.
//!
//! A URL is what libpq takes, plus `schema=` (where our tables are, `public` unless told) and
//! `connections=few` (one pool of three for everything, for databases that allow few) and
//! `pooled=true` (a pooler in transaction mode stands in between: nothing is prepared, settings
//! are made in each transaction, and waiting looks again instead of listening).

use ff_core::backend::StoreError;
use ff_core::command::Traffic;
use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{Purpose, tls};

/// What every session is set to.
const EVERY: &[(&str, &str)] = &[
    // Plans that fit any parameters, made once: the EXPLAIN tests look at the same ones.
    ("plan_cache_mode", "force_generic_plan"),
    ("jit", "off"),
    // A statement sees what those it waited for have done.
    ("default_transaction_isolation", "read committed"),
    ("lock_timeout", "5s"),
    ("idle_in_transaction_session_timeout", "5s"),
];
/// What sessions that find rows by their keys are set to. Rows come sorted by key; a nested loop
/// keeps that order, so that two batches never lock rows in opposite orders, and it is what suits
/// short lists of keys anyway. A plan that was made while a table was small must not scan it when
/// it no longer is.
const BY_KEY: &[(&str, &str)] =
    &[("enable_hashjoin", "off"), ("enable_mergejoin", "off"), ("enable_seqscan", "off")];

/// What sessions that claim are set to besides. They pass over what others hold, or rest on nobody
/// holding it: whoever has to wait after all is better off looking again.
const IMPATIENT: &[(&str, &str)] = &[("lock_timeout", "100ms")];
/// What sessions that write are set to besides. Whoever holds a row for longer keeps it: a batch then
/// goes on without the commands that need it.
const PATIENT: &[(&str, &str)] = &[("lock_timeout", "250ms")];
/// How long a part of such a batch waits, which is tried to find out whether it needs the row.
const BRIEF: &str = "; set local lock_timeout = '5ms'";

/// Where a database is.
#[derive(Clone)]
pub struct Address {
    config: Config,
    /// The schema of our tables.
    pub schema: String,
    /// Whether a pooler in transaction mode stands in between.
    pub pooled: bool,
    /// Whether all kinds of traffic share a few connections.
    pub few: bool,
    /// How to encrypt.
    pub tls: MakeRustlsConnect,
    begin: String,
    begin_brief: String,
    begin_scan: String,
    begin_snapshot: String,
}

impl Address {
    /// Reads a URL.
    pub fn parse(url: &str, schema: Option<&str>) -> Result<Self, StoreError> {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let mut own = Own::default();
        let mut kept = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let decoded = percent_decode_str(value).decode_utf8();
            let decoded = decoded.map_err(|why| malformed(&format!("{name}: {why}")))?;
            if !own.take(name, &decoded)? {
                kept.push(pair);
            }
        }
        let url =
            if kept.is_empty() { base.to_owned() } else { format!("{base}?{}", kept.join("&")) };
        let mut config: Config = url.parse().map_err(|why| unreadable(&why))?;
        if config.get_user().is_none() {
            return Err(malformed("it names no user; use postgres://user@host/database"));
        }
        if config.get_application_name().is_none() {
            config.application_name("flowfabric");
        }
        config.ssl_mode(own.mode);
        config.connect_timeout(super::CONNECT);
        config.keepalives_idle(std::time::Duration::from_secs(30));
        config.tcp_user_timeout(std::time::Duration::from_secs(30));
        let schema =
            schema.map(str::to_owned).or(own.schema).unwrap_or_else(|| "public".to_owned());
        if schema.is_empty() || schema.contains('\0') || schema.len() > 63 {
            return Err(malformed("a schema name has 1 to 63 bytes"));
        }
        let tls = tls::connector(own.verify, own.roots.as_deref())?;
        let begin = |purpose| {
            let settings = if own.pooled { set_local(&schema, purpose) } else { String::new() };
            let how = match purpose {
                Purpose::Snapshot => " isolation level repeatable read read only",
                Purpose::Read | Purpose::Scan | Purpose::Write(_) | Purpose::Claim => {
                    " isolation level read committed"
                }
            };
            format!("begin{how}{settings}")
        };
        Ok(Self {
            begin: begin(Purpose::Write(Traffic::Admin)),
            begin_brief: begin(Purpose::Write(Traffic::Admin)) + BRIEF,
            begin_scan: begin(Purpose::Scan),
            begin_snapshot: begin(Purpose::Snapshot),
            config,
            schema,
            pooled: own.pooled,
            few: own.few,
            tls,
        })
    }

    /// How to connect for some purpose.
    pub fn config(&self, purpose: Purpose) -> Config {
        let mut config = self.config.clone();
        if !self.pooled {
            let mut options = config.get_options().unwrap_or("").to_owned();
            for (name, value) in settings(&self.schema, purpose) {
                options.extend([" -c ", name, "=", &escaped(&value)]);
            }
            config.options(options);
        }
        config
    }

    /// The hosts and ports it names.
    pub fn place(&self) -> String {
        let hosts = self.config.get_hosts().iter().map(|host| match host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(path) => path.display().to_string(),
        });
        // One port may stand for all hosts, and none for the usual one.
        let ports = self.config.get_ports();
        let port = |at: usize| ports.get(at).or(ports.first()).copied().unwrap_or(5432);
        let places = hosts.enumerate().map(|(at, host)| format!("{host}:{}", port(at)));
        places.collect::<Vec<_>>().join(", ")
    }

    /// What begins a transaction.
    pub fn begin(&self, purpose: Purpose) -> &str {
        match purpose {
            Purpose::Scan => &self.begin_scan,
            Purpose::Snapshot => &self.begin_snapshot,
            Purpose::Read | Purpose::Write(_) | Purpose::Claim => &self.begin,
        }
    }

    /// What begins a transaction that waits for nobody for long.
    pub fn begin_brief(&self) -> &str {
        &self.begin_brief
    }

    /// The schema as an identifier.
    pub fn quoted_schema(&self) -> String {
        quoted(&self.schema)
    }
}

/// What of a URL is ours to interpret.
struct Own {
    schema: Option<String>,
    pooled: bool,
    few: bool,
    mode: SslMode,
    verify: bool,
    roots: Option<String>,
}

impl Default for Own {
    fn default() -> Self {
        Self {
            schema: None,
            pooled: false,
            few: false,
            mode: SslMode::Prefer,
            verify: false,
            roots: None,
        }
    }
}

impl Own {
    /// Takes a parameter; whether it is ours.
    fn take(&mut self, name: &str, value: &str) -> Result<bool, StoreError> {
        match name {
            "schema" => self.schema = Some(value.to_owned()),
            "sslrootcert" => self.roots = Some(value.to_owned()),
            "pooled" => {
                self.pooled = match value {
                    "true" => true,
                    "false" => false,
                    _ => return Err(malformed("pooled is neither true nor false")),
                }
            }
            "connections" => {
                self.few = match value {
                    "few" => true,
                    "many" => false,
                    _ => return Err(malformed("connections is neither few nor many")),
                }
            }
            "sslmode" => {
                (self.mode, self.verify) = match value {
                    "disable" => (SslMode::Disable, false),
                    "prefer" => (SslMode::Prefer, false),
                    "require" => (SslMode::Require, false),
                    "verify-full" => (SslMode::Require, true),
                    _ => {
                        let why = "sslmode is one of disable, prefer, require and verify-full";
                        return Err(malformed(why));
                    }
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn malformed(why: &str) -> StoreError {
    StoreError::Transport { cause: format!("the URL of the database is malformed: {why}") }
}

/// What the driver does not understand; it says which part of it in the source of its error.
fn unreadable(why: &tokio_postgres::Error) -> StoreError {
    match std::error::Error::source(why) {
        Some(source) => malformed(&format!("{why}: {source}")),
        None => malformed(&why.to_string()),
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A value as it stands among the options of a session, which blanks separate.
fn escaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for c in value.chars() {
        // A vertical tab is a blank to the server, though not to Rust.
        if c == '\\' || c == '\u{b}' || c.is_ascii_whitespace() {
            text.push('\\');
        }
        text.push(c);
    }
    text
}

fn settings(schema: &str, purpose: Purpose) -> Vec<(&'static str, String)> {
    let writing: &[_] = match purpose {
        Purpose::Scan => &[],
        Purpose::Read | Purpose::Snapshot | Purpose::Write(_) | Purpose::Claim => BY_KEY,
    };
    let patience: &[_] = match purpose {
        Purpose::Claim => IMPATIENT,
        Purpose::Write(_) => PATIENT,
        Purpose::Read | Purpose::Snapshot | Purpose::Scan => &[],
    };
    let fixed = EVERY
        .iter()
        .chain(writing)
        .chain(patience)
        .map(|(name, value)| (*name, (*value).to_owned()));
    std::iter::once(("search_path", quoted(schema))).chain(fixed).collect()
}

fn set_local(schema: &str, purpose: Purpose) -> String {
    let mut sql = String::new();
    for (name, value) in settings(schema, purpose) {
        let quote = if name == "search_path" { "" } else { "'" };
        sql.extend(["; set local ", name, " = ", quote, &value, quote]);
    }
    sql
}
