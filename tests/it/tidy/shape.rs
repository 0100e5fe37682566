//! Rules about single functions: how long they are, how deep they nest, what they take.

use super::source::Source;

/// A function has at most so many lines, …
const MOST_LINES: usize = 80;

/// … and its branches and loops stand in each other at most so deep.
const MOST_NESTED: usize = 5;

/// A function: its line, the text of its parameters, and its body.
struct Function<'a> {
    line: usize,
    name: &'a str,
    parameters: &'a str,
    body: &'a str,
}

/// All functions of a file; closures belong to the function that they stand in.
fn functions(source: &Source) -> Vec<Function<'_>> {
    let code = source.code.as_str();
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        if code[..at].chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let rest = &code[at + 3..];
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        // A pointer to a function has no name.
        let Some(open) = rest[end..].find('(').map(|i| end + i).filter(|_| end > 0) else {
            continue;
        };
        let Some(close) = closing(&rest[open..], '(', ')').map(|i| open + i) else { continue };
        let after = &rest[close..];
        let body = match (after.find('{'), after.find(';')) {
            (Some(brace), semicolon)
                if semicolon.is_none_or(|it| brace < it || after[..it].contains('[')) =>
            {
                let body = &after[brace..];
                &body[..closing(body, '{', '}').unwrap_or(body.len())]
            }
            _ => "",
        };
        let line = code[..at].matches('\n').count();
        let parameters = &rest[open + 1..close];
        found.push(Function { line, name: &rest[..end], parameters, body });
    }
    found
}

/// Where what opens at the start of `text` closes.
fn closing(text: &str, open: char, close: char) -> Option<usize> {
    let mut depth = 0;
    text.char_indices().find_map(|(i, c)| {
        depth += i32::from(c == open) - i32::from(c == close);
        (c == close && depth == 0).then_some(i)
    })
}

pub fn long_functions(sources: &[Source]) -> Vec<String> {
    let each = |source: &Source| {
        let long =
            functions(source).into_iter().map(|it| (it.line, it.name, it.body.lines().count()));
        let long = long.filter(|(.., lines)| *lines > MOST_LINES);
        long.map(|(line, name, lines)| source.fault(line, &format!("`{name}` has {lines} lines")))
            .collect::<Vec<_>>()
    };
    sources.iter().flat_map(each).collect()
}

/// How deep branches and loops stand in each other.
fn nested(body: &str) -> usize {
    let mut open: Vec<bool> = Vec::new();
    let mut most = 0;
    let mut since = 0;
    for (i, c) in body.char_indices() {
        match c {
            '{' => {
                let before = &body[since..i];
                let mut words = before.split(|c: char| !c.is_alphanumeric() && c != '_');
                open.push(
                    words.any(|word| {
                        ["if", "else", "match", "for", "while", "loop"].contains(&word)
                    }),
                );
                most = most.max(open.iter().filter(|it| **it).count());
                since = i + 1;
            }
            '}' => {
                open.pop();
                since = i + 1;
            }
            ';' | ',' => since = i + 1,
            _ => {}
        }
    }
    most
}

pub fn deep_functions(sources: &[Source]) -> Vec<String> {
    let each = |source: &Source| {
        let deep = functions(source).into_iter().map(|it| (it.line, it.name, nested(it.body)));
        let deep = deep.filter(|(.., depth)| *depth > MOST_NESTED);
        deep.map(|(line, name, depth)| source.fault(line, &format!("`{name}` nests {depth} deep")))
            .collect::<Vec<_>>()
    };
    sources.iter().flat_map(each).collect()
}

/// The top-level parts of a list, without what is in brackets of any kind.
fn parts(list: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0i32, 0, Vec::new());
    let mut before = ' ';
    for (i, c) in list.char_indices() {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            '>' if before == '-' || before == '=' => {}
            ')' | ']' | '}' | '>' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&list[start..i]);
                start = i + 1;
            }
            _ => {}
        }
        before = c;
    }
    parts.push(&list[start..]);
    parts
}

/// Functions of which a parameter is a tuple: several parameters that were made to look like one.
pub fn tuple_parameters(sources: &[Source]) -> Vec<String> {
    let is_tuple = |parameter: &str| {
        let colon = parameter.char_indices().scan(0i32, |depth, (i, c)| {
            *depth += i32::from("([{<".contains(c)) - i32::from(")]}>".contains(c));
            Some((i, c, *depth))
        });
        let colon = colon.filter(|(_, c, depth)| *c == ':' && *depth == 0).map(|(i, ..)| i).next();
        let kind = colon.map_or("", |i| parameter[i + 1..].trim());
        let inner = kind.strip_prefix('(').and_then(|it| it.strip_suffix(')'));
        inner
            .is_some_and(|inner| parts(inner).iter().filter(|it| !it.trim().is_empty()).count() > 1)
    };
    let each = |source: &Source| {
        let bad = functions(source)
            .into_iter()
            .filter(|it| parts(it.parameters).into_iter().any(is_tuple));
        bad.map(|it| source.fault(it.line, &format!("`{}` takes a tuple", it.name)))
            .collect::<Vec<_>>()
    };
    sources.iter().flat_map(each).collect()
}

#[test]
fn each_rule_meets_a_planted_offence() {
    let planted = |text: &str| vec![Source::new("a/one.rs", text)];
    let long = |lines: usize| {
        planted(&format!("fn short() {{}}\nfn long(a: u8) -> u8 {{\n{}}}\n", "a;\n".repeat(lines)))
    };
    assert_eq!(long_functions(&long(81)), ["src/a/one.rs:2: `long` has 82 lines"]);
    assert_eq!(long_functions(&long(78)), [""; 0]);
    let deep =
        "fn f() { if a { for b in c { while d { loop { match e { X => { if g {} } } } } } } }";
    assert_eq!(deep_functions(&planted(deep)), ["src/a/one.rs:1: `f` nests 6 deep"]);
    let shallow = "fn f() { let a = S { b: T { c: U { d: V { e: W { f: X { g: 1 } } } } } }; }";
    assert_eq!(deep_functions(&planted(shallow)), [""; 0]);
    let tuples = "fn f(&self, (a, b): (A, B)) {}\nfn g(c: &[(A, B)], d: impl Fn((A, B)) -> C, e: ()) {}\nfn h(pair: (A, &'a B)) {}";
    assert_eq!(
        tuple_parameters(&planted(tuples)),
        ["src/a/one.rs:1: `f` takes a tuple", "src/a/one.rs:3: `h` takes a tuple"]
    );
}
