//! Encryption: what each `sslmode` accepts and refuses of a server that insists on it.

use std::fs;
use std::path::{Path, PathBuf};

use ff_cluster::{Cluster, FAST};
use ff_core::backend::{Interest, StoreError};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;
use tokio_postgres::{Client, NoTls};

use crate::places::{open, story};

/// Somebody who vouches for servers.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// The certificate and the key of a server.
    fn vouch(&self, host: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    /// Its certificate, as a file.
    fn file(&self, directory: &Path, name: &str) -> PathBuf {
        let path = directory.join(name);
        fs::write(&path, &self.pem).unwrap();
        path
    }
}

/// A server that is called `localhost` and takes no connection in the clear, except through its
/// socket.
fn server(authority: &Authority) -> Cluster {
    let mut cluster = Cluster::start(FAST).unwrap();
    let (certificate, key) = authority.vouch("localhost");
    cluster.put("server.crt", certificate.as_bytes()).unwrap();
    cluster.put("server.key", key.as_bytes()).unwrap();
    let settings = cluster.directory().join("postgresql.conf");
    let settings = fs::read_to_string(settings).unwrap();
    cluster.put("postgresql.conf", format!("{settings}ssl = on\n").as_bytes()).unwrap();
    cluster.put("pg_hba.conf", b"local all all trust\nhostssl all all all trust\n").unwrap();
    cluster.restart().unwrap();
    cluster
}

/// A connection through the socket of the server.
async fn inside(cluster: &Cluster) -> Client {
    let mut config = tokio_postgres::Config::new();
    config.host_path(cluster.log().parent().unwrap()).port(cluster.port()).user("postgres");
    let (client, connection) = config.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

fn cause(error: StoreError) -> String {
    let StoreError::Transport { cause } = error else { panic!("{error}") };
    cause
}

#[tokio::test]
async fn a_server_that_insists_on_encryption_is_reached_by_those_who_trust_it() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let directory = TempDir::new().unwrap();
    let (ours_file, other_file) =
        (ours.file(directory.path(), "ours.pem"), other.file(directory.path(), "other.pem"));
    let cluster = server(&ours);
    let address = |host: &str, rest: &str| {
        format!("postgres://postgres@{host}:{}/postgres?{rest}", cluster.port())
    };
    let verify = |host: &str, roots: &Path| {
        address(host, &format!("sslmode=verify-full&sslrootcert={}", roots.display()))
    };
    for (at, url) in [
        address("127.0.0.1", "sslmode=require"),
        address("127.0.0.1", "sslmode=prefer"),
        address("127.0.0.1", ""),
        verify("localhost", &ours_file),
    ]
    .iter()
    .enumerate()
    {
        story(&open(url, Some(&format!("s{at}"))).await.unwrap()).await;
    }
    for (url, words) in [
        (address("127.0.0.1", "sslmode=disable"), "no encryption"),
        (verify("localhost", &other_file), "UnknownIssuer"),
        (address("localhost", "sslmode=verify-full"), "UnknownIssuer"),
        (verify("127.0.0.1", &ours_file), "not valid for name"),
    ] {
        let said = cause(open(&url, Some("s")).await.err().unwrap());
        assert!(said.contains(words), "{url}: {said}");
        assert!(said.starts_with("cannot connect to the database"), "{said}");
    }
    every_connection_is_encrypted(&cluster, &verify("localhost", &ours_file)).await;
}

/// The one that listens is no exception.
async fn every_connection_is_encrypted(cluster: &Cluster, url: &str) {
    let w = open(&format!("{url}&application_name=encrypted"), Some("all")).await.unwrap();
    // It listens once this returns.
    w.woken(Interest::Work, w.store.backend.generation(Interest::Work)).await;
    story(&w).await;
    let sql = "select s.ssl, a.query like '%pg_%advisory_%' as listens from pg_stat_ssl s \
        join pg_stat_activity a using (pid) where a.application_name = 'encrypted'";
    let rows = inside(cluster).await.query(sql, &[]).await.unwrap();
    assert!(rows.len() >= 4, "claiming, creating, finishing, reading and listening: {rows:?}");
    assert!(rows.iter().all(|row| row.get("ssl")));
    assert!(rows.iter().any(|row| row.get("listens")));
}
