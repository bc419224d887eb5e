//! The functions rules may call: CEL's own and those Kubernetes adds, and which there are.
//!
//! A method is a function whose first argument is its target.

use super::eval::Meter;
use super::quantity::Quantity;
use super::value::{Error, Val, failed, no_overload};
use super::{net, strings, time};
use cel::common::ast::operators;
use std::cmp::Ordering;

/// What a function gives back, as far as it is known before it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gives {
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    /// A list of strings.
    Strings,
    /// Whatever comes out.
    Dyn,
}

/// Every function: its name, how many arguments it takes (a method's target counted), and what it gives.
const FUNCTIONS: &[(&str, std::ops::RangeInclusive<usize>, Gives)] = &[
    ("size", 1..=1, Gives::Int),
    ("int", 1..=1, Gives::Int),
    ("uint", 1..=1, Gives::Uint),
    ("double", 1..=1, Gives::Double),
    ("string", 1..=1, Gives::String),
    ("bool", 1..=1, Gives::Bool),
    ("bytes", 1..=1, Gives::Bytes),
    ("timestamp", 1..=1, Gives::Timestamp),
    ("duration", 1..=1, Gives::Duration),
    ("dyn", 1..=1, Gives::Dyn),
    ("type", 1..=1, Gives::Dyn),
    ("contains", 2..=2, Gives::Bool),
    ("startsWith", 2..=2, Gives::Bool),
    ("endsWith", 2..=2, Gives::Bool),
    ("matches", 2..=2, Gives::Bool),
    ("find", 2..=2, Gives::String),
    ("findAll", 2..=3, Gives::Strings),
    ("charAt", 2..=2, Gives::String),
    ("indexOf", 2..=3, Gives::Int),
    ("lastIndexOf", 2..=3, Gives::Int),
    ("lowerAscii", 1..=1, Gives::String),
    ("upperAscii", 1..=1, Gives::String),
    ("replace", 3..=4, Gives::String),
    ("split", 2..=3, Gives::Strings),
    ("join", 1..=2, Gives::String),
    ("substring", 2..=3, Gives::String),
    ("trim", 1..=1, Gives::String),
    ("reverse", 1..=1, Gives::Dyn),
    ("isSorted", 1..=1, Gives::Bool),
    ("sum", 1..=1, Gives::Dyn),
    ("min", 1..=1, Gives::Dyn),
    ("max", 1..=1, Gives::Dyn),
    ("sets.contains", 2..=2, Gives::Bool),
    ("sets.equivalent", 2..=2, Gives::Bool),
    ("sets.intersects", 2..=2, Gives::Bool),
    ("optional.of", 1..=1, Gives::Dyn),
    ("optional.ofNonZeroValue", 1..=1, Gives::Dyn),
    ("optional.none", 0..=0, Gives::Dyn),
    ("hasValue", 1..=1, Gives::Bool),
    ("value", 1..=1, Gives::Dyn),
    ("or", 2..=2, Gives::Dyn),
    ("orValue", 2..=2, Gives::Dyn),
    ("optMap", 3..=3, Gives::Dyn),
    ("optFlatMap", 3..=3, Gives::Dyn),
    ("getFullYear", 1..=2, Gives::Int),
    ("getMonth", 1..=2, Gives::Int),
    ("getDate", 1..=2, Gives::Int),
    ("getDayOfMonth", 1..=2, Gives::Int),
    ("getDayOfWeek", 1..=2, Gives::Int),
    ("getDayOfYear", 1..=2, Gives::Int),
    ("getHours", 1..=2, Gives::Int),
    ("getMinutes", 1..=2, Gives::Int),
    ("getSeconds", 1..=2, Gives::Int),
    ("getMilliseconds", 1..=2, Gives::Int),
    ("ip", 1..=1, Gives::Dyn),
    ("isIP", 1..=1, Gives::Bool),
    ("ip.isCanonical", 1..=1, Gives::Bool),
    ("family", 1..=1, Gives::Int),
    ("isUnspecified", 1..=1, Gives::Bool),
    ("isLoopback", 1..=1, Gives::Bool),
    ("isGlobalUnicast", 1..=1, Gives::Bool),
    ("isLinkLocalUnicast", 1..=1, Gives::Bool),
    ("isLinkLocalMulticast", 1..=1, Gives::Bool),
    ("cidr", 1..=1, Gives::Dyn),
    ("isCIDR", 1..=1, Gives::Bool),
    ("containsIP", 2..=2, Gives::Bool),
    ("containsCIDR", 2..=2, Gives::Bool),
    ("masked", 1..=1, Gives::Dyn),
    ("prefixLength", 1..=1, Gives::Int),
    ("url", 1..=1, Gives::Dyn),
    ("isURL", 1..=1, Gives::Bool),
    ("getScheme", 1..=1, Gives::String),
    ("getHost", 1..=1, Gives::String),
    ("getHostname", 1..=1, Gives::String),
    ("getPort", 1..=1, Gives::String),
    ("getEscapedPath", 1..=1, Gives::String),
    ("getQuery", 1..=1, Gives::Dyn),
    ("quantity", 1..=1, Gives::Dyn),
    ("isQuantity", 1..=1, Gives::Bool),
    ("isInteger", 1..=1, Gives::Bool),
    ("asInteger", 1..=1, Gives::Int),
    ("asApproximateFloat", 1..=1, Gives::Double),
    ("sign", 1..=1, Gives::Int),
    ("add", 2..=2, Gives::Dyn),
    ("sub", 2..=2, Gives::Dyn),
    ("isGreaterThan", 2..=2, Gives::Bool),
    ("isLessThan", 2..=2, Gives::Bool),
    ("compareTo", 2..=2, Gives::Int),
];

/// What the function gives; the error says that there is none of that name, or none with so many arguments.
pub(super) fn signature(name: &str, arguments: usize) -> Result<Gives, &'static str> {
    let Some((_, range, gives)) = FUNCTIONS.iter().find(|(n, ..)| *n == name) else {
        return Err("undeclared reference to");
    };
    if range.contains(&arguments) { Ok(*gives) } else { Err("found no matching overload for") }
}

pub(super) fn is_namespace(name: &str) -> bool {
    matches!(name, "optional" | "sets" | "ip")
}

/// Calls a function or an operator on values.
pub(super) fn call<'a>(name: &str, args: &[Val<'a>], meter: &mut Meter) -> Result<Val<'a>, Error> {
    meter.pay(args.iter().map(|arg| if matches!(arg, Val::String(_)) { arg.weight() } else { 0 }).sum())?;
    if let Some(result) = arithmetic(name, args, meter)
        .or_else(|| conversion(name, args))
        .or_else(|| lists(name, args, meter))
        .or_else(|| strings::call(name, args, meter))
        .or_else(|| net::call(name, args))
        .or_else(|| time::call(name, args))
        .or_else(|| quantities(name, args))
    {
        return result;
    }
    match (name, args) {
        ("size", [value]) => {
            value.size().map_or_else(no_overload, |size| Ok(Val::Int(i64::try_from(size).unwrap_or(i64::MAX))))
        }
        ("dyn", [value]) => Ok(value.clone()),
        ("type", [value]) => Ok(Val::Type(value.type_name())),
        ("optional.of", [value]) => Ok(Val::Optional(Some(Box::new(value.clone())))),
        ("optional.ofNonZeroValue", [value]) => Ok(Val::Optional((!is_zero(value)).then(|| Box::new(value.clone())))),
        ("optional.none", []) => Ok(Val::Optional(None)),
        ("hasValue", [Val::Optional(value)]) => Ok(Val::Bool(value.is_some())),
        ("value", [Val::Optional(Some(value))]) => Ok((**value).clone()),
        ("value", [Val::Optional(None)]) => failed("optional.none() dereference"),
        _ => no_overload(),
    }
}

fn is_zero(value: &Val<'_>) -> bool {
    match value {
        Val::Null | Val::Bool(false) | Val::Int(0) | Val::Uint(0) | Val::Optional(None) => true,
        Val::Double(d) => *d == 0.0,
        other => other.size() == Some(0),
    }
}

fn arithmetic<'a>(name: &str, args: &[Val<'a>], meter: &mut Meter) -> Option<Result<Val<'a>, Error>> {
    let overflow = || Error::Failed("integer overflow".into());
    let int = |value: Option<i64>| Some(value.map(Val::Int).ok_or_else(overflow));
    let uint = |value: Option<u64>| Some(value.map(Val::Uint).ok_or_else(overflow));
    match (name, args) {
        (operators::NEGATE, [Val::Int(a)]) => int(a.checked_neg()),
        (operators::NEGATE, [Val::Double(a)]) => Some(Ok(Val::Double(-a))),
        (operators::DIVIDE | operators::MODULO, [_, Val::Int(0) | Val::Uint(0)]) => {
            Some(failed(if name == operators::DIVIDE { "division by zero" } else { "modulus by zero" }))
        }
        (_, [Val::Int(a), Val::Int(b)]) => match name {
            operators::ADD => int(a.checked_add(*b)),
            operators::SUBSTRACT => int(a.checked_sub(*b)),
            operators::MULTIPLY => int(a.checked_mul(*b)),
            operators::DIVIDE => int(a.checked_div(*b)),
            operators::MODULO => int(a.checked_rem(*b)),
            _ => None,
        },
        (_, [Val::Uint(a), Val::Uint(b)]) => match name {
            operators::ADD => uint(a.checked_add(*b)),
            operators::SUBSTRACT => uint(a.checked_sub(*b)),
            operators::MULTIPLY => uint(a.checked_mul(*b)),
            operators::DIVIDE => uint(a.checked_div(*b)),
            operators::MODULO => uint(a.checked_rem(*b)),
            _ => None,
        },
        (_, [Val::Double(a), Val::Double(b)]) => Some(Ok(Val::Double(match name {
            operators::ADD => a + b,
            operators::SUBSTRACT => a - b,
            operators::MULTIPLY => a * b,
            operators::DIVIDE => a / b,
            _ => return None,
        }))),
        (operators::ADD, [Val::String(a), Val::String(b)]) => Some(Ok(Val::text(format!("{a}{b}")))),
        (operators::ADD, [Val::Bytes(a), Val::Bytes(b)]) => {
            Some(Ok(Val::Bytes([a.as_ref(), b.as_ref()].concat().into())))
        }
        (operators::ADD, [a, b]) if a.is_list() && b.is_list() => Some((|| {
            meter.pay((a.size().unwrap_or(0) + b.size().unwrap_or(0)) as u64 / 10)?;
            let mut items = a.items()?;
            items.extend(b.items()?);
            Ok(Val::list_of(items))
        })()),
        (operators::ADD, [Val::Timestamp(t), Val::Duration(d)] | [Val::Duration(d), Val::Timestamp(t)]) => {
            Some(t.checked_add(*d).map(Val::Timestamp).map_err(|_| overflow()))
        }
        (operators::SUBSTRACT, [Val::Timestamp(t), Val::Duration(d)]) => {
            Some(t.checked_sub(*d).map(Val::Timestamp).map_err(|_| overflow()))
        }
        (operators::SUBSTRACT, [Val::Timestamp(a), Val::Timestamp(b)]) => Some(Ok(Val::Duration(a.duration_since(*b)))),
        (operators::ADD, [Val::Duration(a), Val::Duration(b)]) => {
            Some(a.checked_add(*b).map(Val::Duration).ok_or_else(overflow))
        }
        (operators::SUBSTRACT, [Val::Duration(a), Val::Duration(b)]) => {
            Some(a.checked_sub(*b).map(Val::Duration).ok_or_else(overflow))
        }
        _ => None,
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]
fn conversion<'a>(name: &str, args: &[Val<'a>]) -> Option<Result<Val<'a>, Error>> {
    let [value] = args else { return None };
    let bad = || failed(format!("type conversion error from '{}' to '{name}'", value.type_name()));
    let range = || failed("integer overflow");
    Some(match (name, value) {
        ("int", Val::Int(_))
        | ("uint", Val::Uint(_))
        | ("double", Val::Double(_))
        | ("string", Val::String(_))
        | ("bool", Val::Bool(_))
        | ("bytes", Val::Bytes(_))
        | ("timestamp", Val::Timestamp(_))
        | ("duration", Val::Duration(_)) => Ok(value.clone()),
        ("int", Val::Uint(u)) => i64::try_from(*u).map_or_else(|_| range(), |i| Ok(Val::Int(i))),
        ("int", Val::Double(d)) if d.abs() < 9.2e18 => Ok(Val::Int(d.trunc() as i64)),
        ("uint", Val::Double(d)) if *d >= 0.0 && *d < 1.8e19 => Ok(Val::Uint(d.trunc() as u64)),
        ("int" | "uint", Val::Double(_)) => range(),
        ("int", Val::String(s)) => s.parse().map_or_else(|_| bad(), |i| Ok(Val::Int(i))),
        ("int", Val::Timestamp(t)) => Ok(Val::Int(t.as_second())),
        ("uint", Val::Int(i)) => u64::try_from(*i).map_or_else(|_| range(), |u| Ok(Val::Uint(u))),
        ("uint", Val::String(s)) => s.parse().map_or_else(|_| bad(), |u| Ok(Val::Uint(u))),
        ("double", Val::Int(i)) => Ok(Val::Double(*i as f64)),
        ("double", Val::Uint(u)) => Ok(Val::Double(*u as f64)),
        ("double", Val::String(s)) => s.parse().map_or_else(|_| bad(), |d| Ok(Val::Double(d))),
        ("bool", Val::String(s)) => match &**s {
            "true" | "True" | "TRUE" | "t" | "1" => Ok(Val::Bool(true)),
            "false" | "False" | "FALSE" | "f" | "0" => Ok(Val::Bool(false)),
            _ => bad(),
        },
        ("bytes", Val::String(s)) => Ok(Val::Bytes(s.as_bytes().into())),
        ("timestamp", Val::String(s)) => {
            crate::schema::formats::date_time(s).map_or_else(bad, |t| Ok(Val::Timestamp(t)))
        }
        ("timestamp", Val::Int(i)) => {
            jiff::Timestamp::from_second(*i).map_or_else(|_| bad(), |t| Ok(Val::Timestamp(t)))
        }
        ("duration", Val::String(s)) => time::duration(s).map_or_else(bad, |d| Ok(Val::Duration(d))),
        ("string", Val::Int(i)) => Ok(Val::text(i.to_string())),
        ("string", Val::Uint(u)) => Ok(Val::text(u.to_string())),
        ("string", Val::Double(d)) => Ok(Val::text(d.to_string())),
        ("string", Val::Bool(b)) => Ok(Val::text(b.to_string())),
        ("string", Val::Bytes(b)) => std::str::from_utf8(b).map_or_else(|_| bad(), |s| Ok(Val::text(s))),
        ("string", Val::Timestamp(t)) => Ok(Val::text(t.to_string())),
        ("string", Val::Duration(d)) => Ok(Val::text(time::format(*d))),
        ("string", Val::Ip(a)) => Ok(Val::text(a.to_string())),
        ("string", Val::Cidr(a, length)) => Ok(Val::text(format!("{a}/{length}"))),
        ("int" | "uint" | "double" | "string" | "bool" | "bytes" | "timestamp" | "duration", _) => no_overload(),
        _ => return None,
    })
}

fn lists<'a>(name: &str, args: &[Val<'a>], meter: &mut Meter) -> Option<Result<Val<'a>, Error>> {
    let first = args.first().filter(|v| v.is_list())?;
    let known = matches!(
        name,
        "isSorted"
            | "sum"
            | "min"
            | "max"
            | "indexOf"
            | "lastIndexOf"
            | "reverse"
            | "sets.contains"
            | "sets.equivalent"
            | "sets.intersects"
    );
    known.then(|| {
        let items = first.items()?;
        meter.pay(items.len() as u64)?;
        let position = |at: Option<usize>| Ok(Val::Int(at.and_then(|i| i64::try_from(i).ok()).unwrap_or(-1)));
        match (name, args) {
            ("isSorted", [_]) => {
                let mut sorted = true;
                for pair in items.windows(2) {
                    sorted &=
                        pair[0].compare(&pair[1]).ok_or(Error::Failed("no such overload".into()))? != Ordering::Greater;
                }
                Ok(Val::Bool(sorted))
            }
            ("sum", [_]) => items
                .into_iter()
                .try_fold(None, |sum: Option<Val<'a>>, item| {
                    Ok(Some(match sum {
                        None => item,
                        Some(sum) => arithmetic(operators::ADD, &[sum, item], meter).unwrap_or_else(no_overload)?,
                    }))
                })
                .map(|sum| sum.unwrap_or(Val::Int(0))),
            ("min" | "max", [_]) => {
                let wanted = if name == "min" { Ordering::Less } else { Ordering::Greater };
                let mut best: Option<Val<'a>> = None;
                for item in items {
                    let better = match &best {
                        None => true,
                        Some(best) => item.compare(best).ok_or(Error::Failed("no such overload".into()))? == wanted,
                    };
                    if better {
                        best = Some(item);
                    }
                }
                best.map_or_else(|| failed(format!("{name} called on empty list")), Ok)
            }
            ("indexOf", [_, wanted]) => position(items.iter().position(|item| item.equals(wanted))),
            ("lastIndexOf", [_, wanted]) => position(items.iter().rposition(|item| item.equals(wanted))),
            ("reverse", [_]) => Ok(Val::list_of(items.into_iter().rev().collect())),
            (_, [_, other]) => {
                let others = other.items()?;
                meter.pay((items.len() as u64).saturating_mul(others.len() as u64))?;
                let within = |x: &Val<'a>, list: &[Val<'a>]| list.iter().any(|y| x.equals(y));
                Ok(Val::Bool(match name {
                    "sets.contains" => others.iter().all(|x| within(x, &items)),
                    "sets.intersects" => others.iter().any(|x| within(x, &items)),
                    _ => others.iter().all(|x| within(x, &items)) && items.iter().all(|x| within(x, &others)),
                }))
            }
            _ => no_overload(),
        }
    })
}

fn quantities<'a>(name: &str, args: &[Val<'a>]) -> Option<Result<Val<'a>, Error>> {
    let value = match (name, args) {
        ("quantity", [Val::Quantity(q)]) => Val::Quantity(*q),
        ("quantity", [Val::String(text)]) => match Quantity::parse(text) {
            Some(quantity) => Val::Quantity(quantity),
            None => {
                return Some(failed(
                    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
                ));
            }
        },
        ("isQuantity", [Val::String(text)]) => Val::Bool(Quantity::parse(text).is_some()),
        ("isInteger", [Val::Quantity(q)]) => Val::Bool(q.as_int().is_some()),
        ("asInteger", [Val::Quantity(q)]) => match q.as_int() {
            Some(int) => Val::Int(int),
            None => return Some(failed("cannot convert value to integer")),
        },
        ("asApproximateFloat", [Val::Quantity(q)]) => Val::Double(q.as_float()),
        ("sign", [Val::Quantity(q)]) => Val::Int(q.sign()),
        ("isGreaterThan", [Val::Quantity(a), Val::Quantity(b)]) => Val::Bool(a > b),
        ("isLessThan", [Val::Quantity(a), Val::Quantity(b)]) => Val::Bool(a < b),
        ("compareTo", [Val::Quantity(a), Val::Quantity(b)]) => Val::Int(a.cmp(b) as i64),
        ("add" | "sub", [Val::Quantity(a), b]) => {
            let b = match b {
                Val::Quantity(b) => *b,
                Val::Int(b) => Quantity::from_int(*b),
                _ => return None,
            };
            match if name == "add" { a.add(b) } else { a.sub(b) } {
                Some(result) => Val::Quantity(result),
                None => return Some(failed("quantity overflow")),
            }
        }
        _ => return None,
    };
    Some(Ok(value))
}
