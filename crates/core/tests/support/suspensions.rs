//! Samples that wait for something, or did; and the commands about suspensions, addressed to any sample.

#![allow(dead_code, reason = "every test binary uses its own part")]

use ff_core::Command;
use ff_core::condition::{Distinct, ResumeCondition};
use ff_core::decide::deliver::{Authority, DeliverSignal};
use ff_core::decide::resume::Resume;
use ff_core::decide::suspend::Suspend;
use ff_core::decide::suspension_timeout::TimeOutSuspension;
use ff_core::decide::waitpoint_expiry::ExpireWaitpoint;
use ff_core::suspension::{SuspensionReason, TimeoutBehavior};

use crate::commands::{
    ANSWER, EARLY, UNUSED_MS, cancel, close_waitpoint, forged_token, make_waitpoint, resume,
    rotate_key, seed_key, signal, suspend, suspend_anew, suspend_early, waitpoint_key,
};
use crate::members::{cancel_flow, flow_beside, link, lose, race, succeed};
use crate::samples::{
    BACKOFF_MS, DEADLINE_MS, Told, after, dispatch_first, held_long, joined, take,
};
use crate::world::Life;

/// Its worker gives it back until something happens.
pub fn pause(life: &mut Life) {
    life.tell(suspend(life.id, life.fence));
}

/// The same, and nobody came in time.
fn overslept(reason: SuspensionReason, timeout_behavior: TimeoutBehavior) -> Life {
    let mut life = asked(reason, timeout_behavior);
    life.pass(BACKOFF_MS);
    life
}

fn asked(reason: SuspensionReason, timeout_behavior: TimeoutBehavior) -> Life {
    after(|life| {
        let deadline = Some(life.world.now.plus(BACKOFF_MS));
        let own = suspend(life.id, life.fence);
        life.tell(Suspend { reason, deadline, timeout_behavior, ..own });
    })
}

/// The `n`th signal comes to where it waits.
pub fn answer(life: &mut Life, n: u128) {
    let signal = signal(&life.world, life.id, ANSWER, n);
    life.tell(signal);
}

/// What was to happen when nobody came happens.
pub fn time_out(life: &mut Life) {
    life.tell(TimeOutSuspension { id: life.id });
}

fn half_told(life: &mut Life) {
    let waitpoints = vec![waitpoint_key("answer")];
    let distinct = Distinct::Signals;
    let condition = ResumeCondition::Count { n: 2, distinct, signal: None, waitpoints };
    life.tell(Suspend { condition, ..suspend(life.id, life.fence) });
    answer(life, 1);
}

pub fn suspended_samples() -> Vec<Told> {
    use SuspensionReason::{
        PausedByBudget, PausedByPolicy, WaitingForApproval, WaitingForCallback,
        WaitingForToolResult,
    };
    let mut escalated = overslept(PausedByPolicy, TimeoutBehavior::Escalate);
    time_out(&mut escalated);
    let mut overdue = after(pause);
    overdue.pass(DEADLINE_MS);
    vec![
        ("suspended", "waits for a signal", after(pause)),
        ("half told", "waits for two signals, and one came", after(half_told)),
        (
            "asked",
            "waits for a signal until some time",
            asked(WaitingForApproval, TimeoutBehavior::Fail),
        ),
        (
            "due to fail",
            "nobody came, so it is to fail",
            overslept(WaitingForCallback, TimeoutBehavior::Fail),
        ),
        (
            "due to be cancelled",
            "nobody came, so it is to be cancelled",
            overslept(WaitingForToolResult, TimeoutBehavior::Cancel),
        ),
        (
            "due to expire",
            "nobody came, so it is to expire",
            overslept(PausedByBudget, TimeoutBehavior::Expire),
        ),
        (
            "due to go on",
            "nobody came, so it is to go on without",
            overslept(WaitingForCallback, TimeoutBehavior::AutoResume),
        ),
        (
            "due to escalate",
            "nobody came, so an operator is to look at it",
            overslept(PausedByPolicy, TimeoutBehavior::Escalate),
        ),
        ("escalated", "nobody came, and an operator is to look at it", escalated),
        ("suspended, overdue", "waits for a signal past its deadline", overdue),
    ]
}

pub fn listening_samples() -> Vec<Told> {
    let listening = after(|life| drop(life.tell(make_waitpoint(life.id, life.fence))));
    let mut answered = listening.clone();
    answered.tell(signal(&answered.world, answered.id, EARLY, 1));
    let mut unused = held_long();
    unused.tell(make_waitpoint(unused.id, unused.fence));
    unused.pass(UNUSED_MS);
    vec![
        ("listening", "a worker holds it and has made a waitpoint", listening),
        ("answered early", "the same, and a signal came there", answered),
        ("unused", "the same, and the waitpoint expired", unused),
    ]
}

pub fn woken_samples() -> Vec<Told> {
    let told = after(|life| {
        pause(life);
        answer(life, 1);
    });
    let later = after(|life| {
        pause(life);
        let signal = signal(&life.world, life.id, ANSWER, 1);
        life.tell(DeliverSignal { resume_delay_ms: Some(BACKOFF_MS), ..signal });
    });
    let let_on = after(|life| {
        pause(life);
        life.tell(resume(life.id));
    });
    let mut woken = overslept(SuspensionReason::WaitingForSignal, TimeoutBehavior::AutoResume);
    time_out(&mut woken);
    let mut going_on = told.clone();
    take(&mut going_on);
    let mut timed_out = overslept(SuspensionReason::WaitingForSignal, TimeoutBehavior::Fail);
    time_out(&mut timed_out);
    let cancelled = after(|life| {
        pause(life);
        life.tell(cancel(life.id));
    });
    vec![
        ("told", "what it waited for came", told),
        ("told, later", "what it waited for came, and it goes on after a while", later),
        ("let on", "an operator has it go on", let_on),
        ("woken", "nobody came, and it goes on without", woken),
        ("going on", "a worker goes on after what it waited for came", going_on),
        ("timed out", "nobody came, and it failed", timed_out),
        ("cancelled, suspended", "an operator cancelled it while it waited", cancelled),
    ]
}

pub fn suspended_member_samples() -> Vec<Told> {
    let expecting = joined(|life| {
        take(life);
        link(life, 0);
        pause(life);
    });
    let mut bereft = expecting.clone();
    lose(&mut bereft, 0);
    let loser = joined(|life| {
        race(life);
        take(life);
        pause(life);
        succeed(life, 0);
        dispatch_first(life);
    });
    let cancelled = joined(|life| {
        take(life);
        pause(life);
        life.tell(cancel_flow(flow_beside(life.id)));
    });
    let alone = joined(|life| {
        take(life);
        pause(life);
    });
    vec![
        ("suspended member", "waits for a signal, and for no other member", alone),
        ("suspended, expecting", "waits for a signal, and has a member to wait for", expecting),
        ("suspended, bereft", "waits for a signal, and what it is to wait for failed", bereft),
        ("suspended loser", "waits for a signal, and nobody needs it any more", loser),
        ("cancelled with its flow", "waited for a signal when its flow was cancelled", cancelled),
    ]
}

/// Every command about suspensions, from whoever would send it.
pub fn suspension_commands(life: &Life) -> Vec<(&'static str, Command)> {
    let (id, fence) = (life.id, life.fence);
    let sent = |waitpoint| signal(&life.world, id, waitpoint, 9);
    let forged = Authority::Token(forged_token());
    let later = Resume { resume_delay_ms: BACKOFF_MS, ..resume(id) };
    vec![
        ("", suspend_anew(id, fence).into()),
        ("suspend_execution again", suspend(id, fence).into()),
        ("suspend_execution on a waitpoint", suspend_early(id, fence).into()),
        ("", make_waitpoint(id, fence).into()),
        ("", close_waitpoint(id, fence).into()),
        ("", sent(ANSWER).into()),
        ("deliver_signal ahead of time", sent(EARLY).into()),
        ("deliver_signal sent before", signal(&life.world, id, ANSWER, 1).into()),
        ("deliver_signal, forged", DeliverSignal { authority: forged, ..sent(ANSWER) }.into()),
        (
            "deliver_signal by an operator",
            DeliverSignal { authority: Authority::Operator, ..sent(ANSWER) }.into(),
        ),
        ("", resume(id).into()),
        ("resume_execution after a while", later.into()),
        ("", TimeOutSuspension { id }.into()),
        ("", ExpireWaitpoint { id, waitpoint: EARLY }.into()),
        ("", seed_key().into()),
        ("", rotate_key(2, BACKOFF_MS).into()),
    ]
}
