//! Waits for signals and people, the same on a database and through a server.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flowfabric::prelude::*;
use flowfabric::{
    Client, Code, Decision, Delivered, Distinct, Effect, ResumeCondition, Running, StepInfo,
    Waitpoint, WaitpointParams, WaitpointSnapshot, Word,
};
use tokio::sync::{Notify, mpsc};
use uuid::Uuid;

use crate::stores::every_place;

/// Nobody waits for this long.
pub const LONG: Duration = Duration::from_hours(1);

pub fn start<F, I, T>(fabric: &Client, handler: F) -> Running
where
    F: flowfabric::Handler<I, T>,
    I: serde::de::DeserializeOwned + Send + 'static,
    T: serde::Serialize + Send + 'static,
{
    fabric.worker("default").handle("wait", handler).concurrency(1).start().unwrap()
}

/// Waits until the execution waits at a waitpoint of this key, as it does now.
pub async fn waits_at(handle: &Handle, key: &str) -> WaitpointSnapshot {
    loop {
        let open = handle.waitpoints().await.unwrap();
        let state = handle.describe().await.unwrap().public_state;
        let found = open.into_iter().find(|row| row.waitpoint_key == key);
        if let (PublicState::Suspended, Some(found)) = (state, found) {
            return found;
        }
        assert!(!state.is_terminal(), "{state}: {:?}", handle.result::<()>().await);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn effect(delivered: Delivered) -> Option<Effect> {
    match delivered {
        Delivered::Accepted { effect, .. } => Some(effect),
        Delivered::Duplicate { .. } => None,
    }
}

#[tokio::test]
async fn a_wait_gives_the_slot_back_and_goes_on_with_the_payload() {
    async fn wait(ctx: Context, (): ()) -> Result<String> {
        Ok(ctx.wait_for("answer").signal("said").await?)
    }
    async fn echo(_: Context, text: String) -> Result<String> {
        Ok(text)
    }
    for at in every_place() {
        let place = at.open().await;
        let fabric = &place.fabric;
        let worker = fabric.worker("default").handle("wait", wait).handle("echo", echo);
        let running = worker.concurrency(1).start().unwrap();
        let made = fabric.create("wait", ()).await.unwrap();
        waits_at(&made, "answer").await;
        let other = fabric.create("echo", "meanwhile").await.unwrap();
        assert_eq!(other.result::<String>().await.unwrap(), "meanwhile", "{at:?}");

        let listed = fabric.waitpoints(WaitpointParams::default()).await.unwrap().waitpoints;
        assert_eq!(listed.len(), 1, "{at:?}");
        let ignored = made.signal("mumbled").payload("what?").await.unwrap();
        assert_eq!(effect(ignored), Some(Effect::IgnoredMatcherFailed), "{at:?}");
        let nowhere = made.signal("said").at("elsewhere").await.unwrap_err();
        assert!(nowhere.is(Code::WaitpointNotFound), "{at:?}: {nowhere}");
        let said = made.signal("said").payload("forty-two").from("deep thought").at("answer");
        assert_eq!(effect(said.await.unwrap()), Some(Effect::ConditionSatisfied), "{at:?}");
        assert_eq!(made.result::<String>().await.unwrap(), "forty-two", "{at:?}");
        running.stop().await.unwrap();
    }
}

/// Asks two of three about a number.
async fn approval(ctx: Context, subject: u32) -> Result<Decision> {
    let approval = ctx.approval("number").of(subject).needs(2).by(["ann", "bob", "cleo"]);
    Ok(approval.not_by("cleo").timeout(LONG).await?)
}

#[tokio::test]
async fn two_approve() {
    for at in every_place() {
        let place = at.open().await;
        let running = start(&place.fabric, approval);
        let made = place.fabric.create("wait", 7).await.unwrap();
        let asked = waits_at(&made, "number").await.approval.unwrap();
        assert_eq!((asked.needed, asked.subject.as_deref()), (2, Some("7")), "{at:?}");
        for (who, led_to) in [
            ("dan", Some(Effect::IgnoredMatcherFailed)),
            ("cleo", Some(Effect::IgnoredMatcherFailed)),
            ("ann", Some(Effect::Appended)),
            ("ann", None),
            ("bob", Some(Effect::ConditionSatisfied)),
        ] {
            let said = made.approve(who).comment("fine").await.unwrap();
            assert_eq!(effect(said), led_to, "{at:?}: {who}");
        }
        let decision: Decision = made.result().await.unwrap();
        assert!(decision.approved, "{at:?}");
        let who: Vec<_> = decision.voices.iter().map(|voice| voice.who.as_str()).collect();
        assert_eq!(who, ["ann", "bob"], "{at:?}");
        assert_eq!(decision.voices[0].comment.as_deref(), Some("fine"), "{at:?}");
        running.stop().await.unwrap();
    }
}

#[tokio::test]
async fn people_approve_by_links_that_the_handler_hands_out() {
    async fn ask(ctx: Context, subject: u32) -> Result<Decision> {
        let place = ctx.waitpoint("number").await?;
        let people = ["ann", "bob"];
        let approval = ctx.approval(&place).of(subject).needs(2).by(people).timeout(LONG);
        let links = ctx.state::<mpsc::UnboundedSender<String>>();
        let send = async |_| -> Result<()> {
            for who in people {
                links.send(approval.link(Word::Approved, who).await?).expect("they are read");
            }
            Ok(())
        };
        ctx.step("send links", send).await?;
        Ok(approval.await?)
    }
    for at in every_place() {
        let place = at.open().await;
        let fabric = &place.fabric;
        let (sender, mut links) = mpsc::unbounded_channel::<String>();
        let worker = fabric.worker("default").state(sender).handle("wait", ask);
        let running = worker.start().unwrap();
        let made = fabric.create("wait", 7).await.unwrap();
        let early = fabric.follow(&links.recv().await.unwrap(), "fine").await.unwrap();
        let early = effect(early).expect("it is the first word");
        assert!([Effect::Buffered, Effect::Appended].contains(&early), "{at:?}: {early}");
        waits_at(&made, "number").await;
        let late = fabric.follow(&links.recv().await.unwrap(), ()).await.unwrap();
        assert_eq!(effect(late), Some(Effect::ConditionSatisfied), "{at:?}");
        let decision: Decision = made.result().await.unwrap();
        let voices = decision.voices.iter().map(|one| (one.who.as_str(), one.comment.as_deref()));
        assert_eq!(voices.collect::<Vec<_>>(), [("ann", Some("fine")), ("bob", None)], "{at:?}");
        assert!(decision.approved, "{at:?}");
        running.stop().await.unwrap();
    }
}

#[tokio::test]
async fn an_approval_that_is_not_asked_yet_has_no_links() {
    async fn ask(ctx: Context, (): ()) -> Result<String> {
        let approval = ctx.approval("number").of(7);
        Ok(approval.link(Word::Approved, "ann").await.unwrap_err().to_string())
    }
    let place = every_place()[0].open().await;
    let running = start(&place.fabric, ask);
    let made = place.fabric.create("wait", ()).await.unwrap();
    let said = made.result::<String>().await.unwrap();
    assert!(said.contains("a waitpoint that was made before"), "{said}");
    running.stop().await.unwrap();
}

#[tokio::test]
async fn one_rejects() {
    for at in every_place() {
        let place = at.open().await;
        let running = start(&place.fabric, approval);
        let made = place.fabric.create("wait", 7).await.unwrap();
        waits_at(&made, "number").await;
        made.approve("ann").at("number").await.unwrap();
        made.reject("bob").comment("too small").await.unwrap();
        let decision: Decision = made.result().await.unwrap();
        assert!(!decision.approved, "{at:?}");
        let words: Vec<_> = decision.voices.iter().map(|voice| voice.word).collect();
        assert_eq!(words.last(), Some(&Word::Rejected), "{at:?}");
        let late = made.approve("ann").await.unwrap_err();
        assert!(late.is(Code::WaitpointNotFound), "{at:?}: {late}");
        running.stop().await.unwrap();
    }
}

#[tokio::test]
async fn nobody_approves_what_he_did_not_see() {
    for at in every_place() {
        let place = at.open().await;
        let running = start(&place.fabric, approval);
        let made = place.fabric.create("wait", 7).await.unwrap();
        waits_at(&made, "number").await;
        let other = made.approve("ann").of(8).await.unwrap_err();
        assert!(other.is(Code::SubjectMismatch), "{at:?}: {other}");
        made.approve("ann").of(7).await.unwrap();
        let asked = made.waitpoints().await.unwrap().remove(0).approval.unwrap();
        let shown = asked.subject.unwrap();
        let other = made.approve("bob").of_text("8").await.unwrap_err();
        assert!(other.is(Code::SubjectMismatch), "{at:?}: {other}");
        made.approve("bob").of_text(&shown).await.unwrap();
        assert!(made.result::<Decision>().await.unwrap().approved, "{at:?}");
        running.stop().await.unwrap();
    }
}

#[tokio::test]
async fn an_operator_lets_it_go_on_undecided() {
    for at in every_place() {
        let place = at.open().await;
        let running = start(&place.fabric, approval);
        let made = place.fabric.create("wait", 7).await.unwrap();
        waits_at(&made, "number").await;
        made.resume("enough").await.unwrap();
        let decision: Decision = made.result().await.unwrap();
        assert!(!decision.approved && decision.voices.is_empty(), "{at:?}: {decision:?}");
        running.stop().await.unwrap();
    }
}

/// Where a token is handed to.
#[derive(Default)]
struct Mailbox {
    token: Mutex<Option<(Uuid, String)>>,
    handed: Notify,
    /// The step that hands it out goes on when this is told.
    hand_over: Notify,
}

impl Mailbox {
    async fn take(&self, info: StepInfo, waitpoint: &Waitpoint) -> Result<Uuid> {
        let token = waitpoint.token().await?;
        *self.token.lock().unwrap() = Some((waitpoint.id(), token));
        self.handed.notify_one();
        self.hand_over.notified().await;
        Ok(info.token)
    }

    async fn taken(&self) -> (Uuid, String) {
        self.handed.notified().await;
        self.token.lock().unwrap().clone().unwrap()
    }
}

#[tokio::test]
async fn a_token_is_good_before_anybody_waits_and_after() {
    async fn wait(ctx: Context, (): ()) -> Result<u32> {
        let mailbox = ctx.state::<Arc<Mailbox>>();
        let answer = ctx.waitpoint("answer").await?;
        ctx.step("hand out", |info| mailbox.take(info, &answer)).await?;
        Ok(ctx.wait_for(&answer).timeout(LONG).await?)
    }
    for at in every_place() {
        for early in [true, false] {
            let place = at.open().await;
            let mailbox = Arc::new(Mailbox::default());
            let worker = place.fabric.worker("default").state(Arc::clone(&mailbox));
            let running = worker.handle("wait", wait).start().unwrap();
            let made = place.fabric.create("wait", ()).await.unwrap();
            let (waitpoint, token) = mailbox.taken().await;
            let wrong = made.signal("said").token(waitpoint, format!("{token}0")).await;
            assert!(wrong.unwrap_err().is(Code::InvalidToken), "{at:?}");
            let elsewhere = made.signal("said").token(waitpoint, token.clone()).at("other").await;
            assert!(elsewhere.unwrap_err().is(Code::InvalidInput), "{at:?}");
            if !early {
                mailbox.hand_over.notify_one();
                waits_at(&made, "answer").await;
            }
            let said = made.signal("said").payload(7).token(waitpoint, token).await.unwrap();
            let led_to = if early { Effect::Buffered } else { Effect::ConditionSatisfied };
            assert_eq!(effect(said), Some(led_to), "{at:?}");
            mailbox.hand_over.notify_one();
            assert_eq!(made.result::<u32>().await.unwrap(), 7, "{at:?}, early: {early}");
            running.stop().await.unwrap();
        }
    }
}

#[tokio::test]
async fn more_than_a_step_can_hold_may_come_before_somebody_waits() {
    async fn wait(ctx: Context, (): ()) -> Result<usize> {
        let mailbox = ctx.state::<Arc<Mailbox>>();
        let answer = ctx.waitpoint("answer").await?;
        ctx.step("hand out", |info| mailbox.take(info, &answer)).await?;
        Ok(ctx.wait_for::<String>(&answer).count(20, Distinct::Signals).await?.len())
    }
    let place = every_place()[0].open().await;
    let mailbox = Arc::new(Mailbox::default());
    let worker = place.fabric.worker("default").state(Arc::clone(&mailbox));
    let running = worker.handle("wait", wait).start().unwrap();
    let made = place.fabric.create("wait", ()).await.unwrap();
    let (waitpoint, token) = mailbox.taken().await;
    for more in 0..20 {
        let long = "x".repeat(60_000 + more);
        let said = made.signal("said").payload(long).token(waitpoint, token.clone()).await;
        assert_eq!(effect(said.unwrap()), Some(Effect::Buffered));
    }
    mailbox.hand_over.notify_one();
    assert_eq!(made.result::<usize>().await.unwrap(), 60_019, "the last one is read");
    running.stop().await.unwrap();
}

#[tokio::test]
async fn waits_side_by_side_follow_one_another() {
    async fn wait(ctx: Context, (): ()) -> Result<(u32, u32)> {
        let (one, other) = (ctx.wait_for("one"), ctx.wait_for("other"));
        let (one, other) = tokio::join!(async { one.await }, async { other.await });
        Ok((one?, other?))
    }
    for at in every_place() {
        let place = at.open().await;
        let running = start(&place.fabric, wait);
        let made = place.fabric.create("wait", ()).await.unwrap();
        for (key, number) in [("one", 1), ("other", 2)] {
            waits_at(&made, key).await;
            assert_eq!(made.waitpoints().await.unwrap().len(), 1, "{at:?}");
            made.signal("said").payload(number).await.unwrap();
        }
        assert_eq!(made.result::<(u32, u32)>().await.unwrap(), (1, 2), "{at:?}");
        running.stop().await.unwrap();
    }
}

#[tokio::test]
async fn waits_that_take_turns_in_another_order_lose_no_answer() {
    async fn wait(ctx: Context, (): ()) -> Result<(u32, u32)> {
        let (one, other) = (ctx.wait_for("one"), ctx.wait_for("other"));
        let (one, other) = (async { one.await }, async { other.await });
        let run = ctx.state::<AtomicU32>().fetch_add(1, Ordering::SeqCst);
        let (one, other) = if run.is_multiple_of(2) {
            tokio::join!(one, other)
        } else {
            let (other, one) = tokio::join!(other, one);
            (one, other)
        };
        Ok((one?, other?))
    }
    for at in every_place() {
        let place = at.open().await;
        let worker = place.fabric.worker("default").state(AtomicU32::new(0));
        let running = worker.handle("wait", wait).start().unwrap();
        let made = place.fabric.create("wait", ()).await.unwrap();
        for (key, number) in [("one", 1), ("other", 2)] {
            waits_at(&made, key).await;
            made.signal("said").payload(number).await.unwrap();
        }
        assert_eq!(made.result::<(u32, u32)>().await.unwrap(), (1, 2), "{at:?}");
        running.stop().await.unwrap();
    }
}

#[tokio::test]
async fn a_changed_order_of_waits_is_refused() {
    async fn before(ctx: Context, (): ()) -> Result<u32> {
        let one: u32 = ctx.wait_for("one").await?;
        let other: u32 = ctx.wait_for("other").await?;
        Ok(one + other)
    }
    async fn after(ctx: Context, (): ()) -> Result<u32> {
        let other: u32 = ctx.wait_for("other").await?;
        let one: u32 = ctx.wait_for("one").await?;
        Ok(one + other)
    }
    for at in every_place() {
        let place = at.open().await;
        let running = start(&place.fabric, before);
        let made = place.fabric.create("wait", ()).await.unwrap();
        waits_at(&made, "one").await;
        made.signal("said").payload(1).await.unwrap();
        waits_at(&made, "other").await;
        running.stop().await.unwrap();
        let running = start(&place.fabric, after);
        made.signal("said").payload(2).await.unwrap();
        let why = made.result::<u32>().await.unwrap_err().to_string();
        assert!(why.contains(r#"wait "one""#) && why.contains(r#"wait "other""#), "{at:?}: {why}");
        running.stop().await.unwrap();
    }
}

async fn plain(ctx: Context, (): ()) -> Result<u32> {
    Ok(ctx.wait_for("number").await?)
}

#[tokio::test]
async fn a_replay_waits_anew() {
    for at in every_place() {
        let place = at.open().await;
        let running = start(&place.fabric, plain);
        let made = place.fabric.create("wait", ()).await.unwrap();
        waits_at(&made, "number").await;
        made.signal("said").payload(1).await.unwrap();
        assert_eq!(made.result::<u32>().await.unwrap(), 1, "{at:?}");
        made.replay("once more").await.unwrap();
        waits_at(&made, "number").await;
        made.signal("said").payload(2).await.unwrap();
        assert_eq!(made.result::<u32>().await.unwrap(), 2, "{at:?}");

        // One that was cancelled has asked, and was never answered.
        let made = place.fabric.create("wait", ()).await.unwrap();
        waits_at(&made, "number").await;
        made.cancel("not today").await.unwrap();
        made.replay("today").await.unwrap();
        waits_at(&made, "number").await;
        made.signal("said").payload(3).await.unwrap();
        assert_eq!(made.result::<u32>().await.unwrap(), 3, "{at:?}");
        running.stop().await.unwrap();
    }
}

#[tokio::test]
async fn a_wait_that_makes_no_sense_is_an_error_and_loses_nothing() {
    async fn wait(ctx: Context, (): ()) -> Result<bool> {
        let number = || std::future::ready(Err::<(), _>(Error::transient(Uuid::now_v7())));
        let found = ctx.step("number", number).await.unwrap_err().to_string();
        let refused = ctx.wait_for::<u32>("number").count(0, Distinct::Signals).await;
        assert!(refused.unwrap_err().is(Code::InvalidInput));
        ctx.step("rest on it", async || Ok::<_, Error>(())).await?;
        let seen = ctx.state::<Mutex<Vec<String>>>();
        seen.lock().unwrap().push(found.clone());
        if ctx.attempt_index() == 0 {
            return Err("once more".into());
        }
        let seen = seen.lock().unwrap();
        Ok(seen.iter().all(|other| *other == found))
    }
    for at in every_place() {
        let place = at.open().await;
        let worker = place.fabric.worker("default").state(Mutex::<Vec<String>>::default());
        let running = worker.handle("wait", wait).start().unwrap();
        let made = place.fabric.create("wait", ()).retries(1).await.unwrap();
        assert!(made.result::<bool>().await.unwrap(), "{at:?}: the same failure");
        running.stop().await.unwrap();
    }
}

#[tokio::test]
async fn a_condition_that_does_not_name_the_waitpoint_is_refused() {
    async fn wait(ctx: Context, (): ()) -> Result<String> {
        let mailbox = ctx.waitpoint("payment").await?;
        let paid = serde_json::json!({"single": {"waitpoint": "paid"}});
        let paid: ResumeCondition = serde_json::from_value(paid)?;
        let refused = ctx.try_suspend(paid).at(&mailbox).timeout(LONG).await.unwrap_err();
        Ok(refused.to_string())
    }
    for at in every_place() {
        let place = at.open().await;
        let running = start(&place.fabric, wait);
        let made = place.fabric.create("wait", ()).await.unwrap();
        let said = made.result::<String>().await.unwrap();
        assert!(said.contains("does not name the waitpoint \"payment\""), "{at:?}: {said}");
        running.stop().await.unwrap();
    }
}

#[tokio::test]
async fn any_condition_can_be_waited_for_at_several_waitpoints() {
    async fn wait(ctx: Context, (): ()) -> Result<(usize, bool)> {
        let both: ResumeCondition = serde_json::from_value(serde_json::json!({"all_of": [
            {"single": {"waitpoint": "one"}}, {"single": {"waitpoint": "other"}},
        ]}))?;
        let came = ctx.try_suspend(both).timeout(LONG).await?;
        Ok((came.signals.len(), came.timed_out()))
    }
    for at in every_place() {
        let place = at.open().await;
        let running = start(&place.fabric, wait);
        let made = place.fabric.create("wait", ()).await.unwrap();
        waits_at(&made, "one").await;
        let unclear = made.signal("said").await.unwrap_err();
        assert!(unclear.is(Code::InvalidInput), "{at:?}: {unclear}");
        made.signal("said").at("other").idempotency_key("once").await.unwrap();
        let again = made.signal("said").at("other").idempotency_key("once").await.unwrap();
        assert_eq!(effect(again), None, "{at:?}");
        made.signal("said").at("one").await.unwrap();
        assert_eq!(made.result::<(usize, bool)>().await.unwrap(), (2, false), "{at:?}");
        running.stop().await.unwrap();
    }
}
