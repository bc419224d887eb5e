//! Reading a list to its end, by each service's own convention (OSC-6).
//!
//! # Invariants
//! - Of a link only the query is used. Its host may be wrong behind a proxy, and a token goes nowhere but to the catalog's host.
//! - A page seen before is asked for again a few times (a cache may have answered it), then the list is refused: half a list
//!   taken for a whole one is how duplicates get made.
//! - An item that occurs twice, because the list changed while it was read, is returned once.
//! - A marker the cloud no longer knows restarts the list.

use std::collections::{HashMap, HashSet};

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::request::Request;
use crate::{Class, Error, Result, Session};

/// More pages than this is no list.
const MOST_PAGES: usize = 10_000;
/// How often the same page may be asked for.
const SAME_PAGE: u32 = 3;
/// How often a list may start again.
const RESTARTS: u32 = 2;

/// How a service says that there is more.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Paging {
    /// Nova, Neutron, Cinder, Octavia: `<key>_links: [{"rel": "next", "href"}]`.
    Links,
    /// Glance: `next`.
    Next,
    /// Keystone: `links.next`; `truncated` when it will not say more.
    Keystone,
    /// Nova's server groups: nothing says so; the next page is asked for by offset until one brings nothing new.
    Offset,
}

impl Session {
    /// The items under `key` of every page.
    pub(crate) async fn list<T: DeserializeOwned>(
        &self,
        request: Request,
        key: &str,
        paging: Paging,
    ) -> Result<Vec<T>> {
        let first = self.paged(request);
        self.list_values(&first, key, paging).await?.into_iter().map(|item| decode(&first, item)).collect()
    }

    /// The same, where one item that cannot be decoded does not keep the others from being read: it is returned as it is.
    pub(crate) async fn list_each<T: DeserializeOwned>(
        &self,
        request: Request,
        key: &str,
        paging: Paging,
    ) -> Result<Vec<std::result::Result<T, Value>>> {
        let first = self.paged(request);
        let items = self.list_values(&first, key, paging).await?;
        Ok(items.into_iter().map(|item| T::deserialize(&item).map_err(|_| item)).collect())
    }

    fn paged(&self, mut first: Request) -> Request {
        if let Some(size) = self.page_size() {
            first = first.query("limit", size.to_string());
        }
        first
    }

    async fn list_values(&self, first: &Request, key: &str, paging: Paging) -> Result<Vec<Value>> {
        let mut restarts = 0;
        loop {
            match self.read_list(first, key, paging).await? {
                Some(items) => return Ok(items),
                None if restarts < RESTARTS => restarts += 1,
                None => {
                    return Err(first.error(Class::Inconsistent).with_detail("the list forgets its own markers"));
                }
            }
        }
    }

    /// `None`: a marker was not known any more.
    async fn read_list(&self, first: &Request, key: &str, paging: Paging) -> Result<Option<Vec<Value>>> {
        let mut list = Gathered::default();
        let mut asked: HashMap<Vec<(String, String)>, u32> = HashMap::new();
        let mut request = first.clone();
        for page in 0..MOST_PAGES {
            let times = asked.entry(request.query.clone()).or_default();
            *times += 1;
            if *times > SAME_PAGE {
                return Err(first.error(Class::Inconsistent).with_detail("the list repeats a page and never ends"));
            }
            let answer = match self.send(&request).await {
                Ok(answer) => answer,
                Err(error) if page > 0 && is_lost_marker(&error) => return Ok(None),
                Err(error) => return Err(error),
            };
            let mut body = answer.value(&request)?;
            let Some(Value::Array(items)) = body.get_mut(key).map(Value::take) else {
                let text = format!("the answer has no list of {key}");
                return Err(first.error(Class::NotUnderstood).with_status(answer.status).with_detail(text));
            };
            let read = items.len();
            let new = list.add(items);
            let next = match paging {
                Paging::Links => link(body.get(format!("{key}_links"))).or_else(|| link(body.get("links"))),
                Paging::Next => body.get("next").and_then(Value::as_str).map(str::to_owned),
                Paging::Keystone => body.pointer("/links/next").and_then(Value::as_str).map(str::to_owned),
                Paging::Offset => None,
            };
            match (paging, next) {
                (Paging::Offset, _) if new > 0 && read > 0 => {
                    request.query = first.query.clone();
                    request.query.push(("offset".into(), list.items.len().to_string()));
                }
                (_, Some(link)) => match query_of(&link) {
                    Some(query) => request.query = query,
                    None => {
                        return Err(first
                            .error(Class::NotUnderstood)
                            .with_detail("a link to the next page that is none"));
                    }
                },
                (Paging::Keystone, None) if body.get("truncated") == Some(&Value::Bool(true)) => {
                    return Err(first.error(Class::Inconsistent).with_detail("the cloud cut the list short"));
                }
                _ => return Ok(Some(list.items)),
            }
        }
        Err(first.error(Class::Inconsistent).with_detail("the list never ends"))
    }
}

#[derive(Default)]
struct Gathered {
    items: Vec<Value>,
    ids: HashSet<String>,
}

impl Gathered {
    /// Adds what is new and says how much that was. Items without an id are kept: nothing tells them apart.
    fn add(&mut self, items: Vec<Value>) -> usize {
        let before = self.items.len();
        for item in items {
            let new = match identity(&item) {
                Some(id) => self.ids.insert(id),
                None => true,
            };
            if new {
                self.items.push(item);
            }
        }
        self.items.len() - before
    }
}

/// A key pair has a name instead of an id, and sits in a wrapping; an extension has an alias.
fn identity(item: &Value) -> Option<String> {
    let item = item.get("keypair").unwrap_or(item);
    ["id", "alias", "name"].iter().find_map(|key| item.get(*key)?.as_str().map(str::to_owned))
}

/// The link `next` of a list of links.
fn link(links: Option<&Value>) -> Option<String> {
    links?
        .as_array()?
        .iter()
        .find(|link| link.get("rel").and_then(Value::as_str) == Some("next"))?
        .get("href")?
        .as_str()
        .map(str::to_owned)
}

/// The query of a link, absolute or relative.
fn query_of(link: &str) -> Option<Vec<(String, String)>> {
    let (_, query) = link.split_once('?')?;
    let query = query.split('#').next().unwrap_or_default();
    let pairs: Vec<_> = url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    (!pairs.is_empty()).then_some(pairs)
}

/// Services answer an unknown marker with 400 or 404.
fn is_lost_marker(error: &Error) -> bool {
    matches!(error.status(), Some(400 | 404 | 410))
}

fn decode<T: DeserializeOwned>(request: &Request, item: Value) -> Result<T> {
    serde_json::from_value(item)
        .map_err(|_| request.error(Class::NotUnderstood).with_detail("an item of the list cannot be decoded"))
}

/// The one item that `matches` exactly (OSC-5).
pub(crate) fn exactly_one<T>(request: &Request, items: Vec<T>, matches: impl Fn(&T) -> bool) -> Result<Option<T>> {
    let mut found = items.into_iter().filter(matches);
    match (found.next(), found.count()) {
        (first, 0) => Ok(first),
        (_, more) => {
            let text = format!("{} resources have the one name that was looked for", more + 1);
            Err(request.error(Class::Inconsistent).with_detail(text))
        }
    }
}

#[cfg(test)]
mod tests;
