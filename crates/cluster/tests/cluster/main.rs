//! Clusters as tests use them: they answer, come back after a kill, and never outlive their owner.

#![allow(clippy::unwrap_used)]

mod wire;

use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ff_cluster::{Cluster, FAST, VARIABLE};
use wire::ask;

/// Set in a copy of this test program that owns a server and waits to be killed.
const OWNER: &str = "FF_CLUSTER_TEST_OWNER";

/// The number of the server's first process.
fn process_id(directory: &Path) -> String {
    let lock = fs::read_to_string(directory.join("postmaster.pid")).unwrap();
    lock.lines().next().unwrap().to_owned()
}

fn is_alive(id: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Other processes end when they end: what must become true is looked at until it is.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(30), "not in time: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_cluster_answers_with_its_settings() {
    let settings = [FAST, &[("application_name", r"it's \1")]].concat();
    let cluster = Cluster::start(&settings).unwrap();
    let port = cluster.port();
    assert_eq!(cluster.url(), format!("postgres://postgres@127.0.0.1:{port}/postgres"));
    for (name, value) in settings {
        assert_eq!(ask(port, &format!("show {name}")).unwrap(), value, "{name}");
    }
    assert_eq!(ask(port, "show server_encoding").unwrap(), "UTF8");
    let version = ask(port, "show server_version").unwrap();
    assert_eq!(version.split(' ').next(), Some(cluster.version()));
    let directory = ask(port, "show data_directory").unwrap();
    assert_eq!(Path::new(&directory), cluster.directory());
}

#[test]
fn a_cluster_with_stock_settings_is_durable_and_off_memory() {
    let cluster = Cluster::start(&[]).unwrap();
    assert_eq!(ask(cluster.port(), "show fsync").unwrap(), "on");
    assert_eq!(ask(cluster.port(), "show synchronous_commit").unwrap(), "on");
    assert!(!cluster.directory().starts_with("/dev/shm"));
}

#[test]
fn two_clusters_share_nothing() {
    let (one, other) = (Cluster::start(FAST).unwrap(), Cluster::start(FAST).unwrap());
    ask(one.port(), "create table here (x int)").unwrap();
    assert!(ask(other.port(), "table here").is_err());
    assert_ne!(one.directory(), other.directory());
}

#[test]
fn a_setting_that_the_server_refuses_is_an_error_with_its_words() {
    let error = Cluster::start(&[("fsync", "off"), ("no_such_setting", "1")]).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("postgres does not start on port "), "{text}");
    assert!(text.contains("no_such_setting"), "{text}");
}

#[test]
fn a_killed_cluster_leaves_no_process_and_comes_back_with_its_data_on_its_port() {
    let mut cluster = Cluster::start(&[("fsync", "off")]).unwrap();
    let port = cluster.port();
    ask(port, "create table kept as select 7 as x").unwrap();
    let mut processes = vec![process_id(cluster.directory())];
    // A connection under way has a process of its own.
    let session = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    let all = "select string_agg(pid::text, ' ') from pg_stat_activity";
    processes.extend(ask(port, all).unwrap().split(' ').map(String::from));
    assert!(processes.len() > 3, "{processes:?}");

    cluster.kill().unwrap();
    assert!(!processes.iter().any(|id| is_alive(id)), "{processes:?}");
    assert!(ask(port, "select 1").is_err());
    drop(session);

    cluster.restart().unwrap();
    assert_eq!(cluster.port(), port);
    assert_eq!(ask(port, "select x from kept").unwrap(), "7");
    let log = fs::read_to_string(cluster.log()).unwrap();
    assert!(log.contains("database system was not properly shut down"), "{log}");
}

#[test]
fn killing_twice_is_killing_once() {
    let mut cluster = Cluster::start(FAST).unwrap();
    cluster.kill().unwrap();
    cluster.kill().unwrap();
    cluster.restart().unwrap();
    assert_eq!(ask(cluster.port(), "select 1").unwrap(), "1");
}

#[test]
fn a_restart_reads_what_was_added_to_the_settings() {
    let mut cluster = Cluster::start(FAST).unwrap();
    let file = cluster.directory().join("postgresql.conf");
    let mut file = OpenOptions::new().append(true).open(file).unwrap();
    file.write_all(b"max_connections = 33\n").unwrap();
    cluster.restart().unwrap();
    assert_eq!(ask(cluster.port(), "show max_connections").unwrap(), "33");
    let log = fs::read_to_string(cluster.log()).unwrap();
    assert!(!log.contains("not properly shut down"), "{log}");
}

#[test]
fn a_file_put_into_the_directory_is_for_the_server_alone() {
    let cluster = Cluster::start(FAST).unwrap();
    cluster.put("server.key", b"first, and longer").unwrap();
    cluster.put("server.key", b"secret").unwrap();
    let read = ask(cluster.port(), "select pg_read_file('server.key')").unwrap();
    assert_eq!(read, "secret");
    let [key, own] = ["server.key", "postgresql.conf"].map(|name| {
        let file = fs::metadata(cluster.directory().join(name)).unwrap();
        (file.uid(), file.gid(), file.mode() & 0o777)
    });
    assert_eq!(key, own);
}

#[test]
fn a_restart_waits_for_its_port() {
    let mut cluster = Cluster::start(FAST).unwrap();
    cluster.kill().unwrap();
    let squatter = TcpListener::bind((Ipv4Addr::LOCALHOST, cluster.port())).unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            // Whoever looks whether the port is free finds it taken at least once.
            thread::sleep(Duration::from_millis(100));
            drop(squatter);
        });
        cluster.restart().unwrap();
    });
    assert_eq!(ask(cluster.port(), "select 1").unwrap(), "1");
}

#[test]
fn a_dropped_cluster_leaves_nothing() {
    let mut killed = Cluster::start(FAST).unwrap();
    killed.kill().unwrap();
    let running = Cluster::start(FAST).unwrap();
    let directories = [&killed, &running].map(|cluster| cluster.log().parent().unwrap().to_owned());
    let (port, process) = (running.port(), process_id(running.directory()));
    assert!(is_alive(&process));
    drop((killed, running));
    assert!(!is_alive(&process));
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err());
    assert!(!directories.iter().any(|directory| directory.exists()), "{directories:?}");
}

/// This program again, as the owner of the shared server: it runs `test` with `OWNER` set and
/// `FF_TEST_POSTGRES` as given. The answer is what it prints after [`OWNER`].
fn owner(test: &str, server: Option<&str>) -> (Child, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(OWNER, "1").env_remove(VARIABLE);
    command.envs(server.map(|url| (VARIABLE, url)));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines().map(Result::unwrap);
    let line = lines.find(|line| line.contains(OWNER)).unwrap();
    let url = line.rsplit_once(' ').unwrap().1.to_owned();
    (child, url)
}

/// The part of the copy: says where the server is and waits. Its input ends with its parent, so it
/// never stays behind.
fn own_the_shared_server() -> bool {
    if std::env::var_os(OWNER).is_none() {
        return false;
    }
    let url = ff_cluster::shared().unwrap();
    assert_eq!(ff_cluster::shared().unwrap(), url);
    println!("{OWNER} {url}");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    true
}

#[test]
fn a_server_is_gone_when_its_owner_is_killed() {
    if own_the_shared_server() {
        return;
    }
    let (mut child, url) = owner("a_server_is_gone_when_its_owner_is_killed", None);
    let port: u16 = url.rsplit([':', '/']).nth(1).unwrap().parse().unwrap();
    assert_eq!(ask(port, "show fsync").unwrap(), "off");
    let directory = PathBuf::from(ask(port, "show data_directory").unwrap());
    let process = process_id(&directory);

    // SIGKILL: the owner can do nothing any more.
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("the server is gone", || !is_alive(&process));
    eventually("its directory is gone", || !directory.parent().unwrap().exists());
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err());
}

#[test]
fn the_shared_server_is_the_one_that_the_environment_names() {
    if own_the_shared_server() {
        return;
    }
    let named = "postgres://somebody@elsewhere:1/db";
    let test = "the_shared_server_is_the_one_that_the_environment_names";
    let (mut child, url) = owner(test, Some(named));
    assert_eq!(url, named);
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}
