//! `ff keys`: the keys that sign tokens and links. No secret is ever printed.

use std::time::Duration;

use clap::{Args, Subcommand};
use ff_core::Millis;
use ff_core::decide::keys::{RotateKey, SecretHex};
use ff_wire::signing_key::{RotateAnswer, SigningKeyLine};

use crate::failure::{Exit, Failure};
use crate::output::{self, Format, Output, clean};
use crate::place::Place;
use crate::span;
use crate::steer::say;
use crate::table::{self, Column, left};

const COLUMNS: &[Column; 3] = &[left("KEY"), left("SINCE"), left("UNTIL")];
/// A secret that is made here.
const SECRET_BYTES: usize = 32;

/// List the keys that sign tokens and links, or sign with another one.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Keys {
    #[command(flatten)]
    output: Output,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Sign with another key from now on
    Rotate(Rotate),
}

/// Sign with another key.
#[derive(Args)]
struct Rotate {
    /// Its name; not one that was used before [default: the moment]
    #[arg(long)]
    kid: Option<String>,
    /// How long tokens and links of the key before it are still accepted
    #[arg(long, value_parser = span::parse, value_name = "TIME", default_value = "24h")]
    grace: Duration,
    /// An earlier key whose tokens and links are refused from now on; may be given several times
    #[arg(long, value_name = "KEY")]
    withdraw: Vec<String>,
    /// The variable of the environment that holds its secret, in hexadecimal [default: a new one]
    #[arg(long, value_name = "VARIABLE")]
    secret_env: Option<String>,
    #[command(flatten)]
    output: Output,
}

impl Keys {
    /// Lists them, or has another one sign.
    pub async fn run(self, place: &Place) -> anyhow::Result<()> {
        if let Some(Command::Rotate(rotate)) = self.command {
            return rotate.run(place).await;
        }
        let client = place.client().await?;
        let keys = client.fabric().signing_keys().await?;
        let row = |key: &SigningKeyLine| {
            let until = key.expires_at.map_or_else(|| "signs now".to_owned(), span::moment);
            [clean(&key.kid), span::moment(key.created_at), until]
        };
        table::list(self.output, &keys, (COLUMNS, "no keys"), keys.keys.iter().map(row))
    }
}

impl Rotate {
    async fn run(self, place: &Place) -> anyhow::Result<()> {
        let secret = self.secret()?;
        let client = place.client().await?;
        let kid = match self.kid {
            Some(kid) => kid,
            None => name_of(client.fabric().now().await?),
        };
        let grace_ms = u64::try_from(self.grace.as_millis()).unwrap_or(u64::MAX);
        let (secret_hex, withdraw) = (SecretHex(secret), self.withdraw);
        let refused: Vec<_> = withdraw.iter().map(|kid| clean(kid)).collect();
        let rotate = RotateKey { kid, secret_hex, grace_ms, withdraw };
        let answer = client.fabric().rotate_signing_key(rotate).await?;
        match (self.output.output, answer) {
            (Some(Format::Json), answer) => output::json(&answer),
            (
                Some(Format::Ids),
                RotateAnswer::Rotated { new_kid: kid, .. } | RotateAnswer::Noop { kid },
            ) => say(kid),
            (Some(Format::Table) | None, RotateAnswer::Noop { kid }) => {
                say(format_args!("{kid} signed already"))
            }
            (
                Some(Format::Table) | None,
                RotateAnswer::Rotated { previous_kid, new_kid, gc_count },
            ) => {
                let mut refused = refused;
                let before = previous_kid.and_then(|kid| {
                    if grace_ms == 0 {
                        refused.push(kid);
                        return None;
                    }
                    let grace = span::length(grace_ms);
                    Some(format!("; what {kid} signed is accepted for another {grace}"))
                });
                let refused = match refused.join(" and ") {
                    kids if kids.is_empty() => kids,
                    kids => format!("; what {kids} signed is no longer accepted"),
                };
                let gone = match gc_count {
                    0 => String::new(),
                    1 => "; 1 older key is gone".to_owned(),
                    more => format!("; {more} older keys are gone"),
                };
                let before = before.unwrap_or_default();
                say(format_args!("{new_kid} signs now{before}{refused}{gone}"))
            }
        }
    }

    /// The secret that the environment holds, or a new one.
    fn secret(&self) -> anyhow::Result<String> {
        let Some(variable) = &self.secret_env else {
            return Ok(hex(&rand::random::<[u8; SECRET_BYTES]>()));
        };
        let held = std::env::var(variable).ok().filter(|held| !held.is_empty());
        held.ok_or_else(|| {
            let said = format!("{variable} in the environment holds no secret");
            let next = format!("{variable}=$(openssl rand -hex {SECRET_BYTES}) ff keys rotate …");
            Failure::new(Exit::Usage, said).next(next).into()
        })
    }
}

/// A name that no other moment has: `2026-11-16-190854-317`.
fn name_of(now: Millis) -> String {
    let moment = span::moment(now);
    let moment = moment.trim_end_matches(" UTC").replace(' ', "-").replace(':', "");
    format!("{moment}-{:03}", now.0.rem_euclid(1_000))
}

fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(u32::from(digit), 16)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_written_digit_by_digit_and_a_name_holds_no_colon() {
        assert_eq!(hex(&[0, 1, 0x9f, 0xff]), "00019fff");
        assert_eq!(name_of(Millis(1_798_761_599_999)), "2026-12-31-235959-999");
    }
}
