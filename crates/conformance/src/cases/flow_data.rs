//! Passing data: the result of what was waited for takes the place of the input.
#![allow(clippy::many_single_char_names, reason = "nodes of a sketch are called a, b, c")]

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use ff_core::decide::complete::Complete;
use ff_core::decide::extend_flow::ExtendFlow;
use ff_core::flow::{DependencyKind, Graph, Link, NodeRef};
use ff_core::fold::{Blob, BlobRef};
use ff_core::text::Encoding;
use ff_core::{ClaimAsk, Code, ExecutionId};

use super::calls::{SIZES, completion, retrying};
use crate::world::{World, any_let_run, quorum_let_run};

/// What `id` is handed now; whatever else is claimable is claimed, too.
async fn handed(w: &World, id: ExecutionId) -> Option<Blob> {
    let claimed = w.claim(ClaimAsk { max: 1_000, ..w.ask(1) }).await;
    let own = claimed.into_iter().find(|claimed| claimed.leased.execution.id == id);
    own.unwrap_or_else(|| panic!("{id} is not claimable")).input
}

async fn handed_bytes(w: &World, id: ExecutionId) -> Option<Bytes> {
    handed(w, id).await.map(|blob| blob.bytes)
}

/// The child is handed the result of its parent; its own input is still there to read.
pub async fn a_result_takes_the_place_of_the_input(w: Arc<World>) {
    let drawn = w.sketch("a>b").passing("a", "b").submit().await;
    let [a, b] = drawn.ids(["a", "b"]);
    w.succeed_with(a, b"from a").await;
    w.dispatch().await;
    let x = w.get(b).await;
    assert_eq!(x.input_from, Some(a));
    let at = BlobRef::input(&x, Some(&w.get(a).await));
    assert_eq!(at, BlobRef::Result(a, 0));
    assert_eq!(handed(&w, b).await.map(|blob| (blob.at, blob.bytes)), Some((at, "from a".into())));
    assert_eq!(w.blob(BlobRef::Input(b)).await, Some("in".into()));
}

/// An edge that passes nothing leaves the input as it was.
pub async fn without_a_reference_the_input_stays(w: Arc<World>) {
    let drawn = w.sketch("a>b").submit().await;
    let [a, b] = drawn.ids(["a", "b"]);
    w.succeed_with(a, b"from a").await;
    w.dispatch().await;
    assert_eq!(w.get(b).await.input_from, None);
    assert_eq!(handed_bytes(&w, b).await, Some("in".into()));
}

/// A parent without a result leaves the input as it was; an empty result is a result.
pub async fn without_a_result_the_input_stays(w: Arc<World>) {
    let drawn = w.sketch("a>b c>d").passing("a", "b").passing("c", "d").submit().await;
    let [a, b, c, d] = drawn.ids(["a", "b", "c", "d"]);
    w.succeed_silently(a).await;
    w.dispatch().await;
    assert_eq!(w.get(b).await.input_from, None);
    let fence = w.start(c).await;
    assert_eq!(handed_bytes(&w, b).await, Some("in".into()));
    w.run(completion(c, fence, b"")).await.expect("it is held");
    w.dispatch().await;
    assert_eq!(handed_bytes(&w, d).await, Some(Bytes::new()));
}

/// What ended otherwise has nothing to pass.
pub async fn a_failed_parent_passes_nothing(w: Arc<World>) {
    let sketch = w.sketch("a>b").kind("a", "b", DependencyKind::AnyTerminal).passing("a", "b");
    let drawn = sketch.submit().await;
    w.fail_for_good(drawn.id("a")).await;
    w.dispatch().await;
    assert_eq!(handed_bytes(&w, drawn.id("b")).await, Some("in".into()));
}

/// Of several that pass their result to one that waits for all, edge by edge, the last to end wins.
pub async fn of_all_the_last_result_wins(w: Arc<World>) {
    for (first, second) in [(0, 1), (1, 0)] {
        let flow = w.empty_flow().await;
        let [a, b, c, z] = w.members(flow).await;
        for (up, passed) in [(a, Some("result")), (b, Some("result")), (c, None)] {
            let mut staging = w.staging(flow, up, z).await;
            staging.data_passing_ref = passed.map(str::to_owned);
            w.run(staging.clone()).await.expect("the edge is valid");
            w.apply(flow, staging.edge).await.expect("it is staged");
        }
        w.succeed_with([a, b][first], b"first").await;
        w.dispatch().await;
        w.succeed_with([a, b][second], b"second").await;
        w.dispatch().await;
        w.succeed_with(c, b"never passed").await;
        w.dispatch().await;
        assert_eq!(handed_bytes(&w, z).await, Some("second".into()));
    }
}

/// What waits for all takes one result: a graph that says two of them is refused, and so is a second
/// one that is added later.
pub async fn of_all_one_result_is_taken(w: Arc<World>) {
    let two = w.sketch("a>z b>z").passing("a", "z").passing("b", "z");
    let refused = w.refused(two.submission()).await;
    assert_eq!((refused.code, refused.field), (Code::InvalidInput, Some("data_passing_ref")));
    assert!(refused.message.contains("the edge from b to z"), "{refused}");
    let drawn = w.sketch("a>z b").passing("a", "z").open().submit().await;
    let named = |node: &str| NodeRef::Name(node.parse().expect("a valid name"));
    let extend = |kind| {
        let mut link = Link::new(named("b"), named("z"));
        (link.kind, link.data_passing_ref) = (kind, Some("result".to_owned()));
        let graph = Graph { links: vec![link], ..Graph::default() };
        ExtendFlow { flow: drawn.flow, graph, seal: false, by: None }
    };
    for (kind, said) in [
        (DependencyKind::SuccessOnly, "is a second one: z waits for all"),
        (DependencyKind::FailureOnly, "has no use on a failure_only edge"),
    ] {
        let refused = w.refused(extend(kind)).await;
        assert_eq!((refused.code, refused.field), (Code::InvalidInput, Some("data_passing_ref")));
        assert!(refused.message.contains(said), "{refused}");
    }
}

/// Of several that pass their result to one that waits for some, the one that decides it counts.
pub async fn of_some_the_deciding_result_counts(w: Arc<World>) {
    for (policy, deciding) in [(any_let_run(), 0), (quorum_let_run(2), 1), (quorum_let_run(3), 2)] {
        let sketch = w.sketch("a>z b>z c>z").join("z", policy);
        let sketch = sketch.passing("a", "z").passing("b", "z").passing("c", "z");
        let drawn = sketch.submit().await;
        let (z, order) = (drawn.id("z"), drawn.ids(["b", "c", "a"]));
        for id in order {
            w.succeed_with(id, b"a result").await;
            w.dispatch().await;
        }
        assert_eq!(w.get(z).await.input_from, Some(order[deciding]), "{policy:?}");
        w.cancel(z).await.expect("it waits");
    }
}

/// If the one that decides it passes nothing, nothing is passed, whoever comes later.
pub async fn a_late_result_is_not_passed(w: Arc<World>) {
    let drawn = w.sketch("a>z b>z").join("z", any_let_run()).passing("b", "z").submit().await;
    let [a, b, z] = drawn.ids(["a", "b", "z"]);
    w.succeed_with(a, b"from a").await;
    w.dispatch().await;
    w.succeed_with(b, b"from b").await;
    w.dispatch().await;
    assert_eq!(handed_bytes(&w, z).await, Some("in".into()));
}

/// A retry is handed the same again.
pub async fn a_retry_is_handed_the_same_result(w: Arc<World>) {
    let sketch = w.sketch("a>b").policy(&retrying(1, 0)).passing("a", "b");
    let drawn = sketch.submit().await;
    let [a, b] = drawn.ids(["a", "b"]);
    w.succeed_with(a, b"from a").await;
    w.dispatch().await;
    let fence = w.start(b).await;
    w.fail(b, fence).await.expect("it is held");
    assert_eq!(handed_bytes(&w, b).await, Some("from a".into()));
}

/// Results of any size are passed, byte for byte.
pub async fn results_of_any_size_are_passed(w: Arc<World>) {
    for size in SIZES {
        let drawn = w.sketch("a>b").passing("a", "b").submit().await;
        let [a, b] = drawn.ids(["a", "b"]);
        let fence = w.start(a).await;
        w.run(completion(a, fence, &vec![0xfe; size])).await.expect("it is held");
        w.dispatch().await;
        assert_eq!(handed_bytes(&w, b).await, Some(vec![0xfe; size].into()));
    }
}

/// What a result says of its encoding goes with it.
pub async fn a_result_is_passed_with_its_encoding(w: Arc<World>) {
    let drawn = w.sketch("a>b").passing("a", "b").submit().await;
    let [id, b] = drawn.ids(["a", "b"]);
    let fence = w.start(id).await;
    let encoding = Some(Encoding::new("json").expect("a valid encoding"));
    let result = Some(Bytes::from_static(b"{}"));
    let complete = Complete { id, fence, result, encoding: encoding.clone() };
    w.run(complete).await.expect("it is held");
    w.dispatch().await;
    let input = handed(&w, b).await.expect("there is a result");
    assert_eq!((input.encoding, &input.bytes[..]), (encoding, &b"{}"[..]));
}

/// Claimed together, each is handed its own.
pub async fn each_of_many_is_handed_its_own(w: Arc<World>) {
    let sketch = w.sketch("a>p a>q b>r b>s t").node("t", |create| create.input = Bytes::new());
    let sketch = sketch.passing("a", "p").passing("a", "q").passing("b", "r");
    let drawn = sketch.submit().await;
    w.succeed_with(drawn.id("a"), b"from a").await;
    w.succeed_with(drawn.id("b"), b"from b").await;
    w.dispatch().await;
    let claimed = w.claim(w.ask(100)).await.into_iter();
    let input = |claimed: ff_core::Claimed| claimed.input.map(|blob| blob.bytes);
    let handed: BTreeMap<_, _> = claimed.map(|c| (c.leased.execution.id, input(c))).collect();
    for (node, expected) in [
        ("p", Some("from a")),
        ("q", Some("from a")),
        ("r", Some("from b")),
        ("s", Some("in")),
        ("t", None),
    ] {
        assert_eq!(handed[&drawn.id(node)], expected.map(Bytes::from), "{node}");
    }
}

/// A child that had no input of its own is handed the result, too.
pub async fn a_result_is_passed_where_there_was_no_input(w: Arc<World>) {
    let sketch = w.sketch("a>b").node("b", |create| create.input = Bytes::new());
    let drawn = sketch.passing("a", "b").submit().await;
    w.succeed_with(drawn.id("a"), b"from a").await;
    w.dispatch().await;
    assert_eq!(handed_bytes(&w, drawn.id("b")).await, Some("from a".into()));
}

/// An edge applied after its upstream ended passes the result as well.
pub async fn a_result_is_passed_by_an_edge_applied_late(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let [up, down] = w.members(flow).await;
    w.succeed_with(up, b"early").await;
    w.dispatch().await;
    let mut staging = w.staging(flow, up, down).await;
    staging.data_passing_ref = Some("result".to_owned());
    w.run(staging.clone()).await.expect("the edge is valid");
    w.apply(flow, staging.edge).await.expect("it is staged");
    assert_eq!(handed_bytes(&w, down).await, Some("early".into()));
}
