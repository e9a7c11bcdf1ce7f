//! Creating executions.

use std::sync::Arc;

use ff_core::decide::claim::ClaimKind;
use ff_core::state::PublicState;
use serde_json::json;

use crate::world::World;

/// Creating leaves nothing for anyone else to do first.
pub async fn a_created_execution_is_claimable_at_once(w: Arc<World>) {
    let id = w.create_with(json!({})).await;
    assert_eq!(w.state(id).await, PublicState::Waiting);
    let claimed = w.take(id).await;
    assert_eq!(claimed.leased.kind, ClaimKind::First);
    assert_eq!(
        &claimed.input.expect("it was created with input").bytes[..],
        b"in"
    );
    assert_eq!(w.state(id).await, PublicState::Active);
}
