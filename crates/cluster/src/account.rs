//! The account that the server runs as: PostgreSQL refuses to run as root.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::Error;

const NAMES: [&str; 2] = ["postgres", "nobody"];

/// Another user, by number. Without one the server runs as us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account {
    pub user: u32,
    pub group: u32,
}

impl Account {
    /// The account for the server; `None` when we are not root and it can run as us.
    pub fn for_server() -> Result<Option<Self>, Error> {
        if !is_root()? {
            return Ok(None);
        }
        let passwd =
            fs::read_to_string("/etc/passwd").map_err(Error::system("read /etc/passwd"))?;
        let account = NAMES.iter().find_map(|name| Self::named(name, &passwd));
        account.map(Some).ok_or_else(|| Error::Program {
            what: format!("no account to run the server as, none of {}", NAMES.join(", ")),
            log: String::new(),
        })
    }

    fn named(name: &str, passwd: &str) -> Option<Self> {
        let fields = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
        let found = fields.into_iter().find(|fields| fields[0] == name)?;
        Some(Self { user: found.get(2)?.parse().ok()?, group: found.get(3)?.parse().ok()? })
    }
}

/// Lets `command` run as the account, or as us when there is none.
pub fn run_as(account: Option<Account>, command: &mut Command) -> &mut Command {
    match account {
        Some(Account { user, group }) => command.uid(user).gid(group),
        None => command,
    }
}

/// Asked of `id`, because the standard library cannot tell.
pub fn is_root() -> Result<bool, Error> {
    let output = Command::new("id").arg("-u").output().map_err(Error::system("run id -u"))?;
    Ok(output.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_found_by_its_whole_name() {
        let passwd = "root:x:0:0::/root:/bin/sh\npostgres2:x:7:8::/:/bin/sh\nbroken\n\
                      postgres:x:101:104:administrator,,,:/var/lib/postgresql:/bin/bash\n";
        let expected = Account { user: 101, group: 104 };
        assert_eq!(Account::named("postgres", passwd), Some(expected));
        assert_eq!(Account::named("nobody", passwd), None);
        assert_eq!(Account::named("broken", passwd), None);
    }
}
