//! Tags of flows: set, replaced, removed, found, and bounded.

use std::collections::BTreeSet;
use std::sync::Arc;

use ff_core::FlowId;
use ff_core::decide::create_flow::CreateFlow;
use ff_core::decide::flow_tags::SetFlowTags;
use ff_core::decide::tags::Edit;
use ff_core::error::Code;
use ff_core::execution::Tags;
use ff_core::flow::CancellationPolicy;
use ff_core::limits::TAGS_MAX;
use ff_core::query::{FlowSearch, Query, Rows};
use ff_core::view::FlowSnapshot;

use super::calls::tags;
use crate::world::{World, code};

fn edit(flow: FlowId, set: Tags, remove: &[&str]) -> SetFlowTags {
    let remove: BTreeSet<_> = remove.iter().map(|key| (*key).to_owned()).collect();
    SetFlowTags { flow, edit: Edit { set, remove, version: None } }
}

/// Tags are set, replaced and removed, and the snapshot shows them.
pub async fn tags_of_a_flow_are_set_and_removed(w: Arc<World>) {
    let flow = w.empty_flow().await;
    w.pass(5);
    assert_eq!(w.tag_flow(flow, tags(&[("app.a", "1"), ("app.b.c", "2")])).await, Ok(2));
    let row = w.flow(flow).await;
    assert_eq!((row.updated_at, row.revision, row.version), (w.now(), 0, 2));
    w.pass(5);
    let change = edit(flow, tags(&[("app.a", "3")]), &["app.b.c", "app.never"]);
    assert_eq!(w.run(change).await, Ok(1));
    let seen = FlowSnapshot::of(&w.flow(flow).await, &[], false);
    assert_eq!(seen.tags, tags(&[("app.a", "3")]));
    assert_eq!(seen.last_mutation_at, w.now());
    let both = edit(flow, tags(&[("app.a", "4")]), &["app.a"]);
    let refused = w.refused(both).await;
    assert_eq!((refused.code, refused.field), (Code::InvalidInput, Some("remove")));
    assert_eq!(w.flow(flow).await.tags, tags(&[("app.a", "3")]));
}

/// What changes nothing writes nothing.
pub async fn the_same_tags_again_change_nothing(w: Arc<World>) {
    let flow = w.empty_flow().await;
    w.tag_flow(flow, tags(&[("app.a", "1")])).await.expect("it is there");
    w.pass(5);
    let before = w.rows();
    assert_eq!(w.tag_flow(flow, tags(&[("app.a", "1")])).await, Ok(1));
    assert_eq!(w.run(edit(flow, Tags::new(), &["app.b"])).await, Ok(1));
    assert_eq!(w.rows(), before);
}

/// A flow that is over may still be tagged.
pub async fn a_flow_that_ended_may_be_tagged(w: Arc<World>) {
    let flow = w.empty_flow().await;
    w.cancel_flow(flow, CancellationPolicy::All).await.expect("it is open");
    assert_eq!(w.tag_flow(flow, tags(&[("app.a", "1")])).await, Ok(1));
    assert_eq!(code(w.tag_flow(w.flow_id(), tags(&[("app.a", "1")])).await), Code::FlowNotFound);
}

/// Keys that are not of the form owner.name are refused, to set or to remove.
pub async fn bad_tag_keys_of_a_flow_are_refused(w: Arc<World>) {
    let flow = w.empty_flow().await;
    for key in ["app.", "app..x", "App.x", "nodot", "app.Foo", "", "1app.x"] {
        let set = w.refused(edit(flow, tags(&[(key, "1")]), &[])).await;
        let remove = w.refused(edit(flow, Tags::new(), &[key])).await;
        assert_eq!((set.code, remove.code), (Code::InvalidTagKey, Code::InvalidTagKey), "{key:?}");
        let draft = CreateFlow { tags: tags(&[(key, "1")]), ..w.flow_draft() };
        assert_eq!(w.refused(draft).await.code, Code::InvalidTagKey);
    }
    let long = "x".repeat(1_025);
    let refused = w.refused(edit(flow, tags(&[("app.a", &long)]), &[])).await;
    assert_eq!((refused.code, refused.field), (Code::InvalidInput, Some("tags")));
}

/// A flow carries so many tags and no more.
pub async fn too_many_tags_of_a_flow_are_refused(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let many: Tags = (0..TAGS_MAX).map(|n| (format!("app.t{n}"), n.to_string())).collect();
    assert_eq!(w.tag_flow(flow, many).await, Ok(TAGS_MAX));
    let refused = w.refused(edit(flow, tags(&[("app.more", "1")]), &[])).await;
    assert_eq!((refused.code, refused.field), (Code::InvalidInput, Some("tags")));
    let swap = edit(flow, tags(&[("app.more", "1")]), &["app.t0"]);
    assert_eq!(w.run(swap).await, Ok(TAGS_MAX));
}

/// A search finds a flow by the tags it carries now.
pub async fn flows_are_found_by_their_tags(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let found = async |value: &str| {
        let tag = Some(("app.a".to_owned(), value.to_owned()));
        let search = FlowSearch { tag, ..FlowSearch::default() };
        match w.list(&Query::Flows(Box::new(search)), 10).await {
            Rows::Flows(flows) => flows.len(),
            other => panic!("flows were asked for, not {other:?}"),
        }
    };
    w.tag_flow(flow, tags(&[("app.a", "1")])).await.expect("it is there");
    assert_eq!((found("1").await, found("2").await), (1, 0));
    w.tag_flow(flow, tags(&[("app.a", "2")])).await.expect("it is there");
    assert_eq!((found("1").await, found("2").await), (0, 1));
    w.run(edit(flow, Tags::new(), &["app.a"])).await.expect("it is there");
    assert_eq!(found("2").await, 0);
}

/// The tags of a flow are its own, not those of its members.
pub async fn members_do_not_inherit_tags(w: Arc<World>) {
    let sketch = w.sketch("a").with(|submission| submission.flow.tags = tags(&[("app.a", "1")]));
    let drawn = sketch.submit().await;
    assert_eq!(w.get(drawn.id("a")).await.tags, Tags::new());
    assert!((w.store.dump)().tags.is_empty());
}
