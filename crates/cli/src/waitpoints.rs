//! `ff waitpoints`: what executions wait for, and what lets others send it.
//!
//! Tokens and links open something: they are printed only when they are asked for by name.

use std::io::Write;

use clap::Args;
use ff_core::condition::{NO_SIGNAL, Word};
use ff_core::suspension::WaitpointWord;
use ff_core::{Code, ExecutionId, Millis};
use ff_wire::Hidden;
use ff_wire::waitpoint::{LinkRequest, WaitpointPage, WaitpointParams, WaitpointSnapshot};
use flowfabric::Client;
use serde_json::json;
use uuid::Uuid;

use crate::failure::{Exit, Failure};
use crate::id::{self, short};
use crate::output::{self, Format, Output, clean};
use crate::place::Place;
use crate::span;
use crate::table::{Column, Table, left, right};

const COLUMNS: &[Column] = &[
    left("EXECUTION"),
    left("KEY"),
    left("STATE"),
    right("SINCE"),
    right("UNTIL"),
    left("WAITS FOR"),
];
/// Waitpoints among which one is looked for: more than an execution may have open.
const OPEN_MAX: u32 = 1_000;
/// As many as a message names.
const NAMED_MAX: usize = 5;

/// Say what executions wait for.
#[derive(Args)]
pub struct Waitpoints {
    /// Only of this execution: its id, or enough of the beginning or end of it
    #[arg(value_name = "EXECUTION")]
    id: Option<String>,
    /// Print the tokens: whoever has one may send signals there
    #[arg(long, requires = "id", conflicts_with = "link")]
    tokens: bool,
    /// Print a link that sends this signal, once: whoever has it needs nothing else
    #[arg(long, requires = "id", value_name = "SIGNAL")]
    link: Option<String>,
    /// In whose name the link sends it
    #[arg(long = "as", requires = "link", value_name = "WHO")]
    who: Option<String>,
    /// At which waitpoint the link sends it: its key or id [default: the only one]
    #[arg(long, requires = "link", value_name = "KEY")]
    at: Option<String>,
    /// At most so many, up to 1000
    #[arg(long, default_value_t = 100, conflicts_with = "link", value_name = "N")]
    limit: u32,
    /// From where the page before ended
    #[arg(long, conflicts_with = "link", value_name = "PLACE")]
    after: Option<String>,
    #[command(flatten)]
    output: Output,
}

impl Waitpoints {
    /// Says it.
    pub async fn run(self, place: &Place) -> anyhow::Result<()> {
        let client = place.client().await?;
        let id = match &self.id {
            Some(id) => Some(id::find(&client, place, id).await?),
            None => None,
        };
        if let (Some(signal), Some(id)) = (&self.link, id) {
            return self.link(&client, place, id, signal).await;
        }
        let params = WaitpointParams { after: self.after.clone(), limit: Some(self.limit) };
        let page = client.fabric().waitpoints(id, params).await?;
        if self.tokens {
            self.tokens(&client, &page).await?;
        } else {
            self.list(&client, &page).await?;
        }
        if let Some(next) = page.next.filter(|_| self.output.output != Some(Format::Json)) {
            eprintln!("{}", output::dim(&format!("there are more: --after {next}")));
        }
        Ok(())
    }

    async fn list(&self, client: &Client, page: &WaitpointPage) -> anyhow::Result<()> {
        let now = client.fabric().now().await?;
        let mut out = std::io::stdout().lock();
        match self.output.output {
            Some(Format::Json) => {
                drop(out);
                output::json(page)
            }
            Some(Format::Ids) => ids(page, &mut out),
            Some(Format::Table) => table(page, now, &mut out),
            None if output::is_terminal() => table(page, now, &mut out),
            None => lines(page, &mut out),
        }
    }

    async fn tokens(&self, client: &Client, page: &WaitpointPage) -> anyhow::Result<()> {
        let mut tokens = Vec::new();
        for one in &page.waitpoints {
            let (id, waitpoint) = (one.execution_id, one.waitpoint_id);
            tokens.push((one, client.fabric().waitpoint_token(id, waitpoint).await?));
        }
        let mut out = std::io::stdout().lock();
        match self.output.output {
            Some(Format::Json) => {
                drop(out);
                let all = tokens.into_iter().map(|(one, token)| {
                    json!({"waitpoint_id": one.waitpoint_id, "waitpoint_key": one.waitpoint_key,
                        "token": token})
                });
                return output::json(&all.collect::<Vec<_>>());
            }
            Some(Format::Ids) => return ids(page, &mut out),
            Some(Format::Table) | None => {}
        }
        for (one, token) in tokens {
            // A secret is of no use when it is cut: the line is as long as it must be.
            let gone = || "(the key that signed it is gone)".to_owned();
            let token = token.map_or_else(gone, Hidden::into_shown);
            writeln!(out, "{}\t{}\t{token}", clean(&one.waitpoint_key), one.waitpoint_id)?;
        }
        Ok(())
    }

    async fn link(
        &self,
        client: &Client,
        place: &Place,
        id: ExecutionId,
        signal: &str,
    ) -> anyhow::Result<()> {
        let decides = signal.parse::<Word>().is_ok();
        let one = Open::of(client, place, id).await?.only(self.at.as_deref(), decides)?;
        if decides && one.approval.is_some() && self.who.is_none() {
            let said = "a decision counts in somebody's name, and the link would have none";
            return Err(Failure::new(Exit::Usage, said).next("say whose: --as NAME").into());
        }
        let url = link(client, place, &one, signal, self.who.clone()).await?;
        match self.output.output {
            Some(Format::Json) => output::json(&json!({
                "execution_id": id, "waitpoint_id": one.waitpoint_id, "url": url,
            })),
            Some(Format::Table | Format::Ids) | None => Ok(writeln!(std::io::stdout(), "{url}")?),
        }
    }
}

/// Where a link that sends a signal is followed: a path where no server is named.
async fn link(
    client: &Client,
    place: &Place,
    one: &WaitpointSnapshot,
    signal: &str,
    who: Option<String>,
) -> anyhow::Result<String> {
    let path = sign(client, one, signal, who).await?;
    let server = if place.is_server() { place.to_string() } else { String::new() };
    Ok(format!("{}{path}", server.trim_end_matches('/')))
}

/// The path of a link that sends a signal; one that decides says on what.
pub async fn sign(
    client: &Client,
    one: &WaitpointSnapshot,
    signal: &str,
    who: Option<String>,
) -> anyhow::Result<String> {
    let asked = one.approval.as_ref().filter(|_| signal.parse::<Word>().is_ok());
    let subject = asked.and_then(|asked| asked.subject_digest.clone());
    let ask = LinkRequest { signal_name: signal.to_owned(), source_identity: who, subject };
    let signed = client.fabric().sign_link(one.execution_id, one.waitpoint_id, ask).await?;
    Ok(signed.path.into_shown())
}

/// The waitpoints of an execution at which signals may arrive.
pub struct Open<'p> {
    id: ExecutionId,
    place: &'p Place,
    waitpoints: Vec<WaitpointSnapshot>,
}

impl<'p> Open<'p> {
    /// All of them.
    pub async fn of(client: &Client, place: &'p Place, id: ExecutionId) -> anyhow::Result<Self> {
        let params = WaitpointParams { after: None, limit: Some(OPEN_MAX) };
        let waitpoints = client.fabric().waitpoints(Some(id), params).await?.waitpoints;
        if waitpoints.is_empty() {
            // Nobody is told that what is not there waits for nothing.
            client.execution(id).describe().await?;
        }
        Ok(Self { id, place, waitpoints })
    }

    /// The one of this key or id, or else the only one; of those that wait for a decision if one is
    /// made.
    pub fn only(self, at: Option<&str>, decides: bool) -> anyhow::Result<WaitpointSnapshot> {
        let Self { id, place, waitpoints } = self;
        let uuid = at.and_then(|at| Uuid::try_parse(at).ok());
        let meant = |one: &WaitpointSnapshot| match at {
            Some(at) => one.waitpoint_key == at || Some(one.waitpoint_id) == uuid,
            None => one.approval.is_some() || !decides,
        };
        let keys: Vec<_> = waitpoints.iter().map(|one| clean(&one.waitpoint_key)).collect();
        let mut found: Vec<_> = waitpoints.into_iter().filter(meant).collect();
        if found.len() == 1 {
            return Ok(found.remove(0));
        }
        let what = if decides { "a decision" } else { "signals" };
        if found.is_empty() {
            let said = match at {
                Some(at) => format!("{id} has no open waitpoint {at:?}"),
                None => format!("{id} does not wait for {what}"),
            };
            let next = match (keys.as_slice(), at) {
                ([], _) => place.ff(&format!("show {id}")),
                (keys, Some(_)) => format!("it waits at {}: name one with --at", named(keys)),
                // Signals are waited for there, and a decision was to be made.
                (keys, None) => {
                    let signal = place.ff(&format!("signal {id} NAME --at KEY"));
                    format!("it waits for signals at {}: {signal}", named(keys))
                }
            };
            let failure = Failure::new(Exit::NotFound, said).next(next);
            return Err(failure.code(Code::WaitpointNotFound.as_str()).into());
        }
        let same = at.is_some();
        let keys: Vec<_> = found
            .iter()
            .map(|one| if same { one.waitpoint_id.to_string() } else { clean(&one.waitpoint_key) })
            .collect();
        let said = format!("{id} waits for {what} at {} waitpoints", found.len());
        let next = format!("name one with --at: {}", named(&keys));
        Err(Failure::new(Exit::Usage, said).next(next).into())
    }
}

fn named(keys: &[String]) -> String {
    let more = if keys.len() > NAMED_MAX { ", …" } else { "" };
    format!("{}{more}", keys[..keys.len().min(NAMED_MAX)].join(", "))
}

fn ids(page: &WaitpointPage, out: &mut impl Write) -> anyhow::Result<()> {
    for one in &page.waitpoints {
        writeln!(out, "{}", one.waitpoint_id)?;
    }
    Ok(())
}

fn table(page: &WaitpointPage, now: Millis, out: &mut impl Write) -> anyhow::Result<()> {
    if page.waitpoints.is_empty() {
        return Ok(writeln!(out, "no waitpoints")?);
    }
    let mut table = Table::new(COLUMNS);
    for one in &page.waitpoints {
        let since = one.activated_at.unwrap_or(one.created_at);
        let until = one.expires_at.map(|at| format!("in {}", span::age(at.since(now))));
        table.row([
            short(one.execution_id),
            clean(&one.waitpoint_key),
            one.state.to_string(),
            span::age(now.since(since)),
            until.unwrap_or_else(|| "-".to_owned()),
            waits_for(one),
        ]);
    }
    Ok(table.print(out, output::width(), "")?)
}

fn lines(page: &WaitpointPage, out: &mut impl Write) -> anyhow::Result<()> {
    for one in &page.waitpoints {
        let fields = [
            one.execution_id.to_string(),
            clean(&one.waitpoint_key),
            one.state.to_string(),
            span::moment(one.activated_at.unwrap_or(one.created_at)),
            one.expires_at.map_or_else(|| "-".to_owned(), span::moment),
            waits_for(one),
        ];
        writeln!(out, "{}", fields.join("\t"))?;
    }
    Ok(())
}

/// What is waited for: `approval, 1 of 2 (ann)`, `paid or refused`.
pub fn waits_for(one: &WaitpointSnapshot) -> String {
    if let Some(asked) = &one.approval {
        let who = asked.approved_by.iter().map(|who| clean(who)).collect::<Vec<_>>().join(", ");
        let who = if who.is_empty() { who } else { format!(" ({who})") };
        return format!("approval, {} of {}{who}", asked.approved_by.len(), asked.needed);
    }
    let came = match one.signal_count {
        0 => String::new(),
        count => format!(", {count} came"),
    };
    let names: Vec<_> = one.required_signal_names.iter().map(|name| clean(name)).collect();
    match (one.state, names.is_empty()) {
        (WaitpointWord::Pending, _) => format!("nothing yet{came}"),
        (WaitpointWord::Active | WaitpointWord::Closed, true) => format!("any signal{came}"),
        (WaitpointWord::Active | WaitpointWord::Closed, false) if names == [NO_SIGNAL] => {
            format!("no signal{came}")
        }
        (WaitpointWord::Active | WaitpointWord::Closed, false) => {
            format!("{}{came}", names.join(" or "))
        }
    }
}
