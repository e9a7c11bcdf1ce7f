//! What is measured, and the bar that each row has to clear.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use crate::floor::{postgres, sqlite};
use crate::ours::{backlog, cost, flows, load, speed, waits, worker};
use crate::place::Place;
use crate::threads;

/// One thing that is measured.
pub struct Row {
    /// What it is called.
    pub name: &'static str,
    /// On which database.
    pub backend: &'static str,
    /// In what.
    pub unit: &'static str,
    /// What it has to reach.
    pub bar: Option<Bar>,
    what: What,
}

/// What a row has to reach.
#[derive(Clone, Copy)]
pub enum Bar {
    /// A ratio to the floor of at least this.
    RatioFrom(f64),
    /// A ratio to the floor of at most this.
    RatioTo(f64),
    /// A value of at most this.
    ValueTo(f64),
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RatioFrom(bar) => write!(f, "ratio >= {bar}"),
            Self::RatioTo(bar) => write!(f, "ratio <= {bar}"),
            Self::ValueTo(bar) => write!(f, "value <= {bar}"),
        }
    }
}

/// How a row is measured.
enum What {
    CreateCallers32,
    CreateBatch1000,
    Drain,
    Latency,
    LatencyTwoProcesses,
    LatencyUnderLoad,
    LatencyUnderLoadTwoProcesses,
    WalCycle,
    DrainStatements,
    IdleStatements,
    ClaimOfMillion,
    ClaimBesideDelayed,
    DrainPinned,
    Steps,
    WorkerCpu,
    HttpCycle,
    Fanout,
    ChainHop,
    CancelFlow,
    SubmitFlow,
    Suspend8,
    Suspend64,
}

/// What was measured.
pub struct Figure {
    /// Ours.
    pub value: f64,
    /// What plain SQL reaches, or what it is compared with.
    pub floor: Option<f64>,
    /// What to tell beside it.
    pub beside: Vec<(&'static str, f64)>,
}

impl Figure {
    /// Ours to the floor.
    pub fn ratio(&self) -> Option<f64> {
        self.floor.map(|floor| self.value / floor)
    }
}

const fn row(
    name: &'static str,
    backend: &'static str,
    unit: &'static str,
    bar: Option<Bar>,
    what: What,
) -> Row {
    Row { name, backend, unit, bar, what }
}

const RATE: &str = "executions/s";
const PG: &str = "postgres";
const FILE: &str = "sqlite";

/// Every row.
pub const ROWS: [Row; 28] = [
    row("create_callers32", PG, RATE, Some(Bar::RatioFrom(1.3)), What::CreateCallers32),
    row("create_batch1000", PG, RATE, Some(Bar::RatioFrom(0.2)), What::CreateBatch1000),
    row("drain", PG, RATE, Some(Bar::RatioFrom(0.19)), What::Drain),
    row("latency_p50", PG, "ms", Some(Bar::RatioTo(1.6)), What::Latency),
    row("latency_p50_two_processes", PG, "ms", Some(Bar::RatioTo(3.4)), What::LatencyTwoProcesses),
    row("latency_p99", PG, "ms", None, What::LatencyUnderLoad),
    row("latency_p99_two_processes", PG, "ms", None, What::LatencyUnderLoadTwoProcesses),
    row("wal_cycle_bytes", PG, "bytes", Some(Bar::ValueTo(2_400.0)), What::WalCycle),
    row("drain_statements", PG, "per execution", Some(Bar::ValueTo(0.1)), What::DrainStatements),
    row("idle_statements", PG, "per second", Some(Bar::ValueTo(3.0)), What::IdleStatements),
    row("claim_1m_vs_1k", PG, "ms", Some(Bar::RatioTo(1.5)), What::ClaimOfMillion),
    row("claim_1m_delayed", PG, "ms", Some(Bar::RatioTo(1.5)), What::ClaimBesideDelayed),
    row("drain_pinned_horizon", PG, RATE, Some(Bar::RatioFrom(0.85)), What::DrainPinned),
    row("steps_c16", PG, "steps/s", Some(Bar::RatioFrom(1.0)), What::Steps),
    row("worker_cpu_us", PG, "µs per execution", Some(Bar::ValueTo(25.0)), What::WorkerCpu),
    row("http_cycle", PG, RATE, Some(Bar::RatioFrom(0.2)), What::HttpCycle),
    row("fanout_100", PG, "ms", Some(Bar::RatioTo(110.0)), What::Fanout),
    row("chain_hop", PG, "ms", Some(Bar::RatioTo(6.5)), What::ChainHop),
    row("cancel_10k", PG, "ms", Some(Bar::RatioTo(3.5)), What::CancelFlow),
    row("submit_1000", PG, "ms", Some(Bar::RatioTo(4.0)), What::SubmitFlow),
    row("suspend_c8", PG, "cycles/s", Some(Bar::RatioFrom(0.25)), What::Suspend8),
    row("suspend_c64", PG, "cycles/s", Some(Bar::RatioFrom(0.75)), What::Suspend64),
    row("create_callers32", FILE, RATE, None, What::CreateCallers32),
    row("create_batch1000", FILE, RATE, None, What::CreateBatch1000),
    row("drain", FILE, RATE, None, What::Drain),
    row("latency_p50", FILE, "ms", None, What::Latency),
    row("latency_p99", FILE, "ms", None, What::LatencyUnderLoad),
    row("latency_p99_two_processes", FILE, "ms", None, What::LatencyUnderLoadTwoProcesses),
];

/// The names of all rows.
pub fn names() -> String {
    let mut names: Vec<_> = ROWS.iter().map(|row| row.name).collect();
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}

impl Row {
    /// Whether the bar is cleared; nothing when there is none.
    pub fn holds(&self, figure: &Figure) -> Option<bool> {
        Some(match self.bar? {
            Bar::RatioFrom(bar) => figure.ratio()? >= bar,
            Bar::RatioTo(bar) => figure.ratio()? <= bar,
            Bar::ValueTo(bar) => figure.value <= bar,
        })
    }

    /// Medians over `runs`, each with the floor beside it so that both see the same noise.
    pub fn measure(&self, runs: usize) -> anyhow::Result<Figure> {
        let logged: &[_] = match self.what {
            What::DrainStatements | What::IdleStatements => &[("log_statement", "all")],
            _ => &[], // the others need nothing special
        };
        let (mut values, mut floors) = (Vec::new(), Vec::new());
        let mut besides: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for _ in 0..runs.max(1) {
            let place = if self.backend == PG { Place::server(logged)? } else { Place::file()? };
            let figure = threads()?.block_on(Box::pin(self.once(&place)))?;
            values.push(figure.value);
            floors.extend(figure.floor);
            for (name, value) in figure.beside {
                besides.entry(name).or_default().push(value);
            }
        }
        let floor = (!floors.is_empty()).then(|| median(floors));
        let beside = besides.into_iter().map(|(name, values)| (name, median(values))).collect();
        Ok(Figure { value: median(values), floor, beside })
    }

    async fn once(&self, place: &Place) -> anyhow::Result<Figure> {
        let plain = |value: f64| Figure { value, floor: None, beside: Vec::new() };
        let compared = |(value, floor): (f64, f64)| Figure { floor: Some(floor), ..plain(value) };
        let cycles = |(asking, waiting): (f64, f64), floor: f64, commits: f64| Figure {
            beside: vec![("waiting", waiting), ("four_commits", commits)],
            ..compared((asking, floor))
        };
        let loaded = |late: &load::Late, floor: f64| Figure {
            beside: vec![("p50", late.p50), ("rate", late.rate), ("kept", late.kept)],
            ..compared((late.p99, floor))
        };
        Ok(match self.what {
            What::CreateCallers32 => {
                let floor = floor(place, sqlite::insert_each, postgres::insert_each32).await?;
                compared((speed::create_callers32(place).await?, floor))
            }
            What::CreateBatch1000 => {
                let floor =
                    floor(place, sqlite::insert_hundreds, postgres::insert_hundreds).await?;
                compared((speed::create_batch1000(place).await?, floor))
            }
            What::Drain => {
                let floor = floor(place, sqlite::pop_hundreds, postgres::pop_hundreds).await?;
                compared((speed::drain(place).await?, floor))
            }
            What::Latency => {
                let floor = floor(place, sqlite::three_commits, postgres::three_commits).await?;
                compared((speed::latency_p50(place).await?, floor))
            }
            What::LatencyTwoProcesses => {
                let floor = floor(place, sqlite::three_commits, postgres::three_commits).await?;
                compared((speed::latency_p50_two_processes(place).await?, floor))
            }
            What::LatencyUnderLoad => {
                let floor = floor(place, sqlite::three_commits, postgres::three_commits).await?;
                loaded(&load::one_process(place).await?, floor)
            }
            What::LatencyUnderLoadTwoProcesses => {
                let floor = floor(place, sqlite::three_commits, postgres::three_commits).await?;
                loaded(&load::two_processes(place).await?, floor)
            }
            What::WalCycle => {
                let (records, images) = cost::wal_cycle_bytes(place).await?;
                Figure { beside: vec![("full_page_images", images)], ..plain(records) }
            }
            What::DrainStatements => plain(cost::drain_statements(place).await?),
            What::IdleStatements => plain(cost::idle_statements(place).await?),
            What::ClaimOfMillion => compared(backlog::claim_1m_vs_1k(place).await?),
            What::ClaimBesideDelayed => compared(backlog::claim_1m_delayed(place).await?),
            What::Steps => {
                let floor = floor(place, sqlite::insert_each, postgres::insert_each16).await?;
                compared((worker::steps_c16(place).await?, floor))
            }
            What::Fanout => {
                let floor = flows::one_commit(place).await?;
                compared((flows::fanout_100(place).await?, floor))
            }
            What::ChainHop => {
                let floor = flows::one_commit(place).await?;
                compared((flows::chain_hop(place).await?, floor))
            }
            What::CancelFlow => compared(flows::cancel_10k(place).await?),
            What::SubmitFlow => compared(flows::submit_1000(place).await?),
            What::Suspend8 => {
                let three = floor(place, sqlite::three_commits, postgres::three_writes8).await?;
                let four = floor(place, sqlite::three_commits, postgres::four_commits8).await?;
                cycles(waits::suspend_c8(place).await?, three, four)
            }
            What::Suspend64 => {
                let three = floor(place, sqlite::three_commits, postgres::three_writes64).await?;
                let four = floor(place, sqlite::three_commits, postgres::four_commits64).await?;
                cycles(waits::suspend_c64(place).await?, three, four)
            }
            What::HttpCycle => compared(worker::http_cycle(place).await?),
            What::WorkerCpu => plain(worker::worker_cpu_us(place).await?),
            What::DrainPinned => compared(backlog::drain_pinned_horizon(place).await?),
        })
    }
}

/// The floor on the database that is being measured.
async fn floor<F>(
    place: &Place,
    file: fn(&Path) -> anyhow::Result<f64>,
    server: impl Fn(&'static str) -> F + Send + 'static,
) -> anyhow::Result<f64>
where
    F: Future<Output = anyhow::Result<f64>>,
{
    match place {
        Place::File(_) => file(&place.path()),
        Place::Server(cluster) => {
            // One short string for each measurement of a run.
            let url = String::leak(cluster.url());
            tokio::task::spawn_blocking(move || threads()?.block_on(server(url))).await?
        }
    }
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
