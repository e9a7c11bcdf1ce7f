//! The model's flows: the same rows that a database has, as maps.

use std::collections::{BTreeMap, BTreeSet};

use ff_core::backend::WorkFilter;
use ff_core::command::Command;
use ff_core::decide::cancel_owed::CancelOwed;
use ff_core::decide::dispatch::DispatchCompletion;
use ff_core::decide::reconcile_group::ReconcileGroup;
use ff_core::decide::sibling_cancel::CancelSiblings;
use ff_core::decide::sibling_reconcile::ReconcileSiblings;
use ff_core::decide::trim_flow::TrimFlow;
use ff_core::execution::State;
use ff_core::flow::{Buckets, Edge, EdgeState, Group, GroupState, PendingCancel, Reach};
use ff_core::fold::{GraphSet, GraphWrites, Key};
use ff_core::ids::{ExecutionId, FlowId};
use ff_core::limits::{CANCEL_CHUNK_MAX, CYCLE_NODES_MAX, REPLAY_AT_ONCE_MAX, TRIM_CHUNK_MAX};
use ff_core::query::{After, Listing, Page, Query, Rows};
use ff_core::state::{Phase, public_state};
use ff_core::time::Millis;

use super::store::{Tables, cut, take_out};

/// What waits for nothing is due, whatever the clock says.
const AT_ONCE: Millis = Millis::ZERO;

impl Tables {
    pub(super) fn load_graph(&self, key: &Key, have: &mut GraphSet) {
        match key {
            Key::Flow(id) | Key::FreeFlow(id) => {
                have.flows.insert(*id, self.flows.get(id).cloned());
            }
            Key::Group(flow, id) | Key::FreeGroup(flow, id) => {
                let key = (*flow, *id);
                have.groups.insert(key, self.groups.get(&key).cloned());
            }
            Key::Groups(flow) => {
                let groups = self.groups.values().filter(|group| group.flow == *flow);
                have.load_groups(*flow, groups.cloned().collect());
            }
            Key::Edge(flow, id) => {
                let key = (*flow, *id);
                have.edges.insert(key, self.edges.get(&key).cloned());
            }
            Key::Pair(flow, from, to) => {
                let mut edges = self.edges_of(*flow);
                let edge = edges.find(|edge| edge.upstream == *from && edge.downstream == *to);
                have.pairs.insert((*flow, *from, *to), edge.map(|edge| edge.id));
                have.edges.extend(edge.map(|edge| ((*flow, edge.id), Some(edge.clone()))));
            }
            Key::Outgoing(flow, id) => {
                let edges = self.edges_of(*flow).filter(|edge| edge.upstream == *id);
                have.load_outgoing((*flow, *id), edges.cloned().collect());
            }
            Key::Incoming(flow, id) => {
                let edges = self.edges_of(*flow).filter(|edge| edge.downstream == *id);
                have.load_incoming((*flow, *id), edges.cloned().collect());
            }
            Key::Reach(flow, id) => {
                have.reach.insert((*flow, *id), self.reach(*flow, *id));
            }
            Key::Behind(flow, id) => {
                have.behind.insert((*flow, *id), self.behind(*flow, *id));
            }
            Key::Members(flow) => {
                let members = self.members(*flow).filter_map(|id| {
                    let phase = self.executions.get(&id)?.state.phase();
                    (phase != Phase::Terminal).then_some((id, phase))
                });
                have.members.insert(*flow, members.collect());
            }
            Key::Dispatch(id) => drop(have.dispatch.insert(*id, self.dispatch.get(id).copied())),
            Key::Cancel(flow, id) => {
                let key = (*flow, *id);
                have.cancels.insert(key, self.cancels.get(&key).copied());
            }
            Key::Backlog(flow) => {
                have.backlogs.insert(*flow, self.backlogs.get(flow).copied());
            }
            Key::Owed(flow) => {
                let owed = self.owed.iter().filter(|(of, _)| of == flow).map(|(_, id)| *id);
                have.owed.insert(*flow, owed.take(CANCEL_CHUNK_MAX + 1).collect());
            }
            Key::First(flow) => {
                have.first.insert(*flow, self.members(*flow).take(TRIM_CHUNK_MAX).collect());
            }
            other => unreachable!("{other:?} is not of flows"),
        }
    }

    fn edges_of(&self, flow: FlowId) -> impl Iterator<Item = &Edge> {
        self.edges.values().filter(move |edge| edge.flow == flow)
    }

    fn members(&self, flow: FlowId) -> impl Iterator<Item = ExecutionId> {
        let all = self.executions.values();
        all.filter(move |x| x.flow() == Some(flow)).map(|x| x.id)
    }

    fn behind(&self, flow: FlowId, from: ExecutionId) -> Vec<ExecutionId> {
        let lost = |edge: &&Edge| matches!(edge.state, EdgeState::Impossible { .. });
        let lost: Vec<_> = self.edges_of(flow).filter(lost).collect();
        let (mut found, mut at) = (vec![from], 0);
        while let Some(id) = found.get(at).copied().filter(|_| at < REPLAY_AT_ONCE_MAX) {
            let next = lost.iter().filter(|edge| edge.upstream == id).map(|edge| edge.downstream);
            let fresh: BTreeSet<_> = next.filter(|id| !found.contains(id)).collect();
            found.extend(fresh);
            at += 1;
        }
        found.into_iter().skip(1).take(REPLAY_AT_ONCE_MAX).collect()
    }

    fn reach(&self, flow: FlowId, from: ExecutionId) -> Reach {
        let mut follow: BTreeMap<ExecutionId, Vec<ExecutionId>> = BTreeMap::new();
        for edge in self.edges_of(flow) {
            follow.entry(edge.upstream).or_default().push(edge.downstream);
        }
        let (mut seen, mut fresh) = (BTreeSet::new(), vec![from]);
        while let Some(at) = fresh.pop() {
            let next = follow.get(&at).into_iter().flatten().copied();
            fresh.extend(next.filter(|id| seen.insert(*id)));
            if seen.len() > CYCLE_NODES_MAX {
                return Reach::TooMany;
            }
        }
        Reach::All(seen)
    }

    pub(super) fn write_graph(&mut self, set: GraphWrites) {
        for flow in set.removed {
            self.flows.remove(&flow);
            self.edges.retain(|(of, _), _| *of != flow);
            self.groups.retain(|(of, _), _| *of != flow);
            self.cancels.retain(|(of, _), _| *of != flow);
            self.backlogs.remove(&flow);
            self.owed.retain(|(of, _)| *of != flow);
            self.events.retain(|_, event| event.execution.is_some() || event.flow != Some(flow));
        }
        for write in set.flows {
            let stored = write.before.as_ref().and_then(|flow| self.flows.get(&flow.id));
            let after = write.after;
            if let Some(flow) = after {
                assert_eq!(stored, write.before.as_ref(), "a flow is written as it was read");
                self.flows.insert(flow.id, flow);
            }
        }
        for group in set.groups.into_iter().filter_map(|write| write.after) {
            self.groups.insert((group.flow, group.downstream), group);
        }
        for edge in set.edges.into_iter().filter_map(|write| write.after) {
            self.edges.insert((edge.flow, edge.id), edge);
        }
        for row in set.dispatch.remove {
            self.dispatch.remove(&row.execution);
        }
        self.dispatch.extend(set.dispatch.insert.into_iter().map(|row| (row.execution, row)));
        for row in set.cancels.remove {
            self.cancels.remove(&(row.flow, row.downstream));
        }
        let cancels = set.cancels.insert.into_iter();
        self.cancels.extend(cancels.map(|row| ((row.flow, row.downstream), row)));
        for (flow, row) in set.backlogs {
            match row {
                Some(row) => self.backlogs.insert(flow, row),
                None => self.backlogs.remove(&flow),
            };
        }
        take_out(&mut self.owed, &set.owed.remove);
        self.owed.extend(set.owed.insert);
    }

    fn flow_serves(&self, flow: FlowId, filter: &WorkFilter) -> bool {
        let Some(flow) = self.flows.get(&flow) else { return *filter == WorkFilter::default() };
        filter.namespace.as_ref().is_none_or(|namespace| *namespace == flow.spec.namespace)
            && filter.tag.as_ref().is_none_or(|(key, value)| flow.tags.get(key) == Some(value))
    }

    /// Ends that flows have not been told, oldest first.
    pub(super) fn undispatched(&self, filter: &WorkFilter) -> Vec<(Millis, Command)> {
        let mut rows: Vec<_> =
            self.dispatch.values().filter(|row| self.serves(row.execution, filter)).collect();
        rows.sort_by_key(|row| (row.at, row.execution));
        let command = |row: &ff_core::flow::Dispatch| DispatchCompletion {
            flow: row.flow,
            execution: row.execution,
            eager: false,
        };
        rows.into_iter().map(|row| (AT_ONCE, command(row).into())).collect()
    }

    fn pending_cancels(&self, filter: &WorkFilter) -> Vec<(bool, PendingCancel)> {
        let rows = self.cancels.values().filter(|row| self.flow_serves(row.flow, filter));
        let flagged = |row: &PendingCancel| {
            let group = self.groups.get(&(row.flow, row.downstream));
            group.is_some_and(|group| group.siblings.is_some_and(|siblings| siblings.pending))
        };
        rows.map(|row| (flagged(row), *row)).collect()
    }

    /// Groups whose siblings are to be cancelled: those that say so themselves first.
    pub(super) fn cancelling(&self, filter: &WorkFilter) -> Vec<(Millis, Command)> {
        let mut rows = self.pending_cancels(filter);
        rows.sort_by_key(|(flagged, row)| (!flagged, row.enqueued_at, order(row)));
        rows.into_iter()
            .map(|(_, row)| {
                let PendingCancel { flow, downstream, .. } = row;
                (AT_ONCE, CancelSiblings { flow, downstream }.into())
            })
            .collect()
    }

    /// The same, to be looked after.
    pub(super) fn cancelled(&self, filter: &WorkFilter) -> Vec<(Millis, Command)> {
        let mut rows = self.pending_cancels(filter);
        rows.sort_by_key(|(_, row)| (row.enqueued_at, order(row)));
        rows.into_iter()
            .map(|(_, row)| {
                let PendingCancel { flow, downstream, .. } = row;
                (AT_ONCE, ReconcileSiblings { flow, downstream }.into())
            })
            .collect()
    }

    /// Flows that owe the end of members.
    pub(super) fn owing(&self, filter: &WorkFilter) -> Vec<(Millis, Command)> {
        let mut rows: Vec<_> =
            self.backlogs.values().filter(|row| self.flow_serves(row.flow, filter)).collect();
        rows.sort_by_key(|row| (row.requested_at, row.flow.partition(), row.flow));
        rows.into_iter().map(|row| (AT_ONCE, CancelOwed { flow: row.flow }.into())).collect()
    }

    /// Groups that wait for something that has ended, which nobody is about to tell them.
    pub(super) fn stuck(&self, filter: &WorkFilter) -> Vec<(Millis, Command)> {
        let stale = |edge: &&Edge| {
            matches!(edge.state, EdgeState::Unsatisfied { .. })
                && match self.executions.get(&edge.upstream) {
                    None => true,
                    Some(x) => {
                        matches!(x.state, State::Terminal(_)) && !self.dispatch.contains_key(&x.id)
                    }
                }
        };
        let pending = |group: &&Group| {
            group.state == GroupState::Pending
                && self.flows.get(&group.flow).is_some_and(|flow| !flow.is_closed())
                && self.flow_serves(group.flow, filter)
        };
        let mut rows: Vec<_> = self.groups.values().filter(pending).collect();
        rows.retain(|group| {
            let mut edges = self.edges_of(group.flow).filter(stale);
            edges.any(|edge| edge.downstream == group.downstream)
        });
        rows.sort_by_key(|group| (group.flow.partition(), group.flow, group.downstream));
        rows.into_iter()
            .map(|group| {
                let Group { flow, downstream, .. } = *group;
                (AT_ONCE, ReconcileGroup { flow, downstream }.into())
            })
            .collect()
    }

    /// Flows whose time is up, or will be.
    pub(super) fn trimmable(&self, filter: &WorkFilter) -> Vec<(Millis, Command)> {
        let seen = self.seen_by_all();
        let mut rows: Vec<_> = self
            .flows
            .values()
            .filter(|flow| self.flow_serves(flow.id, filter))
            .filter(|flow| self.last_flow_event(flow.id) <= seen)
            .filter_map(|flow| Some((flow.trim_at()?, flow.id)))
            .collect();
        rows.sort_by_key(|(at, flow)| (*at, flow.partition(), *flow));
        rows.into_iter().map(|(at, flow)| (at, TrimFlow { flow }.into())).collect()
    }

    pub(super) fn list_graph(&self, query: &Query, page: &Page, now: Millis) -> Listing {
        let after = |place: &After| page.after.as_ref().is_none_or(|from| place > from);
        match query {
            Query::FlowPartition(partition) => {
                let flows = self.flows.values().filter(|flow| flow.id.partition() == *partition);
                let rows = flows.map(|flow| (After::Uuid(flow.id.0), flow.clone()));
                cut(rows.filter(|(place, _)| after(place)).collect(), page, Rows::Flows)
            }
            Query::Flows(search) => {
                let flows = self.flows.values().filter(|flow| search.matches(flow));
                let place = |flow: &ff_core::Flow| {
                    let subject = ExecutionId::for_flow(flow.id, flow.id.0);
                    After::Created(flow.spec.created_at, subject)
                };
                let mut rows: Vec<_> = flows
                    .map(|flow| (place(flow), flow.clone()))
                    .filter(|(place, _)| page.after.as_ref().is_none_or(|from| place < from))
                    .collect();
                rows.sort_by(|a, b| b.0.cmp(&a.0));
                cut(rows, page, Rows::Flows)
            }
            Query::Edges(flow, direction) => {
                let edges = self.edges_of(*flow).filter(|edge| direction.matches(edge));
                let rows = edges.map(|edge| (After::Uuid(edge.id.0), edge.clone()));
                cut(rows.filter(|(place, _)| after(place)).collect(), page, Rows::Edges)
            }
            Query::Groups(flow) => {
                let groups = self.groups.values().filter(|group| group.flow == *flow);
                let rows = groups.map(|group| (After::Id(group.downstream), group.clone()));
                cut(rows.filter(|(place, _)| after(place)).collect(), page, Rows::Groups)
            }
            Query::Members(flow) => {
                let all = self.executions.values().filter(|x| x.flow() == Some(*flow));
                let rows = all.map(|x| (After::Id(x.id), x.clone()));
                cut(rows.filter(|(place, _)| after(place)).collect(), page, Rows::Executions)
            }
            Query::Buckets(flow) => {
                let own = self.groups.values().filter(|group| group.flow == *flow);
                let spared = own.map(|group| u64::from(group.spared())).sum();
                let mut buckets = Buckets { spared, ..Buckets::default() };
                for x in self.executions.values().filter(|x| x.flow() == Some(*flow)) {
                    *buckets.members.entry(public_state(x, now)).or_default() += 1;
                }
                Listing { rows: Rows::Buckets(buckets), next: None }
            }
            Query::Partition(_)
            | Query::Executions(_)
            | Query::Attempts(_)
            | Query::Steps(_)
            | Query::Depths
            | Query::Counts
            | Query::Lanes
            | Query::Consumers
            | Query::Waitpoints(_)
            | Query::Suspended(_)
            | Query::Signals(_)
            | Query::SomeSignals(..) => unreachable!("these are not of flows"),
        }
    }
}

fn order(row: &PendingCancel) -> (ff_core::Partition, FlowId, ExecutionId) {
    (row.flow.partition(), row.flow, row.downstream)
}
