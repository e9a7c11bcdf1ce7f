//! `ff show`: pages about executions.

use expect_test::{expect, expect_file};

use crate::stage::{Stage, ff, finish, uuid};

#[tokio::test(flavor = "multi_thread")]
async fn steps_and_sleeps_are_drawn_to_scale() {
    let stage = Stage::new().await;
    stage.ff(&["show", &uuid(1).to_string()]).is(&expect![[r#"
        completed  order  {fp:36}:01990000-0000-7000-8000-000000000001

          created   <moment> (1h ago)
          ran       started after 50 ms, ended after 2.36 s
          lane      orders, priority 0
          tags      shop.customer=c1
          result    {"tracking":"FF17"}

        TIMELINE ───────────────────────────────────────────────────────────────────────
                             0         500 ms    1 s        1.5 s     2 s
                             ├─────────┼─────────┼──────────┼─────────┼──────┤
          attempt 0          ·█████████░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░████████    2.31 s
            validate          ▄                                                    60 ms
            charge the card    ▄▄▄▄▄▄▄▄                                           400 ms
            sleep                      ░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░            1.50 s
            ship                                                       ▄▄▄▄▄▄▄    300 ms

        ATTEMPTS ───────────────────────────────────────────────────────────────────────
          #  KIND         AT    TOOK  ENDED    WORKER
          0  initial  +50 ms  2.31 s  success  shop-1

        STEPS ──────────────────────────────────────────────────────────────────────────
          #  STEP             TRY       AT    TOOK  RESULT
          0  validate           0  +110 ms   60 ms  "validate done"
          1  charge the card    0  +510 ms  400 ms  "charge the card done"
          2  sleep              0  +510 ms  1.50 s  until +2.01 s
          3  random             0  +2.06 s    0 ms  17
          4  ship               0  +2.36 s  300 ms  "ship done"

        EVENTS ─────────────────────────────────────────────────────────────────────────
               AT  TRY  WHAT
            +0 ms       created
          +2.36 s    0  ended success
    "#]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wider_terminal_shows_more() {
    let stage = Stage::new().await;
    let mut command = ff();
    let id = uuid(2).to_string();
    command.args(["show", &id, "--url", &stage.url()]).env("COLUMNS", "120");
    let said = finish(command, "");
    let undated =
        said.out.lines().filter(|line| !line.contains("created ")).chain([""]).collect::<Vec<_>>();
    expect_file!["snapshots/show-120.txt"].assert_eq(&undated.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_wrote_plays_no_tricks_on_the_terminal() {
    let stage = Stage::new().await;
    let said = stage.ff(&["show", &uuid(3).to_string()]);
    assert!(!said.out.contains('\u{1b}'), "{:?}", said.out);
    said.is(&expect![[r#"
        failed  broken  {fp:102}:01990000-0000-7000-8000-000000000003

          created   <moment> (1h ago)
          ran       started after 10 ms, ended after 15 ms
          lane      orders, priority 0
          why       no route �[31mto host (network)
          tags      shop.customer=c3

        TIMELINE ───────────────────────────────────────────────────────────────────────
                       0                 5 ms              10 ms
                       ├─────────────────┼─────────────────┼─────────────────┤
          attempt 0    ····································███████████████████      5 ms

        ATTEMPTS ───────────────────────────────────────────────────────────────────────
          #  KIND         AT  TOOK  ENDED    WORKER
          0  initial  +10 ms  5 ms  failure  shop-1

        EVENTS ─────────────────────────────────────────────────────────────────────────
              AT  TRY  WHAT
           +0 ms       created
          +15 ms    0  ended failed: no route �[31mto host
    "#]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_never_attempted_is_shown_as_well() {
    let stage = Stage::new().await;
    stage.ff(&["show", &uuid(4).to_string()]).is(&expect![[r#"
        cancelled  greet  {fp:129}:01990000-0000-7000-8000-000000000004

          created   <moment> (1h ago)
          ended     after 10 ms
          lane      mail, priority 0
          why       the customer left (by operator)
          tags      shop.customer=c4

        TIMELINE ───────────────────────────────────────────────────────────────────────
                       0          2 ms       4 ms       6 ms       8 ms
                       ├──────────┼──────────┼──────────┼──────────┼─────────┤
          cancelled    ·······················································     10 ms

        EVENTS ─────────────────────────────────────────────────────────────────────────
              AT  TRY  WHAT
           +0 ms       created
          +10 ms       ended cancelled: the customer left
    "#]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn colours_are_for_those_who_want_them() {
    let stage = Stage::new().await;
    let run = |variable: &str| {
        let mut command = ff();
        command.args(["ls", "-o", "table", "--url", &stage.url()]).env(variable, "1");
        finish(command, "").out
    };
    assert!(run("CLICOLOR_FORCE").contains("\u{1b}[32mcompleted"));
    assert!(!run("NO_COLOR").contains('\u{1b}'));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_execution_is_found_by_the_end_of_its_id() {
    let stage = Stage::new().await;
    stage.ff(&["show", "-o", "ids", "00000003"]).is(&expect![[r#"
        {fp:102}:01990000-0000-7000-8000-000000000003
    "#]]);
    stage.ff(&["show", "01990000"]).is(&expect![[r#"
        error: 5 executions have an id with "01990000"
          next: give more of one: 000000000005, 000000000004, 000000000003, 000000000002, 000000000001
        exit 2
    "#]]);
    stage.ff(&["show", "abcd"]).is(&expect![[r#"
        error: none of the newest 1000 executions has an id with "abcd"
          next: give the full id of an older one; ff ls --url <url> lists them
        exit 3
    "#]]);
    stage.ff(&["show", "what?"]).is(&expect![[r#"
        error: "what?" is not the id of an execution
          next: give its id, its UUID, or the first or last 4 or more digits
        exit 2
    "#]]);
}
