//! Lists, lanes, results and settings.

use expect_test::expect;

use crate::stage::{Said, Served, Stage, ff, finish, uuid};

#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_a_table_for_people() {
    let stage = Stage::new().await;
    stage.ff(&["ls", "-o", "table"]).is(&expect![[r#"
        ID            STATE      KIND    LANE    AGE    TOOK  TRY  WHY
        000000000005  waiting    greet   mail     1h       -    0
        000000000004  cancelled  greet   mail     1h       -    0  the customer left
        000000000003  failed     broken  orders   1h    5 ms    1  no route �[31mto host
        000000000002  completed  flaky   orders   1h  1.21 s    2
        000000000001  completed  order   orders   1h  2.31 s    1
    "#]]);
    stage.ff(&["ls", "-o", "table", "--limit", "2", "--lane", "mail"]).is(&expect![[r#"
        ID            STATE      KIND   LANE  AGE  TOOK  TRY  WHY
        000000000005  waiting    greet  mail   1h     -    0
        000000000004  cancelled  greet  mail   1h     -    0  the customer left
    "#]]);
    stage.ff(&["ls", "-o", "table", "--state", "expired"]).is(&expect![[r#"
        no executions
    "#]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_lines_with_tabs_for_scripts() {
    let stage = Stage::new().await;
    stage.ff(&["ls"]).is(&expect![[r#"
        {fp:160}:01990000-0000-7000-8000-000000000005	waiting	greet	mail	<moment>
        {fp:129}:01990000-0000-7000-8000-000000000004	cancelled	greet	mail	<moment>	the customer left
        {fp:102}:01990000-0000-7000-8000-000000000003	failed	broken	orders	<moment>	no route �[31mto host
        {fp:71}:01990000-0000-7000-8000-000000000002	completed	flaky	orders	<moment>
        {fp:36}:01990000-0000-7000-8000-000000000001	completed	order	orders	<moment>
    "#]]);
    stage.ff(&["ls", "--tag", "shop.customer=c3", "-o", "ids"]).is(&expect![[r#"
        {fp:102}:01990000-0000-7000-8000-000000000003
    "#]]);
    stage.ff(&["ls", "--kind", "nothing"]).is(&expect![[""]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_goes_on_where_the_page_before_ended() {
    let stage = Stage::new().await;
    let first = stage.ff(&["ls", "--limit", "3", "-o", "ids"]);
    let after = first.err.trim().strip_prefix("there are more: --after ").unwrap();
    let second = stage.ff(&["ls", "--limit", "3", "-o", "ids", "--after", after]);
    let all = stage.ff(&["ls", "-o", "ids"]);
    assert_eq!(first.out + &second.out, all.out);
    assert_eq!(second.err, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_says_the_same_as_the_file_behind_it() {
    let stage = Stage::new().await;
    let served = Served::start(&stage, None);
    for arguments in [
        &["ls", "-o", "table"][..],
        &["ls"],
        &["ls", "-o", "json"],
        &["show", "-o", "json", &uuid(2).to_string()],
        &["show", &uuid(1).to_string()],
        &["lanes"],
        &["result", &uuid(1).to_string()],
        &["result", &uuid(3).to_string()],
        &["replay", &uuid(5).to_string()],
        &["show", &uuid(9).to_string()],
        &["create", "x", "--tag", "nodot=1"],
    ] {
        let (here, there) = (stage.ff(arguments), stage.ff_at(&served.url, arguments, ""));
        // Nobody waits longer because of who looks.
        let plain = |text: &str| match arguments[0] {
            "lanes" => text.replace(|c: char| c.is_ascii_digit(), "9"),
            _ => text.to_owned(),
        };
        assert_eq!(plain(&here.out), plain(&there.out), "{arguments:?}");
        assert_eq!((here.err, here.code), (there.err, there.code), "{arguments:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lanes_say_how_much_waits_and_what_became_of_the_rest() {
    let stage = Stage::new().await;
    stage.ff(&["lanes", "-o", "ids"]).is(&expect![[r#"
        mail
        orders
    "#]]);
    // Its minutes pass while the test runs.
    let steady = |said: Said| Said { out: said.out.replace("1h 30m", "1h 29m"), ..said };
    steady(stage.ff(&["lanes", "-o", "table"])).is(&expect![[r#"
        LANE    READY  OLDEST  WAITING  COMPLETED  FAILED  CANCELLED
        mail        1  1h 29m        1          0       0          1
        orders      0       -        0          2       1          0
    "#]]);
    steady(stage.ff(&["lanes"])).is(&expect![[r#"
        mail	1	1h 29m	1	0	0	0	0	0	0	1	0	0
        orders	0	-	0	0	0	0	0	2	1	0	0	0
    "#]]);
    let said = stage.ff(&["lanes", "-o", "json"]).out;
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["lanes"][0]["waiting"], 1);
    let failed = serde_json::json!({"lane_id": "orders", "state": "failed", "count": 1});
    assert!(said["counts"].as_array().unwrap().contains(&failed), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_is_printed_and_nothing_else() {
    let stage = Stage::new().await;
    stage.ff(&["result", &uuid(1).to_string()]).is(&expect![[r#"
        {"tracking":"FF17"}
    "#]]);
    stage.ff(&["result", "--wait", &uuid(2).to_string()]).is(&expect![[r#"
        null
    "#]]);
}

#[test]
fn settings_are_told_with_where_they_come_from_and_without_secrets() {
    finish(configured(&[]), "").is(&expect![[r#"
        SETTING          VALUE                  FROM
        url              http://127.0.0.1:7100  default
        token            not set                default
        log              warn                   default
        payload          1 MiB                  built in
        retention        1d                     built in
        idempotency key  1d                     built in
        request body     8 MiB                  built in
        request timeout  30 s                   built in
        drain timeout    10 s                   built in
        batch            1000 items             built in
        page             1000 rows              built in
        steps            10000                  built in
    "#]]);
    let url = "postgres://ada:secret@db/shop";
    let said = finish(configured(&[("FF_URL", url), ("FF_TOKEN", "s3cret")]), "");
    assert!(!said.out.contains("secret") && !said.out.contains("s3cret"), "{}", said.out);
    let told: Vec<&str> = said.out.lines().take(4).chain([""]).collect();
    expect![[r#"
        SETTING          VALUE                       FROM
        url              postgres://ada:***@db/shop  FF_URL
        token            set                         FF_TOKEN
        log              warn                        default
    "#]]
    .assert_eq(&told.join("\n"));
}

fn configured(environment: &[(&str, &str)]) -> std::process::Command {
    let mut command = ff();
    command.args(["config", "-o", "table"]).envs(environment.iter().copied());
    command
}

#[test]
fn help_names_the_commands_and_the_exit_codes() {
    let mut command = ff();
    command.arg("help");
    finish(command, "").is(&expect![[r#"
        Durable execution on the database you already have

        Usage: ff [OPTIONS] <COMMAND>

        Commands:
          serve       Serve a database over HTTP, with a page to watch it
          create      Create an execution
          ls          List executions, newest first
          show        Show all about an execution: its timeline, attempts, steps and events
          result      Print the result of an execution, and nothing else
          cancel      Cancel an execution, whatever it is doing
          replay      Have an execution that has ended run again
          revoke      Take a running execution away from its worker, for another to go on with
          hold        Keep a waiting execution from being claimed
          unhold      Let a held execution be claimed again
          waitpoints  Say what executions wait for: signals, people and callbacks
          signal      Send a signal to an execution that waits for one
          approve     Approve what an execution asks, and let it go on once enough people have
          reject      Reject what an execution asks, and let it go on with that
          resume      Let a suspended execution go on, whatever it waits for
          keys        List the keys that sign tokens and links, or sign with another one
          priority    Change how urgent a waiting execution is
          tag         Set and remove tags of an execution
          flow        Submit, list, show, cancel and seal flows: graphs of executions
          lanes       Say how much waits in each lane, and how many executions are in which state
          consumers   List who follows the feed with a place that is kept, or forget one
          config      Say which settings apply, and where they come from
          migrate     Bring the schema of a database up to date, or say what is missing
          dev         Start a server with a worker and some work, to try things out
          demo        Run a show of real work, a killed worker process included, and print what happened
          help        Print this message or the help of the given subcommand(s)

        Options:
              --url <URL>  A database or a server [env: FF_URL] [default: http://127.0.0.1:7100]
          -h, --help       Print help
          -V, --version    Print version

        Where FlowFabric is:
          --url, or FF_URL in the environment, names a SQLite file (sqlite:fabric.db), a PostgreSQL schema
          (postgres://user:password@host/database?schema=name) or a server (http://host:port). Without
          either it is the server at http://127.0.0.1:7100. FF_TOKEN holds the token of a server.
          dev and demo use a new database, which is gone when they end, unless one is named.

        Exit codes:
          0  done
          1  failed
          2  the command line or a value in it is wrong
          3  there is no such thing
          4  refused: its state does not allow it, or it clashes with something else;
             or a decision that does not count (approve, reject)
          5  the database or server cannot be reached or is busy; the same command may succeed later
          6  the execution or flow did not succeed (result, create --wait, flow submit --wait)

        Tables and colours are for terminals (NO_COLOR turns colours off); elsewhere lists are lines of
        fields with tabs between them. FF_LOG=debug tells more on standard error.
    "#]]);
}
