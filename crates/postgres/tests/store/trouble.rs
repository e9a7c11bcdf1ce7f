//! What the server refuses: transactions it breaks off are tried again a few times, and a value
//! that it does not take costs nobody but its own command.

use std::collections::BTreeSet;
use std::sync::Arc;

use ff_conformance::world::{World, code};
use ff_conformance::{Dial, audit};
use ff_core::backend::StoreError;
use ff_core::command::Command;
use ff_core::decide::priority::ChangePriority;
use ff_core::error::Code;
use ff_core::text::Kind;
use serde_json::json;

use crate::open;
use crate::server::Schema;

/// What a server says when it breaks off a transaction for the sake of another.
const BROKEN_OFF: [&str; 2] = ["40001", "40P01"];
/// More often than anybody tries.
const ALWAYS: u32 = 1_000;

fn world() -> World {
    let clock = Arc::new(Dial::default());
    World::new(open(Arc::clone(&clock)), clock)
}

fn schema(world: &World) -> &Arc<Schema> {
    world.store.keep.downcast_ref().unwrap()
}

/// Breaks off the next `times` transactions that write executions. A sequence counts them,
/// because breaking off does not undo it.
fn break_off(world: &World, sqlstate: &str, times: u32) {
    schema(world).tamper(&format!(
        "create sequence trips;
        create function trip() returns trigger language plpgsql as $$ begin
            if nextval('{schema}.trips') <= {times} then
                raise exception 'on purpose' using errcode = '{sqlstate}';
            end if;
            return null;
        end $$;
        create trigger trip after insert or update on ff_exec_core
            for each statement execute function trip();",
        schema = schema(world).name
    ));
}

fn let_go(world: &World) {
    schema(world)
        .tamper("drop trigger trip on ff_exec_core; drop function trip; drop sequence trips;");
}

fn creations(world: &World, count: usize) -> Vec<Command> {
    (0..count).map(|_| world.draft().into()).collect()
}

#[tokio::test]
async fn a_creation_that_is_broken_off_twice_happens_once() {
    for sqlstate in BROKEN_OFF {
        let world = world();
        break_off(&world, sqlstate, 2);
        for outcome in world.batch(creations(&world, 5)).await {
            outcome.unwrap();
        }
        let_go(&world);
        let tables = (world.store.dump)();
        assert_eq!((tables.executions.len(), tables.ready.len()), (5, 5), "{sqlstate}");
        audit::audit(&tables, world.now());
    }
}

#[tokio::test]
async fn a_change_that_is_broken_off_twice_happens_once() {
    for sqlstate in BROKEN_OFF {
        let world = world();
        let (id, fence) = world.running(json!({})).await;
        let other = world.create_with(json!({})).await;
        break_off(&world, sqlstate, 2);
        world.complete(id, fence).await.unwrap();
        let_go(&world);
        break_off(&world, sqlstate, 2);
        world.run(ChangePriority { id: other, priority: 7, version: None }).await.unwrap();
        let_go(&world);
        assert_eq!(world.event_names(id).await, ["completion"], "{sqlstate}");
        assert_eq!(world.event_names(other).await, ["priority_changed"], "{sqlstate}");
        audit::audit(&(world.store.dump)(), world.now());
    }
}

#[tokio::test]
async fn a_batch_that_is_always_broken_off_changes_nothing_and_can_be_sent_again() {
    for sqlstate in BROKEN_OFF {
        let world = world();
        let id = world.create_with(json!({})).await;
        let before = (world.store.dump)();
        break_off(&world, sqlstate, ALWAYS);
        let change = Command::from(ChangePriority { id, priority: 7, version: None });
        let batches = [creations(&world, 5), vec![change]];
        for batch in batches.clone() {
            let error = world.store.backend.apply(batch).await.unwrap_err();
            assert!(matches!(error, StoreError::RetryExhausted { .. }), "{error}");
            assert_eq!(error.code().as_str(), "retry_exhausted");
            assert!(error.to_string().contains(sqlstate), "{error}");
        }
        assert_eq!((world.store.dump)(), before, "{sqlstate}");
        let_go(&world);
        for batch in batches {
            for outcome in world.batch(batch).await {
                outcome.unwrap();
            }
        }
        assert_eq!((world.store.dump)().executions.len(), 6, "{sqlstate}");
        audit::audit(&(world.store.dump)(), world.now());
    }
}

#[tokio::test]
async fn a_claim_that_is_broken_off_is_tried_again_and_then_reported() {
    for sqlstate in BROKEN_OFF {
        let world = world();
        let ids = [world.create_with(json!({})).await, world.create_with(json!({})).await];
        break_off(&world, sqlstate, 2);
        assert_eq!(world.take(ids[0]).await.leased.fence.attempt_index, 0);
        let_go(&world);
        let before = (world.store.dump)();
        break_off(&world, sqlstate, ALWAYS);
        let ask = world.ask(1);
        let error = world.store.backend.claim(std::slice::from_ref(&ask)).await.unwrap_err();
        assert!(matches!(error, StoreError::RetryExhausted { .. }), "{error}");
        assert_eq!((world.store.dump)(), before, "{sqlstate}");
        let_go(&world);
        let claimed = world.claim(ask).await;
        assert_eq!(claimed[0].leased.execution.id, ids[1]);
        audit::audit(&(world.store.dump)(), world.now());
    }
}

#[tokio::test]
async fn a_value_that_the_server_does_not_take_costs_only_its_own_command() {
    let world = world();
    schema(&world)
        .tamper("alter table ff_exec_core add constraint poison check (kind <> 'poison')");
    let poison = Kind::new("poison").unwrap();
    for at in [0, 7, 19] {
        let mut drafts: Vec<_> = (0..20).map(|_| world.draft()).collect();
        drafts[at].kind = poison.clone();
        let good: BTreeSet<_> =
            drafts.iter().filter(|draft| draft.kind != poison).map(|draft| draft.id).collect();
        let mut outcomes = world.batch(drafts.into_iter().map(Command::from).collect()).await;
        let refused = outcomes.remove(at).unwrap_err();
        assert_eq!(refused.code, Code::InvalidInput);
        assert!(refused.message.contains("poison"), "{refused}");
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        let there: BTreeSet<_> = (world.store.dump)().executions.into_keys().collect();
        assert!(there.is_superset(&good));
    }
    let mut alone = world.draft();
    alone.kind = poison;
    let outcome = world.batch(vec![alone.into()]).await.pop().unwrap();
    assert_eq!(code(outcome), Code::InvalidInput);
    let tables = (world.store.dump)();
    assert_eq!(tables.executions.len(), 3 * 19);
    audit::audit(&tables, world.now());
    schema(&world).tamper("alter table ff_exec_core drop constraint poison");
}
