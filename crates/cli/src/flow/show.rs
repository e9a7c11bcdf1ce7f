//! `ff flow show`: a page about one flow. What it is and how far, its graph, and its members.

use std::collections::BTreeMap;
use std::io::{self, Write};

use clap::Args;
use console::style;
use ff_core::flow::{CancellationPolicy, DependencyKind, EdgeWord};
use ff_core::state::PublicState;
use ff_core::{ExecutionId, Millis};
use ff_wire::ExecutionSnapshot;
use ff_wire::flow::graph::JoinKind;
use ff_wire::flow::snapshot::EdgeGroupSnapshot;
use ff_wire::flow::{EdgeParams, EdgeSnapshot, FlowSnapshot, FlowSummary, MemberParams};
use flowfabric::FlowHandle;
use serde::Serialize;

use super::{counts, painted_public};
use crate::graph::{Graph, Node};
use crate::list::{took, why};
use crate::output::{self, Format, Output, clean, dim, painted, section};
use crate::place::Place;
use crate::table::{Column, Table, left, right};
use crate::{id, span};

/// Rows of one page of members or edges.
const PAGE: u32 = 1_000;
/// Pages that are read of each.
const PAGES_MAX: usize = 20;
/// More members than these are not listed one by one.
const LISTED_MAX: usize = 60;

const COLUMNS: &[Column] = &[
    left("NODE"),
    left("ID"),
    left("STATE"),
    left("KIND"),
    right("TRY"),
    right("TOOK"),
    left("WHY"),
];

/// Show all about a flow.
#[derive(Args)]
pub struct Show {
    /// The flow: its id, or enough of the beginning or end of it
    id: String,
    #[command(flatten)]
    output: Output,
}

impl Show {
    /// Shows it.
    pub async fn run(self, place: &Place) -> anyhow::Result<()> {
        let client = place.client().await?;
        let id = id::find_flow(&client, place, &self.id).await?;
        let page = Page::read(&client.flow_by_id(id)).await?;
        match self.output.output {
            Some(Format::Json) => output::json(&page),
            Some(Format::Ids) => Ok(writeln!(io::stdout(), "{id}")?),
            Some(Format::Table) | None => {
                let now = client.fabric().now().await?;
                Ok(page.print(now, output::width(), &mut io::stdout().lock())?)
            }
        }
    }
}

/// All that is known of a flow.
#[derive(Serialize)]
pub struct Page {
    flow: FlowSnapshot,
    summary: FlowSummary,
    members: Vec<ExecutionSnapshot>,
    edges: Vec<EdgeSnapshot>,
    /// Whether there are more members, edges or joins than were read.
    truncated: bool,
}

impl Page {
    /// Reads it.
    pub async fn read(handle: &FlowHandle) -> anyhow::Result<Self> {
        let flow = handle.describe().await?;
        let (mut members, mut after) = (Vec::new(), None);
        for _ in 0..PAGES_MAX {
            let page = handle.members(MemberParams { after, limit: Some(PAGE) }).await?;
            members.extend(page.members);
            after = page.next.map(|next| next.to_string());
            if after.is_none() {
                break;
            }
        }
        let mut truncated = after.is_some() || flow.more_groups;
        let (mut edges, mut after) = (Vec::new(), None);
        for _ in 0..PAGES_MAX {
            let params = EdgeParams { after, limit: Some(PAGE), ..EdgeParams::default() };
            let page = handle.edges(params).await?;
            edges.extend(page.edges);
            after = page.next.map(|next| next.to_string());
            if after.is_none() {
                break;
            }
        }
        truncated |= after.is_some();
        let summary = handle.summary().await?;
        Ok(Self { flow, summary, members, edges, truncated })
    }

    fn print(&self, now: Millis, width: usize, out: &mut impl Write) -> io::Result<()> {
        let flow = &self.flow.flow;
        let state = painted_public(self.summary.public_flow_state);
        writeln!(out, "{state}  {}  {}\n", style(clean(&flow.flow_kind)).bold(), flow.flow_id)?;
        for (name, text) in self.facts(now) {
            let text = console::truncate_str(&text, width.saturating_sub(12), "…").into_owned();
            writeln!(out, "  {}{text}", dim(&format!("{name:<10}")))?;
        }
        if self.members.is_empty() {
            return Ok(());
        }
        section("GRAPH", width, out)?;
        let graph = self.graph();
        graph.print(out, width, "  ")?;
        writeln!(out, "\n  {}", graph.legend())?;
        if self.members.len() <= LISTED_MAX {
            section("MEMBERS", width, out)?;
            self.table(&graph, now).print(out, width, "  ")?;
        }
        if self.truncated {
            let flow = &self.flow;
            let (members, edges) = (self.members.len(), self.edges.len());
            let only = format!(
                "not all of it was read: {members} of {} members, {edges} of {} edges, {} joins",
                flow.flow.node_count,
                flow.flow.edge_count,
                flow.edge_groups.len()
            );
            writeln!(out, "\n  {}", dim(&only))?;
        }
        Ok(())
    }

    /// What its members are doing.
    pub fn summary(&self) -> &FlowSummary {
        &self.summary
    }

    /// Its graph.
    pub fn graph(&self) -> Graph {
        let edges = self.edges.iter();
        let edges = edges.map(|edge| (edge.upstream_execution_id, edge.downstream_execution_id));
        let groups = self.flow.edge_groups.iter();
        let joins: BTreeMap<_, _> =
            groups.map(|group| (group.downstream_execution_id, join(group))).collect();
        let nodes = self.members.iter().map(|member| Node {
            id: member.execution_id,
            name: name_of(member),
            state: member.public_state,
            join: joins.get(&member.execution_id).cloned().flatten(),
        });
        Graph::new(nodes.collect(), &edges.collect::<Vec<_>>())
    }

    /// What there is to say, by name.
    fn facts(&self, now: Millis) -> Vec<(&'static str, String)> {
        let flow = &self.flow.flow;
        let ago = span::age(now.since(flow.created_at));
        let by = clean(&flow.creator_identity);
        let by = if by.is_empty() { by } else { format!(" by {by}") };
        let created = format!("{} ({ago} ago){by}", span::moment(flow.created_at));
        let mut facts = vec![("created", created)];
        if let Some(ended) = flow.ended_at {
            facts.push(("ended", format!("after {}", span::length(ended.since(flow.created_at)))));
        }
        let total = self.summary.total_members;
        let told = if total == 0 { String::new() } else { format!(": {}", counts(&self.summary)) };
        facts.push(("members", format!("{total}{told}")));
        if let Some(spared) = spared_in_words(self.summary.spared_count) {
            facts.push(("spared", spared));
        }
        if let Some(reason) = &flow.cancel_reason {
            let policy = flow.cancellation_policy.map_or("", policy_in_words);
            facts.push(("why", format!("{}{policy}", clean(reason))));
        }
        if !flow.sealed && flow.ended_at.is_none() {
            facts.push(("open", "more may be added; it ends after ff flow seal".to_owned()));
        }
        let tags = flow.tags.iter().map(|(key, value)| format!("{key}={}", clean(value)));
        let tags = tags.collect::<Vec<_>>().join(" ");
        if !tags.is_empty() {
            facts.push(("tags", tags));
        }
        facts
    }

    /// The members in the order of the graph.
    fn table(&self, graph: &Graph, now: Millis) -> Table {
        let members: BTreeMap<_, _> = self.members.iter().map(|x| (x.execution_id, x)).collect();
        let mut table = Table::new(COLUMNS);
        for x in graph.order().into_iter().filter_map(|id| members.get(&id)) {
            table.row([
                x.node.as_deref().map_or_else(|| "-".to_owned(), clean),
                id::short(x.execution_id),
                painted(x.public_state),
                clean(&x.execution_kind),
                x.counts.attempts.to_string(),
                took(x, now),
                self.why(x, &members, now),
            ]);
        }
        table
    }

    /// Why a member is where it is: for one that waits for others, for which.
    fn why(
        &self,
        x: &ExecutionSnapshot,
        members: &BTreeMap<ExecutionId, &ExecutionSnapshot>,
        now: Millis,
    ) -> String {
        if x.public_state != PublicState::WaitingChildren {
            return why(x, now);
        }
        let group = self.flow.edge_groups.iter();
        let mut group = group.filter(|group| group.downstream_execution_id == x.execution_id);
        let join = group.next().and_then(join).map_or_else(String::new, |join| format!("{join}: "));
        let open = self.edges.iter().filter(|edge| {
            edge.downstream_execution_id == x.execution_id
                && edge.edge_state == EdgeWord::Unsatisfied
        });
        let names = open.map(|edge| {
            let id = edge.upstream_execution_id;
            let name = members.get(&id).map_or_else(|| id::short(id), |x| name_of(x));
            format!("{name}{}", kind_in_words(edge.dependency_kind))
        });
        format!("waits for {join}{}", names.collect::<Vec<_>>().join(", "))
    }
}

/// What a member is called.
fn name_of(x: &ExecutionSnapshot) -> String {
    x.node.as_deref().map_or_else(|| id::short(x.execution_id), clean)
}

/// How many of its edges an execution waits for, unless it is all of them.
fn join(group: &EdgeGroupSnapshot) -> Option<String> {
    let total = group.total_deps;
    match (group.policy.kind, group.policy.k) {
        (JoinKind::AllOf, _) => None,
        (JoinKind::AnyOf, _) => Some(format!("any of {total}")),
        (JoinKind::Quorum, k) => Some(format!("{} of {total}", k.unwrap_or(1))),
    }
}

/// How many go on although a join fired that cancels what remains.
fn spared_in_words(spared: u64) -> Option<String> {
    match spared {
        0 => None,
        1 => Some("1 goes on because another join keeps it".to_owned()),
        more => Some(format!("{more} go on because other joins keep them")),
    }
}

/// Which end of the other it is that is waited for, unless it is success.
fn kind_in_words(kind: DependencyKind) -> &'static str {
    match kind {
        DependencyKind::SuccessOnly => "",
        DependencyKind::AnyTerminal => " (however it ends)",
        DependencyKind::FailureOnly => " (to fail)",
    }
}

/// What became of the members of a cancelled flow.
fn policy_in_words(policy: CancellationPolicy) -> &'static str {
    match policy {
        CancellationPolicy::All => " (cancel_all: with all its members)",
        CancellationPolicy::Pending => " (cancel_pending: attempts under way went on)",
        CancellationPolicy::FlowOnly => " (cancel_flow_only: its members went on)",
    }
}
