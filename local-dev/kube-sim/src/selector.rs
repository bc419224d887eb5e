//! Label and field selectors: the full grammar, with the real server's error texts.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::meta;
use crate::object;
use crate::status::Status;

/// A conjunction of label requirements.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels {
    requirements: Vec<Requirement>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    op: Op,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Op {
    In(BTreeSet<String>),
    /// Also matches objects without the label.
    NotIn(BTreeSet<String>),
    Exists,
    Absent,
    Greater(i64),
    Less(i64),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Sign(&'static str),
    End,
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Token::Word(w) => w,
            Token::Sign(s) => s,
            Token::End => "",
        }
    }
}

fn tokens(text: &str) -> Vec<Token> {
    let mut out = Vec::new();
    let mut rest = text;
    'outer: loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            out.push(Token::End);
            return out;
        }
        for sign in ["==", "!=", "=", "!", "(", ")", ",", ">", "<"] {
            if let Some(after) = rest.strip_prefix(sign) {
                out.push(Token::Sign(sign));
                rest = after;
                continue 'outer;
            }
        }
        let end = rest.find(|c: char| c.is_whitespace() || "=!(),><".contains(c)).unwrap_or(rest.len());
        out.push(Token::Word(rest[..end].to_owned()));
        rest = &rest[end..];
    }
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).unwrap_or(&Token::End)
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }
}

impl Labels {
    pub fn parse(text: &str) -> Result<Labels, Status> {
        let mut parser = Parser { tokens: tokens(text), at: 0 };
        let mut requirements = Vec::new();
        loop {
            match parser.peek().clone() {
                Token::End => return Ok(Labels { requirements }),
                Token::Word(_) | Token::Sign("!") => {
                    let requirement = requirement(&mut parser)
                        .map_err(|why| Status::bad_request(format!("unable to parse requirement: {why}")))?;
                    requirements.push(requirement);
                    match parser.next() {
                        Token::End => return Ok(Labels { requirements }),
                        Token::Sign(",") => match parser.peek() {
                            Token::Word(_) | Token::Sign("!") => {}
                            other => {
                                return Err(Status::bad_request(format!(
                                    "found '{}', expected: identifier after ','",
                                    other.text()
                                )));
                            }
                        },
                        other => {
                            return Err(Status::bad_request(format!(
                                "found '{}', expected: ',' or 'end of string'",
                                other.text()
                            )));
                        }
                    }
                }
                other @ Token::Sign(_) => {
                    return Err(Status::bad_request(format!(
                        "found '{}', expected: !, identifier, or 'end of string'",
                        other.text()
                    )));
                }
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    pub fn matches(&self, value: &Value) -> bool {
        let labels = object::meta(value).and_then(|m| m.get("labels"));
        self.requirements.iter().all(|r| {
            let found = labels.and_then(|l| l.get(&r.key)).and_then(Value::as_str);
            match &r.op {
                Op::In(values) => found.is_some_and(|f| values.contains(f)),
                Op::NotIn(values) => found.is_none_or(|f| !values.contains(f)),
                Op::Exists => found.is_some(),
                Op::Absent => found.is_none(),
                Op::Greater(than) => found.and_then(|f| f.parse::<i64>().ok()).is_some_and(|n| n > *than),
                Op::Less(than) => found.and_then(|f| f.parse::<i64>().ok()).is_some_and(|n| n < *than),
            }
        })
    }
}

fn requirement(parser: &mut Parser) -> Result<Requirement, String> {
    let negated = *parser.peek() == Token::Sign("!");
    if negated {
        parser.next();
    }
    let key = match parser.next() {
        Token::Word(word) => word,
        other => return Err(format!("found '{}', expected: identifier", other.text())),
    };
    if let Some(problem) = meta::label_key_problem(&key) {
        return Err(format!("<nil>: Invalid value: \"{key}\": {problem}"));
    }
    if negated {
        return Ok(Requirement { key, op: Op::Absent });
    }
    let op = match parser.peek().clone() {
        Token::Sign("," | ")") | Token::End => Op::Exists,
        Token::Sign(sign @ ("=" | "==" | "!=")) => {
            parser.next();
            let values = BTreeSet::from([exact_value(parser)?]);
            check_values(&key, &values)?;
            if sign == "!=" { Op::NotIn(values) } else { Op::In(values) }
        }
        Token::Sign(sign @ (">" | "<")) => {
            parser.next();
            let text = exact_value(parser)?;
            let number = text.parse::<i64>().map_err(|_| {
                format!("values[0][{key}]: Invalid value: \"{text}\": for 'Gt', 'Lt' operators, the value must be an integer")
            })?;
            if sign == ">" { Op::Greater(number) } else { Op::Less(number) }
        }
        Token::Word(word) if word == "in" || word == "notin" => {
            parser.next();
            let values = value_list(parser)?;
            check_values(&key, &values)?;
            if word == "in" { Op::In(values) } else { Op::NotIn(values) }
        }
        other => return Err(format!("found '{}', expected: in, notin, =, ==, !=, gt, lt", other.text())),
    };
    Ok(Requirement { key, op })
}

fn check_values(key: &str, values: &BTreeSet<String>) -> Result<(), String> {
    for (i, value) in values.iter().enumerate() {
        if let Some(problem) = meta::label_value_problem(value) {
            return Err(format!("values[{i}][{key}]: Invalid value: \"{value}\": {problem}"));
        }
    }
    Ok(())
}

fn exact_value(parser: &mut Parser) -> Result<String, String> {
    match parser.peek().clone() {
        // `tier=` asks for the empty value.
        Token::End | Token::Sign(",") => Ok(String::new()),
        Token::Word(word) => {
            parser.next();
            Ok(word)
        }
        other @ Token::Sign(_) => Err(format!("found '{}', expected: identifier", other.text())),
    }
}

fn value_list(parser: &mut Parser) -> Result<BTreeSet<String>, String> {
    match parser.next() {
        Token::Sign("(") => {}
        other => return Err(format!("found '{}' expected: '('", other.text())),
    }
    let mut values = BTreeSet::new();
    loop {
        match parser.next() {
            Token::Word(word) => {
                values.insert(word);
                match parser.next() {
                    Token::Sign(",") => {
                        if *parser.peek() == Token::Sign(")") {
                            values.insert(String::new());
                        }
                    }
                    Token::Sign(")") => return Ok(values),
                    other => return Err(format!("found '{}', expected: ',' or ')'", other.text())),
                }
            }
            Token::Sign(")") => {
                if values.is_empty() {
                    values.insert(String::new());
                }
                return Ok(values);
            }
            Token::Sign(",") => {
                values.insert(String::new());
            }
            other => return Err(format!("found '{}', expected: ',', ')' or identifier", other.text())),
        }
    }
}

/// A conjunction of field requirements. Which fields exist depends on the resource; see [`Fields::check`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields {
    requirements: Vec<(String, bool, String)>,
}

impl Fields {
    pub fn parse(text: &str) -> Result<Fields, Status> {
        let mut requirements = Vec::new();
        for part in split_unescaped(text) {
            if part.is_empty() {
                continue;
            }
            let (key, equal, value) = if let Some((k, v)) = part.split_once("!=") {
                (k, false, v)
            } else if let Some((k, v)) = part.split_once("==") {
                (k, true, v)
            } else if let Some((k, v)) = part.split_once('=') {
                (k, true, v)
            } else {
                return Err(Status::bad_request(format!("invalid selector: '{text}'; can't understand '{part}'")));
            };
            requirements.push((key.to_owned(), equal, unescape(value)));
        }
        Ok(Fields { requirements })
    }

    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The fields that are asked for.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.requirements.iter().map(|(k, _, _)| k.as_str())
    }

    /// Matches with `get` reading a field's text; an absent field reads as empty.
    pub fn matches(&self, get: impl Fn(&str) -> String) -> bool {
        self.requirements.iter().all(|(key, equal, value)| (get(key) == *value) == *equal)
    }
}

fn split_unescaped(text: &str) -> Vec<String> {
    let (mut parts, mut current, mut escaped) = (Vec::new(), String::new(), false);
    for c in text.chars() {
        match c {
            _ if escaped => {
                current.push('\\');
                current.push(c);
                escaped = false;
            }
            '\\' => escaped = true,
            ',' => parts.push(std::mem::take(&mut current)),
            c => current.push(c),
        }
    }
    parts.push(current);
    parts
}

fn unescape(text: &str) -> String {
    let (mut out, mut escaped) = (String::new(), false);
    for c in text.chars() {
        if c == '\\' && !escaped {
            escaped = true;
        } else {
            out.push(c);
            escaped = false;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    #[test]
    fn label_selectors_choose_as_the_real_server_does() {
        let objects: Vec<Value> = [
            ("l0", json!({"app": "x"})),
            ("l1", json!({"app": "x", "tier": "db"})),
            ("l2", json!({"app": "x"})),
            ("l3", json!({"app": "y", "tier": "db"})),
            ("l4", json!({"app": "y"})),
        ]
        .into_iter()
        .map(|(name, labels)| json!({"metadata": {"name": name, "labels": labels}}))
        .collect();
        for (selector, wanted) in [
            ("app=x", "l0,l1,l2"),
            ("app==x", "l0,l1,l2"),
            ("app!=x", "l3,l4"),
            ("app=x,tier=db", "l1"),
            ("app in (x,y)", "l0,l1,l2,l3,l4"),
            ("app in (y)", "l3,l4"),
            ("app notin (x)", "l3,l4"),
            ("tier", "l1,l3"),
            ("!tier", "l0,l2,l4"),
            ("app=x,!tier", "l0,l2"),
            ("tier=", ""),
            ("app in (x),tier notin (db)", "l0,l2"),
            ("app=x, tier", "l1"),
            ("app>1", ""),
            ("app<1", ""),
            ("", "l0,l1,l2,l3,l4"),
            ("app in ()", ""),
        ] {
            let parsed = Labels::parse(selector).unwrap();
            let names: Vec<&str> =
                objects.iter().filter(|o| parsed.matches(o)).map(|o| object::meta_str(o, "name")).collect();
            assert_eq!(names.join(","), wanted, "{selector}");
        }
    }

    #[test]
    fn bad_label_selectors_are_refused_with_the_real_texts() {
        for (selector, wanted) in [
            ("a===b", "unable to parse requirement: found '=', expected: identifier"),
            ("app in x", "unable to parse requirement: found 'x' expected: '('"),
            ("app in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
            ("=x", "found '=', expected: !, identifier, or 'end of string'"),
            ("app=a b", "found 'b', expected: ',' or 'end of string'"),
            ("app=x,", "found '', expected: identifier after ','"),
            ("app,!", "unable to parse requirement: found '', expected: identifier"),
            ("app=x=y", "found '=', expected: ',' or 'end of string'"),
        ] {
            assert_eq!(Labels::parse(selector).unwrap_err().message, wanted, "{selector}");
        }
        for selector in ["-x=1", "a/b/c=1"] {
            assert!(
                Labels::parse(selector)
                    .unwrap_err()
                    .message
                    .starts_with("unable to parse requirement: <nil>: Invalid value: ")
            );
        }
    }

    #[test]
    fn field_selectors_know_equality_only() {
        for text in ["bogus", "metadata.name>1", "metadata.name in (a)"] {
            let message = Fields::parse(text).unwrap_err().message;
            assert_eq!(message, format!("invalid selector: '{text}'; can't understand '{text}'"));
        }
        let fields = Fields::parse("metadata.name==a,metadata.namespace!=b").unwrap();
        assert!(fields.matches(|k| if k == "metadata.name" { "a".into() } else { "c".into() }));
        assert!(!fields.matches(|k| if k == "metadata.name" { "a".into() } else { "b".into() }));
    }
}
