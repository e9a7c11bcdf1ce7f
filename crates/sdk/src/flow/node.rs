//! A node of a flow that is being put together: what to run, what it waits for, and what it is given.

use ff_core::decide::create::Create;
use ff_core::flow::{
    self, DependencyKind, EdgePolicy, Graph, Link, NodeRef, OnImpossible, OnSatisfied,
};
use ff_core::text::{EdgeName, NodeName};
use ff_core::{Code, ExecutionId, Rejection};
use serde::Serialize;

use crate::Error;
use crate::settings::{draft, say, settings};

/// A node with a name, a kind of work and an input. Say what it waits for, and add it to a
/// [`FlowDraft`](crate::FlowDraft).
pub fn node(name: impl AsRef<str>, kind: impl AsRef<str>, input: impl Serialize) -> Node {
    let parts = || {
        let name = NodeName::new(name.as_ref())?;
        // The flow decides the id, and is not known yet.
        let create = draft(ExecutionId::FIRST, kind.as_ref(), &input)?;
        Ok(Parts {
            name,
            create,
            links: Vec::new(),
            join: Join::All,
            let_run: false,
            or_run: false,
        })
    };
    Node(parts())
}

/// A node of a flow. What is malformed is told when the flow is submitted.
#[must_use = "it is part of nothing until it is added to a flow"]
pub struct Node(Result<Parts, Error>);

struct Parts {
    name: NodeName,
    create: Create,
    links: Vec<Link>,
    join: Join,
    let_run: bool,
    or_run: bool,
}

/// How many of those that a node waits for it takes.
#[derive(Clone, Copy, PartialEq)]
enum Join {
    All,
    Any,
    Quorum(u32),
}

/// Anything asks that a result become the input; this says it to whoever looks at the edge.
const INPUT: &str = "input";

impl Node {
    settings!("`default`");

    /// Runs after this node has succeeded; if it does not, this one is skipped.
    pub fn after(self, node: impl AsRef<str>) -> Self {
        self.link(node.as_ref(), |link| {
            link.kind = DependencyKind::SuccessOnly;
            Ok(())
        })
    }

    /// Runs after this node has ended, however it did.
    pub fn after_end(self, node: impl AsRef<str>) -> Self {
        self.link(node.as_ref(), |link| {
            link.kind = DependencyKind::AnyTerminal;
            Ok(())
        })
    }

    /// Runs after this node has failed, expired or was cancelled; if it succeeds, this one is
    /// skipped.
    pub fn after_failure(self, node: impl AsRef<str>) -> Self {
        self.link(node.as_ref(), |link| {
            link.kind = DependencyKind::FailureOnly;
            Ok(())
        })
    }

    /// Reads the result of a node under a name, and so runs after it: after its success, unless
    /// [`after_end`](Self::after_end) says otherwise. The handler finds it with
    /// [`Context::input`](crate::Context::input).
    pub fn reads(self, node: impl AsRef<str>, name: impl AsRef<str>) -> Self {
        self.link(node.as_ref(), |link| {
            let name = EdgeName::new(name.as_ref())?;
            if let Some(known) = link.name.as_ref().filter(|known| **known != name) {
                let why = format!("is a second name for what is read from {}: {known}", link.from);
                return Err(Rejection::invalid(Code::InvalidInput, "edge_name", name, why).into());
            }
            link.name = Some(name);
            Ok(())
        })
    }

    /// Takes the result of a node as its input, in place of the one it was given, and so runs after
    /// it.
    pub fn takes(self, node: impl AsRef<str>) -> Self {
        self.link(node.as_ref(), |link| {
            link.data_passing_ref = Some(INPUT.to_owned());
            Ok(())
        })
    }

    /// Runs as soon as one of those that it waits for is as it should be. Those that still run then
    /// are cancelled.
    pub fn any_of(self) -> Self {
        self.join(Join::Any)
    }

    /// Runs as soon as so many of those that it waits for are as they should be. Those that still
    /// run then are cancelled.
    pub fn quorum(self, k: u32) -> Self {
        self.join(Join::Quorum(k))
    }

    /// Lets those go on that still run when enough of them are as they should be.
    pub fn let_run(mut self) -> Self {
        say(&mut self.0, |parts| {
            parts.let_run = true;
            Ok(())
        });
        self
    }

    /// Runs also when enough of them can no longer be as they should be, instead of being skipped:
    /// its handler finds out with [`Context::input`](crate::Context::input) which of them are.
    pub fn run_if_impossible(mut self) -> Self {
        say(&mut self.0, |parts| {
            parts.or_run = true;
            Ok(())
        });
        self
    }

    fn set(mut self, set: impl FnOnce(&mut Create) -> Result<(), Error>) -> Self {
        say(&mut self.0, |parts| set(&mut parts.create));
        self
    }

    /// One edge leads from one node to another, whatever is said about it.
    fn link(mut self, from: &str, set: impl FnOnce(&mut Link) -> Result<(), Error>) -> Self {
        say(&mut self.0, |parts| {
            let from = NodeRef::Name(NodeName::new(from)?);
            let known = parts.links.iter().position(|link| link.from == from);
            let at = known.unwrap_or_else(|| {
                parts.links.push(Link::new(from, NodeRef::Name(parts.name.clone())));
                parts.links.len() - 1
            });
            set(&mut parts.links[at])
        });
        self
    }

    fn join(mut self, join: Join) -> Self {
        say(&mut self.0, |parts| {
            parts.join = join;
            Ok(())
        });
        self
    }

    /// Puts it into a graph, as far as the flow need not be known for that.
    pub(super) fn add_to(self, graph: &mut Graph) -> Result<(), Error> {
        let Parts { name, create, links, join, let_run, or_run } = self.0?;
        let on_satisfied = if let_run { OnSatisfied::LetRun } else { OnSatisfied::CancelRemaining };
        let on_impossible = if or_run { OnImpossible::Run } else { OnImpossible::Skip };
        let policy = match join {
            Join::All if let_run || or_run => {
                let word = if let_run { "let_run" } else { "run_if_impossible" };
                let why = format!("waits for all: {word} needs any_of or quorum");
                return Err(Rejection::invalid(Code::InvalidInput, "node", name, why).into());
            }
            Join::All => None,
            Join::Any => Some(EdgePolicy::AnyOf { on_satisfied, on_impossible }),
            Join::Quorum(k) => Some(EdgePolicy::Quorum { k, on_satisfied, on_impossible }),
        };
        graph.joins.extend(policy.map(|policy| (NodeRef::Name(name.clone()), policy)));
        graph.links.extend(links);
        graph.nodes.push(flow::Node { name, create });
        Ok(())
    }
}
