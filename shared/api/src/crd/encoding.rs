//! Bytes in base64, and values that must not be shown.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::borrow::Cow;
use std::fmt;

/// As lenient as Kubernetes, which accepts set bits after the last byte.
const LENIENT: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

/// Bytes that stand in base64 in a manifest (`format: byte`). Holds them decoded.
///
/// `Debug` shows only how many there are: user data and keys are nobody's log's business.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Base64(pub Vec<u8>);

impl Base64 {
    /// What `text` says, as it stands in a manifest; `None` if it is not base64.
    pub fn parse(text: impl Into<String>) -> Option<Self> {
        let mut text = text.into();
        // A block in YAML leaves line ends in the text.
        text.retain(|c| c != '\n' && c != '\r');
        LENIENT.decode(text).ok().map(Self)
    }

    /// The decoded bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Base64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{} bytes]", self.0.len())
    }
}

impl From<Vec<u8>> for Base64 {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl Serialize for Base64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&LENIENT.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The error says where, never what.
        Self::parse(String::deserialize(deserializer)?).ok_or_else(|| de::Error::custom("not base64"))
    }
}

impl JsonSchema for Base64 {
    fn schema_name() -> Cow<'static, str> {
        "Base64".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "byte" })
    }
}

/// A value that is used, never shown: `Debug` prints `[redacted]`, and there is no `Display`.
///
/// It serialises as it is, because the place where a secret is kept has to be written too.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Confidential<T>(T);

impl<T> Confidential<T> {
    /// Wraps a secret.
    pub const fn new(secret: T) -> Self {
        Self(secret)
    }

    /// The secret. Calls of this are what a reviewer looks for.
    pub const fn expose(&self) -> &T {
        &self.0
    }
}

impl<T> From<T> for Confidential<T> {
    fn from(secret: T) -> Self {
        Self(secret)
    }
}

impl<T> fmt::Debug for Confidential<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl<T: JsonSchema> JsonSchema for Confidential<T> {
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn bytes_go_in_and_out_as_base64() {
        let bytes: Base64 = serde_json::from_str("\"aGVs\\nbG8=\\n\"").unwrap();
        assert_eq!(bytes.as_bytes(), b"hello");
        assert_eq!(serde_json::to_string(&bytes).unwrap(), "\"aGVsbG8=\"");
        assert!(serde_json::from_str::<Base64>("\"aGVsbG8\"").is_err());
    }

    #[test]
    fn what_is_confidential_is_not_shown() {
        let secret = Confidential::new("correct horse".to_owned());
        assert_eq!(format!("{secret:?}"), "[redacted]");
        assert_eq!(format!("{:?}", Base64(b"horse".to_vec())), "[5 bytes]");
        let error = serde_json::from_str::<Base64>("\"correct horse\"").unwrap_err().to_string();
        assert!(!error.contains("horse"), "{error}");
    }
}
