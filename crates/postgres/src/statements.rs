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
        pub const ALL: &[(&str, &str)] = &[
            $($((concat!(stringify!($group), "/", stringify!($name)), $group::$name),)*)*
        ];
    };
}

statements! {
    attempt { insert remove }
    consumer { load put remove }
    event { history insert newest read remove tail unseen }
    execution { insert load lock put remove }
    hot { claim create finish start step }
    idempotency { due load put remove }
    lease { by_claim due hold insert lock refile remove renew }
    list { attempts consumers counts depths executions lane lanes partition steps tagged }
    payload { insert load remove }
    queue { insert }
    ready { any head insert promote remove }
    schema { exists namespace now types version }
    step { insert load remove }
    tag { insert remove }
    timer { due insert next remove retention }
    wake { arm disarm tell }
}
