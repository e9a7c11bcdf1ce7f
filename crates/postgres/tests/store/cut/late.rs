//! Commands whose reply is lost while others go on from where they led: the store that sends them again means
//! what they meant the first time.

use std::sync::Arc;

use ff_conformance::cases::repeats::Late;
use ff_core::Backend;
use ff_core::backend::StoreError;

use super::{Remote, Sender};
use crate::server;

async fn a_lost_reply(sender: Sender, late: Late) {
    let remote = Remote::new().await;
    let beside = remote.beside().await;
    let story = late.begin(&remote.world).await;
    let backend: Arc<dyn Backend> = match sender {
        Sender::Holder => Arc::clone(&remote.world.store.backend),
        Sender::Stranger => remote.stranger().await,
    };
    remote.line.silence();
    let batch = vec![story.command.clone()];
    let sent = tokio::spawn(async move { backend.apply(batch).await });
    remote.line.committed().await;
    story.meanwhile(&beside).await;
    remote.line.speak();
    let outcome = sent.await.unwrap().unwrap().pop().unwrap();
    story.check(&beside, outcome).await;
    assert_eq!(remote.line.cuts(), 1);
}

#[tokio::test]
async fn a_command_of_a_holder_whose_reply_was_lost_happens_once() {
    for late in Late::ALL {
        a_lost_reply(Sender::Holder, late).await;
    }
}

#[tokio::test]
async fn a_command_of_a_stranger_whose_reply_was_lost_happens_once() {
    for late in Late::ALL {
        a_lost_reply(Sender::Stranger, late).await;
    }
}

/// Its first try was committed, and its repeats meet a locked row: nobody may be answered that nothing was
/// changed, because such a call is made anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_have_been_done_is_not_refused_as_contended() {
    let remote = Remote::new().await;
    let world = &remote.world;
    let create = world.draft();
    let id = create.id;
    remote.line.silence();
    let backend = Arc::clone(&world.store.backend);
    let created = tokio::spawn(async move { backend.apply(vec![create.into()]).await });
    remote.line.committed().await;
    let hand = server::connect().await;
    hand.batch_execute(&format!("set search_path = {}; begin", remote.schema.name)).await.unwrap();
    let lock = "select from ff_exec_core where execution_id = $1 for update";
    assert_eq!(hand.query(lock, &[&id.uuid()]).await.unwrap().len(), 1);
    remote.line.speak();
    let error = created.await.unwrap().unwrap_err();
    assert!(matches!(error, StoreError::Transport { .. }), "{error}");
    hand.batch_execute("commit").await.unwrap();
}
