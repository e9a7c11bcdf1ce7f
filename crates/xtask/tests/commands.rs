//! `cargo xtask` as a contributor meets it.

#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

fn xtask(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask")).args(args).output().unwrap()
}

#[test]
fn without_arguments_it_lists_its_commands() {
    let output = xtask(&[]);
    assert!(output.status.success());
    let listed = String::from_utf8(output.stdout).unwrap();
    for command in ["check", "test", "quick", "generate", "bench", "dev"] {
        let line = format!("\n  {command} ");
        assert!(listed.contains(&line), "{command} is not listed in:\n{listed}");
    }
}

#[test]
fn an_unknown_command_fails_and_is_named() {
    let output = xtask(&["nonsense"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().starts_with("no such command: nonsense\n"));
}
