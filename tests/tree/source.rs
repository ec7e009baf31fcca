//! Just enough of Rust's grammar to tell code from comments, strings and tests.

/// A word or a sign of the code, and the line it stands on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    pub text: String,
    pub line: usize,
}

/// The code of a file as words and signs (`::` is one): no comments, no strings, no characters.
pub fn tokens(source: &str) -> Vec<Token> {
    let chars: Vec<char> = source.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let (mut found, mut line, mut i) = (Vec::new(), 1, 0);
    while i < chars.len() {
        let start = i;
        match at(i) {
            '/' if at(i + 1) == '/' => {
                while i < chars.len() && at(i) != '\n' {
                    i += 1;
                }
            }
            '/' if at(i + 1) == '*' => i = comment_end(&chars, i),
            'r' | 'b' | 'c' if raw_string(&chars, i).is_some() => {
                i = raw_string(&chars, i).expect("just seen");
            }
            '"' => i = quoted_end(&chars, i, '"'),
            // A character, or else a lifetime, which is left to the words.
            '\'' if at(i + 1) == '\\' || at(i + 2) == '\'' => i = quoted_end(&chars, i, '\''),
            c if word(c) => {
                while word(at(i)) {
                    i += 1;
                }
                let text = chars[start..i].iter().collect();
                found.push(Token { text, line });
            }
            c => {
                i += if c == ':' && at(i + 1) == ':' { 2 } else { 1 };
                if !c.is_whitespace() {
                    let text = chars[start..i].iter().collect();
                    found.push(Token { text, line });
                }
            }
        }
        line += chars[start..i].iter().filter(|&&c| c == '\n').count();
    }
    found
}

/// Where the block comment that begins at `i` ends; they nest.
fn comment_end(chars: &[char], mut i: usize) -> usize {
    let mut depth = 0;
    while i < chars.len() {
        match (chars[i], chars.get(i + 1)) {
            ('/', Some('*')) => (depth, i) = (depth + 1, i + 2),
            ('*', Some('/')) => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
        if depth == 0 {
            break;
        }
    }
    i
}

/// Where the text that the quote at `i` opens ends.
fn quoted_end(chars: &[char], mut i: usize, quote: char) -> usize {
    i += 1;
    while i < chars.len() && chars[i] != quote {
        i += if chars[i] == '\\' { 2 } else { 1 };
    }
    (i + 1).min(chars.len())
}

/// Where the raw string that begins at `i` ends, if one does.
fn raw_string(chars: &[char], i: usize) -> Option<usize> {
    let mut open = i;
    if matches!(chars[open], 'b' | 'c') {
        open += 1;
    }
    if chars.get(open) != Some(&'r') {
        return None;
    }
    let hashes = chars[open + 1..].iter().take_while(|&&c| c == '#').count();
    let quote = open + 1 + hashes;
    if chars.get(quote) != Some(&'"') {
        return None;
    }
    let closing = |end: usize| {
        chars[end] == '"'
            && chars[end + 1..]
                .iter()
                .take(hashes)
                .filter(|&&c| c == '#')
                .count()
                == hashes
    };
    let end = (quote + 1..chars.len()).find(|&end| closing(end));
    Some(end.map_or(chars.len(), |end| end + 1 + hashes))
}

/// A file's code without what is compiled for tests only.
#[derive(Debug)]
pub struct Product {
    pub tokens: Vec<Token>,
    /// Modules that lie in files of their own and are for tests only.
    pub test_modules: Vec<String>,
}

/// Takes out every item under `#[cfg(test)]` or `#[cfg(all(test, ..))]`. What a feature can turn
/// on as well (`any(test, ..)`) stays: it is part of the product.
pub fn product(all: &[Token]) -> Product {
    let (mut kept, mut test_modules, mut i) = (Vec::new(), Vec::new(), 0);
    while i < all.len() {
        if let Some(after) = test_attribute(all, i) {
            let end = item_end(all, after);
            let item = &all[after..end];
            if let [.., name, semicolon] = item
                && semicolon.text == ";"
                && item.iter().any(|token| token.text == "mod")
            {
                test_modules.push(name.text.clone());
            }
            i = end;
        } else {
            kept.push(all[i].clone());
            i += 1;
        }
    }
    Product {
        tokens: kept,
        test_modules,
    }
}

/// The place after an attribute at `i` that leaves its item to tests.
fn test_attribute(all: &[Token], i: usize) -> Option<usize> {
    let text = |k: usize| all.get(k).map_or("", |token| token.text.as_str());
    if (text(i), text(i + 1), text(i + 2)) != ("#", "[", "cfg") {
        return None;
    }
    let end = closing(all, i + 1);
    let words: Vec<&str> = (i + 3..end).map(text).collect();
    let whole = words.starts_with(&["(", "test", ")"]);
    let part = words.starts_with(&["(", "all", "("])
        && words.contains(&"test")
        && !words.contains(&"any")
        && !words.contains(&"not");
    (whole || part || words.starts_with(&["(", "all", "(", "test", ","])).then_some(end)
}

/// The place after the item that begins at `i`: after its block, its semicolon, or, for a field or
/// a variant, its comma.
fn item_end(all: &[Token], mut i: usize) -> usize {
    let mut may_have_commas = false;
    while i < all.len() {
        match all[i].text.as_str() {
            "fn" | "impl" | "struct" | "enum" | "type" | "trait" => {
                (may_have_commas, i) = (true, i + 1);
            }
            ";" => return i + 1,
            "," if !may_have_commas => return i + 1,
            "{" => {
                let end = closing(all, i);
                let use_group = all.get(end).is_some_and(|token| token.text == ";");
                return if use_group { end + 1 } else { end };
            }
            "(" | "[" => i = closing(all, i),
            _ => i += 1,
        }
    }
    all.len()
}

/// The place after the bracket that closes the one at `i`.
pub fn closing(all: &[Token], i: usize) -> usize {
    let mut depth = 0;
    for (k, token) in all.iter().enumerate().skip(i) {
        match token.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return k + 1;
        }
    }
    all.len()
}

#[test]
fn comments_strings_and_characters_are_not_code() {
    let source = "// a\n/* b /* c */ d */ e 'f' '\\'' 'g \"h\\\"i\" r#\"j\"k\"# l::m";
    let words: Vec<(String, usize)> = tokens(source)
        .into_iter()
        .map(|token| (token.text, token.line))
        .collect();
    let expected = [("e", 2), ("'", 2), ("g", 2), ("l", 2), ("::", 2), ("m", 2)];
    assert_eq!(words, expected.map(|(text, line)| (text.to_owned(), line)));
}

#[test]
fn what_is_compiled_for_tests_only_is_left_out() {
    let source = "a; #[cfg(test)] mod tests; #[cfg(all(test, loom))] mod x { b } c; \
        #[cfg(any(test, feature = \"sim\"))] mod sim; #[cfg(test)] use d::{e, f}; \
        #[cfg(test)] fn h<I, J>() { k } g";
    let product = product(&tokens(source));
    let words: Vec<&str> = product.tokens.iter().map(|t| t.text.as_str()).collect();
    let text = words.join(" ");
    assert_eq!(
        text,
        "a ; c ; # [ cfg ( any ( test , feature = ) ) ] mod sim ; g"
    );
    assert_eq!(product.test_modules, ["tests"]);
}
