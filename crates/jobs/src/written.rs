//! Settings that have settings of their own: text such as `closed(32, think=5us)`, or the same as a
//! JSON object.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::JobError;

/// Reads a value from text; JSON holds it as an object, in which every value is a plain one.
pub trait Written: DeserializeOwned + Serialize {
    /// Its name in a schema.
    const NAME: &str;

    /// Reads it from text.
    ///
    /// # Errors
    /// A message that says what is wrong, and what would be right.
    fn read(text: &str) -> Result<Self, String> {
        registry::read(text).map_err(|error| error.to_string())
    }
}

/// A value that is written as text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Text<T>(pub T);

impl<T> std::ops::Deref for Text<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Serialize> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T: Written> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor(PhantomData)).map(Self)
    }
}

struct TextVisitor<T>(PhantomData<T>);

impl<'de, T: Written> Visitor<'de> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the text of a {}, or the same as an object", T::NAME)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        T::read(text).map_err(E::custom)
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

impl<T: Written> JsonSchema for Text<T> {
    fn schema_name() -> Cow<'static, str> {
        T::NAME.into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": T::NAME})
    }
}

/// Reads a value of a kind from text, and gives it as JSON.
///
/// # Errors
/// [`JobError::Settings`] of `at`.
pub(crate) fn json_of<T: Written>(at: &str, text: &str) -> Result<String, JobError> {
    JobError::json(&T::read(text).map_err(|error| JobError::at(at, error))?)
}
