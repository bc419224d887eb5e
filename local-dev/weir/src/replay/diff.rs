//! Where two texts part, as `diff -u` shows it.
//!
//! Intention: of a body of hundreds of lines a person sees the few that differ, and enough around them to know where they are.

/// So many lines that are the same are shown on either side.
const AROUND: usize = 3;
/// Beyond so many differing lines on a side, they are not matched up one by one: what it takes grows with the square.
const MATCHED: usize = 1000;
/// So many lines are shown at most.
const SHOWN: usize = 80;

/// A line of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    Same(&'a str),
    Old(&'a str),
    New(&'a str),
    /// Lines that are left out here.
    Gap,
}

/// Compares texts line by line. Without what is the same and far from what is not.
pub fn unified<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    let all = compare(old, new);
    let is_near = |at: usize| {
        let (from, to) = (at.saturating_sub(AROUND), (at + AROUND + 1).min(all.len()));
        all[from..to].iter().any(|line| !matches!(line, Line::Same(_)))
    };
    let mut shown = vec![];
    for (at, line) in all.iter().enumerate() {
        let is_full = shown.len() >= SHOWN;
        if !is_full && is_near(at) {
            shown.push(*line);
        } else if shown.last() != Some(&Line::Gap) {
            shown.push(Line::Gap);
        }
    }
    shown
}

fn compare<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    let before = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let (rest_old, rest_new) = (&old[before..], &new[before..]);
    let after = rest_old.iter().rev().zip(rest_new.iter().rev()).take_while(|(old, new)| old == new).count();
    let middle = between(&rest_old[..rest_old.len() - after], &rest_new[..rest_new.len() - after]);
    let same = |line: &&'a str| Line::Same(line);
    let tail = &old[old.len() - after..];
    old[..before].iter().map(same).chain(middle).chain(tail.iter().map(same)).collect()
}

/// By the longest common subsequence.
fn between<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    let all_old = old.iter().map(|line| Line::Old(line));
    let all_new = new.iter().map(|line| Line::New(line));
    if old.len() > MATCHED || new.len() > MATCHED {
        return all_old.chain(all_new).collect();
    }
    // How many lines the rests have in common.
    let width = new.len() + 1;
    let mut common = vec![0_u16; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            let (down, right) = (common[(i + 1) * width + j], common[i * width + j + 1]);
            common[i * width + j] =
                if old[i] == new[j] { common[(i + 1) * width + j + 1] + 1 } else { down.max(right) };
        }
    }
    let (mut i, mut j, mut lines) = (0, 0, vec![]);
    while i < old.len() && j < new.len() {
        if old[i] == new[j] {
            lines.push(Line::Same(old[i]));
            (i, j) = (i + 1, j + 1);
        } else if common[(i + 1) * width + j] >= common[i * width + j + 1] {
            lines.push(Line::Old(old[i]));
            i += 1;
        } else {
            lines.push(Line::New(new[j]));
            j += 1;
        }
    }
    lines.extend(old[i..].iter().map(|line| Line::Old(line)));
    lines.extend(new[j..].iter().map(|line| Line::New(line)));
    lines
}

/// What Rust's `{:?}` has written in one line, a field a line, as `{:#?}` would.
pub fn spread(text: &str) -> String {
    let (mut out, mut depth, mut quoted) = (String::with_capacity(text.len() * 2), 0_usize, false);
    let mut rest = text.chars().peekable();
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.push_str(&"  ".repeat(depth));
    };
    while let Some(c) = rest.next() {
        match c {
            '\\' if quoted => {
                out.push(c);
                out.extend(rest.next());
                continue;
            }
            '"' => quoted = !quoted,
            _ => {}
        }
        match c {
            '(' | '[' | '{' if !quoted => {
                out.push(c);
                if rest.peek().is_some_and(|next| !")]}".contains(*next)) {
                    depth += 1;
                    line(&mut out, depth);
                }
                rest.next_if_eq(&' ');
            }
            ')' | ']' | '}' if !quoted => {
                while out.ends_with(' ') {
                    out.pop();
                }
                if !out.ends_with(['(', '[', '{']) {
                    depth = depth.saturating_sub(1);
                    line(&mut out, depth);
                }
                out.push(c);
            }
            ',' if !quoted && depth > 0 => {
                out.push(c);
                rest.next_if_eq(&' ');
                line(&mut out, depth);
            }
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(old: &str, new: &str) -> String {
        let (old, new): (Vec<&str>, Vec<&str>) = (old.split(' ').collect(), new.split(' ').collect());
        let lines = unified(&old, &new).into_iter().map(|line| match line {
            Line::Same(text) => text.to_owned(),
            Line::Old(text) => format!("-{text}"),
            Line::New(text) => format!("+{text}"),
            Line::Gap => "…".to_owned(),
        });
        lines.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn lines_that_differ_are_shown_with_a_few_around_them() {
        assert_eq!(shown("a b c", "a x c"), "a -b +x c");
        assert_eq!(shown("a b c d", "b c x d"), "-a b c +x d");
        assert_eq!(shown("1 2 3 4 5 6 7 8 9", "1 2 3 4 x 6 7 8 9"), "… 2 3 4 -5 +x 6 7 8 …");
        assert_eq!(shown("1 a 3 4 5 6 7 8 9 b", "1 x 3 4 5 6 7 8 9 y"), "1 -a +x 3 4 5 … 7 8 9 -b +y");
        assert_eq!(shown("a", "a"), "…");
    }

    #[test]
    fn texts_without_bounds_are_compared_within_bounds() {
        let (old, new): (Vec<String>, Vec<String>) =
            ((0..50_000).map(|n| format!("o{n}")).collect(), (0..50_000).map(|n| format!("n{n}")).collect());
        let (old, new): (Vec<&str>, Vec<&str>) =
            (old.iter().map(String::as_str).collect(), new.iter().map(String::as_str).collect());
        assert_eq!(unified(&old, &new).len(), SHOWN + 1);
    }

    #[test]
    fn a_step_is_spread_field_by_field() {
        assert_eq!(
            spread("rebuild Make(Rule { cidr: None, ports: Some((443, 443)), tags: [], text: \"a, (\\\" b\" })"),
            "rebuild Make(\n  Rule {\n    cidr: None,\n    ports: Some(\n      (\n        443,\n        443\n      )\n    ),\n    \
             tags: [],\n    text: \"a, (\\\" b\"\n  }\n)"
        );
        assert_eq!(spread("show a: Healthy, Active"), "show a: Healthy, Active");
    }
}
