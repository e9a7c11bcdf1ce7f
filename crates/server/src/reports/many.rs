//! Many reports in one request: everything of one operation travels as one batch.
//!
//! Reports about different executions do not depend on each other. Several about one execution do,
//! so they take effect in their order: the first of each execution goes with the first of all
//! others, then the second, and so on.

use std::collections::HashMap;

use axum::Json;
use axum::extract::State;
use ff_core::Rejection;
use ff_core::command::Operation;
use ff_core::decide::Decide;
use ff_core::decide::complete::Complete;
use ff_core::decide::delay::Delay;
use ff_core::decide::fail::Fail;
use ff_core::decide::progress::ReportProgress;
use ff_core::decide::release::Release;
use ff_core::decide::steps::RecordSteps;
use ff_wire::report::{DelayAnswer, FailAnswer, Order, ReportOutcome};
use ff_wire::{Problem, ReportsAnswer, ReportsRequest};

use crate::Server;
use crate::problem::Refused;
use crate::request::Body;
use crate::responses::{BodyRefusals, Refusals};

/// Report about many executions
///
/// Each report has its own answer, in the order of the request; what one is refused for concerns no
/// other. Several about one execution take effect in their order.
#[utoipa::path(
    post, path = "/v1/reports", tag = "workers", operation_id = "report",
    request_body = ReportsRequest,
    responses(
        (status = 200, description = "What became of each.", body = ReportsAnswer),
        Refusals, BodyRefusals,
    ),
)]
pub async fn report(
    State(server): State<Server>,
    Body(request): Body<ReportsRequest>,
) -> Result<Json<ReportsAnswer>, Refused> {
    let now = server.engine().server_time_ms().await?;
    let orders = request.into_orders(now)?;
    let mut results: Vec<Option<ReportOutcome>> = Vec::new();
    results.resize_with(orders.len(), || None);
    for round in rounds(orders, &mut results) {
        for (place, outcome) in round.send(&server).await? {
            results[place] = Some(outcome);
        }
    }
    let results = results.into_iter().map(|outcome| outcome.expect("every report is answered"));
    Ok(Json(ReportsAnswer { results: results.collect() }))
}

/// Commands with the places of their reports, by operation.
#[derive(Default)]
struct Round {
    complete: Vec<(usize, Complete)>,
    fail: Vec<(usize, Fail)>,
    delay: Vec<(usize, Delay)>,
    release: Vec<(usize, Release)>,
    progress: Vec<(usize, ReportProgress)>,
    steps: Vec<(usize, RecordSteps)>,
}

/// Sorts reports into rounds in which no execution occurs twice; answers what cannot be sent.
fn rounds(
    orders: Vec<Result<Order, Rejection>>,
    results: &mut [Option<ReportOutcome>],
) -> Vec<Round> {
    let mut rounds: Vec<Round> = Vec::new();
    let mut seen = HashMap::new();
    for (place, order) in orders.into_iter().enumerate() {
        let order = match order {
            Ok(order) => order,
            Err(refused) => {
                results[place] = Some(ReportOutcome::rejected(refused.into()));
                continue;
            }
        };
        let turn = seen.entry(order.execution_id()).or_insert(0);
        if rounds.len() == *turn {
            rounds.push(Round::default());
        }
        rounds[*turn].add(place, order);
        *turn += 1;
    }
    rounds
}

impl Round {
    fn add(&mut self, place: usize, order: Order) {
        match order {
            Order::Complete(complete) => self.complete.push((place, complete)),
            Order::Fail(fail) => self.fail.push((place, fail)),
            Order::Delay(delay) => self.delay.push((place, delay)),
            Order::Release(release) => self.release.push((place, release)),
            Order::Progress(progress) => self.progress.push((place, progress)),
            Order::Steps(steps) => self.steps.push((place, steps)),
        }
    }

    async fn send(self, server: &Server) -> Result<Vec<(usize, ReportOutcome)>, Refused> {
        let (complete, fail, delay, release, progress, steps) = tokio::try_join!(
            send(server, self.complete, |()| ReportOutcome::Completed),
            send(server, self.fail, |failed| FailAnswer::from(failed).into()),
            send(server, self.delay, |delayed| DelayAnswer::from(delayed).into()),
            send(server, self.release, |()| ReportOutcome::Released),
            send(server, self.progress, |()| ReportOutcome::Recorded),
            send(server, self.steps, |()| ReportOutcome::Recorded),
        )?;
        let all = [complete, fail, delay, release, progress, steps];
        Ok(all.into_iter().flatten().collect())
    }
}

async fn send<C: Operation>(
    server: &Server,
    commands: Vec<(usize, C)>,
    say: impl Fn(C::Reply) -> ReportOutcome,
) -> Result<Vec<(usize, ReportOutcome)>, Refused> {
    if commands.is_empty() {
        return Ok(Vec::new());
    }
    let name = <C as Decide>::NAME;
    let (places, commands): (Vec<_>, Vec<_>) = commands.into_iter().unzip();
    let outcomes = server.engine().execute_all(commands).await;
    let outcomes = outcomes.map_err(|error| Refused::from(error).during(name))?;
    let answer = |outcome: Result<C::Reply, Rejection>| match outcome {
        Ok(reply) => say(reply),
        Err(refused) => ReportOutcome::rejected(Problem::from(refused).during(name)),
    };
    Ok(places.into_iter().zip(outcomes.into_iter().map(answer)).collect())
}
