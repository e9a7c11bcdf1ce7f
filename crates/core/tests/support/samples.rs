//! Every state an execution can be found in, each brought about by sending commands; and every
//! command, addressed to the execution of such a state.

#![allow(dead_code, reason = "every test binary uses its own part")]

use ff_core::Command;
use ff_core::decide::attempt_timeout::TimeOutAttempt;
use ff_core::decide::claim::Claim;
use ff_core::decide::create::Create;
use ff_core::decide::deadline::ExpireExecution;
use ff_core::decide::dispatch::DispatchCompletion;
use ff_core::decide::key_expiry::ForgetKey;
use ff_core::decide::lease_expiry::ExpireLease;
use ff_core::decide::priority::ChangePriority;
use ff_core::decide::replay::Replay;
use ff_core::decide::retention::Trim;
use ff_core::decide::seal_flow::SealFlow;
use ff_core::decide::unhold::Unhold;
use ff_core::decide::wait_children::WaitChildren;
use ff_core::policy::{FailureClass, Policy};
use serde_json::{Value, json};

use crate::commands::{
    cancel, complete, delay, drop_consumer, fail, give_up, hold, journal, progress, release, renew,
    replay, revoke, save_cursor, seed_key, set_tags,
};
use crate::members::{
    any_of, beside_a_flow, cancel_flow, commands_about_others, dispatch, flow_beside,
    flow_commands, link, lose, member, others, race, stage,
};
use crate::suspensions::{
    listening_samples, suspended_member_samples, suspended_samples, suspension_commands,
    woken_samples,
};
use crate::world::{DAWN, LEASE_TTL_MS, Life, create, key};

/// What a worker worked before something happens.
const MOMENT_MS: u64 = 10;
/// Before a retry.
pub const BACKOFF_MS: u64 = 100;
/// What one attempt may run.
pub const ATTEMPT_MS: u64 = 5_000;
/// What the execution may take from its creation to its end.
pub const DEADLINE_MS: u64 = 60_000;
/// What it is kept after that.
pub const RETENTION_MS: u64 = 100_000;

/// An execution in some state.
pub struct Sample {
    /// Which part of a life it belongs to.
    pub chapter: &'static str,
    pub name: &'static str,
    pub about: &'static str,
    pub life: Life,
}

/// The policy of all samples: every clock is set, each to another time.
pub fn policy() -> Value {
    json!({
        "retry_policy": {
            "max_retries": 1,
            "backoff": {"type": "fixed", "delay_ms": BACKOFF_MS},
        },
        "timeout_policy": {
            "attempt_timeout_ms": ATTEMPT_MS,
            "execution_deadline_ms": DEADLINE_MS,
        },
        "max_reclaim_count": 1,
        "max_replay_count": 1,
        "retention_ms": RETENTION_MS,
        "dedup_window_ms": RETENTION_MS,
    })
}

fn creation() -> Create {
    Create { policy: Policy::parse(&policy()).unwrap(), ..create(1) }
}

/// Nothing but a key to sign tokens with.
fn unborn(creation: Create) -> Life {
    let mut life = Life::unborn(creation);
    life.tell(seed_key());
    life
}

fn begin(creation: Create) -> Life {
    let mut life = unborn(creation);
    life.tell(life.creation.clone());
    life
}

fn waiting() -> Life {
    begin(creation())
}

pub fn active() -> Life {
    let mut life = waiting();
    take(&mut life);
    life
}

/// A worker takes it and works for a moment.
pub fn take(life: &mut Life) {
    life.claim();
    life.pass(MOMENT_MS);
}

/// `active`, brought one step further.
pub fn after(step: impl FnOnce(&mut Life)) -> Life {
    let mut life = active();
    step(&mut life);
    life
}

fn lapse(life: &mut Life) {
    life.pass(LEASE_TTL_MS);
    life.tell(ExpireLease { id: life.id, lease_epoch: life.fence.lease_epoch });
}

fn lost_twice() -> Life {
    let policy = Policy { max_reclaim_count: Some(2), ..creation().policy };
    let mut life = begin(Create { policy, ..creation() });
    for _ in 0..2 {
        take(&mut life);
        lapse(&mut life);
    }
    life
}

fn put_off(life: &mut Life) {
    let until = life.world.now.plus(BACKOFF_MS);
    life.tell(delay(life.id, life.fence, until));
}

fn fail_for_now(life: &mut Life) {
    life.tell(fail(life.id, life.fence, FailureClass::Transient));
}

fn succeed(life: &mut Life) {
    life.tell(complete(life.id, life.fence));
}

/// A lease that outlasts `ms`, and that time passed.
fn claim_and_pass(life: &mut Life, ms: u64) {
    let claim = Claim { lease_ttl_ms: ms + LEASE_TTL_MS, ..life.next_claim() };
    life.take(claim);
    life.pass(ms);
}

/// A lease that outlasts all but the clocks of its policy.
pub fn held_long() -> Life {
    let mut life = waiting();
    claim_and_pass(&mut life, MOMENT_MS);
    life
}

/// All samples, in the order in which a life may visit them.
pub fn samples() -> Vec<Sample> {
    let chapters = [
        ("Before the first claim", waiting_samples()),
        ("After a worker had it", handed_back_samples()),
        ("While a worker has it", active_samples()),
        ("While a worker has it and a waitpoint is open", listening_samples()),
        ("While it is suspended", suspended_samples()),
        ("After it was suspended", woken_samples()),
        ("After it ended", terminal_samples()),
    ];
    let beside = |told: Vec<Told>| -> Vec<Told> {
        let told = told.into_iter();
        told.map(|(name, about, life)| (name, about, beside_a_flow(life))).collect()
    };
    let chapters = chapters.map(|(chapter, samples)| (chapter, beside(samples))).into_iter();
    let chapters = chapters.chain([
        ("As a member of a flow, before its end", member_samples()),
        ("As a member of a flow, suspended", suspended_member_samples()),
        ("As a member of a flow, after its end", ended_member_samples()),
    ]);
    let samples = chapters.flat_map(|(chapter, samples)| {
        let samples = samples.into_iter();
        samples.map(move |(name, about, life)| Sample { chapter, name, about, life })
    });
    samples.collect()
}

/// A delay that outlasts the deadline: before the creation, and after it.
pub fn long_delayed() -> [Life; 2] {
    let until = DAWN.plus(2 * DEADLINE_MS);
    let creation = Create { delay_until: Some(until), ..creation() };
    [unborn(creation.clone()), begin(creation)]
}

/// Its name, what it is, and its life so far.
pub type Told = (&'static str, &'static str, Life);

fn waiting_samples() -> Vec<Told> {
    let delayed = begin(Create { delay_until: Some(DAWN.plus(BACKOFF_MS)), ..creation() });
    let mut held = waiting();
    held.tell(hold(held.id));
    let mut held_delayed = delayed.clone();
    held_delayed.tell(hold(held_delayed.id));
    let mut overdue = waiting();
    overdue.pass(DEADLINE_MS);
    vec![
        ("absent", "not created", unborn(creation())),
        ("new", "waiting for its first worker", waiting()),
        ("delayed", "created with a delay", delayed),
        ("held", "kept back by an operator", held),
        ("held, delayed", "kept back, and its delay has not passed", held_delayed),
        ("overdue", "waiting, and past its deadline", overdue),
    ]
}

fn handed_back_samples() -> Vec<Told> {
    let backoff = after(fail_for_now);
    let mut retry_due = backoff.clone();
    retry_due.pass(BACKOFF_MS);
    let put_off = after(put_off);
    let mut resume_due = put_off.clone();
    resume_due.pass(BACKOFF_MS);
    let lost = after(lapse);
    let revoked = after(|life| {
        life.tell(revoke(life.id));
    });
    let released = after(|life| life.tell(release(life.id, life.fence)));
    let replayed = after(|life| {
        succeed(life);
        life.tell(replay(life.id));
    });
    vec![
        ("backoff", "failed, to be tried again later", backoff),
        ("retry due", "failed, to be tried again now", retry_due),
        ("lost", "its lease ran out", lost),
        ("lost again", "its lease ran out twice in a row, to be taken over later", lost_twice()),
        ("revoked", "its lease was revoked", revoked),
        ("put off", "given back by its worker until later", put_off),
        ("resume due", "given back by its worker until now", resume_due),
        ("released", "its claim was undone", released),
        ("replayed", "had ended, to be run again", replayed),
    ]
}

fn active_samples() -> Vec<Told> {
    let lapsed = after(|life| life.pass(LEASE_TTL_MS));
    let resumed = after(|life| {
        put_off(life);
        life.pass(BACKOFF_MS);
        take(life);
    });
    let last_chance = after(|life| {
        lapse(life);
        take(life);
    });
    let last_retry = after(|life| {
        fail_for_now(life);
        life.pass(BACKOFF_MS);
        take(life);
    });
    let mut overtime = waiting();
    claim_and_pass(&mut overtime, ATTEMPT_MS);
    let mut overdue = waiting();
    overdue.pass(DEADLINE_MS - 1);
    claim_and_pass(&mut overdue, 1);
    vec![
        ("active", "a worker holds it", active()),
        ("resumed", "a worker goes on with the same attempt", resumed),
        ("last retry", "a worker makes the last attempt of its policy", last_retry),
        ("last lease", "a worker holds the last lease of its policy", last_chance),
        ("lapsed", "its lease ran out and nobody looked yet", lapsed),
        ("overtime", "its attempt has used up its time", overtime),
        ("active, overdue", "a worker holds it past its deadline", overdue),
    ]
}

fn terminal_samples() -> Vec<Told> {
    let completed = after(succeed);
    let failed = after(|life| {
        life.tell(fail(life.id, life.fence, FailureClass::Permanent));
    });
    let worn_out = after(|life| {
        lapse(life);
        life.claim();
        lapse(life);
    });
    let given_up = after(|life| life.tell(give_up(life.id, life.fence)));
    let mut cancelled = waiting();
    cancelled.tell(cancel(cancelled.id));
    let mut expired = waiting();
    expired.pass(DEADLINE_MS);
    expired.tell(ExpireExecution { id: expired.id });
    let replayed_out = after(|life| {
        succeed(life);
        life.tell(replay(life.id));
        life.claim();
        succeed(life);
    });
    let mut past = completed.clone();
    past.pass(RETENTION_MS);
    vec![
        ("completed", "its worker completed it", completed),
        ("failed", "its worker failed it for good", failed),
        ("worn out", "its lease was lost too often", worn_out),
        ("given up", "its worker cancelled it", given_up),
        ("cancelled", "an operator cancelled it", cancelled),
        ("expired", "its deadline passed", expired),
        ("replayed out", "completed, with no replay left", replayed_out),
        ("past retention", "completed, and kept long enough", past),
    ]
}

/// A member that waits for others, and what happens next.
pub fn joined(step: impl FnOnce(&mut Life)) -> Life {
    let mut life = member(waiting());
    step(&mut life);
    life
}

/// The flow is told of the end of the first of the others.
pub fn dispatch_first(life: &mut Life) {
    dispatch(life, others(flow_beside(life.id))[0]);
}

fn member_samples() -> Vec<Told> {
    let gated = joined(|life| link(life, 0));
    let mut gated_held = gated.clone();
    gated_held.tell(hold(gated_held.id));
    let mut told = gated.clone();
    crate::members::succeed(&mut told, 0);
    let mut doomed = gated.clone();
    lose(&mut doomed, 0);
    let let_go = joined(|life| {
        link(life, 0);
        crate::members::succeed(life, 0);
        dispatch_first(life);
    });
    let won = joined(|life| {
        any_of(life);
        link(life, 0);
        link(life, 1);
        crate::members::succeed(life, 0);
        dispatch_first(life);
    });
    let expecting = joined(|life| {
        take(life);
        link(life, 0);
    });
    let mut parent = expecting.clone();
    wait_for_children(&mut parent);
    let mut bereft = expecting.clone();
    lose(&mut bereft, 0);
    let loser = joined(|life| {
        race(life);
        take(life);
        crate::members::succeed(life, 0);
        dispatch_first(life);
    });
    vec![
        ("member", "waiting, and waits for no other member", member(waiting())),
        ("staged", "an edge leads to it and is not applied", joined(|life| stage(life, 0))),
        ("gated", "waits for another member", gated),
        ("gated, held", "waits for another member, and kept back by an operator", gated_held),
        ("untold", "what it waits for succeeded, and the flow was not told", told),
        ("doomed", "what it waits for failed, and the flow was not told", doomed),
        ("let go", "what it waited for succeeded", let_go),
        ("won", "one of those it waited for succeeded; the other is to be cancelled", won),
        ("active member", "a worker holds it", member(active())),
        ("expecting", "a worker holds it, and it has something to wait for", expecting),
        ("bereft", "a worker holds it, what it is to wait for failed, and nobody was told", bereft),
        ("loser", "a worker holds it, and nobody needs it any more", loser),
        ("parent", "given back by its worker until others have ended", parent),
    ]
}

fn wait_for_children(life: &mut Life) {
    let (id, flow, fence) = (life.id, flow_beside(life.id), life.fence);
    life.tell(WaitChildren { id, flow, fence });
}

fn ended_member_samples() -> Vec<Told> {
    let untold = joined(|life| {
        take(life);
        succeed(life);
    });
    let mut counted = untold.clone();
    let own = counted.id;
    dispatch(&mut counted, own);
    let skipped = joined(|life| {
        link(life, 0);
        lose(life, 0);
        dispatch_first(life);
    });
    let mut revivable = skipped.clone();
    let upstream = others(flow_beside(revivable.id))[0];
    revivable.tell(Replay { downstream: false, ..replay(upstream) });
    let idle = joined(|life| {
        take(life);
        succeed(life);
        for n in 0..2 {
            crate::members::succeed(life, n);
        }
        let flow = flow_beside(life.id);
        for execution in [life.id, others(flow)[0], others(flow)[1]] {
            life.tell(DispatchCompletion { flow, execution, eager: false });
        }
    });
    let mut over = idle.clone();
    over.tell(SealFlow { flow: flow_beside(over.id) });
    let cancelled = joined(|life| {
        link(life, 0);
        life.tell(cancel_flow(flow_beside(life.id)));
    });
    let mut past = cancelled.clone();
    past.pass(RETENTION_MS);
    vec![
        ("undispatched", "its worker completed it, and its flow was not told", untold),
        ("dispatched", "its worker completed it, and its flow was told", counted),
        ("skipped", "what it waited for failed", skipped),
        ("skipped, hopeful", "what it waited for failed, and runs again", revivable),
        ("last of its flow", "completed like all the others of an open flow", idle),
        ("of a finished flow", "completed, and so is its flow", over),
        ("of a cancelled flow", "cancelled with its flow", cancelled),
        ("of a flow past retention", "cancelled with its flow, and kept long enough", past),
    ]
}

/// A command to a sample.
pub struct Case {
    pub label: &'static str,
    pub command: Command,
}

/// Every command, from whoever would send it. Workers present the last fence that was granted.
pub fn cases(life: &Life) -> Vec<Case> {
    let (id, fence, now) = (life.id, life.fence, life.world.now);
    let case = |label: &'static str, command: Command| Case {
        label: if label.is_empty() { command.name() } else { label },
        command,
    };
    let epoch = life.find().map_or(0, |x| x.epoch);
    let later = now.plus(BACKOFF_MS);
    let (soft, hard) = (FailureClass::Transient, FailureClass::Permanent);
    let by_holder = "cancel_execution by the holder";
    let mut cases = vec![
        case("", life.creation.clone().into()),
        case("", life.clone().next_claim().into()),
        case("", renew(id, fence).into()),
        case("", progress(id, fence, 50).into()),
        case("", journal(id, fence, 0).into()),
        case("", complete(id, fence).into()),
        case("", fail(id, fence, soft).into()),
        case("fail_execution for good", fail(id, fence, hard).into()),
        case("", delay(id, fence, later).into()),
        case("", release(id, fence).into()),
        case("", cancel(id).into()),
        case(by_holder, give_up(id, fence).into()),
        case("", revoke(id).into()),
        case("", replay(id).into()),
        case("", ChangePriority { id, priority: 200, version: None }.into()),
        case("", hold(id).into()),
        case("", Unhold { id, version: None }.into()),
        case("", set_tags(id, &[("shop.city", "Rome")], &[]).into()),
        case("", ExpireLease { id, lease_epoch: epoch }.into()),
        case("", TimeOutAttempt { id }.into()),
        case("", ExpireExecution { id }.into()),
        case("", Trim { id }.into()),
        case("", forget_key(life).into()),
        case("", save_cursor(1).into()),
        case("", drop_consumer().into()),
    ];
    let about_waits = suspension_commands(life).into_iter();
    cases.extend(about_waits.map(|(label, command)| case(label, command)));
    cases.extend(flow_commands(life).into_iter().map(|command| case("", command)));
    let others = commands_about_others(life).into_iter();
    cases.extend(others.map(|(label, command)| case(label, command)));
    cases
}

fn forget_key(life: &Life) -> ForgetKey {
    ForgetKey { namespace: life.creation.namespace.clone(), key: key() }
}
