//! `ff waitpoints`, `signal`, `approve`, `reject`, `resume` and `keys`, and how others show waits.

use expect_test::expect;

use crate::stage::{Said, Served, Stage, ff, finish, uuid};
use crate::waits::{CALLBACK, DEPLOY, ORDER, REVIEW};

fn full(number: u128) -> String {
    uuid(number).to_string()
}

/// Runs a command on the file; ids that are told are shortened to their ends.
fn run(stage: &Stage, arguments: &[&str]) -> Said {
    let said = stage.ff(arguments);
    let short = |text: &str| text.replace(":01990000-0000-7000-8000-0000", ":…");
    Said { out: short(&said.out), err: short(&said.err), ..said }
}

/// Without the minute that passes while the test runs.
fn steady(said: Said) -> Said {
    Said { out: said.out.replace("1h 30m", "1h 29m").replace("22h 30m", "22h 29m"), ..said }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_waited_for_is_a_table_for_people() {
    let stage = Stage::with_waits().await;
    steady(run(&stage, &["waitpoints", "-o", "table"])).is(&expect![[r#"
        EXECUTION     KEY     STATE    SINCE   UNTIL  WAITS FOR
        000000000001  deploy  active      1h  in 22h  approval, 0 of 2
        000000000002  money   active      1h       -  paid
        000000000002  goods   active      1h       -  any signal
        000000000004  answer  pending     1h  in 22h  nothing yet
    "#]]);
    run(&stage, &["waitpoints", &full(ORDER)]).is(&expect![[r#"
        {fp:71}:…00000002	money	active	<moment>	-	paid
        {fp:71}:…00000002	goods	active	<moment>	-	any signal
    "#]]);
    run(&stage, &["waitpoints", &full(CALLBACK), "-o", "ids"]).is(&expect![[r#"
        01990000-0000-7000-8000-00000000006a
    "#]]);
    run(&stage, &["waitpoints", &full(REVIEW), "-o", "table"]).is(&expect![[r#"
        no waitpoints
    "#]]);
    let first = run(&stage, &["waitpoints", "--limit", "1", "-o", "ids"]);
    let after = first.err.trim().strip_prefix("there are more: --after ").unwrap();
    let second = run(&stage, &["waitpoints", "-o", "ids", "--after", after]);
    assert_eq!(first.out + &second.out, run(&stage, &["waitpoints", "-o", "ids"]).out);
}

#[tokio::test(flavor = "multi_thread")]
async fn suspended_executions_are_listed_and_shown() {
    let stage = Stage::with_waits().await;
    steady(run(&stage, &["ls", "-o", "table", "--state", "suspended"])).is(&expect![[r#"
        ID            STATE      KIND    LANE  AGE    TOOK  TRY  WHY
        000000000002  suspended  order   ops    1h  1h 29m    1  waiting for signal
        000000000001  suspended  deploy  ops    1h  1h 29m    1  waiting for approval, …
    "#]]);
    let lanes = run(&stage, &["lanes", "-o", "table"]).out;
    assert!(lanes.contains("SUSPENDED"), "{lanes}");
    let shown = run(&stage, &["show", &full(DEPLOY)]).out;
    for told in [
        "suspended  deploy",
        "waiting for approval, for another 22h",
        "suspended: waiting for approval",
        "attempt 0     ░░░░░░",
    ] {
        assert!(shown.contains(told), "{told:?} is missing in\n{shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_is_drawn_from_its_question_to_its_answer() {
    let stage = Stage::with_waits().await;
    run(&stage, &["show", &full(REVIEW)]).is(&expect![[r#"
        completed  review  {fp:102}:…00000003

          created   <moment> (1h ago)
          ran       started after 10 ms, ended after 2.06 s
          lane      review, priority 0
          tags      shop.customer=c3

        TIMELINE ───────────────────────────────────────────────────────────────────────
                        0            500 ms       1 s          1.5 s
                        ├────────────┼────────────┼────────────┼─────────────┤
          attempt 0     ████████░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░██████    2.05 s
            draft       ▄▄▄▄▄▄▄▄                                                  300 ms
            publish             ░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░          1.55 s
            publish it                                                  ▄▄▄▄▄▄    200 ms

        ATTEMPTS ───────────────────────────────────────────────────────────────────────
          #  KIND         AT    TOOK  ENDED    WORKER
          0  initial  +10 ms  2.05 s  success  shop-1

        STEPS ──────────────────────────────────────────────────────────────────────────
          #  STEP        TRY       AT    TOOK  RESULT
          0  draft         0  +310 ms  300 ms  "draft done"
          1  publish       0  +310 ms  1.55 s  until +1.86 s
          2  publish       0  +1.86 s    0 ms  approved by ann
          3  publish it    0  +2.06 s  200 ms  "publish it done"

        EVENTS ─────────────────────────────────────────────────────────────────────────
               AT  TRY  WHAT
            +0 ms       created
          +310 ms    0  suspended: waiting for approval
          +1.81 s       signal approved from ann: it goes on
          +2.06 s    0  ended success
    "#]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_says_what_it_led_to() {
    let stage = Stage::with_waits().await;
    let order = full(ORDER);
    run(&stage, &["signal", &order, "paid"]).is(&expect![[r#"
        error: {fp:71}:…00000002 waits for signals at 2 waitpoints
          next: name one with --at: money, goods
        exit 2
    "#]]);
    run(&stage, &["signal", &order, "paid", "--at", "gold"]).is(&expect![[r#"
        error: {fp:71}:…00000002 has no open waitpoint "gold"
          code: waitpoint_not_found
          next: it waits at money, goods: name one with --at
        exit 3
    "#]]);
    run(&stage, &["signal", &order, "refused", "--at", "money"]).is(&expect![[r#"
        sent refused to {fp:71}:…00000002: not waited for
    "#]]);
    let paid =
        ["signal", &order, "paid", "--at", "money", "--key", "k", "--payload", "{\"sum\":7}"];
    run(&stage, &paid).is(&expect![[r#"
        sent paid to {fp:71}:…00000002: recorded, and more is waited for
    "#]]);
    run(&stage, &paid).is(&expect![[r#"
        sent paid to {fp:71}:…00000002: it was sent before, and the first one stands
    "#]]);
    run(&stage, &["signal", &order, "ready", "--at", &full(103), "--as", "depot"]).is(&expect![[
        r#"
        sent ready to {fp:71}:…00000002: it goes on
    "#
    ]]);
    run(&stage, &["signal", &order, "ready", "--at", &full(103)]).is(&expect![[r#"
        error: waitpoint 01990000-0000-7000-8000-000000000067 of {fp:71}:…00000002 is closed
          code: waitpoint_closed
          next: ff waitpoints --url <url> says what is waited for
        exit 4
    "#]]);
    run(&stage, &["signal", &order, "ready"]).is(&expect![[r#"
        error: {fp:71}:…00000002 does not wait for signals
          code: waitpoint_not_found
          next: ff show {fp:71}:…00000002 --url <url>
        exit 3
    "#]]);
    run(&stage, &["signal", &full(CALLBACK), "done"]).is(&expect![[r#"
        sent done to {fp:129}:…00000004: kept until it waits there
    "#]]);
    let said = run(&stage, &["signal", &full(CALLBACK), "done", "-o", "json"]).out;
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["effect"], "buffered_for_pending_waitpoint", "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_that_makes_no_sense_is_refused() {
    let stage = Stage::with_waits().await;
    let callback = full(CALLBACK);
    run(&stage, &["signal", &callback, ""]).is(&expect![[r#"
        error: signal_name must not be empty
          code: invalid_input
          next: Correct the field that the answer names.
        exit 2
    "#]]);
    run(&stage, &["signal", &callback, "done", "--payload", "hello"]).is(&expect![[r#"
        error: the payload is not JSON: expected value at line 1 column 1
          next: quote text twice: --payload '"some text"'; or name a file: --payload @order.json
        exit 2
    "#]]);
    run(&stage, &["signal", &full(99), "done"]).is(&expect![[r#"
        error: there is no execution {fp:192}:…00000063
          code: execution_not_found
          next: ff ls --url <url>
        exit 3
    "#]]);
    run(&stage, &["signal", &callback, "done", "--token", "k:00"]).is(&expect![[r#"
        error: the token is not valid for this waitpoint
          code: invalid_token
          next: Send the token that was handed out with the waitpoint, unchanged.
        exit 2
    "#]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_says_for_what_and_how_it_goes_on() {
    let stage = Stage::with_waits().await;
    let asked = |id| {
        let said = run(&stage, &["show", &full(id)]);
        let (_, asked) = said.out.split_once("\nWAITS FOR").unwrap();
        let asked = asked.split_once("\nTIMELINE").unwrap().0.lines().skip(1);
        Said { out: asked.flat_map(|line| [&line[2..], "\n"]).collect(), ..said }
    };
    asked(DEPLOY).is(&expect![[r#"
        deploy: approval, 0 of 2, by ann or bob
          {
            "service": "shop",
            "version": "2.4.0"
          }
          ff approve 000000000001 --as NAME --url <url>
    "#]]);
    asked(ORDER).is(&expect![[r#"
        money: paid
          ff signal 000000000002 paid --at money --url <url>
        goods: any signal
          ff signal 000000000002 NAME --at goods --url <url>
    "#]]);
    // Nobody holds it, and nobody is waited for.
    run(&stage, &["resume", &full(DEPLOY), "--reason", "it is urgent"]);
    let shown = run(&stage, &["show", &full(DEPLOY)]).out;
    assert!(shown.contains("to go on") && !shown.contains("WAITS FOR"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn people_approve_what_they_are_shown() {
    let stage = Stage::with_waits().await;
    run(&stage, &["signal", &full(DEPLOY), "rejected", "--as", "ann"]).is(&expect![[r#"
        error: whoever decides on {fp:36}:…00000001 is shown what it is about first
          next: ff reject {fp:36}:…00000001 --as ann --url <url>
        exit 4
    "#]]);
    let deploy = full(DEPLOY);
    run(&stage, &["approve", &deploy]).is(&expect![[r#"
        error: nobody is named, and USER in the environment names nobody
          next: say who decides: --as NAME
        exit 2
    "#]]);
    run(&stage, &["approve", &deploy, "--as", "ann", "--comment", "fine"]).is(&expect![[r#"
        approved {fp:36}:…00000001 as ann: recorded, and 1 more is needed
        deploy (2 needed, approved by nobody)
          {
            "service": "shop",
            "version": "2.4.0"
          }
    "#]]);
    run(&stage, &["approve", &deploy, "--as", "ann"]).is(&expect![[r#"
        approved {fp:36}:…00000001 as ann: it was sent before, and the first one stands
        deploy (2 needed, approved by ann)
          {
            "service": "shop",
            "version": "2.4.0"
          }
    "#]]);
    run(&stage, &["approve", &deploy, "--as", "carl"]).is(&expect![[r#"
        deploy (2 needed, approved by ann)
          {
            "service": "shop",
            "version": "2.4.0"
          }
        error: carl may not decide on {fp:36}:…00000001
          next: these may decide: bob
        exit 4
    "#]]);
    assert_eq!(run(&stage, &["approve", &deploy, "--as", "carl"]).code, Some(4));
    run(&stage, &["reject", &deploy, "--as", "ann"]).is(&expect![[r#"
        deploy (2 needed, approved by ann)
          {
            "service": "shop",
            "version": "2.4.0"
          }
        error: what ann says about {fp:36}:…00000001 does not count: the first word stands
          next: these may decide: bob
        exit 4
    "#]]);
    assert_eq!(run(&stage, &["reject", &deploy, "--as", "ann"]).code, Some(4));
    let bob = {
        let mut command = ff();
        command.args(["approve", &deploy, "--yes", "--url", &stage.url()]).env("USER", "bob");
        finish(command, "")
    };
    bob.is(&expect![[r#"
        approved {fp:36}:01990000-0000-7000-8000-000000000001 as bob: it goes on
        deploy (2 needed, approved by ann)
          {
            "service": "shop",
            "version": "2.4.0"
          }
    "#]]);
    run(&stage, &["approve", &deploy, "--as", "bob"]).is(&expect![[r#"
        error: {fp:36}:…00000001 does not wait for a decision
          code: waitpoint_not_found
          next: ff show {fp:36}:…00000001 --url <url>
        exit 3
    "#]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_rejection_decides() {
    let stage = Stage::with_waits().await;
    let said = run(&stage, &["reject", &full(DEPLOY), "--as", "bob"]);
    assert!(said.out.ends_with("as bob: it goes on\n"), "{}", said.out);
    run(&stage, &["reject", &full(ORDER), "--as", "bob"]).is(&expect![[r#"
        error: {fp:71}:…00000002 does not wait for a decision
          code: waitpoint_not_found
          next: it waits for signals at money, goods: ff signal {fp:71}:…00000002 NAME --at KEY --url <url>
        exit 3
    "#]]);
    run(&stage, &["reject", &full(ORDER), "--as", "bob", "--at", "money"]).is(&expect![[r#"
        error: {fp:71}:…00000002 waits for signals at "money", not for a decision
          next: ff signal {fp:71}:…00000002 NAME --at money --url <url>
        exit 4
    "#]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_lets_it_go_on() {
    let stage = Stage::with_waits().await;
    run(&stage, &["resume", &full(ORDER), "--delay", "5m"]).is(&expect![[r#"
        resumed {fp:71}:…00000002 (delayed)
    "#]]);
    run(&stage, &["resume", &full(ORDER)]).is(&expect![[r#"
        error: {fp:71}:…00000002 is runnable, not suspended
          code: execution_not_suspended
          next: ff ls --state suspended --url <url> says what is
        exit 4
    "#]]);
    run(&stage, &["resume", &full(DEPLOY), "--reason", "it is urgent"]).is(&expect![[r#"
        resumed {fp:36}:…00000001 (waiting)
    "#]]);
    let shown = run(&stage, &["show", &full(DEPLOY)]).out;
    assert!(shown.contains("goes on without what it waited for: it is urgent"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_and_links_are_told_when_they_are_asked_for() {
    let stage = Stage::with_waits().await;
    let served = Served::start(&stage, None);
    let callback = full(CALLBACK);
    let told = run(&stage, &["waitpoints", &callback, "--tokens"]).out;
    let token = told.trim_end().rsplit('\t').next().unwrap();
    let there = stage.ff_at(&served.url, &["waitpoints", &callback, "--tokens"], "").out;
    assert_eq!(told, there);
    let at = full(106);
    let said = run(&stage, &["signal", &callback, "done", "--token", token, "--at", &at]);
    assert!(said.out.ends_with("kept until it waits there\n"), "{}{}", said.out, said.err);
    // Who has a token needs nothing else, not even of a server that is closed to others.
    let closed = Served::start(&stage, Some("sesame"));
    stage.write("token", &format!("{token}\n"));
    let send = ["signal", &callback, "done", "--token", "@token", "--at", &at];
    let said = stage.ff_at(&closed.url, &send, "");
    assert!(said.out.ends_with("kept until it waits there\n"), "{}{}", said.out, said.err);
    let said = stage.ff_at(&closed.url, &["signal", &callback, "done", "--at", &at], "");
    assert!(said.err.contains("code: unauthorized"), "{}{}", said.out, said.err);
    run(&stage, &["waitpoints", &full(DEPLOY), "--link", "approved"]).is(&expect![[r#"
        error: a decision counts in somebody's name, and the link would have none
          next: say whose: --as NAME
        exit 2
    "#]]);
    let link = ["waitpoints", &full(DEPLOY), "--link", "approved", "--as", "ann"];
    let here = run(&stage, &link).out;
    assert!(here.starts_with("/v1/signals/"), "{here}");
    for page in [["--limit", "5"], ["--after", "x"]] {
        let said = run(&stage, &[&link[..], &page].concat()).err;
        assert!(said.contains("cannot be used with"), "{said}");
    }
    let there = stage.ff_at(&served.url, &link, "").out;
    assert_eq!(there, format!("<url>{here}"));
    run(&stage, &["waitpoints", "--tokens"]).is(&expect![[r#"
        error: the following required arguments were not provided:
          <EXECUTION>

        Usage: ff waitpoints --tokens --url <URL> <EXECUTION>

        For more information, try '--help'.
        exit 2
    "#]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_listed_and_replaced_without_a_word_of_their_secrets() {
    let stage = Stage::with_waits().await;
    let secret = "5ec2e7".repeat(11);
    let rotate = |kid: &str, held: &str| {
        let mut command = ff();
        command.args(["keys", "rotate", "--kid", kid, "--secret-env", "NEXT"]);
        command.args(["--grace", "1h", "--url", &stage.url()]).env("NEXT", held);
        let said = finish(command, "");
        let all = format!("{}{}", said.out, said.err);
        assert!(!all.contains("5ec2e7"), "{all}");
        said
    };
    run(&stage, &["keys", "-o", "table"]).is(&expect![[r#"
        KEY  SINCE                    UNTIL
        k1   <moment>  signs now
    "#]]);
    rotate("next", &secret).is(&expect![[r#"
        next signs now; what k1 signed is accepted for another 1h
    "#]]);
    rotate("next", &secret).is(&expect![[r#"
        next signed already
    "#]]);
    rotate("next", &secret.replace('5', "6")).is(&expect![[r#"
        error: kid "next" is the current key, with another secret
          code: rotation_conflict
          next: Use a new name for the new key.
        exit 4
    "#]]);
    rotate("next", "").is(&expect![[r#"
        error: NEXT in the environment holds no secret
          next: NEXT=$(openssl rand -hex 32) ff keys rotate …
        exit 2
    "#]]);
    rotate("a:b", &secret).is(&expect![[r#"
        error: kid "a:b" must not hold a colon
          code: invalid_kid
          next: Use a short name, such as the date.
        exit 2
    "#]]);
    rotate("other", "5ec2e").is(&expect![[r#"
        error: secret_hex must be whole bytes in hexadecimal, at least one
          code: invalid_secret_hex
          next: Send 64 random hexadecimal digits.
        exit 2
    "#]]);
    let withdraw = |kid: &str| {
        run(&stage, &["keys", "rotate", "--kid", "last", "--withdraw", kid, "--grace", "0s"])
    };
    withdraw("next").is(&expect![[r#"
        error: withdraw "next" is the current key, which is replaced anyway; give it no grace
          code: invalid_input
          next: Correct the field that the answer names.
        exit 2
    "#]]);
    withdraw("k1").is(&expect![[r#"
        last signs now; what k1 and next signed is no longer accepted
    "#]]);
    let said = run(&stage, &["keys", "rotate", "-o", "json"]).out;
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&said["status"], &said["previous_kid"]), (&"rotated".into(), &"last".into()));
    assert_eq!(run(&stage, &["keys"]).out.lines().count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_says_the_same_of_waits_as_the_file_behind_it() {
    let stage = Stage::with_waits().await;
    let served = Served::start(&stage, None);
    for arguments in [
        &["waitpoints", "-o", "table"][..],
        &["waitpoints", "-o", "json"],
        &["waitpoints", &full(REVIEW)],
        &["ls", "--state", "suspended", "-o", "ids"],
        &["show", &full(REVIEW)],
        &["signal", &full(ORDER), "paid"],
        &["signal", &full(ORDER), "refused", "--at", "money"],
        &["signal", &full(CALLBACK), ""],
        &["approve", &full(DEPLOY), "--as", "carl"],
        &["approve", &full(REVIEW), "--as", "ann"],
        &["resume", &full(REVIEW)],
        &["keys"],
    ] {
        let (here, there) = (stage.ff(arguments), stage.ff_at(&served.url, arguments, ""));
        assert_eq!(here.out, there.out, "{arguments:?}");
        assert_eq!((here.err, here.code), (there.err, there.code), "{arguments:?}");
    }
    let deploy = full(DEPLOY);
    let said = stage.ff_at(&served.url, &["approve", &deploy, "--as", "ann"], "");
    assert!(said.out.ends_with("as ann: recorded, and 1 more is needed\n"), "{}", said.out);
    let said = stage.ff_at(&served.url, &["approve", &deploy, "--as", "bob"], "");
    assert!(said.out.ends_with("as bob: it goes on\n"), "{}", said.out);
    let said = stage.ff_at(&served.url, &["resume", &full(ORDER)], "");
    assert!(said.out.ends_with("(waiting)\n"), "{}{}", said.out, said.err);
}
