//! Evaluation of a parsed expression.
//!
//! Invariant: every step is paid for out of a budget, so that evaluation of any expression over any object ends soon. Steps that look at
//! a whole string, list or object pay by its size.

use super::functions;
use super::value::{Error, Val, failed, no_overload};
use cel::common::ast::{ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr, operators};
use regex::Regex;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// What evaluation may still cost, and the patterns it has compiled.
pub(crate) struct Meter {
    budget: u64,
    patterns: HashMap<String, Regex>,
}

impl Meter {
    pub(crate) fn new(budget: u64) -> Self {
        Meter { budget, patterns: HashMap::new() }
    }

    pub(crate) fn pay(&mut self, cost: u64) -> Result<(), Error> {
        self.budget = self.budget.checked_sub(cost).ok_or(Error::Budget)?;
        Ok(())
    }

    pub(crate) fn left(&self) -> u64 {
        self.budget
    }

    /// Compiles a pattern, or finds it compiled; compiling is dear, so it costs.
    pub(crate) fn pattern(&mut self, pattern: &str) -> Result<&Regex, Error> {
        if !self.patterns.contains_key(pattern) {
            self.pay(1_000 + pattern.len() as u64)?;
            let compiled = regex::RegexBuilder::new(pattern).size_limit(1 << 20).build();
            let compiled = compiled.or_else(|_| failed(format!("error parsing regexp: `{pattern}`")))?;
            self.patterns.insert(pattern.to_owned(), compiled);
        }
        self.patterns.get(pattern).ok_or(Error::Budget)
    }
}

/// Evaluates `expression` with the given variables.
pub(crate) fn eval<'a>(
    expression: &IdedExpr,
    variables: Vec<(&'static str, Val<'a>)>,
    meter: &mut Meter,
) -> Result<Val<'a>, Error> {
    let variables = variables.into_iter().map(|(name, value)| (Cow::Borrowed(name), value)).collect();
    Scope { variables, meter }.eval(expression)
}

struct Scope<'a, 'm> {
    /// Innermost last.
    variables: Vec<(Cow<'static, str>, Val<'a>)>,
    meter: &'m mut Meter,
}

impl<'a> Scope<'a, '_> {
    fn variable(&self, name: &str) -> Option<Val<'a>> {
        self.variables.iter().rev().find(|(n, _)| n == name).map(|(_, value)| value.clone())
    }

    /// Evaluates with one more variable in scope.
    fn with<T>(&mut self, name: &str, value: Val<'a>, then: impl FnOnce(&mut Self) -> T) -> T {
        self.variables.push((Cow::Owned(name.to_owned()), value));
        let result = then(self);
        self.variables.pop();
        result
    }

    fn eval(&mut self, expression: &IdedExpr) -> Result<Val<'a>, Error> {
        self.meter.pay(1)?;
        match &expression.expr {
            Expr::Literal(literal) => Ok(value_of(literal)),
            Expr::Ident(name) => match self.variable(name) {
                Some(value) => Ok(value),
                None => {
                    type_named(name).map_or_else(|| failed(format!("no such attribute: {name}")), |t| Ok(Val::Type(t)))
                }
            },
            Expr::Select(select) => self.select(select),
            Expr::List(list) => {
                let mut items = Vec::with_capacity(list.elements.len());
                for (i, element) in list.elements.iter().enumerate() {
                    match self.eval(element)? {
                        Val::Optional(inner) if list.optional_indices.contains(&i) => items.extend(inner.map(|v| *v)),
                        value => items.push(value),
                    }
                }
                Ok(Val::list_of(items))
            }
            Expr::Map(map) => {
                let mut members = BTreeMap::new();
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else { return no_overload() };
                    let Some(key) = self.eval(&entry.key)?.as_key() else { return failed("unsupported key type") };
                    let value = match self.eval(&entry.value)? {
                        Val::Optional(None) if entry.optional => continue,
                        Val::Optional(Some(value)) if entry.optional => *value,
                        value => value,
                    };
                    if members.insert(key, value).is_some() {
                        return failed("Failed with repeated key");
                    }
                }
                Ok(Val::Map(Arc::new(members)))
            }
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Call(call) => self.call(&call.func_name, call.target.as_deref(), &call.args),
            Expr::Struct(_) | Expr::Unspecified => failed("unsupported expression"),
        }
    }

    fn select(&mut self, select: &SelectExpr) -> Result<Val<'a>, Error> {
        let operand = self.eval(&select.operand)?;
        let (operand, optional) = match operand {
            Val::Optional(Some(inner)) => (*inner, true),
            Val::Optional(None) if select.test => return Ok(Val::Bool(false)),
            Val::Optional(None) => return Ok(Val::Optional(None)),
            other => (other, false),
        };
        let found = operand.field(&select.field)?;
        if select.test {
            return Ok(Val::Bool(found.is_some()));
        }
        match found {
            found if optional => Ok(Val::Optional(found.map(Box::new))),
            Some(value) => Ok(value),
            None => failed(format!("no such key: {}", select.field)),
        }
    }

    fn comprehension(&mut self, c: &ComprehensionExpr) -> Result<Val<'a>, Error> {
        let range = self.eval(&c.iter_range)?;
        let range = match range {
            range if range.is_list() => range.items()?,
            range if range.is_map() => range.keys()?,
            _ => return no_overload(),
        };
        self.meter.pay(range.len() as u64)?;
        let mut accumulator = self.eval(&c.accu_init);
        for item in range {
            self.meter.pay(1)?;
            let current = match accumulator {
                Ok(value) => value,
                // An error so far: later items may still decide `all` and `exists`.
                Err(Error::Budget) => return Err(Error::Budget),
                Err(error) => {
                    accumulator = self.with(&c.iter_var, item, |scope| scope.absorb(c, error));
                    continue;
                }
            };
            let step = self.with(&c.accu_var, current.clone(), |scope| {
                if scope.eval(&c.loop_cond)?.equals(&Val::Bool(false)) {
                    return Ok(None);
                }
                Ok::<_, Error>(Some(scope.with(&c.iter_var, item, |scope| scope.eval(&c.loop_step))))
            })?;
            let Some(result) = step else {
                accumulator = Ok(current);
                break;
            };
            accumulator = result;
        }
        let accumulator = accumulator?;
        self.with(&c.accu_var, accumulator, |scope| scope.eval(&c.result))
    }

    /// One more step of `all` or `exists` after an item whose test failed: an item that decides the outcome wins over the error.
    fn absorb(&mut self, c: &ComprehensionExpr, error: Error) -> Result<Val<'a>, Error> {
        let Expr::Call(step) = &c.loop_step.expr else { return Err(error) };
        let decides = match step.func_name.as_str() {
            operators::LOGICAL_OR => true,
            operators::LOGICAL_AND => false,
            _ => return Err(error),
        };
        let Some(test) = step.args.get(1) else { return Err(error) };
        match self.eval(test) {
            Err(Error::Budget) => Err(Error::Budget),
            Ok(Val::Bool(value)) if value == decides => Ok(Val::Bool(value)),
            _ => Err(error),
        }
    }

    /// `&&` and `||`: either side may decide, even if the other fails.
    fn logical(&mut self, args: &[IdedExpr], decides: bool) -> Result<Val<'a>, Error> {
        let mut error = None;
        for arg in args {
            match self.eval(arg) {
                Ok(Val::Bool(value)) if value == decides => return Ok(Val::Bool(decides)),
                Ok(Val::Bool(_)) => {}
                Ok(_) => error = error.or(Some(Error::Failed("no such overload".into()))),
                Err(Error::Budget) => return Err(Error::Budget),
                Err(failure) => error = error.or(Some(failure)),
            }
        }
        error.map_or(Ok(Val::Bool(!decides)), Err)
    }

    fn call(&mut self, name: &str, target: Option<&IdedExpr>, args: &[IdedExpr]) -> Result<Val<'a>, Error> {
        match (name, args) {
            (operators::LOGICAL_AND, _) => return self.logical(args, false),
            (operators::LOGICAL_OR, _) => return self.logical(args, true),
            (operators::CONDITIONAL, [condition, yes, no]) => {
                return match self.eval(condition)? {
                    Val::Bool(true) => self.eval(yes),
                    Val::Bool(false) => self.eval(no),
                    _ => no_overload(),
                };
            }
            (operators::NOT_STRICTLY_FALSE, [value]) => {
                return match self.eval(value) {
                    Err(Error::Budget) => Err(Error::Budget),
                    Ok(Val::Bool(false)) => Ok(Val::Bool(false)),
                    _ => Ok(Val::Bool(true)),
                };
            }
            _ => {}
        }
        // `optional.of(x)`, `ip.isCanonical(x)`, `sets.contains(a, b)`: a namespace, not a value.
        if let Some(IdedExpr { expr: Expr::Ident(space), .. }) = target
            && functions::is_namespace(space)
            && self.variable(space).is_none()
        {
            let args = self.eval_all(args)?;
            return functions::call(&format!("{space}.{name}"), &args, self.meter);
        }
        if let Some(target) = target {
            return self.method(name, target, args);
        }
        let values = self.eval_all(args)?;
        match (name, values.as_slice()) {
            (operators::LOGICAL_NOT, [Val::Bool(value)]) => Ok(Val::Bool(!value)),
            (operators::EQUALS | operators::NOT_EQUALS, [a, b]) => {
                self.meter.pay(a.weight().min(b.weight()))?;
                Ok(Val::Bool(a.equals(b) == (name == operators::EQUALS)))
            }
            (operators::LESS | operators::LESS_EQUALS | operators::GREATER | operators::GREATER_EQUALS, [a, b]) => {
                self.meter.pay(a.weight().min(b.weight()))?;
                compared(name, a, b)
            }
            (operators::IN, [item, container]) => self.contained(item, container),
            (operators::INDEX, [container, index]) => match indexed(container, index)? {
                Some(value) => Ok(value),
                None => failed(missing(index, container)),
            },
            (operators::OPT_INDEX | operators::OPT_SELECT, [Val::Optional(None), _]) => Ok(Val::Optional(None)),
            (operators::OPT_INDEX, [Val::Optional(Some(container)), index]) => {
                Ok(Val::Optional(indexed(container, index)?.map(Box::new)))
            }
            (operators::OPT_INDEX, [container, index]) => Ok(Val::Optional(indexed(container, index)?.map(Box::new))),
            (operators::OPT_SELECT, [Val::Optional(Some(container)), Val::String(field)]) => {
                Ok(Val::Optional(container.field(field)?.map(Box::new)))
            }
            (operators::OPT_SELECT, [container, Val::String(field)]) => {
                Ok(Val::Optional(container.field(field)?.map(Box::new)))
            }
            _ => functions::call(name, &values, self.meter),
        }
    }

    fn method(&mut self, name: &str, target: &IdedExpr, args: &[IdedExpr]) -> Result<Val<'a>, Error> {
        let target = self.eval(target)?;
        match (&target, name, args) {
            (Val::Optional(inner), "optMap" | "optFlatMap", [IdedExpr { expr: Expr::Ident(variable), .. }, body]) => {
                let Some(inner) = inner.clone() else { return Ok(Val::Optional(None)) };
                let value = self.with(variable, *inner, |scope| scope.eval(body))?;
                Ok(if name == "optMap" { Val::Optional(Some(Box::new(value))) } else { value })
            }
            (Val::Optional(inner), "or" | "orValue", [other]) => match (inner, name) {
                (Some(_), "or") => Ok(target),
                (Some(value), _) => Ok((**value).clone()),
                (None, _) => self.eval(other),
            },
            _ => {
                let mut values = vec![target];
                values.extend(self.eval_all(args)?);
                functions::call(name, &values, self.meter)
            }
        }
    }

    fn eval_all(&mut self, args: &[IdedExpr]) -> Result<Vec<Val<'a>>, Error> {
        args.iter().map(|arg| self.eval(arg)).collect()
    }

    fn contained(&mut self, item: &Val<'a>, container: &Val<'a>) -> Result<Val<'a>, Error> {
        if container.is_map() {
            let Some(key) = item.as_key() else { return Ok(Val::Bool(false)) };
            return Ok(Val::Bool(container.member(&key)?.is_some()));
        }
        let items = container.items()?;
        self.meter.pay((items.len() as u64).saturating_mul(1 + item.weight()))?;
        Ok(Val::Bool(items.iter().any(|candidate| candidate.equals(item))))
    }
}

fn compared<'a>(operator: &str, a: &Val<'a>, b: &Val<'a>) -> Result<Val<'a>, Error> {
    let Some(order) = a.compare(b) else {
        // Not a number: comparable, but in no order.
        let numbers = matches!((a, b), (Val::Double(_), _) | (_, Val::Double(_)));
        return if numbers { Ok(Val::Bool(false)) } else { no_overload() };
    };
    Ok(Val::Bool(match operator {
        operators::LESS => order == Ordering::Less,
        operators::LESS_EQUALS => order != Ordering::Greater,
        operators::GREATER => order == Ordering::Greater,
        _ => order != Ordering::Less,
    }))
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn indexed<'a>(container: &Val<'a>, index: &Val<'a>) -> Result<Option<Val<'a>>, Error> {
    if container.is_map() {
        let Some(key) = index.as_key() else { return failed("unsupported key type") };
        return container.member(&key);
    }
    if !container.is_list() {
        return no_overload();
    }
    let at = match index {
        Val::Int(i) => usize::try_from(*i).ok(),
        Val::Uint(u) => usize::try_from(*u).ok(),
        Val::Double(d) if d.fract() == 0.0 && *d >= 0.0 => Some(*d as usize),
        _ => return no_overload(),
    };
    at.map_or(Ok(None), |at| container.item(at))
}

fn missing(index: &Val<'_>, container: &Val<'_>) -> String {
    let shown = match index {
        Val::Int(i) => i.to_string(),
        Val::Uint(u) => u.to_string(),
        Val::String(s) => s.clone().into_owned(),
        _ => index.type_name().to_owned(),
    };
    if container.is_list() { format!("index out of bounds: {shown}") } else { format!("no such key: {shown}") }
}

fn value_of<'a>(literal: &LiteralValue) -> Val<'a> {
    match literal {
        LiteralValue::Boolean(b) => Val::Bool(*b.inner()),
        LiteralValue::Bytes(b) => Val::Bytes(b.inner().into()),
        LiteralValue::Double(d) => Val::Double(*d.inner()),
        LiteralValue::Int(i) => Val::Int(*i.inner()),
        LiteralValue::Null => Val::Null,
        LiteralValue::String(s) => Val::text(s.inner()),
        LiteralValue::UInt(u) => Val::Uint(*u.inner()),
    }
}

/// The type an identifier names.
pub(super) fn type_named(name: &str) -> Option<&'static str> {
    const TYPES: [&str; 10] = ["bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type"];
    TYPES.into_iter().find(|t| *t == name).or(match name {
        "timestamp" => Some("google.protobuf.Timestamp"),
        "duration" => Some("google.protobuf.Duration"),
        _ => None,
    })
}
