//! Two-line elements: parsing, with line and column of every mistake.
//!
//! Format: <https://celestrak.org/NORAD/documentation/tle-fmt.php>. The crate `sgp4` converts the numbers, after every
//! column was checked here.

use std::fmt;

/// Two lines of elements, with the name above them if there is one.
#[derive(Clone, PartialEq, Debug)]
pub struct Tle {
    /// Name from the line above the elements.
    pub name: Option<String>,
    /// Satellite catalogue number.
    pub catalog: u64,
    /// Line number of the first line of elements, from 1.
    pub line: usize,
    pub(crate) elements: sgp4::Elements,
}

/// Error in a text of two-line elements.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TleError {
    /// Line number, from 1; 0 for the whole text.
    pub line: usize,
    /// Column, from 1; 0 for the whole line.
    pub column: usize,
    /// Description of the mistake.
    pub message: String,
}
impl fmt::Display for TleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, self.column) {
            (0, _) => f.write_str(&self.message),
            (line, 0) => write!(f, "line {line}: {}", self.message),
            (line, column) => write!(f, "line {line}, column {column}: {}", self.message),
        }
    }
}
impl std::error::Error for TleError {}

/// Hint shown with errors in elements.
pub const HINT: &str =
    "elements are two lines of 69 characters, copied whole, such as those of celestrak.org (FORMAT=tle)";

// Length of a line of elements.
const LENGTH: usize = 69;

/// Notation of a field.
#[derive(Clone, Copy)]
enum Form {
    /// Decimal number with its point.
    Number,
    /// Digits after an implied decimal point, optionally with a sign.
    Fraction,
    /// Power of ten, as a sign and a digit.
    Power,
    /// Integer, optionally after blanks.
    Whole,
    /// Two digits of a year.
    Year,
    /// Catalogue number; its first character may be a letter (Alpha-5).
    Catalog,
    /// Classification: U, C or S.
    Class,
    /// A column that must be blank.
    Blank,
}

/// A field: first and last column (from 0, last excluded), name, and notation.
type TleField = (usize, usize, &'static str, Form);

const FIRST: &[TleField] = &[
    (1, 2, "blank", Form::Blank),
    (2, 7, "catalogue number", Form::Catalog),
    (7, 8, "classification", Form::Class),
    (8, 9, "blank", Form::Blank),
    (17, 18, "blank", Form::Blank),
    (18, 20, "year of the epoch", Form::Year),
    (20, 32, "day of the epoch", Form::Number),
    (32, 33, "blank", Form::Blank),
    (33, 43, "change of the mean motion", Form::Number),
    (43, 44, "blank", Form::Blank),
    (44, 50, "second change of the mean motion", Form::Fraction),
    (50, 52, "power of ten", Form::Power),
    (52, 53, "blank", Form::Blank),
    (53, 59, "drag term", Form::Fraction),
    (59, 61, "power of ten", Form::Power),
    (61, 62, "blank", Form::Blank),
    (62, 63, "ephemeris type", Form::Whole),
    (63, 64, "blank", Form::Blank),
    (64, 68, "number of the set", Form::Whole),
];
const SECOND: &[TleField] = &[
    (1, 2, "blank", Form::Blank),
    (2, 7, "catalogue number", Form::Catalog),
    (7, 8, "blank", Form::Blank),
    (8, 16, "inclination", Form::Number),
    (16, 17, "blank", Form::Blank),
    (17, 25, "right ascension of the node", Form::Number),
    (25, 26, "blank", Form::Blank),
    (26, 33, "eccentricity", Form::Fraction),
    (33, 34, "blank", Form::Blank),
    (34, 42, "argument of the perigee", Form::Number),
    (42, 43, "blank", Form::Blank),
    (43, 51, "mean anomaly", Form::Number),
    (51, 52, "blank", Form::Blank),
    (52, 63, "mean motion", Form::Number),
    (63, 68, "revolution number", Form::Whole),
];

impl Form {
    fn fits(self, text: &str) -> bool {
        let rest = text.trim_start();
        let only = |allowed: fn(char) -> bool| !rest.is_empty() && rest.chars().all(allowed);
        match self {
            Form::Number => only(|c| c.is_ascii_digit() || matches!(c, '.' | '+' | '-')) && rest.parse::<f64>().is_ok(),
            Form::Fraction => {
                let digits = rest.strip_prefix(['+', '-']).unwrap_or(rest);
                !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
            }
            Form::Power => text.parse::<i8>().is_ok(),
            Form::Whole => only(|c| c.is_ascii_digit()),
            Form::Year => text.bytes().all(|b| b.is_ascii_digit()),
            Form::Catalog => {
                let (first, digits) = rest.split_at(rest.len().min(1));
                // Alpha-5 numbers start with a letter and fill all five columns.
                let letter = first.bytes().all(|b| b.is_ascii_digit() || (b.is_ascii_uppercase() && rest.len() == 5));
                !first.is_empty() && letter && digits.bytes().all(|b| b.is_ascii_digit())
            }
            Form::Class => matches!(text, "U" | "C" | "S"),
            Form::Blank => text == " ",
        }
    }
    fn wanted(self) -> &'static str {
        match self {
            Form::Number => "a number with its point",
            Form::Fraction => "digits, perhaps with a sign",
            Form::Power => "a sign and a digit",
            Form::Whole => "a whole number",
            Form::Year => "two digits",
            Form::Catalog => "a number in the catalogue",
            Form::Class => "U, C or S",
            Form::Blank => "a blank",
        }
    }
}

/// Reads every pair of lines of a text, with or without names above them. Empty lines and lines that start with `#` are
/// skipped.
///
/// # Errors
/// The first mistake in the text.
pub fn read(text: &str) -> Result<Vec<Tle>, TleError> {
    let mut found = Vec::new();
    let mut name: Option<(usize, &str)> = None;
    let lines = text.lines().zip(1usize..).map(|(line, number)| (number, line.trim_end()));
    let mut lines = lines.filter(|(_, line)| !line.trim_start().is_empty() && !line.starts_with('#'));
    while let Some((number, line)) = lines.next() {
        let wrong = |line, message: &str| TleError { line, column: 0, message: message.into() };
        if is_elements(line, '2') {
            return Err(wrong(number, "a second line of elements without the first above it"));
        }
        if !is_elements(line, '1') {
            if let Some((number, line)) = name.replace((number, line)) {
                return Err(wrong(number, &format!("`{}` is neither elements nor a name above them", short(line))));
            }
            continue;
        }
        let Some((next, second)) = lines.next() else {
            return Err(wrong(number, "the text ends after the first line of these elements"));
        };
        let name = name.take().map(|(_, name)| name.strip_prefix("0 ").unwrap_or(name).trim().to_string());
        found.push(pair(name, (number, line), (next, second))?);
    }
    if let Some((line, _)) = name {
        return Err(TleError { line, column: 0, message: "a name without elements below it".into() });
    }
    if found.is_empty() {
        return Err(TleError { line: 0, column: 0, message: "there are no elements".into() });
    }
    Ok(found)
}

/// Whether a line is meant as the first or second line of elements: names have at most 24 characters.
fn is_elements(line: &str, number: char) -> bool {
    line.strip_prefix(number).is_some_and(|rest| rest.starts_with(' ')) && line.len() > 24
}

fn short(line: &str) -> String {
    line.chars().take(24).collect()
}

fn pair(name: Option<String>, first: (usize, &str), second: (usize, &str)) -> Result<Tle, TleError> {
    columns(first, '1', FIRST)?;
    columns(second, '2', SECOND)?;
    let at = |line, column, message: String| TleError { line, column, message };
    if first.1.get(2..7) != second.1.get(2..7) {
        return Err(at(second.0, 3, "the two lines are of different objects".into()));
    }
    let elements = sgp4::Elements::from_tle(first.1.as_bytes(), second.1.as_bytes())
        .map_err(|error| at(first.0, 0, error.to_string()))?;
    if !(0.0..=180.0).contains(&elements.inclination) {
        return Err(at(second.0, 9, format!("an inclination of {} degrees", elements.inclination)));
    }
    // At 17.5 revolutions a day the orbit is inside the Earth.
    if !(elements.mean_motion > 0.0 && elements.mean_motion < 17.5) {
        return Err(at(second.0, 53, format!("{} times around the Earth a day", elements.mean_motion)));
    }
    Ok(Tle { name, catalog: elements.norad_id, line: first.0, elements })
}

/// Checks every column of a line, and its checksum.
fn columns((number, line): (usize, &str), first: char, fields: &[TleField]) -> Result<(), TleError> {
    let wrong = |column: usize, message: String| Err(TleError { line: number, column, message });
    if let Some(strange) = line.bytes().position(|b| !(b' '..=b'~').contains(&b)) {
        return wrong(strange + 1, "not a character of two-line elements".into());
    }
    if !line.starts_with(first) {
        return wrong(1, format!("this line should begin with {first}"));
    }
    if line.len() != LENGTH {
        let column = line.len().min(LENGTH) + 1;
        return wrong(column, format!("the line has {} characters instead of {LENGTH}", line.len()));
    }
    for (from, to, name, form) in fields {
        let text = line.get(*from..*to).unwrap_or_default();
        if !form.fits(text) {
            let name = if matches!(form, Form::Blank) { String::new() } else { format!("{name}: ") };
            return wrong(from + 1, format!("{name}`{text}` is not {}", form.wanted()));
        }
    }
    // The checksum is the sum of all digits, modulo 10, where a minus sign counts 1.
    let digit = |b: u8| if b.is_ascii_digit() { u32::from(b - b'0') } else { u32::from(b == b'-') };
    let sum = line.bytes().take(LENGTH - 1).map(digit).sum::<u32>() % 10;
    match line.as_bytes().last().copied() {
        Some(last) if last == b'0' + sum as u8 => Ok(()),
        last => {
            let written = last.map_or(' ', char::from);
            wrong(LENGTH, format!("the checksum is {sum}, and `{written}` is written: a digit of this line is wrong"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "ISS (ZARYA)";
    const ONE: &str = "1 25544U 98067A   14020.93268519  .00009878  00000-0  18200-3 0  5082";
    const TWO: &str = "2 25544  51.6498 109.4756 0003572  55.9686 274.8005 15.49815350868473";

    #[test]
    fn pairs_parse_with_and_without_names() {
        let text = format!("# stations\n{NAME}   \r\n{ONE}\r\n{TWO}\r\n\n{ONE}\n{TWO}\n0 THIRD\n{ONE}\n{TWO}");
        let found = read(&text).unwrap();
        let names: Vec<_> = found.iter().map(|tle| tle.name.as_deref()).collect();
        assert_eq!(names, [Some("ISS (ZARYA)"), None, Some("THIRD")]);
        assert_eq!(found.iter().map(|tle| tle.line).collect::<Vec<_>>(), [3, 6, 9]);
        assert!(found.iter().all(|tle| tle.catalog == 25_544 && tle.elements.inclination == 51.6498));
    }

    #[test]
    fn mistakes_name_line_and_column() {
        let swapped = ONE.replace("14020.9", "14021.9");
        let letter = TWO.replace("109.4756", "10x.4756");
        let short = &ONE[..60];
        let other = "2 25545  51.6498 109.4756 0003572  55.9686 274.8005 15.49815350868474";
        let tilted = "2 25544 251.6498 109.4756 0003572  55.9686 274.8005 15.49815350868475";
        let still = "2 25544  51.6498 109.4756 0003572  55.9686 274.8005 00.00000000868473";
        let sum = still.bytes().take(68).map(|b| if b.is_ascii_digit() { u32::from(b - b'0') } else { 0 }).sum::<u32>();
        let still = format!("{}{}", &still[..68], sum % 10);
        let foreign = TWO.replace("2 25544 ", "2 25544\u{a0}");
        for (text, line, column, what) in [
            (format!("{swapped}\n{TWO}"), 1, 69, "the checksum is 3, and `2` is written"),
            (format!("{NAME}\n{ONE}\n{letter}"), 3, 18, "right ascension of the node: `10x.4756` is not a number"),
            (format!("{short}\n{TWO}"), 1, 61, "60 characters instead of 69"),
            (format!("{ONE}\n{NAME}\n{TWO}"), 2, 1, "should begin with 2"),
            (format!("{ONE}\n{other}"), 2, 3, "different objects"),
            (format!("{ONE}\n{tilted}"), 2, 9, "inclination of 251.6498"),
            (format!("{ONE}\n{still}"), 2, 53, "0 times around the Earth"),
            (format!("{ONE}\n{foreign}"), 2, 8, "not a character"),
            (format!("{TWO}\n{ONE}"), 1, 0, "without the first"),
            (format!("{ONE}\n"), 1, 0, "ends after the first line"),
            (format!("{NAME}\nANOTHER\n{ONE}\n{TWO}"), 1, 0, "neither elements nor a name"),
            (format!("{ONE}\n{TWO}\n{NAME}"), 3, 0, "a name without elements"),
            ("\n# nothing\n".into(), 0, 0, "no elements"),
        ] {
            let error = read(&text).unwrap_err();
            assert_eq!((error.line, error.column), (line, column), "{error}\n{text}");
            assert!(error.message.contains(what), "{error}");
        }
    }

    #[test]
    fn corrupted_bytes_never_panic_tle_parser() {
        for wrong in [b'x', b'-', b'+', b' ', b'9', b'.', b'~', 0] {
            for at in 0..ONE.len() + TWO.len() + 1 {
                let mut bytes = format!("{ONE}\n{TWO}").into_bytes();
                bytes[at] = wrong;
                let text = String::from_utf8(bytes).unwrap();
                if let Err(error) = read(&text) {
                    assert!(error.line <= 2 && error.column <= 139, "{error}");
                }
            }
        }
        for end in 0..ONE.len() + TWO.len() + 1 {
            assert!(read(&format!("{ONE}\n{TWO}")[..end]).is_err(), "{end}");
        }
    }
}
