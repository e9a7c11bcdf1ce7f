//! Conversations in the documentation of the protocol: they are held as they are written.
//!
//! An answer must have every field that is shown, with the value that is shown; what is left out is
//! not looked at. A value like `$FLOW` stands for what was answered where it is first seen.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::Value;

use crate::site::{Answer, Site};

const DOCUMENT: &str = include_str!("../../../../docs/protocol.md");

/// What stands for what.
#[derive(Default)]
struct Names(BTreeMap<String, String>);

impl Names {
    /// A text with every name replaced.
    fn fill(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    }

    /// Fails unless everything shown was answered; learns names on the way.
    fn compare(&mut self, shown: &Value, sent: &Value, place: &str) {
        match (shown, sent) {
            (Value::Object(shown), Value::Object(sent)) => {
                for (field, shown) in shown {
                    let sent = sent.get(field).unwrap_or_else(|| panic!("{place}: no {field}"));
                    self.compare(shown, sent, &format!("{place}.{field}"));
                }
            }
            (Value::Array(shown), Value::Array(sent)) => {
                assert_eq!(shown.len(), sent.len(), "{place}");
                for (shown, sent) in shown.iter().zip(sent) {
                    self.compare(shown, sent, place);
                }
            }
            (Value::String(name), Value::String(sent)) if name.starts_with('$') => {
                let known = self.0.entry(name.clone()).or_insert_with(|| sent.clone());
                assert_eq!(known, sent, "{place}: {name}");
            }
            (shown, sent) => assert_eq!(shown, sent, "{place}"),
        }
    }
}

/// The blocks of a section, each a request or an answer.
fn blocks(section: &str) -> Vec<String> {
    let (_, section) = DOCUMENT.split_once(&format!("\n## {section}")).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let opened = section.split("```http\n").skip(1);
    opened.map(|block| block.split("```").next().unwrap().to_owned()).collect()
}

/// Sends a request as it is written: a line, headers, and a body after an empty line.
async fn send(site: &Site, block: &str) -> Answer {
    let (head, body) = block.split_once("\n\n").unwrap_or((block.trim_end(), ""));
    let mut lines = head.lines();
    let (method, path) = lines.next().unwrap().split_once(' ').unwrap();
    let mut request = site.request(method.parse::<Method>().unwrap(), path);
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        request = request.header(name, value);
    }
    if !body.is_empty() {
        request = request.header("content-type", "application/json").body(body.to_owned());
    }
    site.ask(request).await
}

/// Holds the conversation of a section.
async fn hold(section: &str) {
    let site = Site::open().await;
    let mut names = Names::default();
    let (mut asked, mut answered) = (String::new(), None);
    let mut compared = 0;
    for block in blocks(section) {
        if let Some((status, shown)) = block.split_once('\n')
            && let Ok(status) = status.parse::<u16>()
        {
            let answer: Answer = answered.take().unwrap();
            assert_eq!(answer.status, status, "{asked}: {answer:?}");
            let shown = serde_json::from_str(shown).unwrap_or_else(|e| panic!("{shown}: {e}"));
            names.compare(&shown, &answer.body, &asked);
            compared += 1;
            continue;
        }
        // What a server does by itself while nobody asks.
        site.dispatch().await;
        block.lines().next().unwrap().clone_into(&mut asked);
        answered = Some(send(&site, &names.fill(&block)).await);
    }
    assert!(compared >= 8, "{compared} answers are shown");
}

#[tokio::test]
async fn the_conversation_about_flows_is_held_as_it_is_written() {
    hold("Flows").await;
}

#[tokio::test]
async fn the_conversation_about_waits_is_held_as_it_is_written() {
    hold("Waits").await;
}
