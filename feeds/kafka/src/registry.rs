//! Schemas of Avro by their numbers, from a registry with Confluent's HTTP interface.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use apache_avro::Schema;
use serde_json::Value;

use crate::http_client::{HttpClient, HttpResponse, escaped};
use crate::settings::Access;

/// Schemas in the cache.
const CACHED_MAX: usize = 10_000;

/// Schemas that one may name, with those that these name.
const REFERENCES_MAX: usize = 64;

/// The registry's codes for a schema, a subject or a version that it doesn't have.
const NONE_CODES: [i64; 3] = [40_401, 40_402, 40_403];

/// A schema, and the types of others that it names.
#[derive(Debug)]
pub struct ParsedSchema {
    /// The schema.
    pub root: Schema,
    /// The schemas that it refers to.
    pub named: Vec<Schema>,
}

/// Why there is no schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchemaError {
    /// The registry doesn't have it, or it is no schema of Avro.
    None(String),
    /// The registry can't be asked now.
    Later(String),
}

/// A source of schemas.
pub trait Schemas: Send + Sync + std::fmt::Debug {
    /// The schema of a number.
    ///
    /// # Errors
    /// As [`SchemaError`] says.
    fn schema(&self, id: u32) -> Result<Arc<ParsedSchema>, SchemaError>;
}

/// A client of a schema registry. The schema of an id never changes, so it is fetched once.
#[derive(Debug)]
pub struct Registry {
    http: HttpClient,
    cache: Mutex<HashMap<u32, Arc<ParsedSchema>>>,
}

impl Registry {
    /// The registry of settings.
    ///
    /// # Errors
    /// As [`HttpClient::new`].
    pub fn new(access: &Access) -> Result<Registry, String> {
        Ok(Registry { http: HttpClient::new(access, Duration::from_secs(30))?, cache: Mutex::default() })
    }

    fn ask(&self, path: &str) -> Result<Value, SchemaError> {
        let HttpResponse { status, json, .. } = self.http.get(path).map_err(SchemaError::Later)?;
        if status == 200 {
            return Ok(json);
        }
        let message = json["message"].as_str().unwrap_or("no reason given");
        let reason = format!("the registry answers {status}: {message}");
        // A wrong address answers 404 as well, without the registry's own code: that is no fault of the record.
        match json["error_code"].as_i64() {
            Some(code) if NONE_CODES.contains(&code) => Err(SchemaError::None(reason)),
            _ => Err(SchemaError::Later(reason)),
        }
    }

    fn fetch(&self, id: u32) -> Result<ParsedSchema, SchemaError> {
        let answer = self.ask(&format!("/schemas/ids/{id}"))?;
        if let Some(kind) = answer["schemaType"].as_str().filter(|kind| *kind != "AVRO") {
            return Err(SchemaError::None(format!("it is a schema of {kind}, not of Avro")));
        }
        let mut named = Vec::new();
        self.references(&answer, &mut named, 0)?;
        let texts: Vec<&str> = named.iter().map(|(_, text)| text.as_str()).collect();
        let parsed = Schema::parse_str_with_list(text(&answer)?, texts);
        let (root, named) = parsed.map_err(|error| SchemaError::None(error.to_string()))?;
        Ok(ParsedSchema { root, named })
    }

    /// The texts of the schemas that one names, each once.
    fn references(&self, answer: &Value, schemas: &mut Vec<(String, String)>, depth: usize) -> Result<(), SchemaError> {
        for reference in answer["references"].as_array().into_iter().flatten() {
            let wrong = || SchemaError::None("a reference without subject and version".to_owned());
            let subject = reference["subject"].as_str().ok_or_else(wrong)?;
            let version = reference["version"].as_i64().ok_or_else(wrong)?;
            let key = format!("{subject} {version}");
            if schemas.iter().any(|(other, _)| *other == key) {
                continue;
            }
            if schemas.len() >= REFERENCES_MAX || depth > REFERENCES_MAX {
                return Err(SchemaError::None("it names too many others".to_owned()));
            }
            let named = self.ask(&format!("/subjects/{}/versions/{version}", escaped(subject)))?;
            schemas.push((key, text(&named)?.to_owned()));
            self.references(&named, schemas, depth + 1)?;
        }
        Ok(())
    }
}

fn text(answer: &Value) -> Result<&str, SchemaError> {
    answer["schema"].as_str().ok_or_else(|| SchemaError::Later("the registry's answer has no schema".to_owned()))
}

impl Schemas for Registry {
    fn schema(&self, id: u32) -> Result<Arc<ParsedSchema>, SchemaError> {
        let cache = || self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(schema) = cache().get(&id) {
            return Ok(Arc::clone(schema));
        }
        let parsed = Arc::new(self.fetch(id)?);
        let mut cache = cache();
        if cache.len() >= CACHED_MAX {
            cache.clear();
        }
        cache.insert(id, Arc::clone(&parsed));
        Ok(parsed)
    }
}
