//! `ff dev`: a server, a worker and some work in one command.
#![allow(clippy::unwrap_used, missing_docs)]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Output, Stdio};

/// A running `ff dev`, killed when the test is over.
struct Dev {
    process: Child,
    said: BufReader<std::process::ChildStdout>,
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn one_command_serves_a_page_works_and_leaves_in_order() {
    let (mut dev, url) = start();
    let result = ff(&url, &["create", "greet", "--input", "\"Ada\"", "--wait"]);
    assert_eq!(text(&result.stdout), "\"hello, Ada\"\n");
    let order = r#"{"customer":"ada","items":{}}"#;
    let result = ff(&url, &["create", "order", "--input", order, "--wait"]);
    assert!(text(&result.stderr).contains("the order has no items"), "{result:?}");
    assert_eq!(result.status.code(), Some(6));
    let listed = ff(&url, &["ls", "-o", "ids"]);
    assert_eq!(text(&listed.stdout).lines().count(), 16, "{listed:?}");
    let keys = ff(&url, &["keys", "-o", "ids"]);
    assert_eq!(text(&keys.stdout), "own\n", "what it signs with is in its environment");
    let (id, link) = asked(&mut dev);
    let offered = ff(&url, &["waitpoints", &id, "-o", "table"]);
    assert!(text(&offered.stdout).contains("approval, 0 of 1"), "{offered:?}");
    assert!(link.starts_with(&format!("{url}/v1/signals/")), "{link}");
    let approved = ff(&url, &["approve", &id, "--as", "ann"]);
    assert!(text(&approved.stdout).ends_with("as ann: it goes on\n"), "{approved:?}");
    let result = ff(&url, &["result", "--wait", &id]);
    assert!(text(&result.stdout).contains("approved by ann"), "{result:?}");
    let stop = Command::new("kill").arg(dev.process.id().to_string()).status().unwrap();
    assert!(stop.success());
    assert!(dev.process.wait().unwrap().success(), "told to stop, it stops in order");
    let mut rest = String::new();
    dev.said.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("Ctrl-C"), "{rest}");
}

/// Reads what it says up to the decision that is waited for: of which execution, and a link.
fn asked(dev: &mut Dev) -> (String, String) {
    let (mut all, mut id) = (String::new(), String::new());
    loop {
        let from = all.len();
        assert!(dev.said.read_line(&mut all).unwrap() > 0, "no decision is waited for: {all}");
        let line = all[from..].trim();
        if let Some((_, named)) = line.split_once(" approve ") {
            named.split(' ').next().unwrap().clone_into(&mut id);
        }
        if line.contains("/v1/signals/") {
            let path = line.to_owned();
            for told in ["8 executions were created", "show ", "flow show ", "create order", "/#/"]
            {
                assert!(all.contains(told), "{told:?} is missing in {all}");
            }
            return (id, path);
        }
    }
}

/// Starts it, and says where it is.
fn start() -> (Dev, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ff"));
    command.arg("dev").env_remove("FF_URL").env_remove("FF_TOKEN").stdout(Stdio::piped());
    command.env("FLOWFABRIC_SIGNING_KEY", format!("own:{}", "5a".repeat(32)));
    let mut process = command.spawn().unwrap();
    let said = BufReader::new(process.stdout.take().unwrap());
    let mut dev = Dev { process, said };
    let mut line = String::new();
    while dev.said.read_line(&mut line).unwrap() > 0 {
        if let Some((_, url)) = line.trim_end().split_once("page   ") {
            return (dev, url.trim_end_matches('/').to_owned());
        }
        line.clear();
    }
    panic!("no page was named");
}

fn ff(url: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ff"));
    command.args(arguments).args(["--url", url]).env_remove("FF_TOKEN").output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
