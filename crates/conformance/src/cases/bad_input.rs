//! Bad input gets a coded answer that names field and value, and changes nothing.

use std::sync::Arc;

use bytes::Bytes;
use ff_core::decide::cancel::Cancel;
use ff_core::decide::complete::Complete;
use ff_core::decide::create::Create;
use ff_core::decide::delay::Delay;
use ff_core::decide::fail::Fail;
use ff_core::decide::hold::Hold;
use ff_core::decide::priority::ChangePriority;
use ff_core::decide::progress::ReportProgress;
use ff_core::decide::renew::Renew;
use ff_core::decide::replay::Replay;
use ff_core::decide::revoke::Revoke;
use ff_core::decide::tags::{Edit, SetTags};
use ff_core::error::{Class, Code, Rejection};
use ff_core::event::Cursor;
use ff_core::execution::Tags;
use ff_core::limits::{
    CURSOR_BYTES_MAX, DURATION_MS_MAX, REASON_BYTES_MAX, TAG_VALUE_BYTES_MAX, TAGS_MAX,
};
use ff_core::policy::FailureClass;
use ff_core::text::{ConsumerName, Encoding, IdempotencyKey, Kind, LaneId, Namespace};
use ff_core::{Command, Config, ExecutionId, Millis};
use serde_json::json;

use super::calls::{cancellation, failure, progress, revocation, tags};
use crate::world::World;

/// Sends a command that must be refused with `code`, naming `field`, and change nothing.
async fn refused(w: &World, command: impl Into<Command>, code: Code, field: &str) -> Rejection {
    let before = w.rows();
    let command = command.into();
    let refused = w.send(command).await.expect_err("it is malformed");
    assert_eq!((refused.code, refused.field), (code, Some(field)), "{refused}");
    assert_eq!(refused.code.class(), Class::Validation);
    assert_eq!(w.rows(), before, "{refused}");
    refused
}

fn many_tags(n: usize) -> Tags {
    (0..n).map(|n| (format!("app.t{n}"), String::new())).collect()
}

/// A priority is refused rather than silently changed.
pub async fn a_priority_out_of_range_is_refused(w: Arc<World>) {
    for priority in [-1, 9_001, i32::MIN, i32::MAX] {
        let create = Create { priority, ..w.draft() };
        let no = refused(&w, create, Code::InvalidInput, "priority").await;
        assert_eq!(no.value, Some(priority.to_string()));
    }
    let id = w.create(w.draft()).await;
    let change = ChangePriority { id, priority: 9_001, version: None };
    refused(&w, change, Code::InvalidInput, "priority").await;
    for priority in [9_000, 0] {
        assert_eq!(w.prioritise(id, priority).await.map(|p| p.to), Ok(priority));
    }
}

/// A payload that is too large is refused, going in and coming out.
pub async fn an_oversize_payload_is_refused(w: Arc<World>) {
    let big = Bytes::from(vec![0; Config::default().payload_bytes_max + 1]);
    let create = Create { input: big.clone(), ..w.draft() };
    let no = refused(&w, create, Code::PayloadTooLarge, "input_payload").await;
    assert!(no.message.contains("1048577"), "{no}");
    let (id, fence) = w.running(json!({})).await;
    let (result, encoding) = (Some(big), None);
    let complete = Complete { id, fence, result, encoding };
    refused(&w, complete, Code::PayloadTooLarge, "result").await;
    assert_eq!(w.complete(id, fence).await, Ok(()));
}

/// Nothing that was said is dropped: an encoding needs something that is encoded.
pub async fn an_encoding_without_a_result_is_refused(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let encoding = Encoding::new("json").ok();
    let complete = Complete { id, fence, result: None, encoding };
    let no = refused(&w, complete.clone(), Code::InvalidInput, "payload_encoding").await;
    assert_eq!(no.value.as_deref(), Some("json"));
    assert_eq!(w.run(Complete { result: Some(Bytes::new()), ..complete }).await, Ok(()));
}

/// Tag keys have owners, at creation as later.
pub async fn a_bad_tag_key_is_refused(w: Arc<World>) {
    let id = w.create(w.draft()).await;
    let long = format!("a.{}", "b".repeat(127));
    for key in ["", "plain", "App.a", "a.", ".b", "1a.b", "a b.c", "a.B", "a..b", "a.b\0", &long] {
        let tags = tags(&[(key, "x")]);
        let create = Create { tags: tags.clone(), ..w.draft() };
        refused(&w, create, Code::InvalidTagKey, "tags").await;
        let set = SetTags { id, edit: Edit { set: tags, remove: [].into(), version: None } };
        refused(&w, set, Code::InvalidTagKey, "tags").await;
        let edit = Edit { set: [].into(), remove: [key.to_owned()].into(), version: None };
        refused(&w, SetTags { id, edit }, Code::InvalidTagKey, "tags").await;
    }
    for key in ["a.b", "app_1.x.y_2", "a.1"] {
        w.tag(id, key, "x").await.expect("a valid key");
    }
}

/// Tag values are bounded and hold no NUL.
pub async fn a_bad_tag_value_is_refused(w: Arc<World>) {
    for value in ["nul\0", &"x".repeat(TAG_VALUE_BYTES_MAX + 1)] {
        let create = Create { tags: tags(&[("a.b", value)]), ..w.draft() };
        refused(&w, create, Code::InvalidInput, "tags").await;
    }
    let longest = "x".repeat(TAG_VALUE_BYTES_MAX);
    w.create(Create { tags: tags(&[("a.b", &longest)]), ..w.draft() }).await;
}

/// Tags are bounded in number, also when they come one by one.
pub async fn too_many_tags_are_refused(w: Arc<World>) {
    let create = Create { tags: many_tags(TAGS_MAX + 1), ..w.draft() };
    let no = refused(&w, create, Code::InvalidInput, "tags").await;
    assert!(no.message.contains("33"), "{no}");
    let id = w.create(Create { tags: many_tags(TAGS_MAX), ..w.draft() }).await;
    let set = tags(&[("app.one_more", "")]);
    let edit = Edit { set: set.clone(), remove: [].into(), version: None };
    refused(&w, SetTags { id, edit }, Code::InvalidInput, "tags").await;
    let edit = Edit { set, remove: ["app.t0".to_owned()].into(), version: None };
    assert_eq!(w.run(SetTags { id, edit }).await, Ok(TAGS_MAX));
}

/// A lease shorter than a heartbeat or longer than a day is a mistake.
pub async fn a_lease_out_of_range_is_refused(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    for lease_ttl_ms in [0, 9, 86_400_001, u64::MAX] {
        let renew = Renew { id, fence, lease_ttl_ms };
        let no = refused(&w, renew, Code::InvalidInput, "lease_ttl_ms").await;
        assert_eq!(no.value, Some(lease_ttl_ms.to_string()));
    }
    let waiting = w.create(w.draft()).await;
    let claim = ff_core::decide::claim::Claim { lease_ttl_ms: 0, ..w.naming(waiting) };
    refused(&w, claim, Code::InvalidInput, "lease_ttl_ms").await;
}

/// More than everything cannot be done.
pub async fn progress_out_of_range_is_refused(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    for percent in [101, 255] {
        let no = refused(&w, progress(id, fence, percent), Code::InvalidInput, "percent").await;
        assert_eq!(no.value, Some(percent.to_string()));
    }
    for message in ["nul\0".to_owned(), "x".repeat(1_025)] {
        let (percent, message) = (None, Some(message));
        let report = ReportProgress { id, fence, percent, message, after: None };
        refused(&w, report, Code::InvalidInput, "message").await;
    }
}

/// Reasons are bounded and hold no NUL, whoever gives them.
pub async fn a_bad_reason_is_refused(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    for reason in ["nul\0".to_owned(), "x".repeat(REASON_BYTES_MAX + 1)] {
        let why = || reason.clone();
        let fail = failure(id, fence, FailureClass::Transient, "oops");
        let fail = Fail { reason: why(), ..fail };
        refused(&w, fail, Code::InvalidInput, "failure_reason").await;
        let cancel = Cancel { reason: why(), ..cancellation(id) };
        refused(&w, cancel, Code::InvalidInput, "reason").await;
        let revoke = Revoke { reason: why(), ..revocation(id) };
        refused(&w, revoke, Code::InvalidInput, "reason").await;
        let reason = why();
        refused(&w, Hold { id, reason, version: None }, Code::InvalidInput, "reason").await;
        let reason = why();
        refused(
            &w,
            Replay { id, reason, replays: None, downstream: true },
            Code::InvalidInput,
            "reason",
        )
        .await;
    }
    let reason = "é".repeat(REASON_BYTES_MAX / 2);
    assert_eq!(w.run(Cancel { reason, ..cancellation(id) }).await, Ok(()));
}

/// A time before time or beyond ten years is not a time anyone meant.
pub async fn an_absurd_time_is_refused(w: Arc<World>) {
    let far = w.now().plus(DURATION_MS_MAX + 1);
    for at in [Millis(-1), Millis(i64::MIN), far, Millis(i64::MAX)] {
        let create = Create { delay_until: Some(at), ..w.draft() };
        let no = refused(&w, create, Code::InvalidInput, "delay_until").await;
        assert_eq!(no.value, Some(at.to_string()));
        let create = Create { deadline_at: Some(at), ..w.draft() };
        refused(&w, create, Code::InvalidInput, "execution_deadline_at").await;
    }
    let edge = w.now().plus(DURATION_MS_MAX);
    let id = w.create(Create { delay_until: Some(edge), ..w.draft() }).await;
    assert_eq!(w.promote().await, Some(edge));
    w.cancel(id).await.expect("it is delayed");
}

/// A worker that asks for an absurd delay still holds its work.
pub async fn an_absurd_delay_leaves_the_lease_alone(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    for delay_until in [Millis(-1), Millis(i64::MAX)] {
        let delay = Delay { id, fence, delay_until, steps: Vec::new() };
        refused(&w, delay, Code::InvalidInput, "delay_until").await;
    }
    assert_eq!(w.complete(id, fence).await, Ok(()));
}

/// A window without a key would be stored and ignored.
pub async fn a_window_without_a_key_is_refused(w: Arc<World>) {
    let policy = json!({"dedup_window_ms": 1_000});
    let policy = ff_core::Policy::parse(&policy).expect("valid in itself");
    let create = Create { policy, ..w.draft() };
    refused(&w, create, Code::InvalidInput, "dedup_window_ms").await;
}

/// Names are checked where they come in, and the answer shows what came.
pub async fn a_bad_name_is_refused(w: Arc<World>) {
    let long = "x".repeat(300);
    let answers = [
        ("lane_id", LaneId::new("").err(), ""),
        ("lane_id", LaneId::new("x".repeat(65)).err(), "xxx"),
        ("lane_id", LaneId::new("tab\there").err(), "tab"),
        ("lane_id", LaneId::new("Zürich").err(), "Zürich"),
        ("namespace", Namespace::new("two words").err(), "two words"),
        ("namespace", Namespace::new("nul\0").err(), "nul"),
        ("execution_kind", Kind::new("").err(), ""),
        ("idempotency_key", IdempotencyKey::new(long.clone()).err(), "xxx"),
        ("consumer", ConsumerName::new("a\nb").err(), "a"),
        ("payload_encoding", Encoding::new("é").err(), "é"),
    ];
    for (field, answer, shown) in answers {
        let refused = answer.expect("it is malformed");
        assert_eq!((refused.code, refused.field), (Code::InvalidInput, Some(field)));
        let value = refused.value.clone().unwrap_or_default();
        assert!(value.contains(shown) && value.len() < 200, "{refused}");
    }
    assert!(w.find(w.id()).await.is_none());
}

/// An id whose partition does not exist is refused where it comes in.
pub async fn a_bad_id_is_refused(w: Arc<World>) {
    let uuid = w.uuid();
    for text in [
        uuid.to_string(),
        format!("{{fp:256}}:{uuid}"),
        format!("{{fp:-1}}:{uuid}"),
        format!("{{b:1}}:{uuid}"),
        "{fp:1}:".to_owned(),
    ] {
        let refused = text.parse::<ExecutionId>().expect_err("it is malformed");
        assert_eq!(refused.field, Some("execution_id"));
        assert_eq!(refused.value.as_deref(), Some(&text[..]));
    }
    let id = w.create(w.draft()).await;
    assert_eq!(id.to_string().parse(), Ok(id));
}

/// A cursor of some other feed is refused where it comes in.
pub async fn a_bad_cursor_is_refused(w: Arc<World>) {
    w.finished(json!({})).await;
    let long = format!("window:1:9:@1/1:9:{}@1/1", "7,".repeat(CURSOR_BYTES_MAX));
    for text in [
        "",
        "7",
        "seq:",
        "seq:-1",
        "seq:18446744073709551615",
        "Start",
        "window:",
        "window:5:5:@1/7:9:8@2/-1",
        "window:5:5:/7:9:8@2/1",
        "window:5:5:@1/7:9:9@2/1",
        "window:5:5@1/7:9:8@2/1",
        "window:x'; drop table ff_event@1/7:9:8@2/1",
        &long,
    ] {
        let refused = text.parse::<Cursor>().expect_err("it is malformed");
        assert_eq!((refused.code, refused.field), (Code::InvalidInput, Some("cursor")));
        assert!(refused.to_string().len() < 300, "{refused}");
    }
}
