//! Functions on strings. Positions count characters, not bytes.

use super::eval::Meter;
use super::value::{Error, Val, failed};

/// Functions on strings; `None` when `name` is not one of them for these arguments.
pub(super) fn call<'a>(name: &str, args: &[Val<'a>], meter: &mut Meter) -> Option<Result<Val<'a>, Error>> {
    if let (true, Some(list)) = (name == "join", args.first().filter(|v| v.is_list())) {
        return Some(join(list, args.get(1), meter));
    }
    let Some(Val::String(text)) = args.first() else { return None };
    let value = match (name, &args[1..]) {
        ("contains", [Val::String(part)]) => {
            // Each place of the text may be compared with the whole part.
            Ok(Val::Bool(text.contains(&**part)))
        }
        ("startsWith", [Val::String(part)]) => Ok(Val::Bool(text.starts_with(&**part))),
        ("endsWith", [Val::String(part)]) => Ok(Val::Bool(text.ends_with(&**part))),
        ("matches", [Val::String(pattern)]) => meter.pattern(pattern).map(|p| Val::Bool(p.is_match(text))),
        ("find", [Val::String(pattern)]) => {
            meter.pattern(pattern).map(|p| Val::text(p.find(text).map_or("", |m| m.as_str())))
        }
        ("findAll", [Val::String(pattern)]) => find_all(text, pattern, usize::MAX, meter),
        ("findAll", [Val::String(pattern), Val::Int(limit)]) => {
            find_all(text, pattern, usize::try_from(*limit).unwrap_or(usize::MAX), meter)
        }
        ("charAt", [Val::Int(at)]) => char_at(text, *at),
        ("indexOf", [Val::String(part)]) => Ok(position(text, part, 0, false)),
        ("indexOf", [Val::String(part), Val::Int(from)]) => {
            bounded(text, *from, |from| Ok(position(text, part, from, false)))
        }
        ("lastIndexOf", [Val::String(part)]) => Ok(position(text, part, usize::MAX, true)),
        ("lastIndexOf", [Val::String(part), Val::Int(to)]) => {
            bounded(text, *to, |to| Ok(position(text, part, to, true)))
        }
        ("lowerAscii", []) => Ok(Val::text(text.to_ascii_lowercase())),
        ("upperAscii", []) => Ok(Val::text(text.to_ascii_uppercase())),
        ("trim", []) => Ok(Val::text(text.trim())),
        ("reverse", []) => Ok(Val::text(text.chars().rev().collect::<String>())),
        ("replace", [Val::String(from), Val::String(to)]) => replace(text, from, to, usize::MAX, meter),
        ("replace", [Val::String(from), Val::String(to), Val::Int(n)]) => {
            replace(text, from, to, usize::try_from(*n).unwrap_or(usize::MAX), meter)
        }
        ("split", [Val::String(separator)]) => split(text, separator, usize::MAX, meter),
        ("split", [Val::String(separator), Val::Int(n)]) => {
            split(text, separator, usize::try_from(*n).unwrap_or(usize::MAX), meter)
        }
        ("substring", [Val::Int(from)]) => substring(text, *from, None),
        ("substring", [Val::Int(from), Val::Int(to)]) => substring(text, *from, Some(*to)),
        _ => return None,
    };
    Some(value)
}

fn find_all<'a>(text: &str, pattern: &str, limit: usize, meter: &mut Meter) -> Result<Val<'a>, Error> {
    let found: Vec<_> = meter.pattern(pattern)?.find_iter(text).take(limit).map(|m| Val::text(m.as_str())).collect();
    meter.pay(found.len() as u64)?;
    Ok(Val::list_of(found))
}

fn bounded<'a>(text: &str, index: i64, then: impl FnOnce(usize) -> Result<Val<'a>, Error>) -> Result<Val<'a>, Error> {
    match usize::try_from(index) {
        Ok(index) if index <= text.chars().count() => then(index),
        _ => failed(format!("index out of range: {index}")),
    }
}

fn char_at<'a>(text: &str, at: i64) -> Result<Val<'a>, Error> {
    bounded(text, at, |at| Ok(Val::text(text.chars().nth(at).map_or(String::new(), String::from))))
}

/// The byte offset of a character.
fn offset(text: &str, characters: usize) -> usize {
    text.char_indices().nth(characters).map_or(text.len(), |(at, _)| at)
}

fn position<'a>(text: &str, part: &str, bound: usize, last: bool) -> Val<'a> {
    let found = if last {
        let end = offset(text, bound).saturating_add(part.len()).min(text.len());
        let end = (end..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
        text[..end].rfind(part)
    } else {
        let start = offset(text, bound);
        text[start..].find(part).map(|at| at + start)
    };
    let characters = found.map(|at| text[..at].chars().count());
    Val::Int(characters.and_then(|c| i64::try_from(c).ok()).unwrap_or(-1))
}

fn substring<'a>(text: &str, from: i64, to: Option<i64>) -> Result<Val<'a>, Error> {
    let length = text.chars().count();
    let to = to.map_or(Ok(length), usize::try_from);
    match (usize::try_from(from), to) {
        (Ok(from), Ok(to)) if from <= to && to <= length => {
            Ok(Val::text(text.chars().skip(from).take(to - from).collect::<String>()))
        }
        _ => failed(format!("invalid substring range. start: {from}")),
    }
}

fn replace<'a>(text: &str, from: &str, to: &str, limit: usize, meter: &mut Meter) -> Result<Val<'a>, Error> {
    // An empty `from` matches before every character and at the end.
    let occurrences = if from.is_empty() { text.chars().count() + 1 } else { text.matches(from).count() }.min(limit);
    meter.pay((occurrences as u64).saturating_mul(to.len() as u64 + 1) / 10)?;
    Ok(Val::text(text.replacen(from, to, limit)))
}

fn split<'a>(text: &str, separator: &str, limit: usize, meter: &mut Meter) -> Result<Val<'a>, Error> {
    let parts: Vec<Val<'a>> = match (limit, separator) {
        (0, _) => Vec::new(),
        (_, "") => {
            let mut parts: Vec<Val<'a>> =
                text.chars().take(limit.saturating_sub(1)).map(|c| Val::text(c.to_string())).collect();
            let rest = offset(text, parts.len());
            if rest < text.len() {
                parts.push(Val::text(&text[rest..]));
            }
            parts
        }
        _ => text.splitn(limit, separator).map(Val::text).collect(),
    };
    meter.pay(parts.len() as u64)?;
    Ok(Val::list_of(parts))
}

fn join<'a>(list: &Val<'a>, separator: Option<&Val<'a>>, meter: &mut Meter) -> Result<Val<'a>, Error> {
    let separator = match separator {
        None => "",
        Some(Val::String(separator)) => separator,
        Some(_) => return super::value::no_overload(),
    };
    let mut joined = String::new();
    for (i, item) in list.items()?.into_iter().enumerate() {
        let Val::String(item) = item else { return super::value::no_overload() };
        meter.pay((item.len() + separator.len()) as u64 / 10 + 1)?;
        if i > 0 {
            joined.push_str(separator);
        }
        joined.push_str(&item);
    }
    Ok(Val::text(joined))
}
