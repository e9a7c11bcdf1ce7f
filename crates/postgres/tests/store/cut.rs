//! Connections that break: while idle, for good, and in the worst moment, when the server has
//! committed and nobody was told. A caller must get the answer that a repeat gets, and the rows
//! must be those of a call that went well.

mod flows;
mod late;
mod waits;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ff_backend_postgres::{Options, Postgres};
use ff_conformance::model::Tables;
use ff_conformance::world::{TTL_MS, World, code, lane, worker};
use ff_conformance::{Dial, Dice, Store, audit};
use ff_core::Backend;
use ff_core::backend::{ClaimAsk, Duty, Interest, StoreError, WorkFilter};
use ff_core::command::{Command, Outcome, Reply};
use ff_core::decide::Again;
use ff_core::decide::cancel::Cancel;
use ff_core::decide::claim::Claim;
use ff_core::decide::complete::Complete;
use ff_core::decide::consumer::SaveCursor;
use ff_core::decide::create::Create;
use ff_core::decide::delay::Delay;
use ff_core::decide::drop_consumer::DropConsumer;
use ff_core::decide::fail::Fail;
use ff_core::decide::hold::Hold;
use ff_core::decide::keys::Seeded;
use ff_core::decide::priority::ChangePriority;
use ff_core::decide::progress::ReportProgress;
use ff_core::decide::release::Release;
use ff_core::decide::renew::Renew;
use ff_core::decide::replay::Replay;
use ff_core::decide::revoke::Revoke;
use ff_core::decide::steps::RecordSteps;
use ff_core::decide::tags::{Edit, SetTags};
use ff_core::decide::unhold::Unhold;
use ff_core::event::Cursor;
use ff_core::fold::Key;
use ff_core::policy::FailureClass;
use serde_json::json;

use crate::dump;
use crate::line::{Cut, Line};
use crate::server::Schema;

/// A store behind a line that can be cut.
pub struct Remote {
    /// The store.
    pub world: World,
    /// The line.
    pub line: Line,
    /// Its schema.
    pub schema: Arc<Schema>,
}

impl Remote {
    /// On a schema with empty tables.
    pub async fn new() -> Self {
        let (line, schema) = (Line::new().await, Arc::new(Schema::empty()));
        let clock = Arc::new(Dial::default());
        let backend = open(&line, &schema, &clock).await;
        let dumped = Arc::clone(&schema);
        let dump = Box::new(move || dump::dump(&dumped));
        let store = Store { backend, dump, keep: Box::new(()) };
        Self { world: World::new(store, clock), line, schema }
    }

    /// Another process on the same schema.
    pub async fn beside(&self) -> World {
        let (backend, dumped) = (self.stranger().await, Arc::clone(&self.schema));
        let dump = Box::new(move || dump::dump(&dumped));
        let store = Store { backend, dump, keep: Box::new(()) };
        let world = World::new(store, Arc::clone(&self.world.clock));
        // Its ids are none that were given here.
        (0..1_000).for_each(|_| _ = world.uuid());
        world
    }

    /// Another store, which remembers nothing.
    pub async fn stranger(&self) -> Arc<Postgres> {
        open(&self.line, &self.schema, &self.world.clock).await
    }
}

async fn open(line: &Line, schema: &Schema, clock: &Arc<Dial>) -> Arc<Postgres> {
    let options = schema.options(Arc::clone(clock) as _, Box::new(Dice::new(1)));
    Arc::new(Postgres::open(Options { url: line.url(), ..options }).await.unwrap())
}

/// Who sends the command: the store that holds the execution, or one that has to read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sender {
    Holder,
    Stranger,
}

/// The command `name`, with everything it needs in place.
async fn prepared(remote: &Remote, name: &str) -> Command {
    if let Some(command) = flows::prepared(remote, name).await {
        return command;
    }
    let world = &remote.world;
    if let Some(command) = waits::prepared(world, name).await {
        return command;
    }
    match name {
        "create_execution" => {
            let idempotency_key = Some("order-1".parse().unwrap());
            Create { idempotency_key, ..world.draft() }.into()
        }
        "save_cursor" => consumer(world).await.1,
        "drop_consumer" => {
            let (consumer, save) = consumer(world).await;
            world.send(save).await.unwrap();
            DropConsumer { consumer, saved: None }.into()
        }
        "expire_lease" | "time_out_attempt" | "expire_execution" | "trim_execution"
        | "forget_key" => duty(world, name).await,
        "renew_lease" | "report_progress" | "complete_execution" | "fail_execution"
        | "delay_execution" | "release_execution" | "revoke_lease" | "record_steps" => {
            held(world, name).await
        }
        _ => waiting(world, name).await,
    }
}

async fn consumer(world: &World) -> (ff_core::text::ConsumerName, Command) {
    let consumer: ff_core::text::ConsumerName = "audit".parse().unwrap();
    world.running(json!({})).await;
    let save = SaveCursor { consumer: consumer.clone(), cursor: Cursor::Start, saved: None };
    (consumer, save.into())
}

/// A command of somebody who holds the execution, or about its lease.
async fn held(world: &World, name: &str) -> Command {
    let retry = json!({"retry_policy": {"max_retries": 5, "backoff":
        {"type": "exponential", "initial_delay_ms": 10, "max_delay_ms": 1_000, "multiplier": 2.0}}});
    let (id, fence) = world.running(retry).await;
    world.pass(1_000);
    match name {
        "renew_lease" => Renew { id, fence, lease_ttl_ms: TTL_MS }.into(),
        "report_progress" => ReportProgress {
            id,
            fence,
            percent: Some(50),
            message: Some("half".to_owned()),
            after: None,
        }
        .into(),
        "record_steps" => {
            let steps = vec![ff_conformance::cases::steps::step(0, "pay")];
            RecordSteps { id, fence, steps }.into()
        }
        "complete_execution" => {
            let result = Some(bytes::Bytes::from_static(b"out"));
            Complete { id, fence, result, encoding: None }.into()
        }
        "fail_execution" => {
            let (reason, category) = ("broke".to_owned(), "net".parse().unwrap());
            Fail { id, fence, reason, category, class: FailureClass::Transient }.into()
        }
        "delay_execution" => {
            let steps = vec![ff_conformance::cases::steps::step(0, "nap")];
            Delay { id, fence, delay_until: world.now().plus(50), steps }.into()
        }
        "release_execution" => Release { id, fence, untaken: false }.into(),
        "revoke_lease" => {
            let (expected, reason) = (Some(fence), "stop".to_owned());
            Revoke { id, expected, worker_instance: None, reason }.into()
        }
        other => panic!("{other} is not known here"),
    }
}

/// A command of an operator.
async fn waiting(world: &World, name: &str) -> Command {
    let id = world.create_with(json!({})).await;
    let reason = "because".to_owned();
    match name {
        "claim_execution" => Claim {
            id,
            worker: worker("w1"),
            capabilities: BTreeSet::new(),
            lease_ttl_ms: TTL_MS,
            claim_id: world.uuid(),
        }
        .into(),
        "cancel_execution" => Cancel { id, reason, fence: None, replays: None }.into(),
        "replay_execution" => {
            world.cancel(id).await.unwrap();
            Replay { id, reason, replays: None, downstream: true }.into()
        }
        "change_priority" => ChangePriority { id, priority: 7, version: None }.into(),
        "hold_execution" => Hold { id, reason, version: None }.into(),
        "unhold_execution" => {
            world.run(Hold { id, reason, version: None }).await.unwrap();
            Unhold { id, version: None }.into()
        }
        "set_execution_tags" => {
            let set = [("test.colour".to_owned(), "red".to_owned())].into();
            SetTags { id, edit: Edit { set, ..Edit::default() } }.into()
        }
        other => panic!("no way is known to cut {other}"),
    }
}

/// A command that a duty finds to be due.
async fn duty(world: &World, name: &str) -> Command {
    let policy = json!({"retention_ms": 1_000, "timeout_policy": {"attempt_timeout_ms": 500,
        "execution_deadline_ms": 800}});
    let duty = match name {
        "expire_lease" => {
            world.running(json!({})).await;
            Duty::LeaseExpiry
        }
        "time_out_attempt" => {
            world.running(policy).await;
            Duty::AttemptTimeout
        }
        "expire_execution" => {
            world.running(policy).await;
            Duty::Deadline
        }
        "trim_execution" => {
            let (id, fence) = world.running(policy).await;
            world.complete(id, fence).await.unwrap();
            Duty::Retention
        }
        _ => {
            let idempotency_key = Some("order-1".parse().unwrap());
            world.create(Create { idempotency_key, ..world.draft() }).await;
            Duty::IdempotencyExpiry
        }
    };
    world.pass(86_400_000);
    let due = world.store.backend.due(duty, &WorkFilter::default(), 10).await;
    due.unwrap().commands.pop().unwrap_or_else(|| panic!("{name} is not due"))
}

/// Sends `command` once more or less well; the answer and the rows.
async fn sent(sender: Sender, name: &str, cut: Option<Cut>) -> (Outcome, Tables) {
    let remote = Remote::new().await;
    let command = prepared(&remote, name).await;
    assert_eq!(command.name(), name);
    command.validate(&ff_core::Config::default()).unwrap();
    let backend: Arc<dyn Backend> = match sender {
        Sender::Holder => Arc::clone(&remote.world.store.backend),
        Sender::Stranger => remote.stranger().await,
    };
    if let Some(cut) = cut {
        remote.line.arm(cut);
    }
    let outcome = backend.apply(vec![command]).await.unwrap().pop().unwrap();
    if cut.is_some() {
        assert_eq!(remote.line.cuts(), 1, "{name} was cut off");
    }
    let tables = (remote.world.store.dump)();
    audit::audit(&tables, remote.world.now());
    (outcome, tables)
}

/// What a command answers when it is sent again after `first`.
fn check_again(name: &str, first: &Outcome, second: &Outcome) {
    let expected = match first.as_ref().map(Reply::again) {
        Err(_) | Ok(Again::Same) => first.clone(),
        Ok(Again::Reply(reply)) => Ok(reply),
        Ok(Again::Refused(expected)) => {
            return assert_eq!(code(second.clone()), expected, "{name}");
        }
        // It finds what it has written itself.
        Ok(Again::Further) if name == "seed_signing_key" => {
            Ok(Reply::SeedKey(Seeded::AlreadySeeded { same_secret: true }))
        }
        Ok(Again::Further) => panic!("{name} leaves nothing to go on with"),
    };
    assert_eq!(*second, expected, "{name}");
}

/// What must be the same. Progress that is reported again counts again, and a transaction that was
/// undone has used up its numbers of the feed.
fn settled(name: &str, mut tables: Tables) -> Tables {
    if name == "report_progress" {
        for x in tables.executions.values_mut() {
            x.version = 0;
        }
    }
    tables.events = (1..).zip(tables.events.into_values()).collect();
    tables.last_seq = 0;
    tables
}

async fn every_command_survives(sender: Sender) {
    for name in Command::NAMES {
        let (first, rows) = sent(sender, name, None).await;
        assert!(first.is_ok(), "{name} is accepted: {first:?}");
        let (answer, after) = sent(sender, name, Some(Cut::AfterCommit)).await;
        check_again(name, &first, &answer);
        assert_eq!(settled(name, after), settled(name, rows.clone()), "{name}, cut after commit");
        let (answer, after) = sent(sender, name, Some(Cut::BeforeCommit)).await;
        assert_eq!(answer, first, "{name}, cut before it was committed");
        assert_eq!(settled(name, after), settled(name, rows), "{name}, cut before commit");
    }
}

#[tokio::test]
async fn any_command_of_a_holder_that_is_cut_off_is_answered_as_a_repeat() {
    every_command_survives(Sender::Holder).await;
}

#[tokio::test]
async fn any_command_of_a_stranger_that_is_cut_off_is_answered_as_a_repeat() {
    every_command_survives(Sender::Stranger).await;
}

/// Claims what is ready, cut off or not; the answer and the rows.
async fn claimed(cut: Option<Cut>) -> (Vec<ff_core::Claimed>, Tables) {
    let remote = Remote::new().await;
    let world = &remote.world;
    for delay in [None, None, Some(500)] {
        world.create(Create { delay_ms: delay, ..world.draft() }).await;
    }
    world.pass(500);
    if let Some(cut) = cut {
        remote.line.arm(cut);
    }
    let claimed = world.claim(world.ask(2)).await;
    assert_eq!(remote.line.cuts(), u32::from(cut.is_some()));
    let tables = (world.store.dump)();
    audit::audit(&tables, world.now());
    (claimed, tables)
}

#[tokio::test]
async fn a_claim_that_is_cut_off_finds_its_work_again() {
    let (mut first, rows) = claimed(None).await;
    assert_eq!(first.len(), 2);
    first.sort_by_key(|work| work.leased.execution.id);
    for cut in [Cut::BeforeCommit, Cut::AfterCommit] {
        let (mut again, after) = claimed(Some(cut)).await;
        again.sort_by_key(|work| work.leased.execution.id);
        assert_eq!(again, first, "{cut:?}");
        assert_eq!(settled("claim", after), settled("claim", rows.clone()), "{cut:?}");
    }
}

#[tokio::test]
async fn a_promotion_that_is_cut_off_moves_each_delay_once() {
    let remote = Remote::new().await;
    let world = &remote.world;
    for _ in 0..3 {
        world.create(Create { delay_ms: Some(500), ..world.draft() }).await;
    }
    world.pass(500);
    remote.line.arm(Cut::AfterCommit);
    world.store.backend.claim(&[]).await.unwrap();
    assert_eq!(remote.line.cuts(), 1);
    let tables = (world.store.dump)();
    assert_eq!((tables.ready.len(), tables.timers.len()), (3, 0));
    audit::audit(&tables, world.now());
    assert_eq!(world.claim(world.ask(5)).await.len(), 3, "and they are found");
}

/// Three executions whose delay is over.
async fn delayed() -> Remote {
    let remote = Remote::new().await;
    for _ in 0..3 {
        remote.world.create(Create { delay_ms: Some(500), ..remote.world.draft() }).await;
    }
    remote.world.pass(500);
    remote
}

/// Claims nothing but promotes, without asks or with one that looks elsewhere.
fn promotions(world: &World) -> [Vec<ClaimAsk>; 2] {
    [vec![], vec![ClaimAsk { lanes: vec![lane("other")], ..world.ask(1) }]]
}

#[tokio::test]
async fn a_promotion_whose_reply_was_lost_wakes_claims() {
    for asks in [0, 1] {
        let remote = delayed().await;
        let (world, backend) = (&remote.world, &remote.world.store.backend);
        let seen = backend.generation(Interest::Work);
        remote.line.arm(Cut::AfterCommit);
        let claims = backend.claim(&promotions(world)[asks]).await.unwrap();
        assert_eq!((remote.line.cuts(), claims.next_due), (1, None));
        assert_eq!((world.store.dump)().ready.len(), 3, "its first try moved them");
        assert!(backend.generation(Interest::Work) > seen, "with {asks} asks");
    }
}

#[tokio::test]
async fn a_promotion_beside_a_claim_that_is_cut_off_moves_each_delay_once() {
    for cut in [Cut::BeforeCommit, Cut::AfterCommit] {
        let remote = delayed().await;
        let world = &remote.world;
        remote.line.arm(cut);
        let claims = world.store.backend.claim(&promotions(world)[1]).await.unwrap();
        assert!(claims.given.iter().all(Vec::is_empty));
        assert_eq!(remote.line.cuts(), 1);
        let tables = (world.store.dump)();
        assert_eq!((tables.ready.len(), tables.timers.len()), (3, 0), "{cut:?}");
        audit::audit(&tables, world.now());
        assert_eq!(world.claim(world.ask(5)).await.len(), 3, "and they are found");
    }
}

/// What a claim promotes is neither notified nor remembered before it is committed, whether the claim is
/// given some of it or not.
#[tokio::test]
async fn a_claim_whose_commit_fails_remembers_no_promotion() {
    for own in [false, true] {
        let remote = delayed().await;
        let (world, backend) = (&remote.world, &remote.world.store.backend);
        remote.schema.tamper(
            "create function refuse() returns trigger language plpgsql as $$ begin
                raise exception 'on purpose';
            end $$;
            create constraint trigger refuse after insert on ff_ready deferrable initially deferred
                for each row execute function refuse();",
        );
        let seen = backend.generation(Interest::Work);
        let ask = || if own { vec![world.ask(1)] } else { promotions(world)[1].clone() };
        let refused = backend.claim(&ask()).await.unwrap_err();
        assert!(refused.to_string().contains("on purpose"), "{refused}");
        assert_eq!(backend.generation(Interest::Work), seen, "nothing was moved");
        let tables = (world.store.dump)();
        assert_eq!((tables.ready.len(), tables.timers.len()), (0, 3));
        remote.schema.tamper("drop trigger refuse on ff_ready; drop function refuse");
        let claims = backend.claim(&ask()).await.unwrap();
        assert_eq!(claims.given.concat().len(), usize::from(own));
        assert!(backend.generation(Interest::Work) > seen);
        assert_eq!(world.claim(world.ask(5)).await.len(), 3 - usize::from(own));
    }
}

#[tokio::test]
async fn losing_every_connection_while_idle_goes_unnoticed() {
    let remote = Remote::new().await;
    let world = &remote.world;
    let (id, fence) = world.running(json!({})).await;
    for _ in 0..3 {
        // Enough at once that every connection for reading is open.
        let keys = [Key::Execution(id)];
        let read = || world.store.backend.get(&keys);
        let (a, b, c) = tokio::join!(read(), read(), read());
        assert!(a.is_ok() && b.is_ok() && c.is_ok());
        world.renew(id, fence).await.unwrap();
        assert!(remote.line.open() > 2, "there is something to lose");
        remote.line.cut_all();
        assert!(world.find(id).await.is_some());
        remote.line.cut_all();
        world.renew(id, fence).await.unwrap();
        remote.line.cut_all();
        let other = world.create_with(json!({})).await;
        remote.line.cut_all();
        world.take(other).await;
    }
    world.complete(id, fence).await.unwrap();
    audit::audit(&(world.store.dump)(), world.now());
}

#[tokio::test]
async fn a_server_that_is_gone_for_good_is_reported_soon() {
    let remote = Remote::new().await;
    let world = &remote.world;
    let (id, fence) = world.running(json!({})).await;
    let backend = &world.store.backend;
    remote.line.close().await;
    let complete = Complete { id, fence, result: None, encoding: None };
    let keys = [Key::Execution(id)];
    let asks = [world.ask(1)];
    let calls = async {
        tokio::join!(
            backend.apply(vec![complete.into()]),
            backend.apply(vec![world.draft().into()]),
            backend.claim(&asks),
            backend.get(&keys),
        )
    };
    let (first, second, third, fourth) =
        tokio::time::timeout(Duration::from_secs(5), calls).await.expect("an answer in time");
    let errors = [first.unwrap_err(), second.unwrap_err(), third.unwrap_err(), fourth.unwrap_err()];
    for error in errors {
        assert!(matches!(error, StoreError::Transport { .. }), "{error}");
        assert_eq!(error.code().as_str(), "transport");
    }
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_named() {
    let line = Line::new().await;
    line.close().await;
    let opened = Postgres::open(Options::new(line.url()));
    let refused = tokio::time::timeout(Duration::from_secs(5), opened).await.unwrap();
    let refused = refused.err().expect("nobody is there");
    assert!(matches!(refused, StoreError::Transport { .. }), "{refused}");
    assert!(refused.to_string().contains(&line.address()), "{refused}");
}
