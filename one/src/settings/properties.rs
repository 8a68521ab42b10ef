//! Java properties files: `key = value`, comments, continued lines, escapes.

/// One logical line of a properties file, with its continuation lines.
#[derive(Debug, PartialEq, Eq)]
pub struct Property {
    /// Key before the separator.
    pub key: String,
    /// Value after the separator, trimmed.
    pub value: String,
    /// First line of the property, from 1.
    pub line: usize,
}

/// Parses a properties file (documentation of `java.util.Properties.load`); lines end with LF, CR or both.
///
/// # Errors
/// Returns the line of an escape `\u` without four hexadecimal digits.
pub fn parse(text: &str) -> Result<Vec<Property>, usize> {
    let mut found = Vec::new();
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let line = line.trim_start();
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        let mut whole = line.to_string();
        while ends_in_escape(&whole) {
            whole.pop();
            // A backslash at the end of the file continues nothing and is dropped.
            let Some((_, more)) = lines.next() else { break };
            whole += more.trim_start();
        }
        let (key, value) = halves(&whole);
        let (key, value) = (plain(key).ok_or(number + 1)?, plain(value).ok_or(number + 1)?);
        found.push(Property { key, value: value.trim().to_string(), line: number + 1 });
    }
    Ok(found)
}

fn ends_in_escape(line: &str) -> bool {
    // An even number of backslashes at the end of a line are escaped backslashes, which continue nothing.
    line.bytes().rev().take_while(|&byte| byte == b'\\').count() % 2 == 1
}

fn halves(line: &str) -> (&str, &str) {
    // Key and value are separated by white space, or by the first `=` or `:` with white space around it.
    let mut escaped = false;
    let end = line.find(|c: char| {
        let ends = !escaped && (matches!(c, '=' | ':') || c.is_whitespace());
        escaped = c == '\\' && !escaped;
        ends
    });
    let Some(end) = end else { return (line, "") };
    let (key, rest) = line.split_at(end);
    let rest = rest.trim_start();
    (key, rest.strip_prefix(['=', ':']).unwrap_or(rest).trim_start())
}

fn plain(text: &str) -> Option<String> {
    // Java refuses an invalid `\u`, so `None` must not become text.
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match rest.next() {
            Some('t') => out.push('\t'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('f') => out.push('\u{c}'),
            Some('u') => {
                let code: String = rest.by_ref().take(4).collect();
                let code = (code.len() == 4).then(|| u32::from_str_radix(&code, 16).ok()).flatten()?;
                out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            // Java drops the backslash before any other character.
            Some(other) => out.push(other),
            None => {}
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(String, String, usize)> {
        parse(text).expect("it can be read").into_iter().map(|p| (p.key, p.value, p.line)).collect()
    }

    #[test]
    fn keys_and_values_split_as_java() {
        let text = "# talk\n! talk\n\n a.b = 1, 2 \nc:3\nd 4\ne\nf\\ g=h\\=i\n  long = one, \\\n   two\nj==k\n";
        let told = [("a.b", "1, 2", 4), ("c", "3", 5), ("d", "4", 6), ("e", "", 7), ("f g", "h=i", 8)];
        let told = told.into_iter().chain([("long", "one, two", 9), ("j", "=k", 11)]);
        let told: Vec<_> = told.map(|(key, value, line)| (key.to_string(), value.to_string(), line)).collect();
        assert_eq!(pairs(text), told);
    }

    #[test]
    fn all_line_endings_are_read() {
        for end in ["\n", "\r\n", "\r"] {
            let text = ["a = 1", "# talk", "b = 2, \\", "  3", "c = 4"].join(end);
            let told = [("a", "1", 1), ("b", "2, 3", 3), ("c", "4", 5)];
            assert_eq!(
                pairs(&text),
                told.map(|(key, value, line)| (key.to_string(), value.to_string(), line)),
                "{end:?}"
            );
        }
    }

    #[test]
    fn broken_escapes_are_reported() {
        assert_eq!(pairs("a = x\\ty\\u0041\\z\\")[0].1, "x\tyAz");
        assert_eq!(parse("fine = 1\nbad = \\u12"), Err(2));
        assert_eq!(parse("bad = \\u12ä4"), Err(1));
    }

    #[test]
    fn arbitrary_bytes_never_panic() {
        for text in ["", "\\", "=", ":", "= =", "\\\n\\\n\\", "\u{0}", "a\\u", "\r\n\r", "💥=💥\\"] {
            let _ = parse(text);
        }
    }
}
