//! The small part of JSONPath that printer columns and selectable fields use: `.a.b`, `['a.b']`, `[0]`, `[-1]`, `[*]`, `.*` and
//! `[?(@.type=="Ready")]` with `==` and `!=`.
//!
//! A path is parsed once. A path that cannot be parsed is refused, never guessed at.

use serde_json::Value;

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Key(String),
    Index(i64),
    All,
    Filter { path: Vec<Step>, equal: bool, value: Value },
}

/// A parsed path.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath {
    steps: Vec<Step>,
}

impl JsonPath {
    /// Parses a path that begins with a dot or a bracket; braces around it and a leading `$` are allowed.
    pub fn parse(text: &str) -> Option<JsonPath> {
        let text = text.trim();
        let text = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')).unwrap_or(text);
        let text = text.strip_prefix('$').unwrap_or(text);
        let (steps, rest) = steps(text)?;
        rest.is_empty().then_some(JsonPath { steps })
    }

    /// Everything the path finds, in document order.
    pub fn find<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        find(&self.steps, value)
    }

    /// The keys, if the path is made of keys only: `spec.size`.
    pub fn plain_keys(&self) -> Option<Vec<&str>> {
        self.steps
            .iter()
            .map(|s| match s {
                Step::Key(key) => Some(key.as_str()),
                _ => None,
            })
            .collect()
    }
}

fn find<'a>(steps: &[Step], value: &'a Value) -> Vec<&'a Value> {
    let mut current = vec![value];
    for step in steps {
        let mut next = Vec::new();
        for value in current {
            match step {
                Step::Key(key) => next.extend(value.get(key)),
                Step::Index(index) => {
                    if let Some(items) = value.as_array() {
                        let at = if *index < 0 {
                            items.len().checked_sub(index.unsigned_abs().try_into().unwrap_or(usize::MAX))
                        } else {
                            usize::try_from(*index).ok()
                        };
                        next.extend(at.and_then(|i| items.get(i)));
                    }
                }
                Step::All => match value {
                    Value::Array(items) => next.extend(items),
                    Value::Object(map) => next.extend(map.values()),
                    _ => {}
                },
                Step::Filter { path, equal, value: wanted } => {
                    let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
                    next.extend(
                        items
                            .iter()
                            .filter(|item| find(path, item).first().is_some_and(|found| (*found == wanted) == *equal)),
                    );
                }
            }
        }
        current = next;
    }
    current
}

fn steps(mut rest: &str) -> Option<(Vec<Step>, &str)> {
    let mut out = Vec::new();
    loop {
        if let Some(after) = rest.strip_prefix('.') {
            if after.is_empty() && out.is_empty() {
                return Some((out, ""));
            }
            if let Some(after) = after.strip_prefix('*') {
                out.push(Step::All);
                rest = after;
                continue;
            }
            let (key, after) = key(after);
            if key.is_empty() {
                return None;
            }
            out.push(Step::Key(key));
            rest = after;
        } else if let Some(after) = rest.strip_prefix('[') {
            let (step, after) = bracket(after)?;
            out.push(step);
            rest = after;
        } else {
            return Some((out, rest));
        }
    }
}

/// A key up to the next delimiter; a backslash takes the next character as it is.
fn key(text: &str) -> (String, &str) {
    let mut out = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => out.extend(chars.next().map(|(_, c)| c)),
            '.' | '[' | ']' | '=' | '!' | ' ' | ')' | '<' | '>' => return (out, &text[at..]),
            c => out.push(c),
        }
    }
    (out, "")
}

fn bracket(text: &str) -> Option<(Step, &str)> {
    if let Some(after) = text.strip_prefix("*]") {
        return Some((Step::All, after));
    }
    if let Some(after) = text.strip_prefix("?(@") {
        let (path, after) = steps(after)?;
        let after = after.trim_start();
        let (equal, after) = match (after.strip_prefix("=="), after.strip_prefix("!=")) {
            (Some(a), _) => (true, a),
            (_, Some(a)) => (false, a),
            _ => return None,
        };
        let (literal, after) = after.split_once(")]")?;
        return Some((Step::Filter { path, equal, value: literal_value(literal.trim())? }, after));
    }
    let (inside, after) = text.split_once(']')?;
    if let Some(quoted) = unquote(inside) {
        return Some((Step::Key(quoted.replace("\\.", ".")), after));
    }
    inside.trim().parse().ok().map(|index| (Step::Index(index), after))
}

fn unquote(text: &str) -> Option<&str> {
    let quote = text.chars().next().filter(|c| *c == '\'' || *c == '"')?;
    text.strip_prefix(quote)?.strip_suffix(quote)
}

fn literal_value(text: &str) -> Option<Value> {
    match unquote(text) {
        Some(inner) => Some(Value::String(inner.to_owned())),
        None => serde_json::from_str(text).ok(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_find_what_printer_columns_name() {
        let object = json!({
            "metadata": {"labels": {"a.b/c": "x"}},
            "status": {"conditions": [{"type": "A", "status": "True"}, {"type": "B", "status": "False"}], "n": 3},
        });
        for (path, wanted) in [
            (".status.n", vec![json!(3)]),
            (".status.conditions[?(@.type==\"B\")].status", vec![json!("False")]),
            (".status.conditions[?(@.type!='B')].status", vec![json!("True")]),
            (".status.conditions[*].type", vec![json!("A"), json!("B")]),
            (".status.conditions[1].type", vec![json!("B")]),
            (".status.conditions[-1].type", vec![json!("B")]),
            (".metadata.labels['a.b/c']", vec![json!("x")]),
            (r".metadata.labels.a\.b/c", vec![json!("x")]),
            (".status.none", vec![]),
        ] {
            let found: Vec<Value> = JsonPath::parse(path).unwrap().find(&object).into_iter().cloned().collect();
            assert_eq!(found, wanted, "{path}");
        }
    }

    #[test]
    fn a_path_that_cannot_be_understood_is_refused() {
        for path in ["x[", ".a[", ".a[?(@.b>1)]", ".", "a.b"] {
            assert!(JsonPath::parse(path).is_none_or(|p| p.steps.is_empty()), "{path}");
        }
    }
}
