//! What a server's state is told in: values that read themselves leniently and never take silence for an answer.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::{ImageId, lenient};

/// A field that a decision rests on, so that *the cloud does not tell* cannot pass for *nothing*.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Observed<T> {
    /// The answer lacks the field: the cloud's policy hides it, or the answer is mangled. Nothing may be concluded.
    #[default]
    Untold,
    /// The field is there and `null`.
    Nothing,
    /// The field is there and has a value.
    Value(T),
}

impl<T> Observed<T> {
    /// The value, if there is one.
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Value(value) => Some(value),
            Self::Untold | Self::Nothing => None,
        }
    }

    /// Whether the cloud said that there is nothing.
    pub fn is_nothing(&self) -> bool {
        matches!(self, Self::Nothing)
    }
}

impl<'de> Deserialize<'de> for Observed<String> {
    /// Only `null` is nothing. A value of another type is still a value: *something* is there. Empty text is what some
    /// clouds write for nothing in particular, and is taken as untold.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        Ok(match Value::deserialize(deserializer)? {
            Value::Null => Self::Nothing,
            Value::String(text) if text.is_empty() => Self::Untold,
            other => Self::Value(lenient::text(other)),
        })
    }
}

/// What a server was made from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ImageRef {
    /// The answer does not say, or not in a form that is understood. Nothing may be concluded.
    #[default]
    Unreadable,
    /// It boots from a volume (`image: ""`).
    Volume,
    /// An image.
    Image(ImageId),
}

impl<'de> Deserialize<'de> for ImageRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        Ok(match Value::deserialize(deserializer)? {
            Value::String(text) if text.is_empty() => Self::Volume,
            Value::Object(map) => match map.get("id") {
                Some(Value::String(id)) if !id.is_empty() => Self::Image(ImageId::from(id.as_str())),
                _ => Self::Unreadable,
            },
            _ => Self::Unreadable,
        })
    }
}

/// Nova's status of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // Nova's own words
pub enum ServerStatus {
    Active,
    Build,
    Deleted,
    Error,
    HardReboot,
    Migrating,
    Password,
    Paused,
    Reboot,
    Rebuild,
    Rescue,
    Resize,
    RevertResize,
    Shelved,
    ShelvedOffloaded,
    Shutoff,
    SoftDeleted,
    Suspended,
    VerifyResize,
    /// One that is not known here, `UNKNOWN`, or none at all (empty).
    Unknown(String),
}

impl Default for ServerStatus {
    fn default() -> Self {
        Self::Unknown(String::new())
    }
}

impl ServerStatus {
    /// Whether Nova has deleted the server and only still shows it.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Deleted | Self::SoftDeleted)
    }
}

impl From<&str> for ServerStatus {
    fn from(text: &str) -> Self {
        match text.to_ascii_uppercase().as_str() {
            "ACTIVE" => Self::Active,
            "BUILD" => Self::Build,
            "DELETED" => Self::Deleted,
            "ERROR" => Self::Error,
            "HARD_REBOOT" => Self::HardReboot,
            "MIGRATING" => Self::Migrating,
            "PASSWORD" => Self::Password,
            "PAUSED" => Self::Paused,
            "REBOOT" => Self::Reboot,
            "REBUILD" => Self::Rebuild,
            "RESCUE" => Self::Rescue,
            "RESIZE" => Self::Resize,
            "REVERT_RESIZE" => Self::RevertResize,
            "SHELVED" => Self::Shelved,
            "SHELVED_OFFLOADED" => Self::ShelvedOffloaded,
            "SHUTOFF" => Self::Shutoff,
            "SOFT_DELETED" => Self::SoftDeleted,
            "SUSPENDED" => Self::Suspended,
            "VERIFY_RESIZE" => Self::VerifyResize,
            _ => Self::Unknown(text.to_owned()),
        }
    }
}

impl<'de> Deserialize<'de> for ServerStatus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        Ok(Value::deserialize(deserializer)?.as_str().map_or_else(Self::default, Self::from))
    }
}

/// What the hypervisor says of the guest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PowerState {
    /// `NOSTATE`, or not told.
    #[default]
    Unknown,
    /// Running.
    Running,
    /// Paused.
    Paused,
    /// Off.
    Shutdown,
    /// Crashed.
    Crashed,
    /// Suspended.
    Suspended,
}

impl<'de> Deserialize<'de> for PowerState {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        Ok(match Value::deserialize(deserializer)?.as_u64() {
            Some(1) => Self::Running,
            Some(3) => Self::Paused,
            Some(4) => Self::Shutdown,
            Some(6) => Self::Crashed,
            Some(7) => Self::Suspended,
            _ => Self::Unknown,
        })
    }
}
