//! `x-kubernetes-validations`: rules in the Common Expression Language.
//!
//! Parsing is the `cel` crate's. Evaluation is done here rather than by that crate, for three reasons: every step can be paid for out of
//! a budget, so a hostile rule cannot hang the server; values of the resource are looked into without copying them; and errors read as
//! the API server's do.
//!
//! Caveats: semantic versions, JSON patch helpers, `format.named` and the two-variable comprehensions of newer servers are missing.

mod check;
pub(super) mod estimate;
mod eval;
mod functions;
mod net;
mod quantity;
mod strings;
mod time;
mod value;

pub(super) use eval::Meter;
pub(super) use value::{Error, Val};

use super::cause::Cause;
use super::node::Node;
use cel::common::ast::{EntryExpr, Expr, IdedExpr};
use check::{Checker, Mismatch, Ty};
use serde_json::Value;
use std::sync::{Arc, LazyLock};

/// Longer rules are refused.
const MAX_LENGTH: usize = 16 * 1024;
/// Brackets nested deeper are refused: the parser recurses.
const MAX_NESTING: usize = 40;
/// More operators are refused: a long chain makes a deep tree, which even to drop takes a stack as deep.
const MAX_OPERATORS: usize = 600;
/// Deeper trees are refused: checking and evaluation recurse.
const MAX_DEPTH: usize = 120;

static PARSER: LazyLock<cel::Env> = LazyLock::new(|| cel::Env::stdlib().with_optional_support(true));

/// One compiled rule.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    source: String,
    expression: Arc<IdedExpr>,
    message: String,
    message_expression: Option<Arc<IdedExpr>>,
    reason: Reason,
    field_path: String,
    uses_old_self: bool,
    optional_old_self: bool,
    cost: u64,
    message_cost: u64,
}

/// What kind of error a broken rule is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Reason {
    #[default]
    Invalid,
    Forbidden,
    Required,
    Duplicate,
}

const REASONS: [(&str, Reason); 4] = [
    ("FieldValueDuplicate", Reason::Duplicate),
    ("FieldValueForbidden", Reason::Forbidden),
    ("FieldValueInvalid", Reason::Invalid),
    ("FieldValueRequired", Reason::Required),
];

/// What is wrong with a rule's own text.
#[derive(Debug)]
pub(crate) struct Problem {
    member: &'static str,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Required(&'static str),
    /// The value as shown, and what is wrong with it.
    Invalid(String, String),
    Unsupported(String),
}

impl Problem {
    pub(crate) fn into_cause(self, path: &str) -> Cause {
        let field = format!("{path}.{}", self.member);
        match self.kind {
            Kind::Required(detail) => Cause::required(&field, detail),
            Kind::Invalid(value, detail) => Cause::invalid(&field, &value, &detail),
            Kind::Unsupported(value) => {
                let names: Vec<String> = REASONS.iter().map(|(name, _)| (*name).to_owned()).collect();
                Cause::not_supported(&field, &value, &names)
            }
        }
    }
}

impl Rule {
    /// Compiles an entry of `x-kubernetes-validations` of `node`.
    pub(crate) fn compile(entry: &Value, node: &Node) -> Result<Rule, Vec<Problem>> {
        let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or("");
        let source = text("rule");
        let mut problems = Vec::new();
        if source.trim().is_empty() {
            return Err(vec![Problem { member: "rule", kind: Kind::Required("rule is not specified") }]);
        }
        let optional_old_self = entry.get("optionalOldSelf").and_then(Value::as_bool) == Some(true);
        let whole = shown(entry);
        let mut compile = |member: &'static str, source: &str, wanted: &str| {
            let compiled = parse(source).and_then(|program| {
                let fact = type_of(&program, source, node, optional_old_self)?;
                match (wanted, fact.ty) {
                    ("bool", Ty::Bool | Ty::Dyn) | ("string", Ty::String | Ty::Dyn) => {}
                    ("bool", _) => return Err("cel expression must evaluate to a bool".to_owned()),
                    _ => return Err("messageExpression must evaluate to a string".to_owned()),
                }
                Ok((program, fact.cost))
            });
            compiled
                .map_err(|detail| problems.push(Problem { member, kind: Kind::Invalid(whole.clone(), detail) }))
                .ok()
        };
        let expression = compile("rule", source, "bool");
        let message_source = text("messageExpression");
        let message_expression =
            if message_source.is_empty() { None } else { compile("messageExpression", message_source, "string") };
        let reason = match text("reason") {
            "" => Reason::Invalid,
            given => REASONS.iter().find(|(name, _)| *name == given).map_or_else(
                || {
                    problems.push(Problem { member: "reason", kind: Kind::Unsupported(format!("{given:?}")) });
                    Reason::Invalid
                },
                |(_, reason)| *reason,
            ),
        };
        let field_path = text("fieldPath");
        if !field_path.is_empty() && !refers_to_field(node, field_path) {
            let why = "does not refer to a valid field".to_owned();
            problems.push(Problem { member: "fieldPath", kind: Kind::Invalid(format!("{field_path:?}"), why) });
        }
        let Some((program, cost)) = expression.filter(|_| problems.is_empty()) else { return Err(problems) };
        let message_cost = message_expression.as_ref().map_or(0, |(_, cost)| *cost);
        Ok(Rule {
            source: source.to_owned(),
            uses_old_self: program.references().has_variable("oldSelf"),
            expression: Arc::new(program.expression().clone()),
            message: text("message").to_owned(),
            message_expression: message_expression.map(|(program, _)| Arc::new(program.expression().clone())),
            reason,
            field_path: field_path.to_owned(),
            optional_old_self,
            cost,
            message_cost,
        })
    }

    pub(super) fn source(&self) -> &str {
        &self.source
    }

    fn cost(&self) -> u64 {
        self.cost
    }

    fn message_cost(&self) -> u64 {
        self.message_cost
    }

    pub(super) fn uses_old_self(&self) -> bool {
        self.uses_old_self
    }

    pub(super) fn reason(&self) -> Reason {
        self.reason
    }

    /// The path below the value at which a failure is reported; empty for the value itself.
    pub(super) fn field_path(&self) -> &str {
        &self.field_path
    }

    /// Whether the rule applies when there is `old`, or no old value.
    pub(super) fn applies(&self, old: bool) -> bool {
        old || !self.uses_old_self || self.optional_old_self
    }

    /// Evaluates the rule. `Ok(None)`: it holds. `Ok(Some(message))`: it does not.
    pub(super) fn evaluate<'a>(
        &self,
        value: &Val<'a>,
        old: Option<&Val<'a>>,
        meter: &mut Meter,
    ) -> Result<Option<String>, Error> {
        let variables = || {
            let mut variables = vec![("self", value.clone())];
            if self.optional_old_self {
                variables.push(("oldSelf", Val::Optional(old.map(|v| Box::new(v.clone())))));
            } else if let Some(old) = old {
                variables.push(("oldSelf", old.clone()));
            }
            variables
        };
        match eval::eval(&self.expression, variables(), meter)? {
            Val::Bool(true) => return Ok(None),
            Val::Bool(false) => {}
            _ => return Err(Error::Failed("cel expression must evaluate to a bool".into())),
        }
        if let Some(expression) = &self.message_expression {
            // A message that cannot be had, or is no single line, gives way to the plain one.
            match eval::eval(expression, variables(), meter) {
                Ok(Val::String(text)) if !text.trim().is_empty() && !text.contains('\n') && text.len() <= 5 * 1024 => {
                    return Ok(Some(text.into_owned()));
                }
                Err(Error::Budget) => return Err(Error::Budget),
                _ => {}
            }
        }
        let message =
            if self.message.is_empty() { format!("failed rule: {}", self.source.trim()) } else { self.message.clone() };
        Ok(Some(message))
    }
}

/// A rule as error texts show it.
fn shown(entry: &Value) -> String {
    let text = |key: &str| entry.get(key).cloned().filter(Value::is_string).unwrap_or_else(|| Value::from(""));
    let or_null = |key: &str| entry.get(key).cloned().unwrap_or(Value::Null);
    format!(
        r#"{{"Rule":{},"Message":{},"MessageExpression":{},"Reason":{},"FieldPath":{},"OptionalOldSelf":{}}}"#,
        text("rule"),
        text("message"),
        text("messageExpression"),
        or_null("reason"),
        text("fieldPath"),
        or_null("optionalOldSelf")
    )
}

fn parse(source: &str) -> Result<cel::Program, String> {
    if source.len() > MAX_LENGTH {
        return Err(format!("compilation failed: expressions may have at most {MAX_LENGTH} bytes"));
    }
    if nesting(source) > MAX_NESTING {
        return Err(format!("compilation failed: brackets may be nested {MAX_NESTING} deep"));
    }
    // Too many rather than too few are counted: those in strings are none.
    if source.bytes().filter(|b| b"+-*/%.?!&|<>=[".contains(b)).count() > MAX_OPERATORS {
        return Err(format!("compilation failed: expressions may have at most {MAX_OPERATORS} operators"));
    }
    let program = PARSER.compile(source).map_err(|errors| {
        let text = errors.errors.first().map_or_else(String::new, ToString::to_string);
        format!("compilation failed: {}", text.replace("\n| ", "\n | "))
    })?;
    if depth(program.expression()) > MAX_DEPTH {
        return Err(format!("compilation failed: expressions may be nested {MAX_DEPTH} deep"));
    }
    Ok(program)
}

/// How deep the tree of an expression is.
fn depth(expression: &IdedExpr) -> usize {
    let mut deepest = 0;
    let mut open = vec![(expression, 1)];
    while let Some((one, depth)) = open.pop() {
        deepest = deepest.max(depth);
        let mut below = |inner| open.push((inner, depth + 1));
        match &one.expr {
            Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).for_each(below),
            Expr::Comprehension(c) => {
                [&c.iter_range, &c.accu_init, &c.loop_cond, &c.loop_step, &c.result].into_iter().for_each(below);
            }
            Expr::List(list) => list.elements.iter().for_each(below),
            Expr::Map(map) => {
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        below(&entry.key);
                        below(&entry.value);
                    }
                }
            }
            Expr::Select(select) => below(&select.operand),
            Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_) | Expr::Unspecified => {}
        }
    }
    deepest
}

/// How deep brackets are nested at most; brackets in strings count too, which errs on the safe side.
fn nesting(source: &str) -> usize {
    let mut depth = 0_usize;
    let mut deepest = 0;
    for byte in source.bytes() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

fn type_of<'n>(
    program: &cel::Program,
    source: &str,
    node: &'n Node,
    optional_old_self: bool,
) -> Result<check::Fact<'n>, String> {
    let mut checker = if optional_old_self {
        Checker::new(&[("self", node)], &["oldSelf"])
    } else {
        Checker::new(&[("self", node), ("oldSelf", node)], &[])
    };
    checker.check(program.expression()).map_err(|Mismatch { id, message }| {
        let start = program.source_info().offset_for(id).map_or(0, |(start, _)| start as usize);
        // Offsets count characters from the start of the source.
        let before: String = source.chars().take(start).collect();
        let line = before.matches('\n').count();
        let column = before.chars().rev().take_while(|c| *c != '\n').count();
        let shown = source.lines().nth(line).unwrap_or("");
        let dots = ".".repeat(column);
        format!("compilation failed: ERROR: <input>:{}:{}: {message}\n | {shown}\n | {dots}^", line + 1, column + 1)
    })
}

/// Whether `.a.b['c']` leads to a declared field.
fn refers_to_field(node: &Node, path: &str) -> bool {
    let mut node = node;
    let mut rest = path;
    while !rest.is_empty() {
        let (name, tail) = if let Some(quoted) = rest.strip_prefix("['") {
            let Some((name, tail)) = quoted.split_once("']") else { return false };
            (name, tail)
        } else if let Some(plain) = rest.strip_prefix('.') {
            plain.split_at(plain.find(['.', '[']).unwrap_or(plain.len()))
        } else {
            return false;
        };
        let Some(next) = node.member(name) else { return false };
        node = next;
        rest = tail;
    }
    true
}
