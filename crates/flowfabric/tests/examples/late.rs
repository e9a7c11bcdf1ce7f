//! Waits that nobody ends in time, the same on a database and through a server.

use std::time::Duration;

use flowfabric::TimeoutBehavior;
use flowfabric::prelude::*;
use tokio::sync::Notify;

use crate::stores::every_place;
use crate::waits::{LONG, start, waits_at};

#[tokio::test]
async fn a_wait_that_nobody_ends_in_time_is_an_error_that_says_so() {
    async fn wait(ctx: Context, caught: bool) -> Result<String> {
        let waited = ctx.wait_for::<String>("answer").timeout(Duration::from_millis(20)).await;
        match waited {
            Err(late) if caught && late.is_wait_timeout() => Ok(late.to_string()),
            waited => Ok(waited?),
        }
    }
    for at in every_place() {
        let place = at.open().await;
        let running = start(&place.fabric, wait);
        let caught = place.fabric.create("wait", true).await.unwrap();
        let said: String = caught.result().await.unwrap();
        assert!(said.contains("in time") && said.contains("answer"), "{at:?}: {said}");
        let failed = place.fabric.create("wait", false).retries(3).await.unwrap();
        let why = failed.result::<String>().await.unwrap_err().to_string();
        assert!(why.contains("nobody came in time"), "{at:?}: {why}");
        running.stop().await.unwrap();
    }
}

#[tokio::test]
async fn what_happens_to_an_execution_that_nobody_comes_for_can_be_chosen() {
    async fn wait(ctx: Context, behavior: TimeoutBehavior) -> Result<String> {
        let wait = ctx.wait_for::<String>("answer").timeout(Duration::from_millis(20));
        Ok(wait.on_timeout(behavior).await?)
    }
    for at in every_place() {
        let place = at.open().await;
        let running = start(&place.fabric, wait);
        let create = |behavior| place.fabric.create("wait", behavior);
        let escalated = create(TimeoutBehavior::Escalate).await.unwrap();
        let mut all = Vec::new();
        for (behavior, state) in [
            (TimeoutBehavior::Fail, PublicState::Failed),
            (TimeoutBehavior::Cancel, PublicState::Cancelled),
            (TimeoutBehavior::Expire, PublicState::Expired),
        ] {
            all.push((create(behavior).await.unwrap(), state));
        }
        for (made, state) in all {
            assert_eq!(made.ended().await.unwrap(), state, "{at:?}");
        }
        while waits_at(&escalated, "answer").await.expires_at.is_some() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        escalated.signal("said").payload("at last").await.unwrap();
        assert_eq!(escalated.result::<String>().await.unwrap(), "at last", "{at:?}");
        running.stop().await.unwrap();
    }
}

#[tokio::test]
async fn what_was_given_up_and_is_replayed_waits_at_a_new_waitpoint() {
    async fn wait(ctx: Context, (): ()) -> Result<u32> {
        let number = ctx.waitpoint("number").await?;
        let wait = ctx.wait_for(&number).timeout(Duration::from_millis(20));
        Ok(wait.on_timeout(TimeoutBehavior::Fail).await?)
    }
    for at in every_place() {
        let place = at.open().await;
        let running = start(&place.fabric, wait);
        let made = place.fabric.create("wait", ()).await.unwrap();
        assert_eq!(made.ended().await.unwrap(), PublicState::Failed, "{at:?}");
        let first = made.history().await.unwrap().steps;
        made.replay("somebody is there now").await.unwrap();
        assert_eq!(made.ended().await.unwrap(), PublicState::Failed, "{at:?}");
        let snapshot = made.describe().await.unwrap();
        let why = snapshot.ended_because.unwrap_or_default();
        assert!(why.contains("suspension_timeout"), "{at:?}: it waited again, not {why}");
        assert_eq!(made.history().await.unwrap().steps, first, "{at:?}: asked once");
        running.stop().await.unwrap();
    }
}

#[tokio::test]
async fn what_failed_because_nobody_came_in_time_waits_again_when_it_is_replayed() {
    async fn wait(ctx: Context, (): ()) -> Result<String> {
        let timeout = if ctx.attempt_index() == 0 { Duration::from_millis(20) } else { LONG };
        Ok(ctx.wait_for("answer").timeout(timeout).await?)
    }
    for at in every_place() {
        let place = at.open().await;
        let running = start(&place.fabric, wait);
        let made = place.fabric.create("wait", ()).await.unwrap();
        let why = made.result::<String>().await.unwrap_err().to_string();
        assert!(why.contains("nobody came in time"), "{at:?}: {why}");
        made.replay("somebody is there now").await.unwrap();
        waits_at(&made, "answer").await;
        made.signal("said").payload("at last").await.unwrap();
        assert_eq!(made.result::<String>().await.unwrap(), "at last", "{at:?}");
        running.stop().await.unwrap();
    }
}

#[tokio::test]
async fn that_nobody_came_in_time_stays_so_once_something_rests_on_it() {
    async fn wait(ctx: Context, what: String) -> Result<String> {
        let first = ctx.attempt_index() == 0;
        let timeout = if first { Duration::from_millis(20) } else { LONG };
        let answer = ctx.wait_for::<String>("answer").timeout(timeout).await;
        let other = ctx.wait_for::<String>("other").timeout(timeout).await;
        let late = [&answer, &other].map(|it| it.as_ref().is_err_and(Error::is_wait_timeout));
        if what == "child" {
            ctx.spawn(ctx.task("echo", late)).await;
        } else {
            let fails = first && what == "step that fails";
            let run = async || if fails { Err(Error::permanent("no")) } else { Ok(()) };
            ctx.step("decide alone", run).await?;
        }
        if first {
            return Err(Error::permanent("on the way home").into());
        }
        Ok(format!("{late:?}"))
    }
    async fn echo(_: Context, late: [bool; 2]) -> Result<[bool; 2]> {
        Ok(late)
    }
    for at in every_place() {
        let place = at.open().await;
        let worker = place.fabric.worker("default").handle("wait", wait).handle("echo", echo);
        let running = worker.start().unwrap();
        let mut all = Vec::new();
        for what in ["step", "step that fails", "child"] {
            all.push((what, place.fabric.create("wait", what).await.unwrap()));
        }
        for (what, made) in all {
            assert_eq!(made.ended().await.unwrap(), PublicState::Failed, "{at:?}: {what}");
            made.replay("go on").await.unwrap();
            let result = tokio::time::timeout(LONG / 60, made.result::<String>()).await;
            let result = result.expect("nobody is asked again").unwrap();
            assert_eq!(result, "[true, true]", "{at:?}: {what}");
        }
        running.stop().await.unwrap();
    }
}

#[tokio::test]
async fn that_nobody_came_in_time_stays_so_for_whoever_takes_over() {
    static WAITED: Notify = Notify::const_new();
    async fn wait(ctx: Context, (): ()) -> Result<bool> {
        let first = ctx.attempt_index() == 0;
        let timeout = if first { Duration::from_millis(20) } else { LONG };
        let answer = ctx.wait_for::<String>("answer").timeout(timeout).await;
        if first {
            WAITED.notify_one();
            std::future::pending::<()>().await;
        }
        Ok(answer.is_err_and(|late| late.is_wait_timeout()))
    }
    for at in every_place() {
        let place = at.open().await;
        let running = place.fabric.worker("default").handle("wait", wait).start().unwrap();
        let made = place.fabric.create("wait", ()).await.unwrap();
        WAITED.notified().await;
        made.revoke("it looks stuck").await.unwrap();
        let result = tokio::time::timeout(LONG / 60, made.result::<bool>()).await;
        assert!(result.expect("nobody is asked again").unwrap(), "{at:?}");
        running.stop().await.unwrap();
    }
}
