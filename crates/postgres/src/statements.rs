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
    ahead { groups inputs load lock members open }
    attempt { insert remove }
    backlog { clear due load members owe pay put remove }
    cancel { clear due insert load reconcile remove }
    consumer { load put remove }
    dispatch { due insert load remove }
    duty { agenda }
    edge { behind incoming load outgoing pair put reach remove }
    event { flow history insert newest read remove tail unseen }
    execution { enlist fate held insert load lock put remove }
    flow { due first free insert load lock members put remove take }
    group { due free load lock of_flow put remove }
    hot { cancel claim complete create finish start step wait }
    idempotency { due load put remove }
    lease { by_claim due free hold insert lock pin refile remove renew serving }
    list {
        attempts buckets consumers counts depths edges executions flow_partition flows groups
        incoming lane lanes members outgoing own_waitpoints partition signals spared steps
        suspended tagged waitpoints
    }
    payload { insert load remove sizes }
    queue { insert }
    ready { any head insert promote remove }
    retention { clear due lock }
    schema { exists namespace now types version }
    signal { arrived exists insert keyed load received remove }
    signing_key { current insert load remove retire withdraw }
    step { insert load of_attempt remove }
    suspend_key { load put remove }
    suspension { close load put remove }
    tag { insert remove }
    timer { due insert next remove retention }
    waitpoint { close due insert load open put remove }
    wake { arm disarm note tell }
}
