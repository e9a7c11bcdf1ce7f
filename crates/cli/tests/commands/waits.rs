//! The past of executions that wait for signals and people.

use ff_core::condition::{ResumeCondition, Word};
use ff_core::decide::create_waitpoint::CreateWaitpoint;
use ff_core::decide::steps::RecordSteps;
use ff_core::decide::suspend::{Binding, Suspend};
use ff_core::step::{Step, StepKind, StepOutcome};
use ff_core::suspension::{RequestedBy, SuspensionReason, TimeoutBehavior};
use ff_core::{ExecutionId, Fence};
use ff_engine::Decision;
use serde_json::json;

use crate::stage::{Past, id, step, uuid};

/// Two people have to approve it.
pub const DEPLOY: u128 = 1;
/// It waits for two signals.
pub const ORDER: u128 = 2;
/// One person had to approve it, and did.
pub const REVIEW: u128 = 3;
/// It runs, and has handed out where to answer.
pub const CALLBACK: u128 = 4;

/// What is to be decided on.
pub const PLAN: &str = r#"{"service":"shop","version":"2.4.0"}"#;
const DAY_MS: u64 = 86_400_000;

impl Past {
    /// One of each sort.
    pub async fn waits(self) {
        self.deploy().await;
        self.purchase().await;
        self.review().await;
        self.create(CALLBACK, "ops", "callback", &json!({})).await;
        let (id, fence) = self.claim("ops").await;
        let waitpoint = uuid(106);
        let key = "answer".parse().unwrap();
        let create =
            CreateWaitpoint { id, fence, waitpoint, key, expires_in_ms: DAY_MS, steps: Vec::new() };
        self.engine.create_waitpoint(create).await.unwrap();
    }

    async fn suspend(&self, suspend: Suspend) {
        let reply = self.engine.suspend_execution(suspend).await.unwrap();
        assert!(!reply.already_satisfied);
    }

    async fn deploy(&self) {
        self.create(DEPLOY, "ops", "deploy", &json!({})).await;
        let held = self.claim("ops").await;
        self.step(held, 0, "run checks", 80).await;
        let now = self.engine.server_time_ms().await.unwrap();
        let condition = ResumeCondition::Approval {
            waitpoint: "deploy".parse().unwrap(),
            needed: 2,
            by: ["ann", "bob", "carl"].map(|who| who.parse().unwrap()).into(),
            not_by: Some("carl".parse().unwrap()),
            subject: Some(PLAN.to_owned()),
        };
        let reason = SuspensionReason::WaitingForApproval;
        let asked = asking(held, condition, reason, &[(101, "deploy")]);
        self.suspend(Suspend { deadline: Some(now.plus(DAY_MS)), ..asked }).await;
        self.clock.advance(10);
    }

    async fn purchase(&self) {
        self.create(ORDER, "ops", "order", &json!({})).await;
        let held = self.claim("ops").await;
        let one = |key: &str, signal: Option<&str>| ResumeCondition::Single {
            waitpoint: key.parse().unwrap(),
            signal: signal.map(|name| name.parse().unwrap()),
        };
        let condition =
            ResumeCondition::AllOf(vec![one("money", Some("paid")), one("goods", None)]);
        let reason = SuspensionReason::WaitingForSignal;
        self.suspend(asking(held, condition, reason, &[(102, "money"), (103, "goods")])).await;
        self.clock.advance(10);
    }

    async fn review(&self) {
        self.create(REVIEW, "review", "review", &json!({})).await;
        let held = self.claim("review").await;
        self.step(held, 0, "draft", 300).await;
        let condition = ResumeCondition::Approval {
            waitpoint: "publish".parse().unwrap(),
            needed: 1,
            by: Vec::new(),
            not_by: None,
            subject: None,
        };
        let question = (1, StepKind::Wait, "publish");
        let asked = json!({"suspension_id": uuid(7)}).to_string();
        let operation = "1".parse().ok();
        let outcome = StepOutcome::Open;
        let steps = vec![Step { operation, outcome, ..step(question, asked) }];
        let reason = SuspensionReason::WaitingForApproval;
        let ask = asking(held, condition, reason, &[(105, "publish")]);
        self.suspend(Suspend { steps, ..ask }).await;
        self.clock.advance(1_500);
        let word = Decision {
            id: held.0,
            waitpoint: None,
            word: Word::Approved,
            by: "ann".parse().unwrap(),
            subject: None,
            comment: None,
        };
        self.engine.deliver_approval_signal(word).await.unwrap();
        self.clock.advance(50);
        let held = self.claim("review").await;
        let answer = json!({"how": "resumed",
            "signals": [{"signal_name": "approved", "source_identity": "ann"}]});
        let answer = step((2, StepKind::Wait, "publish"), answer.to_string());
        let steps = vec![Step { operation: "1".parse().ok(), ..answer }];
        self.engine.record_steps(RecordSteps { id: held.0, fence: held.1, steps }).await.unwrap();
        self.step(held, 3, "publish it", 200).await;
        self.engine.complete_execution(held.0, held.1, None).await.unwrap();
        self.clock.advance(10);
        assert_eq!(held.0, id(REVIEW));
    }
}

/// A wait of a claimed execution, for ever, at new waitpoints.
fn asking(
    (id, fence): (ExecutionId, Fence),
    condition: ResumeCondition,
    reason: SuspensionReason,
    waitpoints: &[(u128, &str)],
) -> Suspend {
    let fresh = |(number, key): &(u128, &str)| Binding::Fresh {
        id: uuid(*number),
        key: key.parse().unwrap(),
    };
    Suspend {
        id,
        fence,
        suspension: uuid(200 + waitpoints[0].0),
        waitpoints: waitpoints.iter().map(fresh).collect(),
        condition,
        resume_delay_ms: 0,
        reason,
        requested_by: RequestedBy::Worker,
        deadline: None,
        timeout_behavior: TimeoutBehavior::Fail,
        continuation: None,
        idempotency_key: None,
        steps: Vec::new(),
    }
}
