//! Reading flows: found, listed, counted and followed, page by page.

use std::collections::BTreeSet;
use std::sync::Arc;

use ff_core::backend::Duty;
use ff_core::event::{Cursor, EventName, Filter};
use ff_core::flow::{Buckets, CancellationPolicy, Edge, FlowWord, Group, PublicFlowState};
use ff_core::query::{After, Direction, FlowSearch, Listing, Page, Query, Rows, Search};
use ff_core::state::PublicState as S;
use ff_core::text::ConsumerName;
use ff_core::view::{FlowSnapshot, FlowSummary};
use ff_core::{ExecutionId, FlowId, Partition};

use super::calls::tags;
use crate::world::{World, any_of, kind, lane, namespace, quorum};

/// The flows of a listing.
fn flows_of(listing: &Listing) -> Vec<FlowId> {
    match &listing.rows {
        Rows::Flows(flows) => flows.iter().map(|flow| flow.id).collect(),
        other => panic!("flows were asked for, not {other:?}"),
    }
}

/// Every page of a query with two rows a page.
async fn pages(w: &World, query: &Query) -> Vec<Listing> {
    let (mut pages, mut after) = (Vec::new(), None);
    loop {
        let listing = w.page(query, &Page { after, limit: 2 }).await;
        let next = listing.next.clone();
        pages.push(listing);
        let Some(place) = next else { return pages };
        after = Some(place);
    }
}

async fn found(w: &World, search: FlowSearch) -> Vec<FlowId> {
    flows_of(&w.page(&Query::Flows(Box::new(search)), &Page::first(100)).await)
}

/// The flows of a partition are listed by id.
pub async fn flows_are_listed_by_partition(w: Arc<World>) {
    let first = w.empty_flow().await;
    let mut own = vec![first];
    for _ in 0..4 {
        own.push(w.flow_beside(first).await);
    }
    let mut elsewhere = w.flow_draft();
    while elsewhere.id.partition() == first.partition() {
        elsewhere.id = w.flow_id();
    }
    let other = elsewhere.id;
    w.run(elsewhere).await.expect("the creation is valid");
    own.sort_unstable();
    let query = Query::FlowPartition(first.partition());
    let pages = pages(&w, &query).await;
    let listed: Vec<_> = pages.iter().flat_map(flows_of).collect();
    assert_eq!((listed, pages.len()), (own, 3));
    assert_eq!(pages[0].next, Some(After::Uuid(flows_of(&pages[0])[1].0)));
    assert!(flows_of(&w.page(&query, &Page::first(0)).await).is_empty());
    let query = Query::FlowPartition(other.partition());
    assert_eq!(flows_of(&w.page(&query, &Page::first(9)).await), [other]);
}

/// A search finds the newest first, and goes on where it stopped.
pub async fn a_search_finds_the_newest_flow_first(w: Arc<World>) {
    let mut made = Vec::new();
    for n in 0..5 {
        made.push(w.empty_flow().await);
        w.pass(i64::from(n % 2) * 10);
    }
    let mut expected = Vec::new();
    for flow in &made {
        expected.push((w.flow(*flow).await.spec.created_at, flow.partition(), *flow));
    }
    expected.sort_unstable_by(|a, b| b.cmp(a));
    let expected: Vec<_> = expected.into_iter().map(|(_, _, flow)| flow).collect();
    let query = Query::Flows(Box::default());
    let pages = pages(&w, &query).await;
    let listed: Vec<_> = pages.iter().flat_map(flows_of).collect();
    assert_eq!(listed, expected);
    let last = flows_of(&pages[0])[1];
    let at = w.flow(last).await.spec.created_at;
    let place = After::Created(at, ExecutionId::for_flow(last, last.0));
    assert_eq!(pages[0].next, Some(place));
}

/// A search narrows by namespace, kind, state and tag, all together.
pub async fn a_search_narrows(w: Arc<World>) {
    let plain = w.sketch("a").submit().await.flow;
    let theirs = w.sketch("a").with(|submission| {
        submission.flow.namespace = namespace("other");
        submission.graph.nodes[0].create.namespace = namespace("other");
        submission.flow.tags = tags(&[("app.run", "1")]);
    });
    let theirs = theirs.submit().await.flow;
    let special = w.sketch("a").with(|submission| {
        submission.flow.kind = kind("special");
        submission.flow.tags = tags(&[("app.run", "1"), ("app.more", "x")]);
    });
    let special = special.submit().await.flow;
    let done = w.sketch("a").submit().await;
    w.succeed(done.id("a")).await;
    w.dispatch().await;
    w.cancel_flow(plain, CancellationPolicy::All).await.expect("it is open");
    let set = |flows: Vec<FlowId>| flows.into_iter().collect::<BTreeSet<_>>();
    let any = FlowSearch::default;
    let in_other = FlowSearch { namespace: Some(namespace("other")), ..any() };
    assert_eq!(found(&w, in_other.clone()).await, [theirs]);
    assert_eq!(found(&w, FlowSearch { kind: Some(kind("special")), ..any() }).await, [special]);
    for (state, expected) in [
        (FlowWord::Open, vec![theirs, special]),
        (FlowWord::Completed, vec![done.flow]),
        (FlowWord::Cancelled, vec![plain]),
        (FlowWord::Failed, vec![]),
    ] {
        let search = FlowSearch { state: Some(state), ..any() };
        assert_eq!(set(found(&w, search).await), set(expected), "{state}");
    }
    let tag = Some(("app.run".to_owned(), "1".to_owned()));
    let tagged = FlowSearch { tag: tag.clone(), ..any() };
    assert_eq!(set(found(&w, tagged).await), [theirs, special].into());
    assert_eq!(found(&w, FlowSearch { tag, ..in_other }).await, [theirs]);
    let wrong = Some(("app.run".to_owned(), "2".to_owned()));
    assert!(found(&w, FlowSearch { tag: wrong, ..any() }).await.is_empty());
    assert_eq!(found(&w, any()).await.len(), 4);
}

/// A search that leaves many out still goes on where it stopped.
pub async fn a_narrow_search_is_paged(w: Arc<World>) {
    let mut expected = Vec::new();
    for n in 0..9 {
        let sketch = w.sketch("a").with(|submission| {
            if n % 2 == 0 {
                submission.flow.tags = tags(&[("app.run", "1")]);
            }
        });
        let drawn = sketch.submit().await;
        if n % 2 == 0 {
            expected.insert(0, drawn.flow);
        }
        w.pass(1);
    }
    let tag = Some(("app.run".to_owned(), "1".to_owned()));
    let query = Query::Flows(Box::new(FlowSearch { tag, ..FlowSearch::default() }));
    let listed: Vec<_> = pages(&w, &query).await.iter().flat_map(flows_of).collect();
    assert_eq!(listed, expected);
}

/// Edges are listed by id, all of them or those at one end.
pub async fn edges_are_listed_by_direction(w: Arc<World>) {
    let drawn = w.sketch("a>c b>c c>d c>e").submit().await;
    let c = drawn.id("c");
    let ends = |edges: Vec<Edge>| -> BTreeSet<_> {
        assert!(edges.is_sorted_by_key(|edge| edge.id), "by id: {edges:?}");
        edges.iter().map(|edge| (edge.upstream, edge.downstream)).collect()
    };
    let pair = |from, to| (drawn.id(from), drawn.id(to));
    let into = ends(w.edges(drawn.flow, Direction::Incoming(c)).await);
    assert_eq!(into, [pair("a", "c"), pair("b", "c")].into());
    let out = ends(w.edges(drawn.flow, Direction::Outgoing(c)).await);
    assert_eq!(out, [pair("c", "d"), pair("c", "e")].into());
    assert_eq!(ends(w.edges(drawn.flow, Direction::All).await), &into | &out);
    assert!(w.edges(drawn.flow, Direction::Incoming(drawn.id("a"))).await.is_empty());
    assert!(w.edges(drawn.flow, Direction::Outgoing(drawn.id("nobody"))).await.is_empty());
    assert!(w.edges(w.flow_id(), Direction::All).await.is_empty());
    let other = w.sketch("a>c").submit().await;
    assert!(w.edges(other.flow, Direction::Incoming(c)).await.is_empty(), "of another flow");
}

/// Edges are read page by page, in every direction.
pub async fn edges_are_paged(w: Arc<World>) {
    let drawn = w.sketch("s>a s>b s>c s>d s>e a>z b>z c>z d>z e>z").submit().await;
    for direction in
        [Direction::All, Direction::Outgoing(drawn.id("s")), Direction::Incoming(drawn.id("z"))]
    {
        let whole: Vec<_> = w.edges(drawn.flow, direction).await;
        let mut listed = Vec::new();
        for page in pages(&w, &Query::Edges(drawn.flow, direction)).await {
            let Rows::Edges(edges) = page.rows else { panic!("edges were asked for") };
            if let Some(next) = page.next {
                assert_eq!(Some(next), edges.last().map(|edge| After::Uuid(edge.id.0)));
            }
            listed.extend(edges);
        }
        assert_eq!(listed, whole, "{direction:?}");
    }
}

/// Groups are listed by what waits, with what it waits for.
pub async fn groups_are_listed(w: Arc<World>) {
    let sketch = w.sketch("a>x b>x a>y b>y a>z").join("x", quorum(2)).join("y", any_of());
    let drawn = sketch.submit().await;
    let mut expected: Vec<(ExecutionId, u32)> =
        [("x", 2), ("y", 2), ("z", 1)].map(|(node, n)| (drawn.id(node), n)).to_vec();
    expected.sort_unstable();
    let mut listed: Vec<Group> = Vec::new();
    for page in pages(&w, &Query::Groups(drawn.flow)).await {
        let Rows::Groups(groups) = page.rows else { panic!("groups were asked for") };
        if let Some(next) = page.next {
            assert_eq!(Some(next), groups.last().map(|group| After::Id(group.downstream)));
        }
        listed.extend(groups);
    }
    let seen: Vec<_> = listed.iter().map(|group| (group.downstream, group.staged)).collect();
    assert_eq!(seen, expected);
    let snapshot = FlowSnapshot::of(&w.flow(drawn.flow).await, &listed, false);
    let policies: Vec<_> = snapshot.edge_groups.iter().map(|group| group.policy).collect();
    assert!(policies.contains(&quorum(2)) && policies.contains(&any_of()));
    for group in snapshot.edge_groups {
        let counted = group.satisfied_count + group.failed_count + group.skipped_count;
        assert_eq!(group.total_deps, counted + group.running_count);
    }
}

/// Members are listed by id, and nobody else is.
pub async fn members_are_listed(w: Arc<World>) {
    let drawn = w.sketch("a>b c d e").submit().await;
    w.sketch("a").submit().await;
    w.candidate(drawn.flow).await;
    let mut expected = drawn.ids(["a", "b", "c", "d", "e"]);
    expected.sort_unstable();
    let mut listed = Vec::new();
    for page in pages(&w, &Query::Members(drawn.flow)).await {
        let Rows::Executions(members) = page.rows else { panic!("members were asked for") };
        if let Some(next) = page.next {
            assert_eq!(Some(next), members.last().map(|x| After::Id(x.id)));
        }
        for x in &members {
            assert_eq!(*x, w.get(x.id).await);
        }
        listed.extend(members.iter().map(|x| x.id));
    }
    assert_eq!(listed, expected);
    assert_eq!(w.list(&Query::Members(w.flow_id()), 10).await, Rows::Executions(Vec::new()));
}

/// Buckets partition the members, whatever they do, and say what the flow is doing.
pub async fn buckets_add_up_in_every_state(w: Arc<World>) {
    let later = w.now().plus(500);
    let sketch = w.sketch("a>b c d e f>g h").open();
    let sketch = sketch.node("c", |create| create.delay_until = Some(later));
    let drawn = sketch.node("e", |create| create.deadline_at = Some(w.now())).submit().await;
    let flow = drawn.flow;
    let check = async |expected: &[(S, u64)], state: PublicFlowState| {
        let buckets = w.buckets(flow).await;
        let members = expected.iter().copied().collect();
        assert_eq!(buckets, Buckets { members, spared: 0 });
        let row = w.flow(flow).await;
        assert_eq!(buckets.total(), u64::from(row.nodes));
        let summary = FlowSummary::of(&row, &buckets, w.now());
        assert_eq!((summary.public_flow_state, summary.total_members), (state, 8));
    };
    let gated = (S::WaitingChildren, 2);
    check(&[(S::Waiting, 5), (S::Delayed, 1), gated], PublicFlowState::Blocked).await;
    w.hold(drawn.id("h")).await.expect("it waits");
    let fence = w.start(drawn.id("d")).await;
    w.tick(Duty::Deadline).await;
    let expected = [(S::Waiting, 3), (S::Delayed, 1), gated, (S::Active, 1), (S::Expired, 1)];
    check(&expected, PublicFlowState::Running).await;
    w.pass(500);
    w.complete(drawn.id("d"), fence).await.expect("it is held");
    w.fail_for_good(drawn.id("f")).await;
    w.dispatch().await;
    let expected = [
        (S::Waiting, 3),
        (S::WaitingChildren, 1),
        (S::Completed, 1),
        (S::Expired, 1),
        (S::Failed, 1),
        (S::Skipped, 1),
    ];
    check(&expected, PublicFlowState::Blocked).await;
    w.cancel_flow(flow, CancellationPolicy::All).await.expect("it is open");
    let expected =
        [(S::Completed, 1), (S::Expired, 1), (S::Failed, 1), (S::Skipped, 1), (S::Cancelled, 4)];
    check(&expected, PublicFlowState::Cancelled).await;
}

async fn public(w: &World, flow: FlowId) -> PublicFlowState {
    w.buckets(flow).await.state(&w.flow(flow).await)
}

/// While a flow is open its members say what it is doing; when it is over, it says so itself.
pub async fn a_flow_reads_as_its_members_do(w: Arc<World>) {
    assert_eq!(public(&w, w.empty_flow().await).await, PublicFlowState::Open);
    let drawn = w.sketch("a").open().submit().await;
    let (flow, a) = (drawn.flow, drawn.id("a"));
    assert_eq!(public(&w, flow).await, PublicFlowState::Open);
    let fence = w.start(a).await;
    assert_eq!(public(&w, flow).await, PublicFlowState::Running);
    w.complete(a, fence).await.expect("it is held");
    assert_eq!(public(&w, flow).await, PublicFlowState::Completed, "told or not");
    w.dispatch().await;
    assert_eq!(public(&w, flow).await, PublicFlowState::Completed);
    w.more(flow, "a>b").extend().await.expect("it is open");
    w.fail_for_good(drawn.id("b")).await;
    assert_eq!(public(&w, flow).await, PublicFlowState::Failed);
    w.dispatch().await;
    assert_eq!(public(&w, flow).await, PublicFlowState::Failed);
    w.seal(flow).await.expect("it is open");
    assert_eq!(public(&w, flow).await, PublicFlowState::Failed);
}

/// A straggler that nobody needed does not make an open flow look failed.
pub async fn an_open_flow_forgives_its_stragglers(w: Arc<World>) {
    let drawn = w.sketch("a>z b>z").open().join("z", any_of()).submit().await;
    w.succeed(drawn.id("a")).await;
    w.dispatch().await;
    w.tick(Duty::EdgeCancelDispatcher).await;
    w.succeed(drawn.id("z")).await;
    w.dispatch().await;
    assert_eq!(public(&w, drawn.flow).await, PublicFlowState::Completed);
}

/// Searches and counts of executions know those that wait for others.
pub async fn what_waits_for_others_is_found_and_counted(w: Arc<World>) {
    let later = w.now().plus(500);
    let sketch = w.sketch("a>b a>c");
    let drawn = sketch.node("b", |create| create.delay_until = Some(later)).submit().await;
    w.hold(drawn.id("c")).await.expect("it waits");
    let with = |state| Search { state: Some(state), ..Search::default() };
    let waiting: BTreeSet<_> = w.search(with(S::WaitingChildren)).await.into_iter().collect();
    assert_eq!(waiting, drawn.ids(["b", "c"]).into());
    assert_eq!(w.search(with(S::Waiting)).await, [drawn.id("a")]);
    assert!(w.search(with(S::Delayed)).await.is_empty());
    let Rows::Counts(counts) = w.list(&Query::Counts, 10).await else { panic!("counts") };
    let counted: Vec<_> = counts.into_iter().map(|c| (c.lane, c.state, c.count)).collect();
    let expected = [(lane("default"), S::Waiting, 1), (lane("default"), S::WaitingChildren, 2)];
    assert_eq!(counted, expected);
    w.fail_for_good(drawn.id("a")).await;
    w.dispatch().await;
    let skipped: BTreeSet<_> = w.search(with(S::Skipped)).await.into_iter().collect();
    assert_eq!(skipped, drawn.ids(["b", "c"]).into());
}

/// The feed of one flow is what happened to it and to its members, in order, page by page.
pub async fn a_flow_is_followed_in_the_feed(w: Arc<World>) {
    let drawn = w.sketch("a>b c").submit().await;
    let other = w.sketch("a").submit().await;
    let [a, b, c] = drawn.ids(["a", "b", "c"]);
    w.fail_for_good(a).await;
    w.succeed(other.id("a")).await;
    w.dispatch().await;
    w.cancel_flow(drawn.flow, CancellationPolicy::All).await.expect("it is open");
    let own = ExecutionId::for_flow(drawn.flow, drawn.flow.0);
    let ends = [a, b, c].map(|id| (id, "completion"));
    let told = w.told(drawn.flow).await;
    let requested = (own, "flow_cancel_requested");
    assert_eq!(told, [ends[0], ends[1], requested, ends[2], (own, "flow_ended")]);
    let filter = Filter { flow: Some(drawn.flow), ..Filter::default() };
    let (mut from, mut seen) = (Cursor::Start, 0);
    loop {
        let page = w.feed(&from, &filter, 1).await;
        if page.events.is_empty() {
            break;
        }
        seen += page.events.len();
        from = page.next;
    }
    assert_eq!(seen, 5);
    let filter = Filter { kinds: vec![EventName::FlowCancelRequested], ..filter };
    assert_eq!(w.heard(&filter).await, [own]);
    let elsewhere = Filter { flow: Some(w.flow_id()), ..Filter::default() };
    assert!(w.heard(&elsewhere).await.is_empty());
}

/// An event of a flow carries the tags of the flow, and no kind of work and no lane.
pub async fn events_of_a_flow_carry_its_tags(w: Arc<World>) {
    let tagged = tags(&[("app.run", "1")]);
    let sketch = w.sketch("a").with(|submission| submission.flow.tags.clone_from(&tagged));
    let drawn = sketch.submit().await;
    w.succeed(drawn.id("a")).await;
    w.dispatch().await;
    let all = w.feed(&Cursor::Start, &Filter::default(), 10).await.events;
    let seen: Vec<_> = all.iter().map(|e| (e.execution_kind.is_some(), e.tags.clone())).collect();
    assert_eq!(seen, [(true, tags(&[])), (false, tagged)]);
    let own = ExecutionId::for_flow(drawn.flow, drawn.flow.0);
    let tag = Some(("app.run".to_owned(), "1".to_owned()));
    assert_eq!(w.heard(&Filter { tag, ..Filter::default() }).await, [own]);
    let in_lane = Filter { lane: Some(lane("default")), ..Filter::default() };
    assert_eq!(w.heard(&in_lane).await, [drawn.id("a")]);
    let in_namespace = Filter { namespace: Some(namespace("test")), ..Filter::default() };
    assert_eq!(w.heard(&in_namespace).await, [drawn.id("a"), own]);
    let both = Filter { lane: Some(lane("default")), flow: Some(drawn.flow), ..Filter::default() };
    assert_eq!(w.heard(&both).await, [drawn.id("a")]);
}

/// A durable consumer reads the events of flows like all others.
pub async fn a_consumer_reads_events_of_flows(w: Arc<World>) {
    let drawn = w.sketch("a").submit().await;
    w.cancel_flow(drawn.flow, CancellationPolicy::All).await.expect("it is open");
    let consumer: ConsumerName = "reader".parse().expect("a valid name");
    let page = w.feed(&Cursor::Start, &Filter::default(), 1).await;
    let save =
        ff_core::decide::consumer::SaveCursor { consumer, cursor: page.next.clone(), saved: None };
    w.run(save).await.expect("it is valid");
    let rest = w.feed(&page.next, &Filter::default(), 10).await;
    assert_eq!(page.events.len() + rest.events.len(), 3);
}

/// A partition without flows lists none; a missing flow reads as nothing.
pub async fn a_missing_flow_reads_as_nothing(w: Arc<World>) {
    let gone = w.flow_id();
    assert_eq!(w.find_flow(gone).await, None);
    assert_eq!(w.find_group(gone, ExecutionId::for_flow(gone, gone.0)).await, None);
    assert_eq!(w.buckets(gone).await, Buckets::default());
    assert_eq!(w.list(&Query::Groups(gone), 10).await, Rows::Groups(Vec::new()));
    let nowhere = Partition::of(w.uuid());
    assert_eq!(w.list(&Query::FlowPartition(nowhere), 10).await, Rows::Flows(Vec::new()));
}
