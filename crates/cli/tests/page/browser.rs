//! A browser with one tab, spoken to in the protocol of its developer tools.
//!
//! What the page did that nobody asked it for, such as exceptions and refused content, is kept as
//! faults, and every request with its address.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// How long the page may take for anything.
const DEADLINE: Duration = Duration::from_mins(1);
const LOOK_EVERY: Duration = Duration::from_millis(25);
/// How long the browser may take to leave.
const LEAVE: Duration = Duration::from_secs(5);
/// Messages that wait to be read.
const MESSAGES_MAX: usize = 1_000;

/// The browser, ended with the test.
pub struct Browser {
    process: Child,
    to: Option<ChildStdin>,
    from: Receiver<Value>,
    calls: u64,
    session: Option<String>,
    faults: Vec<String>,
    requests: Vec<String>,
    _directory: TempDir,
}

impl Browser {
    /// Starts it with an empty tab as wide as a desk.
    pub fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let log = std::fs::File::create(directory.path().join("log")).unwrap();
        let mut command = ff_cluster::browser(directory.path()).unwrap_or_else(|e| panic!("{e}"));
        let mut process = command.stderr(Stdio::from(log)).spawn().unwrap();
        let (say, from) = sync_channel(MESSAGES_MAX);
        let said = BufReader::new(process.stdout.take().unwrap());
        thread::spawn(move || {
            let messages = said.split(0).map_while(Result::ok);
            messages
                .map_while(|text| serde_json::from_slice(&text).ok())
                .try_for_each(|m| say.send(m))
        });
        let mut browser = Self {
            to: process.stdin.take(),
            process,
            from,
            calls: 0,
            session: None,
            faults: Vec::new(),
            requests: Vec::new(),
            _directory: directory,
        };
        browser.attach();
        browser.width(1280);
        browser
    }

    fn attach(&mut self) {
        let targets = self.call("Target.getTargets", json!({}));
        let tab = targets["targetInfos"].as_array().unwrap().iter().find(|t| t["type"] == "page");
        let target = json!({"targetId": tab.expect("a tab")["targetId"], "flatten": true});
        let attached = self.call("Target.attachToTarget", target);
        self.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Log", "Network"] {
            self.call(&format!("{domain}.enable"), json!({}));
        }
    }

    /// Asks the browser for something and waits for its answer.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.calls += 1;
        let mut message = json!({"id": self.calls, "method": method});
        message["params"] = params;
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let to = self.to.as_mut().expect("it is open until the browser is dropped");
        to.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let mut heard = self.from.recv_timeout(DEADLINE).unwrap_or_else(|error| {
                panic!("the browser does not answer {method}: {error}");
            });
            if heard["id"] == self.calls {
                assert!(heard["error"].is_null(), "{method}: {}", heard["error"]);
                return heard["result"].take();
            }
            self.note(&heard);
        }
    }

    fn note(&mut self, heard: &Value) {
        let said = &heard["params"];
        match heard["method"].as_str().unwrap_or_default() {
            "Runtime.exceptionThrown" => self.faults.push(said["exceptionDetails"].to_string()),
            "Log.entryAdded" if said["entry"]["level"] == "error" => {
                self.faults.push(said["entry"].to_string());
            }
            "Runtime.consoleAPICalled" if said["type"] == "error" => {
                self.faults.push(said["args"].to_string());
            }
            "Network.requestWillBeSent" => {
                self.requests.push(said["request"]["url"].as_str().unwrap().to_owned());
            }
            // Of the many other things it tells, none is asked about.
            _ => {}
        }
    }

    /// Leads the tab to an address, from anywhere.
    pub fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({"url": "about:blank"}));
        let gone = self.call("Page.navigate", json!({"url": url}));
        assert!(gone["errorText"].is_null(), "{url}: {}", gone["errorText"]);
    }

    /// The value of an expression, or why it has none.
    fn value(&mut self, expression: &str) -> Result<Value, String> {
        let ask = json!({"expression": expression, "returnByValue": true});
        let mut answer = self.call("Runtime.evaluate", ask);
        match &answer["exceptionDetails"] {
            Value::Null => Ok(answer["result"]["value"].take()),
            thrown => Err(thrown["exception"]["description"].to_string()),
        }
    }

    /// The value of an expression on the page.
    pub fn get(&mut self, expression: &str) -> Value {
        self.value(expression).unwrap_or_else(|error| panic!("{expression}: {error}"))
    }

    /// Waits until an expression is true.
    pub fn until(&mut self, condition: &str) {
        let begun = Instant::now();
        loop {
            let seen = self.value(&format!("Boolean({condition})"));
            if seen == Ok(Value::Bool(true)) {
                return;
            }
            if begun.elapsed() > DEADLINE {
                let shown = self.get("`${location}\n${document.body.innerText}`");
                let shown = shown.as_str().unwrap_or_default();
                panic!(
                    "not within {DEADLINE:?}: {condition}\n{seen:?}\n{:?}\n{shown}",
                    self.faults
                );
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Clicks on what a selector finds first, with the mouse, once it is there.
    pub fn click(&mut self, selector: &str) {
        let quoted = json!(selector);
        self.until(&format!("document.querySelector({quoted})"));
        let place = self.get(&format!(
            "(() => {{ const node = document.querySelector({quoted});
               node.scrollIntoView({{ block: 'nearest' }});
               const {{ left, top, width, height }} = node.getBoundingClientRect();
               return {{ x: left + width / 2, y: top + height / 2 }}; }})()"
        ));
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({"type": kind, "button": "left", "clickCount": 1,
                               "x": place["x"], "y": place["y"]});
            self.call("Input.dispatchMouseEvent", event);
        }
    }

    /// Types a text where the focus is, and Enter.
    pub fn enter(&mut self, text: &str) {
        self.call("Input.insertText", json!({"text": text}));
        for kind in ["keyDown", "keyUp"] {
            let key =
                json!({"type": kind, "key": "Enter", "text": "\r", "windowsVirtualKeyCode": 13});
            self.call("Input.dispatchKeyEvent", key);
        }
    }

    /// Makes the window so many pixels wide.
    pub fn width(&mut self, pixels: u32) {
        let size = json!({"width": pixels, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// What the page did wrong so far.
    pub fn faults(&mut self) -> &[String] {
        // Its answer comes after all that happened before.
        self.get("0");
        &self.faults
    }

    /// Where it has sent requests so far.
    pub fn requests(&self) -> &[String] {
        &self.requests
    }

    /// That the page did nothing wrong, and asked nobody but the server at `origin`.
    pub fn is_clean(&mut self, origin: &str) {
        assert!(self.faults().is_empty(), "{:#?}", self.faults);
        let elsewhere = |url: &&String| !url.starts_with(&format!("{origin}/"));
        let left: Vec<_> = self.requests().iter().filter(elsewhere).collect();
        assert!(left.is_empty(), "{left:?}");
        assert!(!self.requests().is_empty());
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // With nobody to talk to it leaves, and its files stay as they are.
        drop(self.to.take());
        let begun = Instant::now();
        while begun.elapsed() < LEAVE && matches!(self.process.try_wait(), Ok(None)) {
            thread::sleep(LOOK_EVERY);
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
