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
    consumer { load put remove }
    event { history insert read remove tail }
    execution { load put remove }
    idempotency { due load next put remove }
    lease { by_claim due next put remove }
    list { attempts consumers counts executions lanes partition }
    payload { insert load remove }
    queue { insert of_lane }
    ready { head insert promote remove }
    schema { exists version }
    tag { insert remove }
    timer { due insert next promoted remove retention }
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
}
