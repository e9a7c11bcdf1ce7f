//! What can go wrong, for clients and in handlers.
//!
//! A handler may fail with any error. One that is an [`Error`], or was made of one, says by itself which
//! category the failure is of and whether trying again can help; any other counts as transient.

use std::fmt;

use ff_core::policy::FailureClass;
use ff_core::text::Category;
use ff_core::{Code, Rejection, StoreError};

/// Any error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A refusal, a failure of the machinery, or a failure that a handler reports.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    message: String,
    /// The stable code, unless it is a handler's own failure.
    code: Option<String>,
    hint: Option<String>,
    retryable: bool,
    nature: Nature,
}

/// What an error says of the failure that it is. It is the source of an [`Error`], so that it is found in
/// whatever wraps one, also in what hides the type of what it wraps.
#[derive(Clone, Debug)]
pub(crate) struct Nature {
    /// The category, if it says one.
    pub category: Option<Category>,
    /// Whether trying again can help.
    pub class: FailureClass,
}

impl Nature {
    /// Of any error: what the outermost part of it says that says something.
    pub fn of(error: &(dyn std::error::Error + 'static)) -> Self {
        let mut next = Some(error);
        while let Some(part) = next {
            if let Some(known) = part.downcast_ref::<Error>() {
                return known.0.nature.clone();
            }
            if let Some(nature) = part.downcast_ref::<Self>() {
                return nature.clone();
            }
            next = part.source();
        }
        Self { category: None, class: FailureClass::Transient }
    }
}

impl fmt::Display for Nature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {} failure", if self.class.retryable() { "transient" } else { "permanent" })
    }
}

impl std::error::Error for Nature {}

impl Error {
    /// A failure that may pass: another attempt follows if the policy allows one.
    pub fn transient(message: impl fmt::Display) -> Self {
        Self::failure(message.to_string(), FailureClass::Transient)
    }

    /// A failure that no further attempt can mend.
    pub fn permanent(message: impl fmt::Display) -> Self {
        Self::failure(message.to_string(), FailureClass::Permanent)
    }

    fn failure(message: String, class: FailureClass) -> Self {
        let retryable = class.retryable();
        let nature = Nature { category: None, class };
        Self(Box::new(Inner { message, code: None, hint: None, retryable, nature }))
    }

    /// An answer with a stable code.
    pub(crate) fn coded(code: &str, message: String, hint: &str, retryable: bool) -> Self {
        let class = if retryable { FailureClass::Transient } else { FailureClass::Permanent };
        let (code, hint) = (Some(code.to_owned()), Some(hint.to_owned()));
        let nature = Nature { category: None, class };
        Self(Box::new(Inner { message, code, hint, retryable, nature }))
    }

    /// In the vocabulary of the worker: retry policies select by it. A malformed one is refused.
    pub fn with_category(self, category: impl Into<String>) -> Result<Self, Self> {
        Ok(self.in_category(Category::new(category.into())?))
    }

    pub(crate) fn in_category(mut self, category: Category) -> Self {
        self.0.nature.category = Some(category);
        self
    }

    /// With what was being done: `<what>: …`. It stays the failure that it is.
    #[must_use]
    pub fn context(mut self, what: impl fmt::Display) -> Self {
        self.0.message = format!("{what}: {}", self.0.message);
        self
    }

    /// With what was being done: `cannot <what>: …`.
    #[must_use]
    pub fn while_doing(mut self, what: impl fmt::Display) -> Self {
        self.0.message = format!("cannot {what}: {}", self.0.message);
        self
    }

    /// The stable code; nothing if it is a handler's own failure.
    pub fn code(&self) -> Option<&str> {
        self.0.code.as_deref()
    }

    /// Whether it has this code.
    pub fn is(&self, code: Code) -> bool {
        self.code() == Some(code.as_str())
    }

    /// What to do next.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// Whether the same call is refused again, whoever makes it.
    pub(crate) fn is_final(&self) -> bool {
        let who = ["unauthorized", "origin_not_allowed"];
        !self.retryable() && !self.code().is_some_and(|code| who.contains(&code))
    }

    /// Whether the same call may succeed later.
    pub fn retryable(&self) -> bool {
        self.0.retryable
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

/// As a person reads it, because `main` prints errors this way.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        self.code().map_or(Ok(()), |code| write!(f, " ({code})"))?;
        self.hint().map_or(Ok(()), |hint| write!(f, "\n{hint}"))
    }
}

impl std::error::Error for Error {
    /// What it says of a failure, to be found also where the type of the error itself is hidden.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0.nature)
    }
}

impl From<Rejection> for Error {
    fn from(rejection: Rejection) -> Self {
        let code = rejection.code;
        Self::coded(code.as_str(), rejection.message, code.hint(), code.retryable())
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        ff_engine::Error::from(error).into()
    }
}

impl From<ff_engine::Error> for Error {
    fn from(error: ff_engine::Error) -> Self {
        match error {
            ff_engine::Error::Rejected(rejection) => rejection.into(),
            ff_engine::Error::Store(error) => {
                let code = error.code();
                Self::coded(code.as_str(), error.to_string(), code.hint(), code.retryable())
            }
        }
    }
}

/// An error with what caused it. Many errors repeat the text of their source at the end of their own:
/// that is said once.
pub(crate) fn chain(error: &BoxError) -> String {
    let mut said = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        if !cause.is::<Nature>() && !said.ends_with(&text) {
            said.push_str(": ");
            said.push_str(&text);
        }
        source = cause.source();
    }
    said
}

/// At most so many bytes of a text, without what no store keeps.
pub(crate) fn truncate(text: &mut String, max: usize) {
    while text.len() > max {
        text.pop();
    }
    text.retain(|c| c != '\0');
}
