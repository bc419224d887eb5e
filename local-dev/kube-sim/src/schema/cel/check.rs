//! What can be said of an expression before it runs: that its names exist, that its types fit, and what it may cost at most.
//!
//! Types are followed as far as the schema gives them; where they are not known the check is silent and evaluation decides.

use super::functions::{self, Gives};
use super::value::{member_node, unescape};
use crate::schema::node::{Additional, Node, Type};
use cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr, operators};

/// The most bytes a request may have, and so a string in it.
pub(super) const MAX_REQUEST: u64 = 3 * 1024 * 1024;
/// Longer than anything: what has no bound that can be told.
const UNBOUNDED: u64 = u64::MAX / 16;

/// What is known of a type.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ty<'n> {
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    /// A list, and the schema of its items if it has one.
    List(Option<&'n Node>),
    Strings,
    Object(&'n Node),
}

/// What is known of an expression.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fact<'n> {
    pub ty: Ty<'n>,
    /// The most items, members or characters its value has.
    pub size: u64,
    /// The most steps it takes.
    pub cost: u64,
}

/// Why an expression does not compile, and at which of its nodes.
#[derive(Debug)]
pub(super) struct Mismatch {
    pub id: u64,
    pub message: String,
}

impl<'n> Ty<'n> {
    pub(super) fn of(node: &'n Node) -> Ty<'n> {
        if node.int_or_string {
            return Ty::Dyn;
        }
        match (node.kind, node.format.as_deref()) {
            (None, _) => Ty::Dyn,
            (Some(Type::Boolean), _) => Ty::Bool,
            (Some(Type::Integer), _) => Ty::Int,
            (Some(Type::Number), _) => Ty::Double,
            (Some(Type::String), Some("date" | "date-time")) => Ty::Timestamp,
            (Some(Type::String), Some("duration")) => Ty::Duration,
            (Some(Type::String), Some("byte")) => Ty::Bytes,
            (Some(Type::String), _) => Ty::String,
            (Some(Type::Array), _) => Ty::List(node.items.as_deref()),
            (Some(Type::Object), _) => Ty::Object(node),
        }
    }

    fn name(self) -> Option<&'static str> {
        Some(match self {
            Ty::Dyn => return None,
            Ty::Null => "null",
            Ty::Bool => "bool",
            Ty::Int => "int",
            Ty::Uint => "uint",
            Ty::Double => "double",
            Ty::String => "string",
            Ty::Bytes => "bytes",
            Ty::Timestamp => "timestamp",
            Ty::Duration => "duration",
            Ty::List(_) | Ty::Strings => "list",
            Ty::Object(node) if node.additional.is_some() => "map",
            Ty::Object(_) => "object",
        })
    }

    /// Whether both are known, and are not the same.
    fn differs(self, other: Ty<'n>) -> bool {
        match (self.name(), other.name()) {
            (Some("null"), _) | (_, Some("null")) | (Some("map" | "object"), Some("map" | "object")) => false,
            (Some(a), Some(b)) => a != b,
            _ => false,
        }
    }
}

/// The most items, members or characters a value of the resource has.
pub(super) fn bound(node: &Node) -> u64 {
    match node.kind {
        Some(Type::Array) => {
            let item = node.items.as_deref().map_or(1, least_bytes) + 1;
            node.max_items.unwrap_or(MAX_REQUEST / item)
        }
        Some(Type::Object) => {
            let item = match &node.additional {
                Some(Additional::Node(inner)) => least_bytes(inner),
                _ => 1,
            };
            node.max_properties.unwrap_or(MAX_REQUEST / (item + 4))
        }
        Some(Type::String) => {
            let choices = node.choices.iter().filter_map(|c| c.as_str()).map(|c| c.len() as u64).max();
            let format = match node.format.as_deref() {
                Some("date" | "date-time" | "uuid" | "ipv4" | "ipv6" | "cidr" | "duration") => Some(64),
                _ => None,
            };
            node.max_length.or(choices).or(format).unwrap_or(MAX_REQUEST)
        }
        _ => 1,
    }
}

/// The fewest bytes a value takes in a request.
fn least_bytes(node: &Node) -> u64 {
    match node.kind {
        Some(Type::Object) => {
            let member = |name: &String| Some(name.len() as u64 + 4 + least_bytes(node.properties.get(name)?));
            2 + node.required.iter().filter_map(member).sum::<u64>()
        }
        Some(Type::Array | Type::String) => 2,
        Some(Type::Boolean) => 4,
        _ => 1,
    }
}

/// Looks through an expression whose variables are known.
pub(super) struct Checker<'n> {
    pub variables: Vec<(String, Fact<'n>)>,
}

impl<'n> Checker<'n> {
    /// A checker with a variable for each value of the resource.
    pub(super) fn new(variables: &[(&str, &'n Node)], unknown: &[&str]) -> Self {
        let known = variables.iter().map(|(name, node)| ((*name).to_owned(), fact_of(node, 0)));
        let unknown = unknown.iter().map(|name| ((*name).to_owned(), Fact { ty: Ty::Dyn, size: 1, cost: 0 }));
        Checker { variables: known.chain(unknown).collect() }
    }

    pub(super) fn check(&mut self, expression: &IdedExpr) -> Result<Fact<'n>, Mismatch> {
        let id = expression.id;
        match &expression.expr {
            Expr::Literal(literal) => Ok(literal_fact(literal)),
            Expr::Ident(name) => match self.variables.iter().rev().find(|(n, _)| n == name) {
                Some((_, fact)) => Ok(Fact { cost: 1, ..*fact }),
                None if super::eval::type_named(name).is_some() => Ok(Fact { ty: Ty::Dyn, size: 1, cost: 1 }),
                None => mismatch(id, format!("undeclared reference to '{name}' (in container '')")),
            },
            Expr::Select(select) => self.select(id, select),
            Expr::List(list) => {
                let facts = self.all(&list.elements)?;
                let cost = facts.iter().fold(10, |sum: u64, f| sum.saturating_add(f.cost));
                let strings = !facts.is_empty() && facts.iter().all(|f| matches!(f.ty, Ty::String));
                let ty = if strings { Ty::Strings } else { Ty::List(None) };
                Ok(Fact { ty, size: facts.len() as u64, cost })
            }
            Expr::Map(map) => {
                let mut cost: u64 = 30;
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        let entry_cost = self.check(&entry.key)?.cost.saturating_add(self.check(&entry.value)?.cost);
                        cost = cost.saturating_add(entry_cost);
                    }
                }
                Ok(Fact { ty: Ty::Dyn, size: map.entries.len() as u64, cost })
            }
            Expr::Comprehension(c) => {
                let range = self.check(&c.iter_range)?;
                let item = match range.ty {
                    Ty::List(Some(node)) => fact_of(node, 0),
                    Ty::Strings => Fact { ty: Ty::String, size: range.size, cost: 0 },
                    Ty::Object(_) => Fact { ty: Ty::String, size: 64, cost: 0 },
                    Ty::List(None) | Ty::Dyn => Fact { ty: Ty::Dyn, size: 1, cost: 0 },
                    other => {
                        return mismatch(
                            c.iter_range.id,
                            format!(
                                "expression of type '{}' cannot be range of a comprehension",
                                other.name().unwrap_or("dyn")
                            ),
                        );
                    }
                };
                let init = self.check(&c.accu_init)?;
                self.variables.push((c.accu_var.clone(), Fact { size: range.size, ..init }));
                self.variables.push((c.iter_var.clone(), item));
                let step = self.check(&c.loop_cond).and_then(|cond| Ok((cond, self.check(&c.loop_step)?)));
                self.variables.pop();
                let result = step.and_then(|(cond, step)| Ok((cond, step, self.check(&c.result)?)));
                self.variables.pop();
                let (cond, step, result) = result?;
                let each = cond.cost.saturating_add(step.cost);
                let cost = range
                    .cost
                    .saturating_add(init.cost)
                    .saturating_add(range.size.saturating_mul(each))
                    .saturating_add(result.cost);
                Ok(Fact { ty: result.ty, size: range.size, cost })
            }
            Expr::Call(call) => self.call(id, &call.func_name, call.target.as_deref(), &call.args),
            Expr::Struct(_) | Expr::Unspecified => mismatch(id, "unsupported expression".into()),
        }
    }

    fn all(&mut self, expressions: &[IdedExpr]) -> Result<Vec<Fact<'n>>, Mismatch> {
        expressions.iter().map(|e| self.check(e)).collect()
    }

    fn select(&mut self, id: u64, select: &SelectExpr) -> Result<Fact<'n>, Mismatch> {
        let operand = self.check(&select.operand)?;
        let cost = operand.cost.saturating_add(1);
        let member = match operand.ty {
            Ty::Dyn => return Ok(Fact { ty: if select.test { Ty::Bool } else { Ty::Dyn }, size: 1, cost }),
            Ty::Object(node) => match &node.additional {
                Some(Additional::Node(inner)) => Some(&**inner),
                Some(Additional::Anything) => return Ok(Fact { ty: Ty::Dyn, size: 1, cost }),
                None => member_node(node, &unescape(&select.field)),
            },
            other => {
                return mismatch(
                    id,
                    format!("type '{}' does not support field selection", other.name().unwrap_or("dyn")),
                );
            }
        };
        match member {
            Some(_) if select.test => Ok(Fact { ty: Ty::Bool, size: 1, cost }),
            Some(node) => Ok(fact_of(node, cost)),
            None => mismatch(id, format!("undefined field '{}'", select.field)),
        }
    }

    fn call(
        &mut self,
        id: u64,
        name: &str,
        target: Option<&IdedExpr>,
        args: &[IdedExpr],
    ) -> Result<Fact<'n>, Mismatch> {
        if let Some(IdedExpr { expr: Expr::Ident(space), .. }) = target
            && functions::is_namespace(space)
            && !self.variables.iter().any(|(n, _)| n == space)
        {
            let facts = self.all(args)?;
            return function(id, &format!("{space}.{name}"), &facts);
        }
        if let (Some(target), "optMap" | "optFlatMap", [IdedExpr { expr: Expr::Ident(variable), .. }, body]) =
            (target, name, args)
        {
            let target = self.check(target)?;
            self.variables.push((variable.clone(), Fact { ty: Ty::Dyn, size: 1, cost: 0 }));
            let body = self.check(body);
            self.variables.pop();
            return Ok(Fact { ty: Ty::Dyn, size: 1, cost: target.cost.saturating_add(body?.cost).saturating_add(1) });
        }
        let mut facts = Vec::with_capacity(args.len() + 1);
        if let Some(target) = target {
            facts.push(self.check(target)?);
        }
        // The field of `a.?b` is a name, not a value.
        let values = if name == operators::OPT_SELECT { &args[..args.len().min(1)] } else { args };
        facts.extend(self.all(values)?);
        if let (
            operators::OPT_SELECT,
            Some(Ty::Object(node)),
            Some(IdedExpr { expr: Expr::Literal(LiteralValue::String(field)), .. }),
        ) = (name, facts.first().map(|f| f.ty), args.get(1))
            && node.additional.is_none()
            && !node.preserve_unknown
            && member_node(node, &unescape(field.inner())).is_none()
        {
            return mismatch(id, format!("undefined field '{}'", field.inner()));
        }
        if target.is_none()
            && let Some(result) = operator(id, name, &facts)
        {
            return result;
        }
        if name == "matches"
            && let Some(IdedExpr { expr: Expr::Literal(LiteralValue::String(pattern)), .. }) = args.last()
            && regex::Regex::new(pattern.inner()).is_err()
        {
            return mismatch(id, "invalid matches argument".into());
        }
        function(id, name, &facts)
    }
}

fn mismatch<T>(id: u64, message: String) -> Result<T, Mismatch> {
    Err(Mismatch { id, message })
}

fn fact_of(node: &Node, cost: u64) -> Fact<'_> {
    Fact { ty: Ty::of(node), size: bound(node), cost }
}

fn literal_fact<'n>(literal: &LiteralValue) -> Fact<'n> {
    let (ty, size) = match literal {
        LiteralValue::Boolean(_) => (Ty::Bool, 1),
        LiteralValue::Bytes(b) => (Ty::Bytes, b.inner().len() as u64),
        LiteralValue::Double(_) => (Ty::Double, 1),
        LiteralValue::Int(_) => (Ty::Int, 1),
        LiteralValue::Null => (Ty::Null, 1),
        LiteralValue::String(s) => (Ty::String, s.inner().len() as u64),
        LiteralValue::UInt(_) => (Ty::Uint, 1),
    };
    Fact { ty, size, cost: 0 }
}

fn no_match<'n>(id: u64, name: &str, facts: &[Fact<'n>]) -> Result<Fact<'n>, Mismatch> {
    let types: Vec<_> = facts.iter().map(|f| f.ty.name().unwrap_or("dyn")).collect();
    mismatch(id, format!("found no matching overload for '{name}' applied to '({})'", types.join(", ")))
}

/// A tenth of a size: what looking through a string costs.
fn tenth(size: u64) -> u64 {
    size / 10 + 1
}

fn operator<'n>(id: u64, name: &str, facts: &[Fact<'n>]) -> Option<Result<Fact<'n>, Mismatch>> {
    let spent = facts.iter().fold(0, |sum: u64, f| sum.saturating_add(f.cost));
    let plus = |ty, size, cost: u64| Some(Ok(Fact { ty, size, cost: spent.saturating_add(cost) }));
    let is = |f: &Fact<'n>, name: &str| f.ty.name().is_none_or(|n| n == name);
    match (name, facts) {
        (
            operators::LOGICAL_AND | operators::LOGICAL_OR | operators::LOGICAL_NOT | operators::NOT_STRICTLY_FALSE,
            facts,
        ) => {
            if facts.iter().all(|f| is(f, "bool")) {
                plus(Ty::Bool, 1, 1)
            } else {
                Some(no_match(id, name, facts))
            }
        }
        (operators::CONDITIONAL, [condition, yes, no]) => {
            if !is(condition, "bool") || yes.ty.differs(no.ty) {
                return Some(no_match(id, name, facts));
            }
            let cost = condition.cost.saturating_add(yes.cost.max(no.cost)).saturating_add(1);
            Some(Ok(Fact { ty: yes.ty, size: yes.size.max(no.size), cost }))
        }
        (operators::EQUALS | operators::NOT_EQUALS, [a, b]) => {
            if a.ty.differs(b.ty) {
                Some(no_match(id, name, facts))
            } else {
                plus(Ty::Bool, 1, tenth(a.size.min(b.size)))
            }
        }
        (operators::LESS | operators::LESS_EQUALS | operators::GREATER | operators::GREATER_EQUALS, [a, b]) => {
            let number = |f: &Fact<'n>| matches!(f.ty, Ty::Int | Ty::Uint | Ty::Double);
            if a.ty.differs(b.ty) && !(number(a) && number(b)) {
                return Some(no_match(id, name, facts));
            }
            plus(Ty::Bool, 1, tenth(a.size.min(b.size)))
        }
        (operators::ADD, [a, b]) => {
            let times = matches!((a.ty, b.ty), (Ty::Timestamp | Ty::Duration, Ty::Timestamp | Ty::Duration));
            if a.ty.differs(b.ty) && !times || matches!(a.ty, Ty::Bool | Ty::Object(_) | Ty::Null) {
                return Some(no_match(id, name, facts));
            }
            let size = a.size.saturating_add(b.size);
            plus(if matches!(a.ty, Ty::Dyn) { b.ty } else { a.ty }, size, tenth(size))
        }
        (operators::SUBSTRACT | operators::MULTIPLY | operators::DIVIDE | operators::MODULO, [a, b]) => {
            let times = matches!(a.ty, Ty::Timestamp | Ty::Duration);
            let number = matches!(a.ty, Ty::Int | Ty::Uint | Ty::Double | Ty::Dyn);
            if !times && (a.ty.differs(b.ty) || !number) {
                return Some(no_match(id, name, facts));
            }
            plus(if times { Ty::Dyn } else { a.ty }, 1, 1)
        }
        (operators::NEGATE, [a]) => plus(a.ty, 1, 1),
        (operators::IN, [_, container]) => {
            plus(Ty::Bool, 1, if matches!(container.ty, Ty::Object(_)) { 1 } else { container.size })
        }
        (operators::INDEX, [container, _]) => {
            let fact = match container.ty {
                Ty::List(Some(node)) => fact_of(node, 0),
                Ty::Strings => Fact { ty: Ty::String, size: container.size, cost: 0 },
                Ty::Object(node) => match &node.additional {
                    Some(Additional::Node(inner)) => fact_of(inner, 0),
                    _ => Fact { ty: Ty::Dyn, size: 1, cost: 0 },
                },
                Ty::List(None) | Ty::Dyn => Fact { ty: Ty::Dyn, size: 1, cost: 0 },
                _ => return Some(no_match(id, name, facts)),
            };
            plus(fact.ty, fact.size, 1)
        }
        (operators::OPT_INDEX | operators::OPT_SELECT, _) => plus(Ty::Dyn, 1, 1),
        _ => None,
    }
}

fn function<'n>(id: u64, name: &str, facts: &[Fact<'n>]) -> Result<Fact<'n>, Mismatch> {
    let gives = match functions::signature(name, facts.len()) {
        Ok(gives) => gives,
        Err(why) if why.starts_with("undeclared") => return mismatch(id, format!("{why} '{name}' (in container '')")),
        Err(_) => return no_match(id, name, facts),
    };
    let first = facts.first().copied().unwrap_or(Fact { ty: Ty::Dyn, size: 1, cost: 0 });
    let texts = [
        "contains",
        "startsWith",
        "endsWith",
        "matches",
        "split",
        "lowerAscii",
        "upperAscii",
        "trim",
        "replace",
        "substring",
        "charAt",
    ];
    if texts.contains(&name) && first.ty.name().is_some_and(|n| n != "string") {
        return no_match(id, name, facts);
    }
    let spent = facts.iter().fold(0, |sum: u64, f| sum.saturating_add(f.cost));
    let second = facts.get(1).map_or(1, |f| f.size);
    let own = match name {
        "matches" | "find" | "findAll" => tenth(first.size).saturating_mul(second / 4 + 1),
        "contains" => tenth(first.size).saturating_mul(tenth(second)),
        "size" | "int" | "dyn" | "type" => 1,
        n if n.starts_with("sets.") => first.size.saturating_mul(second),
        "isSorted" | "sum" | "min" | "max" => first.size,
        "string" if !matches!(first.ty, Ty::String) => 1,
        _ => tenth(first.size),
    };
    let (ty, size) = match gives {
        Gives::Bool => (Ty::Bool, 1),
        Gives::Int => (Ty::Int, 1),
        Gives::Uint => (Ty::Uint, 1),
        Gives::Double => (Ty::Double, 1),
        // The real estimate knows no bound for what is turned into text.
        Gives::String if name == "string" && !matches!(first.ty, Ty::String) => (Ty::String, UNBOUNDED),
        Gives::String => (Ty::String, first.size),
        Gives::Bytes => (Ty::Bytes, first.size),
        Gives::Timestamp => (Ty::Timestamp, 1),
        Gives::Duration => (Ty::Duration, 1),
        Gives::Strings => (Ty::Strings, first.size),
        Gives::Dyn => (Ty::Dyn, 1),
    };
    Ok(Fact { ty, size, cost: spent.saturating_add(own) })
}
