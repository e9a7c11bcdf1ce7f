//! The cases, listed once. [`suite!`](crate::suite) makes a test of each for a backend.

pub mod create;

/// Makes every case a test of the backend that `$open` opens.
///
/// `$open` is a `fn(Arc<Dial>) -> Store`.
#[macro_export]
macro_rules! suite {
    ($open:path) => {
        $crate::suite! { @cases $open;
            create {
                a_created_execution_is_claimable_at_once
            }
        }
    };
    (@cases $open:path; $($group:ident { $($case:ident)* })*) => {
        $(mod $group {
            $(
                #[tokio::test]
                async fn $case() {
                    $crate::world::run($open, $crate::cases::$group::$case).await;
                }
            )*
        })*
    };
}
