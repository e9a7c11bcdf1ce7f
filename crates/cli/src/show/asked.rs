//! What a suspended execution waits for now, and the command that lets it go on.

use std::io::{self, Write};

use ff_core::ExecutionId;
use ff_core::condition::NO_SIGNAL;
use ff_core::state::PublicState;
use ff_core::suspension::WaitpointWord;
use ff_wire::ExecutionSnapshot;
use ff_wire::waitpoint::{ApprovalView, WaitpointParams, WaitpointSnapshot};
use flowfabric::Client;

use crate::decide::{left, subject};
use crate::id::short;
use crate::output::{clean, dim};
use crate::place::Place;
use crate::waitpoints::waits_for;

/// As many waitpoints as are shown; `ff waitpoints` lists all.
const SHOWN_MAX: usize = 5;
/// As many lines as are shown of what is decided on; `ff approve` shows all.
const LINES_MAX: usize = 12;

/// The waitpoints of an execution at which it waits.
pub struct Asked<'p> {
    id: ExecutionId,
    place: &'p Place,
    waitpoints: Vec<WaitpointSnapshot>,
    more: bool,
}

impl<'p> Asked<'p> {
    /// Those of `x`, if it waits.
    pub async fn of(
        client: &Client,
        place: &'p Place,
        x: &ExecutionSnapshot,
    ) -> anyhow::Result<Option<Self>> {
        if x.public_state != PublicState::Suspended {
            return Ok(None);
        }
        let id = x.execution_id;
        let page = client.fabric().waitpoints(Some(id), WaitpointParams::default()).await?;
        let active = |one: &WaitpointSnapshot| one.state == WaitpointWord::Active;
        let mut waitpoints: Vec<_> = page.waitpoints.into_iter().filter(active).collect();
        let more = page.next.is_some() || waitpoints.len() > SHOWN_MAX;
        waitpoints.truncate(SHOWN_MAX);
        Ok(Some(Self { id, place, waitpoints, more }))
    }

    /// Says it, so wide.
    pub fn print(&self, out: &mut impl Write, width: usize) -> io::Result<()> {
        let line = |out: &mut dyn Write, text: &str| {
            writeln!(out, "  {}", console::truncate_str(text, width.saturating_sub(2), "…"))
        };
        for one in &self.waitpoints {
            let who = one.approval.as_ref().map_or_else(String::new, who);
            line(out, &format!("{}: {}{who}", clean(&one.waitpoint_key), waits_for(one)))?;
            let subject = one.approval.as_ref().map(subject).unwrap_or_default();
            for text in subject.iter().take(LINES_MAX) {
                line(out, &format!("  {text}"))?;
            }
            if subject.len() > LINES_MAX {
                line(out, &dim(&format!("  and {} lines more", subject.len() - LINES_MAX)))?;
            }
            // A command is of no use when it is cut.
            writeln!(out, "    {}", dim(&self.next(one)))?;
        }
        if self.more {
            let all = self.place.ff(&format!("waitpoints {}", short(self.id)));
            writeln!(out, "  {}", dim(&format!("there are more: {all}")))?;
        }
        Ok(())
    }

    /// What lets it go on.
    fn next(&self, one: &WaitpointSnapshot) -> String {
        let id = short(self.id);
        let at = match self.waitpoints.len() {
            0 | 1 => String::new(),
            _ => format!(" --at {}", clean(&one.waitpoint_key)),
        };
        self.place.ff(&match (&one.approval, one.required_signal_names.as_slice()) {
            (Some(_), _) => format!("approve {id} --as NAME{at}"),
            (None, [name]) if name == NO_SIGNAL => format!("resume {id} --reason TEXT"),
            (None, [name]) => format!("signal {id} {}{at}", clean(name)),
            (None, _) => format!("signal {id} NAME{at}"),
        })
    }
}

/// Who may still decide: `, by ann or bob`, `, by anybody but carl`.
fn who(asked: &ApprovalView) -> String {
    if asked.by.is_empty() {
        let but = asked.not_by.as_deref().map(|who| format!(" but {}", clean(who)));
        return format!(", by anybody{}", but.unwrap_or_default());
    }
    format!(", by {}", left(asked).join(" or "))
}
