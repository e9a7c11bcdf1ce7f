//! The faults: one after the other, with calm between them in which nothing may be late.

use clap::ValueEnum;

use crate::database::Database;
use crate::dice::Dice;
use crate::fleet::{Fleet, Server};
use crate::record::Span;
use crate::time::{now, sleep_ms};
use crate::world::{Phase, World};
use crate::{Options, Store};

/// The least and the most of calm between two faults.
const CALM_MS: (u64, u64) = (5_000, 10_000);

/// The least and the most by which a server and its database hear each other late: twice what the clock of
/// the server is wrong by then. Slower answers would not be believed.
const SKEW_MS: (u64, u64) = (10, 46);
/// For how long: a server asks for the time every ten seconds, and is wrong only from then on.
const SKEW_LASTS_MS: (u64, u64) = (10_500, 13_000);

/// What can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Fault {
    /// `kill -9` of a server, which is started again after a while.
    KillServer,
    /// A server is stopped, and goes on.
    PauseServer,
    /// The database is ended at once and started again, most often after transactions that aborted.
    RestartDatabase,
    /// The connections of a server to its database are cut.
    CutDatabase,
    /// The connections of clients are cut.
    CutClients,
    /// Somebody holds locks.
    HoldLocks,
    /// The replies to commits are lost.
    LoseCommits,
    /// Replies to clients are lost.
    LoseReplies,
    /// Nothing that the database says reaches a server, the time included.
    StallDatabase,
    /// The clock of a server is behind by some milliseconds, because what it hears from its database is
    /// late and what it says is not; that of another is ahead, because what it says is late.
    SkewClock,
}

const ON_POSTGRES: [Fault; 12] = [
    Fault::KillServer,
    Fault::PauseServer,
    Fault::RestartDatabase,
    Fault::RestartDatabase,
    Fault::CutDatabase,
    Fault::CutClients,
    Fault::HoldLocks,
    Fault::LoseCommits,
    Fault::LoseCommits,
    Fault::LoseReplies,
    Fault::StallDatabase,
    Fault::SkewClock,
];

const ON_SQLITE: [Fault; 5] = [
    Fault::KillServer,
    Fault::PauseServer,
    Fault::CutClients,
    Fault::HoldLocks,
    Fault::LoseReplies,
];

/// Who makes them.
pub struct Weather<'a> {
    /// The clients, who do not know.
    pub world: &'a World,
    /// What they strike.
    pub fleet: &'a Fleet,
    /// What they strike.
    pub database: &'a Database,
}

impl Weather<'_> {
    /// Faults until the storm is to settle; whatever is broken then is repaired.
    pub async fn rage(&self, options: &Options) -> anyhow::Result<()> {
        let mut dice = self.world.dice("faults");
        let mut bag: Vec<Fault> = Vec::new();
        while self.world.phase() == Phase::Storm {
            let calm = dice.between(CALM_MS.0, CALM_MS.1);
            tokio::select! {
                () = sleep_ms(calm) => {}
                () = self.world.calmed() => break,
            }
            if bag.is_empty() {
                // Each kind once before any comes again.
                bag = match (options.fault, options.store) {
                    (Some(only), _) => vec![only],
                    (None, Store::Postgres) => ON_POSTGRES.to_vec(),
                    (None, Store::Sqlite) => ON_SQLITE.to_vec(),
                };
            }
            let at = usize::try_from(dice.roll()).unwrap_or(0) % bag.len();
            let fault = bag.swap_remove(at);
            let victim = usize::try_from(dice.roll()).unwrap_or(0) % self.fleet.len();
            let from = now();
            self.strike(fault, victim, &mut dice).await?;
            let span = Span { what: format!("{fault:?} {victim}"), from, to: now() };
            self.world.recorder.count(&format!("fault: {fault:?}"));
            self.world.recorder.with(|record| record.faults.push(span));
        }
        Ok(())
    }

    async fn strike(&self, fault: Fault, victim: usize, dice: &mut Dice) -> anyhow::Result<()> {
        let server = &self.fleet[victim];
        match fault {
            Fault::KillServer => {
                server.kill().await;
                sleep_ms(dice.between(0, 2_500)).await;
                server.launch().await?;
            }
            Fault::PauseServer => {
                server.pause().await;
                sleep_ms(dice.between(300, 6_000)).await;
                server.go_on().await;
            }
            Fault::RestartDatabase => {
                let wasted = dice.percent(70).then_some(dice.between(500, 1_500));
                let holder = match wasted {
                    Some(ms) => self.database.waste_numbers(ms).await?,
                    None => None,
                };
                if holder.is_some() {
                    self.world.recorder.count("fault: numbers wasted before a restart");
                }
                self.database.restart(dice.between(0, 1_500)).await?;
                drop(holder);
            }
            Fault::CutDatabase => {
                for _ in 0..dice.between(1, 6) {
                    cut(server);
                    sleep_ms(dice.between(20, 300)).await;
                }
            }
            Fault::CutClients => self.fleet.iter().for_each(|server| server.front.cut()),
            Fault::HoldLocks => {
                let rows = u32::try_from(dice.between(1, 6)).unwrap_or(1);
                self.database.hold_locks(rows, dice.between(500, 5_000)).await?;
            }
            Fault::LoseCommits => self.lose_commits(dice).await,
            Fault::LoseReplies => {
                let percent = dice.between(10, 60);
                self.fleet.iter().for_each(|server| server.front.lose_replies(percent));
                sleep_ms(dice.between(500, 3_000)).await;
                self.fleet.iter().for_each(|server| server.front.lose_replies(0));
            }
            Fault::StallDatabase => {
                let ms = dice.between(2_000, 8_000);
                if let Some(line) = &server.back {
                    line.stall_ms(i64::try_from(ms).unwrap_or(0));
                }
                sleep_ms(ms).await;
            }
            Fault::SkewClock => self.skew_clocks(victim, dice).await,
        }
        Ok(())
    }

    /// One clock is behind, and the next one ahead; a server on its own has either by chance.
    async fn skew_clocks(&self, victim: usize, dice: &mut Dice) {
        let other = (victim + 1) % self.fleet.len();
        let mut skewed = [(victim, 0, skew(dice)), (other, skew(dice), 0)];
        if other == victim && dice.percent(50) {
            skewed.swap(0, 1);
        }
        for (at, questions_ms, replies_ms) in skewed {
            if let Some(line) = &self.fleet[at].back {
                line.delay_questions(questions_ms);
                line.delay_replies(replies_ms);
            }
        }
        sleep_ms(dice.between(SKEW_LASTS_MS.0, SKEW_LASTS_MS.1)).await;
        for line in self.fleet.iter().filter_map(|server| server.back.as_ref()) {
            line.delay_questions(0);
            line.delay_replies(0);
        }
    }

    /// Several in a row, at every server.
    async fn lose_commits(&self, dice: &mut Dice) {
        for _ in 0..dice.between(5, 25) {
            for line in self.fleet.iter().filter_map(|server| server.back.as_ref()) {
                line.lose_commit_after(dice.between(0, 12));
            }
            sleep_ms(dice.between(50, 250)).await;
        }
    }
}

fn skew(dice: &mut Dice) -> u64 {
    dice.between(SKEW_MS.0, SKEW_MS.1)
}

fn cut(server: &Server) {
    if let Some(line) = &server.back {
        line.cut();
    }
}
