//! Flows and children, the same on a database and through a server.

use std::time::Duration;

use flowfabric::prelude::*;
use flowfabric::{
    CancellationPolicy, Client, Code, EdgeParams, FlowDraft, FlowSearchParams, FlowWord,
    MemberParams, Worker, node,
};

use crate::stores::every_place;

async fn double(_: Context, n: u32) -> Result<u32> {
    Ok(n * 2)
}

async fn fail(_: Context, why: String) -> Result<u32> {
    Err(Error::permanent(why).into())
}

/// Hands work to others in every way there is.
async fn parent(ctx: Context, (): ()) -> Result<(Vec<u32>, Vec<bool>, u32, String)> {
    let double = |n: u32| ctx.task("double", n).priority(n.try_into().unwrap_or(0));
    ctx.spawn(double(1)).await;
    let joined = ctx.join_all([double(2), double(3)]).await?;
    let settled = ctx.settle_all::<u32, _>([double(4), ctx.task("fail", "cold")]).await;
    let lost = ctx.race::<u32, _>(["burnt", "cold"].map(|why| ctx.task("fail", why))).await;
    let lost = lost.map_or_else(|error| error.to_string(), |won| won.to_string());
    // Another sort of wait between two races.
    ctx.join_all::<u32, _>([double(5)]).await?;
    let won = ctx.race([ctx.task("fail", "burnt"), double(6)]).await?;
    Ok((joined, settled.iter().map(Result::is_ok).collect(), won, lost))
}

fn worker(fabric: &Client) -> Worker {
    let worker = fabric.worker("default").handle("double", double).handle("fail", fail);
    worker.handle("parent", parent)
}

#[tokio::test]
async fn children_are_the_same_everywhere() {
    for at in every_place() {
        let place = at.open().await;
        let running = worker(&place.fabric).start().unwrap();
        let made = place.fabric.create("parent", ()).namespace("family").await.unwrap();
        let (joined, settled, won, lost) =
            made.result::<(Vec<u32>, Vec<bool>, u32, String)>().await.unwrap();
        assert_eq!((joined, settled, won), (vec![4, 6], vec![true, false], 12), "{at:?}");
        assert!(lost.starts_with("none succeeded: ") && lost.ends_with("burnt"), "{at:?}: {lost}");
        let id = made.describe().await.unwrap().flow_id.unwrap();
        let flow = place.fabric.flow_by_id(id);
        assert_eq!(flow.ended().await.unwrap(), FlowWord::Failed);
        assert_eq!(flow.summary().await.unwrap().total_members, 11, "{at:?}");
        assert_eq!(flow.describe().await.unwrap().flow.namespace, "family");
        running.stop().await.unwrap();
    }
}

fn graph(fabric: &Client) -> FlowDraft {
    let sum = node("sum", "double", 0).after("a").takes("b").any_of().let_run();
    let flow = fabric.flow("graph").namespace("shop").tag("shop.order", "7").idempotency_key("7");
    flow.node(node("a", "double", 1).delay(Duration::from_hours(1)))
        .node(node("b", "double", 2))
        .node(sum)
}

#[tokio::test]
async fn flows_are_the_same_everywhere() {
    for at in every_place() {
        let place = at.open().await;
        let fabric = &place.fabric;
        let running = worker(fabric).start().unwrap();
        let flow = graph(fabric).await.unwrap();
        let again = graph(fabric).await.unwrap();
        assert_eq!((again.id(), again.is_duplicate()), (flow.id(), true), "{at:?}");
        assert_eq!(flow.result::<u32>("sum").await.unwrap(), 8, "{at:?}");
        assert_eq!(flow.wait(Duration::from_millis(1)).await.unwrap(), FlowWord::Open);
        flow.set_tag("shop.state", "late").await.unwrap();
        flow.remove_tag("shop.order").await.unwrap();
        let tags = flow.describe().await.unwrap().flow.tags;
        assert_eq!(tags.into_keys().collect::<Vec<_>>(), ["shop.state"], "{at:?}");
        let tag = Some("shop.state:late".to_owned());
        let search = FlowSearchParams { tag, ..FlowSearchParams::default() };
        let found = fabric.flows(search).await.unwrap().flows;
        assert_eq!((found.len(), found[0].flow_id), (1, flow.id()), "{at:?}");
        let mut after = None;
        let mut names = Vec::new();
        loop {
            let page = flow.members(MemberParams { after, limit: Some(2) }).await.unwrap();
            names.extend(page.members.into_iter().filter_map(|member| member.node));
            after = page.next.map(|next| next.to_string());
            if after.is_none() {
                break;
            }
        }
        names.sort();
        assert_eq!(names, ["a", "b", "sum"], "{at:?}");
        assert_eq!(flow.edges(EdgeParams::default()).await.unwrap().edges.len(), 2);
        flow.cancel("enough").await.unwrap();
        assert_eq!(flow.ended().await.unwrap(), FlowWord::Cancelled);
        assert_eq!(flow.summary().await.unwrap().members_cancelled, 1, "{at:?}");
        assert_eq!(flow.node("a").unwrap().ended().await.unwrap(), PublicState::Cancelled);
        running.stop().await.unwrap();
    }
}

#[tokio::test]
async fn open_flows_grow_everywhere() {
    for at in every_place() {
        let place = at.open().await;
        let running = worker(&place.fabric).start().unwrap();
        let flow = place.fabric.flow("grown").namespace("shop").open();
        let flow = flow.node(node("a", "double", 1)).await.unwrap();
        flow.extend().node(node("b", "double", 0).takes("a")).seal().await.unwrap();
        assert_eq!(flow.result::<u32>("b").await.unwrap(), 4, "{at:?}");
        assert_eq!(flow.ended().await.unwrap(), FlowWord::Completed, "{at:?}");
        running.stop().await.unwrap();
    }
}

#[tokio::test]
async fn refusals_are_the_same_everywhere() {
    for at in every_place() {
        let place = at.open().await;
        let fabric = &place.fabric;
        let circle = fabric.flow("graph").node(node("a", "double", 1).after("b"));
        let circle = circle.node(node("b", "double", 1).after("a"));
        assert!(circle.await.unwrap_err().is(Code::CycleDetected), "{at:?}");
        let lost = fabric.flow("graph").node(node("a", "double", 1).after("b"));
        assert!(lost.await.unwrap_err().is(Code::UnknownNode), "{at:?}");
        let open = fabric.flow("graph").open().node(node("a", "double", 1)).await.unwrap();
        assert_eq!(open.seal().await.unwrap(), FlowWord::Open);
        let child = || node("b", "double", 1).after("a");
        let sealed = open.extend().node(child()).await.unwrap_err();
        assert!(sealed.is(Code::FlowSealed), "{at:?}: {sealed}");
        let done = open.cancel("enough").pending().wait(Duration::from_secs(1)).await.unwrap();
        assert_eq!(done.cancellation_policy, CancellationPolicy::Pending, "{at:?}");
        assert_eq!((done.member_count, done.is_going_on(), done.repeated), (1, false, false));
        let again = open.cancel("").flow_only().await.unwrap();
        assert_eq!(again.cancellation_policy, CancellationPolicy::Pending, "{at:?}");
        assert_eq!((again.reason.as_str(), again.repeated), ("enough", true), "{at:?}");
        assert_eq!(open.ended().await.unwrap(), FlowWord::Cancelled);
        let other = node("a", "double", 2);
        let taken = fabric.flow("graph").id(open.id()).open().node(other).await;
        assert!(taken.unwrap_err().is(Code::FlowIdConflict), "{at:?}");
    }
}
