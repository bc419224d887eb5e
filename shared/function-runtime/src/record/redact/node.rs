//! JSON that borrows from the text it was read from.
//!
//! Recordings are read, changed a little and written again, many of them a second: texts that stay as they are need not be
//! copied for that, nor fields sorted. What is written has its fields in the order in which they came.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::Number;
use weir_openstack::redact::{Field, field, is_name, is_value};

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node<'a> {
    Null,
    Bool(bool),
    Number(Number),
    Text(Cow<'a, str>),
    List(Vec<Node<'a>>),
    Map(Vec<(Cow<'a, str>, Node<'a>)>),
}

impl<'a> Node<'a> {
    /// The member of that name, if this is an object that has one.
    pub(super) fn get(&self, name: &str) -> Option<&Node<'a>> {
        match self {
            Self::Map(members) => members.iter().find(|(key, _)| key == name).map(|(_, value)| value),
            _ => None,
        }
    }

    /// What the value of `{"name": …, "value": …}` is called, if that tells of a secret.
    pub(super) fn pair(&self) -> Option<&str> {
        let Self::Map(members) = self else { return None };
        members.iter().any(|(name, _)| is_value(name)).then_some(())?;
        let names = members.iter().filter(|(name, _)| is_name(name)).filter_map(|(_, value)| value.as_text());
        names.into_iter().find(|name| field(name) != Field::Plain)
    }

    /// Whether a secret follows in a list of arguments: `["--password", …]`.
    pub(super) fn is_flag(&self) -> bool {
        self.as_text().is_some_and(|text| text.starts_with('-') && !text.contains('=') && field(text) == Field::Secret)
    }

    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::Text(text.into())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Node<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyValue;

        impl<'de> Visitor<'de> for AnyValue {
            type Value = Node<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON value")
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Node::Null)
            }

            fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
                Ok(Node::Bool(value))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
                Ok(Node::Number(value.into()))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
                Ok(Node::Number(value.into()))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
                Ok(Number::from_f64(value).map_or(Node::Null, Node::Number))
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Node::Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Node::Text(Cow::Owned(text.to_owned())))
            }

            fn visit_string<E>(self, text: String) -> Result<Self::Value, E> {
                Ok(Node::Text(Cow::Owned(text)))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = items.next_element()? {
                    list.push(item);
                }
                Ok(Node::List(list))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
                let mut map = Vec::new();
                while let Some(Name(name)) = members.next_key()? {
                    map.push((name, members.next_value()?));
                }
                Ok(Node::Map(map))
            }
        }

        deserializer.deserialize_any(AnyValue)
    }
}

/// The name of a member.
#[derive(serde::Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl Serialize for Node<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Number(value) => value.serialize(serializer),
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    list.serialize_element(item)?;
                }
                list.end()
            }
            Self::Map(members) => {
                let mut map = serializer.serialize_map(Some(members.len()))?;
                for (name, value) in members {
                    map.serialize_entry(name, value)?;
                }
                map.end()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_read_and_written_again_is_the_same() {
        let text = r#"{"b":[1,-2,0.5,null,true,"é\n"],"a":{"x":"","\"y":18446744073709551615}}"#;
        let node: Node<'_> = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&node).unwrap(), text);
        assert!(matches!(&node, Node::Map(map) if matches!(map[0].0, Cow::Borrowed(_))));
    }
}
