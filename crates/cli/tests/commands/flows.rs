//! `ff flow ls`, `show`, `cancel`, `seal` and `tag`.

use expect_test::{expect, expect_file};

use crate::graphs::{GROWING, MEDIA, PARCEL, SPARING, UNWANTED, member};
use crate::stage::{Past, Said, Served, Stage, ff, finish, uuid};

/// Without the minute that passes while the test runs.
fn steady(said: Said) -> Said {
    Said { out: said.out.replace("1h 30m", "1h 29m"), ..said }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_flows_says_how_far_each_is() {
    let stage = Stage::with_flows().await;
    steady(stage.ff(&["flow", "ls", "-o", "table"])).is(&expect![[r#"
        ID            STATE      KIND      ENDED  AGE    TOOK  WHY
        000000000068  open       growing     0/1   1h  1h 29m  not sealed
        000000000067  cancelled  unwanted    2/2   1h   10 ms  nobody wants it
        000000000066  open       media       4/9   1h  1h 29m
        000000000065  completed  parcel      6/6   1h  330 ms
    "#]]);
    stage.ff(&["flow", "ls"]).is(&expect![[r#"
        01990000-0000-7000-8000-000000000068	open	growing	0/1	<moment>	not sealed
        01990000-0000-7000-8000-000000000067	cancelled	unwanted	2/2	<moment>	nobody wants it
        01990000-0000-7000-8000-000000000066	open	media	4/9	<moment>
        01990000-0000-7000-8000-000000000065	completed	parcel	6/6	<moment>
    "#]]);
    stage.ff(&["flow", "ls", "-o", "table", "--state", "failed"]).is(&expect![[r#"
        no flows
    "#]]);
    stage.ff(&["flow", "ls", "-o", "ids", "--tag", "shop.customer=ada"]).is(&expect![[r#"
        01990000-0000-7000-8000-000000000065
    "#]]);
    stage.ff(&["flow", "ls", "-o", "ids", "--kind", "media"]).is(&expect![[r#"
        01990000-0000-7000-8000-000000000066
    "#]]);
    stage.ff(&["flow", "ls", "-o", "ids", "--namespace", "other"]).is(&expect![[""]]);
    stage.ff(&["flow", "ls", "--state", "running"]).is(&expect![[r#"
        error: state "running" is none of open, completed, failed, cancelled
          code: invalid_input
          next: Correct the field that the answer names.
        exit 2
    "#]]);
    let first = stage.ff(&["flow", "ls", "--limit", "3", "-o", "ids"]);
    let after = first.err.trim().strip_prefix("there are more: --after ").unwrap();
    let second = stage.ff(&["flow", "ls", "-o", "ids", "--after", after]);
    assert_eq!(first.out + &second.out, stage.ff(&["flow", "ls", "-o", "ids"]).out);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flow_is_drawn_as_a_graph() {
    let stage = Stage::with_flows().await;
    stage.ff(&["flow", "show", &PARCEL.to_string()]).is(&expect![[r#"
        completed  parcel  01990000-0000-7000-8000-000000000065

          created   <moment> (1h ago)
          ended     after 330 ms
          members   6: 5 completed, 1 cancelled
          tags      shop.customer=ada

        GRAPH ──────────────────────────────────────────────────────────────────────────
                   ┌─▸ ✓ north ─┐
          ✓ weigh ─┼─▸ ✓ swift ─┼─▸ ✓ choose  2 of 3 ──▸ ✓ book
                   └─▸ ⊘ tardy ─┘

          ✓ completed  ⊘ cancelled

        MEMBERS ────────────────────────────────────────────────────────────────────────
          NODE    ID            STATE      KIND  TRY    TOOK  WHY
          weigh   17e6e42ecdb9  completed  work    1   60 ms
          north   8102df2f8948  completed  work    1   80 ms
          swift   50d81489c664  completed  work    1  120 ms
          tardy   4c14a93b1bcb  cancelled  work    1  210 ms  sibling_quorum_satisfied
          choose  5781d90b20fc  completed  work    1    5 ms
          book    36f31417adbd  completed  work    1   15 ms
    "#]]);
    let said = stage.ff(&["flow", "show", &MEDIA.to_string()]);
    assert!(!said.out.contains('\u{1b}'), "{:?}", said.out);
    said.is(&expect![[r#"
        blocked  media  01990000-0000-7000-8000-000000000066

          created   <moment> (1h ago)
          members   9: 3 waiting, 2 waiting_children, 2 completed, 1 failed, 1 skipped

        GRAPH ──────────────────────────────────────────────────────────────────────────
                   ┌─▸ ✓ 360p ──────┐
          ✓ probe ─┼─▸ ○ 720p ──────┼───▸ ◌ package  2 of 3 ─┐
                   ├─▸ ○ 1080p ─────┘ ┌─▸ ○ alert            ├─▸ ◌ publish
                   └─▸ ✗ subtitles ───┴─▸ ↷ translate ───────┘

          ○ waiting  ◌ waiting_children  ✓ completed  ✗ failed  ↷ skipped

        MEMBERS ────────────────────────────────────────────────────────────────────────
          NODE       ID            STATE             KIND  TRY    TOOK  WHY
          probe      2f68a849accb  completed         work    1   40 ms
          360p       0e760eb67d5d  completed         work    1  200 ms
          720p       4684dec5d98e  waiting           work    0       -
          1080p      5e004e6d809c  waiting           work    0       -
          subtitles  a554543f1cb8  failed            work    1    5 ms  no�[31m sound
          alert      c8e3f72a5a6f  waiting           work    0       -
          package    fd00e3cf12d7  waiting_children  work    0       -  waits for 2 of …
          translate  0f41696c8a0e  skipped           work    0       -  dependency_impo…
          publish    5d082aabdabc  waiting_children  work    0       -  waits for packa…
    "#]]);
    stage.ff(&["flow", "show", &UNWANTED.to_string()]).is(&expect![[r#"
        cancelled  unwanted  01990000-0000-7000-8000-000000000067

          created   <moment> (1h ago)
          ended     after 10 ms
          members   2: 2 cancelled
          why       nobody wants it (cancel_all: with all its members)

        GRAPH ──────────────────────────────────────────────────────────────────────────
          ⊘ first ──▸ ⊘ second

          ⊘ cancelled

        MEMBERS ────────────────────────────────────────────────────────────────────────
          NODE    ID            STATE      KIND  TRY  TOOK  WHY
          first   53eb6f633ab7  cancelled  work    0     -  nobody wants it
          second  02fe621eaab2  cancelled  work    0     -  nobody wants it
    "#]]);
    stage.ff(&["flow", "show", &GROWING.to_string()]).is(&expect![[r#"
        open  growing  01990000-0000-7000-8000-000000000068

          created   <moment> (1h ago)
          members   1: 1 waiting
          open      more may be added; it ends after ff flow seal

        GRAPH ──────────────────────────────────────────────────────────────────────────
          ○ seed

          ○ waiting

        MEMBERS ────────────────────────────────────────────────────────────────────────
          NODE  ID            STATE    KIND  TRY  TOOK  WHY
          seed  65a3be460215  waiting  work    0     -
    "#]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn colours_and_marks_say_the_same() {
    let stage = Stage::with_flows().await;
    let mut command = ff();
    let id = MEDIA.to_string();
    command.args(["flow", "show", &id, "--url", &stage.url()]);
    command.env("COLUMNS", "120").env("CLICOLOR_FORCE", "1");
    let said = finish(command, "");
    let shown = said.out.replace('\u{1b}', "^");
    let undated = shown.lines().filter(|line| !line.contains("created")).chain([""]);
    let undated = undated.collect::<Vec<_>>().join("\n");
    expect_file!["snapshots/flow-120.txt"].assert_eq(&undated);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flow_is_found_by_the_end_of_its_id() {
    let stage = Stage::with_flows().await;
    stage.ff(&["flow", "show", "-o", "ids", "000000000065"]).is(&expect![[r#"
        01990000-0000-7000-8000-000000000065
    "#]]);
    stage.ff(&["flow", "show", "01990000"]).is(&expect![[r#"
        error: 4 flows have an id with "01990000"
          next: give more of one: 000000000068, 000000000067, 000000000066, 000000000065
        exit 2
    "#]]);
    stage.ff(&["flow", "show", "abcd"]).is(&expect![[r#"
        error: none of the newest 1000 flows has an id with "abcd"
          next: give the full id of an older one; ff flow ls --url <url> lists them
        exit 3
    "#]]);
    stage.ff(&["flow", "show", "what?"]).is(&expect![[r#"
        error: "what?" is not the id of a flow
          next: give its id, its UUID, or the first or last 4 or more digits
        exit 2
    "#]]);
    stage.ff(&["flow", "show", &uuid(9).to_string()]).is(&expect![[r#"
        error: there is no flow 01990000-0000-7000-8000-000000000009
          code: flow_not_found
          next: ff flow ls --url <url>
        exit 3
    "#]]);
    stage.ff(&["flow", "cancel", &uuid(9).to_string()]).is(&expect![[r#"
        error: there is no flow 01990000-0000-7000-8000-000000000009
          code: flow_not_found
          next: ff flow ls --url <url>
        exit 3
    "#]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_names_its_flow() {
    let stage = Stage::with_flows().await;
    let tardy = member(PARCEL, "tardy").to_string();
    let shown = stage.ff(&["show", &tardy]).out;
    assert!(shown.contains(&format!("flow      {PARCEL}, node tardy\n")), "{shown}");
    let read = stage.ff(&["flow", "show", "-o", "json", &MEDIA.to_string()]).out;
    let read: serde_json::Value = serde_json::from_str(&read).unwrap();
    assert_eq!(read["flow"]["flow_kind"], "media");
    assert_eq!(read["summary"]["members_waiting_children"], 2);
    assert_eq!(read["members"].as_array().unwrap().len(), 9);
    assert_eq!(read["edges"].as_array().unwrap().len(), 11);
    assert_eq!(read["truncated"], false);
    for command in ["show", "cancel"] {
        let wrong = stage.ff(&[command, &MEDIA.to_string()]);
        assert_eq!(wrong.code, Some(3));
        assert!(
            wrong.err.contains(&format!("{MEDIA} is a flow, not an execution")),
            "{}",
            wrong.err
        );
        assert!(wrong.err.contains(&format!("next: ff flow show {MEDIA}")), "{}", wrong.err);
    }
    for (state, node) in [("waiting_children", "publish"), ("skipped", "translate")] {
        let listed = stage.ff(&["ls", "--state", state, "-o", "ids"]).out;
        assert!(listed.contains(&member(MEDIA, node).to_string()), "{state}: {listed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_cancels_flows() {
    let stage = Stage::with_flows().await;
    let (media, growing) = (MEDIA.to_string(), GROWING.to_string());
    let late = ["--policy", "cancel_flow_only", "--reason", "too late", "--no-wait"];
    stage.ff(&[&["flow", "cancel", &growing][..], &late].concat()).is(&expect![[r#"
        cancelled 01990000-0000-7000-8000-000000000068 (cancel_flow_only); 1 member not ended
    "#]]);
    stage.ff(&["flow", "cancel", &growing]).is(&expect![[r#"
        cancelled 01990000-0000-7000-8000-000000000068 (cancel_all)
    "#]]);
    stage.ff(&["flow", "cancel", &media, "--wait"]).is(&expect![[r#"
        cancelled 01990000-0000-7000-8000-000000000066 (cancel_all)
    "#]]);
    stage.ff(&["flow", "cancel", &media, "--policy", "cancel_pending"]).is(&expect![[r#"
        was cancelled before: 01990000-0000-7000-8000-000000000066 (cancel_all)
          cancel_pending was not applied: it ends no more than that
    "#]]);
    steady(stage.ff(&["flow", "ls", "--state", "cancelled", "-o", "table"])).is(&expect![[r#"
        ID            STATE      KIND      ENDED  AGE    TOOK  WHY
        000000000068  cancelled  growing     1/1   1h  1h 29m  too late
        000000000067  cancelled  unwanted    2/2   1h   10 ms  nobody wants it
        000000000066  cancelled  media       9/9   1h  1h 29m  cancelled on the command…
    "#]]);
    stage.ff(&["flow", "cancel", &PARCEL.to_string()]).is(&expect![[r#"
        error: flow 01990000-0000-7000-8000-000000000065 is completed
          code: flow_already_terminal
          next: it has ended; if it was cancelled, its members cannot be replayed; submit another flow
        exit 4
    "#]]);
    stage.ff(&["flow", "cancel", &media, "--policy", "everything"]).is(&expect![[r#"
        error: invalid value 'everything' for '--policy <POLICY>'
          [possible values: cancel_all, cancel_pending, cancel_flow_only]

        For more information, try '--help'.
        exit 2
    "#]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_replays_a_member_with_what_was_skipped() {
    let stage = Stage::with_flows().await;
    let (failed, skipped) = (member(MEDIA, "subtitles"), member(MEDIA, "translate"));
    let said = stage.ff(&["replay", &failed.to_string()]);
    assert_eq!(said.out, format!("replayed {failed}\nwaits for it again: {skipped}\n"));
    let again = stage.ff(&["replay", &failed.to_string()]);
    assert_eq!(again.out, format!("was replayed before: {failed}\n"));
    stage.ff(&["cancel", &failed.to_string()]);
    let alone = stage.ff(&["replay", &failed.to_string(), "--no-downstream"]);
    assert_eq!(alone.out, format!("replayed {failed}\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_seals_and_tags_flows() {
    let stage = Stage::with_flows().await;
    let growing = GROWING.to_string();
    stage.ff(&["flow", "seal", &growing]).is(&expect![[r#"
        sealed 01990000-0000-7000-8000-000000000068 (open)
    "#]]);
    stage.ff(&["flow", "seal", &growing]).is(&expect![[r#"
        sealed 01990000-0000-7000-8000-000000000068 (open)
    "#]]);
    stage.ff(&["flow", "tag", &growing, "shop.a=1", "shop.b=2"]).is(&expect![[r#"
        tagged 01990000-0000-7000-8000-000000000068
    "#]]);
    stage.ff(&["flow", "tag", &growing, "--remove", "shop.a"]).is(&expect![[r#"
        tagged 01990000-0000-7000-8000-000000000068
    "#]]);
    let shown = stage.ff(&["flow", "show", &growing]).out;
    assert!(shown.contains("tags      shop.b=2\n"), "{shown}");
    let refused = stage.ff(&["flow", "tag", &growing, "nodot=1"]);
    assert!(refused.err.contains("code: invalid_tag_key"), "{}", refused.err);
    stage.ff(&["flow", "seal", &uuid(9).to_string()]).is(&expect![[r#"
        error: there is no flow 01990000-0000-7000-8000-000000000009
          code: flow_not_found
          next: ff flow ls --url <url>
        exit 3
    "#]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_says_the_same_of_flows_as_the_file_behind_it() {
    let stage = Stage::with_flows().await;
    let served = Served::start(&stage, None);
    let [parcel, media, unwanted] = [PARCEL, MEDIA, UNWANTED].map(|id| id.to_string());
    for arguments in [
        &["flow", "ls", "-o", "table"][..],
        &["flow", "ls", "-o", "json"],
        &["flow", "ls", "--state", "x"],
        &["flow", "show", &parcel],
        &["flow", "show", &media, "-o", "table"],
        &["flow", "show", &uuid(9).to_string()],
        &["flow", "cancel", &parcel],
        &["flow", "cancel", &unwanted],
        &["flow", "tag", &media, "shop.a=1"],
        &["flow", "tag", &media, "nodot=1"],
        &["flow", "seal", &uuid(9).to_string()],
    ] {
        let (here, there) = (stage.ff(arguments), stage.ff_at(&served.url, arguments, ""));
        // An open flow is older for who looks later.
        let plain = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "9");
        assert_eq!(plain(&here.out), plain(&there.out), "{arguments:?}");
        assert_eq!((here.err, here.code), (there.err, there.code), "{arguments:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flow_says_how_many_its_joins_spared() {
    let stage = Stage::empty();
    Past::open(&stage).sparing().await;
    let shown = stage.ff(&["flow", "show", &SPARING.to_string()]).out;
    let said = "  spared    1 goes on because another join keeps it\n";
    assert!(shown.contains(said), "{shown}");
    let read = stage.ff(&["flow", "show", "-o", "json", &SPARING.to_string()]).out;
    let read: serde_json::Value = serde_json::from_str(&read).unwrap();
    assert_eq!(read["summary"]["spared_count"], 1);
}
