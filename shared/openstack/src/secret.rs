//! Text that must not be seen.

/// A password, token or key. `Debug` and `Display` show `***`; the text itself has to be asked for by name, so a search for
/// [`Secret::reveal`] finds every place where one leaves its wrapping (OSC-13).
///
/// Equality is ordinary (not constant-time): secrets are compared with themselves, never with what a stranger sent.
#[derive(Clone, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether there is no text at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

impl std::fmt::Display for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}
