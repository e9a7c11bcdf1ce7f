//! Commands whose reply is lost while others go on from where they led: the store that sends them again means
//! what they meant the first time.

use std::sync::Arc;

use ff_conformance::cases::repeats::Late;
use ff_core::Backend;

use super::{Remote, Sender};

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
