//! What others may have done to the rows: unknown literals, damaged values, and what the checks
//! of the schema keep out.

use std::sync::Arc;

use ff_backend_postgres::Postgres;
use ff_conformance::world::waits::single;
use ff_conformance::world::{World, run};
use ff_conformance::{Dial, Dice};
use ff_core::Backend;
use ff_core::backend::StoreError;
use ff_core::command::{Command, Reply};
use ff_core::condition::ResumeCondition;
use ff_core::decide::dispatch::{DispatchCompletion, Dispatched};
use ff_core::decide::priority::ChangePriority;
use ff_core::fold::Key;
use ff_core::state::PublicState;
use ff_core::suspension::Effect;
use serde_json::json;

use crate::open;
use crate::server::{Schema, connect};

fn world() -> World {
    let clock = Arc::new(Dial::default());
    World::new(open(Arc::clone(&clock)), clock)
}

fn schema(world: &World) -> &Arc<Schema> {
    world.store.keep.downcast_ref().unwrap()
}

/// Runs SQL that no backend would, past the checks of the schema.
fn tamper(world: &World, sql: &str) {
    let schema = schema(world);
    schema.tamper(&format!(
        "do $$ declare name text; of text; begin
            for name, of in select conname, conrelid::regclass from pg_constraint
                where connamespace = current_schema::regnamespace and contype = 'c'
                    and conrelid <> 0
            loop
                execute format('alter table %s drop constraint %I', of, name);
            end loop;
            for name in select typname from pg_type
                where typnamespace = current_schema::regnamespace and typtype = 'd'
            loop
                execute format('alter domain %I drop constraint if exists %I', name, name || '_check');
            end loop;
        end $$; {sql}"
    ));
    // Without its checks it is of no use to another test.
    std::mem::forget(Arc::clone(schema));
}

#[tokio::test]
async fn an_unknown_literal_reads_as_corruption_that_names_column_and_value() {
    let world = world();
    for (column, value) in [
        ("phase", "'cancelled'"),
        ("next_attempt", "'again'"),
        ("wait_reason", "'boredom'"),
        ("lease_end", "'lost'"),
        ("policy", "'{\"colour\":1}'"),
        ("tags", "'[]'"),
        ("lane_id", "''"),
        ("next_attempt", "null"),
        ("priority", "9001"),
    ] {
        let mut draft = world.draft();
        draft.delay_until = Some(world.now().plus(1_000));
        let id = world.create(draft).await;
        let uuid = id.uuid();
        let change = format!("update ff_exec_core set {column} = {value}");
        tamper(&world, &format!("{change} where execution_id = '{uuid}'"));
        let error = world.store.backend.get(&[Key::Execution(id)]).await.unwrap_err();
        let StoreError::Corruption { column: named, value: shown, .. } = &error else {
            panic!("{column} = {value} gave {error}");
        };
        assert_eq!(named, column);
        assert_eq!(shown, value.trim_matches('\''), "{error}");
        assert_eq!(error.code().as_str(), "corruption");
    }
}

#[tokio::test]
async fn a_terminal_row_with_an_unknown_outcome_is_corrupt_and_not_failed() {
    let world = world();
    let (id, fence) = world.running(json!({})).await;
    world.complete(id, fence).await.unwrap();
    tamper(&world, "update ff_exec_core set outcome = 'failure'");
    let error = world.store.backend.get(&[Key::Execution(id)]).await.unwrap_err();
    assert!(error.to_string().contains("column outcome holds \"failure\""), "{error}");
}

#[tokio::test]
async fn a_damaged_row_fails_only_the_commands_that_need_it() {
    let world = world();
    let mut urgent = world.draft();
    urgent.priority = 9_000;
    let damaged = world.create(urgent).await;
    let others = [world.create_with(json!({})).await, world.create_with(json!({})).await];
    tamper(&world, "update ff_exec_core set kind = '' where priority > 0");
    let ids = [others[0], damaged, others[1]];
    let batch = ids.map(|id| ChangePriority { id, priority: 7, version: None }.into()).to_vec();
    let outcomes = world.batch(batch).await;
    assert!(outcomes[0].is_ok() && outcomes[2].is_ok(), "{outcomes:?}");
    let refused = outcomes[1].clone().unwrap_err();
    assert_eq!(refused.code.as_str(), "corruption");
    assert!(refused.message.contains("column kind"), "{refused}");
    let first = world.claim_one().await.expect("the damaged head hides nothing");
    assert!(others.contains(&first.leased.execution.id));
    let rest = world.claim(world.ask(5)).await;
    assert_eq!(rest.len(), 1);
}

#[tokio::test]
async fn a_damaged_row_is_found_out_even_by_the_store_that_holds_it() {
    let world = world();
    let (id, fence) = world.running(json!({})).await;
    tamper(&world, "update ff_exec_core set kind = '', version = version + 1");
    let refused = world.complete(id, fence).await.unwrap_err();
    assert_eq!(refused.code.as_str(), "corruption");
    assert!(refused.message.contains("column kind"), "{refused}");
}

#[tokio::test]
async fn words_that_no_state_has_are_refused() {
    let world = world();
    world.create_with(json!({})).await;
    let db = connect().await;
    db.batch_execute(&format!("set search_path = {}", schema(&world).name)).await.unwrap();
    for change in ["phase = 'cancelled'", "outcome = 'failure'", "wait_reason = 'boredom'"] {
        let refused = db.batch_execute(&format!("update ff_exec_core set {change}")).await;
        let refused = refused.expect_err(change);
        let check = tokio_postgres::error::SqlState::CHECK_VIOLATION;
        assert_eq!(refused.code(), Some(&check), "{change}");
    }
}

#[tokio::test]
async fn what_the_states_do_not_allow_is_refused_by_whoever_reads_it() {
    for (change, named) in [
        ("phase = 'terminal'", "outcome"),
        ("outcome = 'failed'", "outcome"),
        ("phase = 'active'", "ff_lease"),
        ("phase = 'suspended', gated = true", "gated"),
    ] {
        let world = world();
        let id = world.create_with(json!({})).await;
        tamper(&world, &format!("update ff_exec_core set {change}"));
        let error = world.store.backend.get(&[Key::Execution(id)]).await.unwrap_err();
        let StoreError::Corruption { column, .. } = &error else { panic!("{change}: {error}") };
        assert_eq!(column, named, "{change}");
    }
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_reopening() {
    run(open, |world: Arc<World>| async move {
        let (id, fence) = world.running(json!({})).await;
        world.complete(id, fence).await.unwrap();
        let clock = Arc::clone(&world.clock);
        let options = schema(&world).options(clock, Box::new(Dice::new(1)));
        let reopened = Postgres::open(options).await.unwrap();
        let have = reopened.get(&[Key::Execution(id)]).await.unwrap();
        assert_eq!(have.executions[&id], Some(world.get(id).await));
    })
    .await;
}

#[tokio::test]
async fn a_damaged_payload_hides_only_its_own_work() {
    let world = world();
    let mut urgent = world.draft();
    urgent.priority = 9_000;
    let damaged = world.create(urgent).await;
    let plain = world.create_with(json!({})).await;
    let id = damaged.uuid();
    let encoding = "update ff_exec_core set input_encoding = 'é'";
    tamper(&world, &format!("{encoding} where execution_id = '{id}'"));
    let claimed = world.claim(world.ask(5)).await;
    let ids: Vec<_> = claimed.iter().map(|work| work.leased.execution.id).collect();
    assert_eq!(ids, [plain], "and not {damaged}");
}

#[tokio::test]
async fn a_place_in_a_queue_without_an_execution_hides_nothing() {
    let world = world();
    let mut urgent = world.draft();
    urgent.priority = 9_000;
    let removed = world.create(urgent).await;
    let plain = world.create_with(json!({})).await;
    let id = removed.uuid();
    tamper(&world, &format!("delete from ff_exec_core where execution_id = '{id}'"));
    world.take(plain).await;
}

#[tokio::test]
async fn a_damaged_row_of_a_flow_fails_only_the_commands_that_need_it() {
    for (damage, column) in [
        ("update ff_flow_core set state = 'done'", "state"),
        ("update ff_edge_group set policy = '{}'", "policy"),
        ("update ff_edge set kind = 'maybe'", "kind"),
    ] {
        let world = world();
        let (broken, sound) =
            (world.sketch("a>b").submit().await, world.sketch("a>b").submit().await);
        let mut batch: Vec<Command> = Vec::new();
        for drawn in [broken, sound] {
            world.succeed(drawn.id("a")).await;
            batch.push(
                DispatchCompletion { flow: drawn.flow, execution: drawn.id("a"), eager: false }
                    .into(),
            );
        }
        tamper(&world, &format!("{damage} where flow_id = '{}'", broken.flow));
        let mut outcomes = world.batch(batch).await.into_iter();
        let refused = outcomes.next().unwrap().unwrap_err();
        assert_eq!(refused.code.as_str(), "corruption", "{damage}");
        assert!(refused.message.contains(&format!("column {column}")), "{refused}");
        let told = outcomes.next().unwrap();
        assert_eq!(told, Ok(Reply::DispatchCompletion(Dispatched::Advanced(1))), "{damage}");
    }
}

#[tokio::test]
async fn a_result_that_cannot_be_told_hides_only_who_works_on_it() {
    let world = world();
    let drawn = world.sketch("a>b").passing("a", "b").submit().await;
    let other = world.sketch("a>b").passing("a", "b").submit().await;
    for id in [drawn.id("a"), other.id("a")] {
        world.succeed(id).await;
    }
    world.dispatch().await;
    let damaged = drawn.id("a").uuid();
    tamper(&world, &format!("update ff_exec_core set kind = '' where execution_id = '{damaged}'"));
    let claimed = world.claim(world.ask(5)).await;
    let ids: Vec<_> = claimed.iter().map(|work| work.leased.execution.id).collect();
    assert_eq!(ids, [other.id("b")]);
}

#[tokio::test]
async fn a_damaged_row_of_a_suspension_fails_only_the_commands_that_need_it() {
    for (damage, column) in [
        ("update ff_suspension_current set condition = '{}'", "condition"),
        ("update ff_suspension_current set reason = 'boredom'", "reason"),
        ("update ff_waitpoint set state = 'ajar'", "state"),
        ("update ff_waitpoint set token_digest = 'short'", "token_digest"),
        ("update ff_signal set name = ''", "name"),
    ] {
        let world = world();
        let all = ["answer", "other"].map(|key| single(key, None)).to_vec();
        let both = ResumeCondition::AllOf(all);
        let mut batch: Vec<Command> = Vec::new();
        let mut ids = Vec::new();
        for _ in 0..2 {
            let (_, own) = world.waiting_for(&["answer", "other"], both.clone()).await;
            assert_eq!(world.deliver(own[0].signal(&world, "one")).await, Effect::Appended);
            batch.push(own[1].signal(&world, "two").into());
            ids.push(own[0].id);
        }
        let of = format!("where execution_id = '{}'", ids[0].uuid());
        // Whoever changes what belongs to an execution gives it a new version.
        let version = "update ff_exec_core set version = version + 1";
        tamper(&world, &format!("{damage} {of}; {version} {of}"));
        let mut outcomes = world.batch(batch).await.into_iter();
        let refused = outcomes.next().unwrap().unwrap_err();
        assert_eq!(refused.code.as_str(), "corruption", "{damage}");
        assert!(refused.message.contains(&format!("column {column}")), "{refused}");
        let accepted = outcomes.next().unwrap();
        assert!(accepted.is_ok(), "{damage}: {accepted:?}");
        assert_eq!(world.state(ids[1]).await, PublicState::Waiting);
    }
}
