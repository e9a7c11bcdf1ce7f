//! The SQL, one statement per file, by the path of its file.

macro_rules! statements {
    ($($group:ident { $($name:ident)* })*) => {
        $(
            #[allow(non_upper_case_globals, reason = "named as their files")]
            pub mod $group {
                $(pub const $name: &str = include_str!(concat!(
                    "../queries/", stringify!($group), "/", stringify!($name), ".sql"
                ));)*
            }
        )*

        /// Every statement with its path.
        #[cfg(test)]
        pub const ALL: &[(&str, &str)] = &[
            $($((concat!(stringify!($group), "/", stringify!($name)), $group::$name),)*)*
        ];
    };
}

statements! {
    attempt { insert remove }
    backlog { clear due load members owe pay put remove }
    cancel { clear due insert load reconcile remove }
    consumer { load put remove }
    dispatch { due insert load remove }
    duty { agenda }
    edge { behind incoming load outgoing pair put reach remove }
    event { flow history insert read remove tail unseen }
    execution { load put remove }
    flow { due first load members next put remove }
    group { due load of_flow put remove }
    idempotency { due load next put remove }
    lease { by_claim due insert next refile remove renew }
    list {
        attempts buckets consumers counts depths edges executions flow_partition flows groups
        incoming lane lanes members outgoing own_waitpoints partition signals spared steps suspended
        tagged waitpoints
    }
    payload { insert load remove }
    queue { insert of_lane }
    ready { head insert promote remove }
    schema { exists version }
    signal { arrived exists insert keyed load received remove }
    signing_key { insert load remove retire withdraw }
    step { insert load of_attempt remove }
    suspend_key { load put remove }
    suspension { close load put remove }
    tag { insert remove }
    timer { due insert next promoted remove retention }
    waitpoint { close due load next open put remove }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::path::Path;

    use super::ALL;

    #[test]
    fn every_statement_prepares_and_every_file_is_listed() {
        let mut db = rusqlite::Connection::open_in_memory().unwrap();
        crate::migrate::migrate(&mut db).unwrap();
        for (path, sql) in ALL {
            assert!(db.prepare(sql).is_ok(), "{path}: {:?}", db.prepare(sql).err());
        }
        let queries = Path::new(env!("CARGO_MANIFEST_DIR")).join("queries");
        let groups = std::fs::read_dir(queries).unwrap().map(|group| group.unwrap().path());
        let files: usize = groups.map(|group| std::fs::read_dir(group).unwrap().count()).sum();
        assert_eq!(files, ALL.len());
    }

    #[test]
    fn what_runs_often_searches_an_index_and_never_sorts() {
        let mut db = rusqlite::Connection::open_in_memory().unwrap();
        crate::migrate::migrate(&mut db).unwrap();
        // Tags are few, and so are edges into one execution and the states of a flow's members:
        // they are found first and then put in order.
        let sorts = ["list/tagged", "list/incoming", "list/buckets"];
        // These look at everything, and are asked for by a person.
        let scans = ["list/counts", "list/depths", "schema/exists", "schema/version", "event/tail"];
        // These take the oldest of what is owed, whenever that was: they begin at the beginning of
        // an index and stop when they have enough.
        let walks =
            ["backlog/due", "cancel/due", "cancel/reconcile", "dispatch/due", "duty/agenda"];
        // Consumers are few; they have no index by number. So are keys, which are read together.
        // What was just reached is a queue.
        let few = [
            "SCAN ff_consumer",
            "SCAN ff_signing_key",
            "SCAN CONSTANT ROW",
            "SCAN reach",
            "SCAN behind",
        ];
        for (path, sql) in ALL.iter().filter(|(path, _)| !scans.contains(path)) {
            let mut explain = db.prepare(&format!("explain query plan {sql}")).unwrap();
            let nulls = vec![rusqlite::types::Null; explain.parameter_count()];
            let plan: Vec<String> = explain
                .query_map(rusqlite::params_from_iter(nulls), |row| row.get(3))
                .unwrap()
                .map(Result::unwrap)
                .collect();
            for step in &plan {
                let scan = step.starts_with("SCAN") && !step.contains("json_each");
                let scan = scan && !(walks.contains(path) && step.contains("USING"));
                assert!(!scan || few.contains(&step.as_str()), "{path}: {plan:?}");
                // A partition holds a 256th of everything.
                assert!(!step.ends_with("(partition_key=?)"), "{path}: {plan:?}");
                let sorted = step.contains("TEMP B-TREE") && !sorts.contains(path);
                assert!(!sorted, "{path}: {plan:?}");
            }
        }
    }
}
