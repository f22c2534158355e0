//! Evaluates `$(( … ))` that holds numbers and operators only.

/// Evaluates an expression; the error says what about it cannot be known.
pub(super) fn evaluate(text: &str) -> Result<i64, String> {
    let tokens = tokens(text)?;
    let mut reader = Reader { tokens: &tokens, at: 0, depth: 0 };
    let value = reader.ternary()?;
    match reader.tokens.get(reader.at) {
        None => Ok(value),
        Some(token) => Err(format!("`{token:?}` is unexpected")),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Number(i64),
    Operator(&'static str),
}

/// Longest first.
const OPERATORS: [&str; 24] = [
    "**", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "+", "-", "*", "/", "%", "<", ">", "&", "^", "|", "!", "~",
    "?", ":", "(",
];

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches([' ', '\t']);
    while let Some(first) = rest.chars().next() {
        if first.is_ascii_digit() {
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '#')).unwrap_or(rest.len());
            tokens.push(Token::Number(number(&rest[..end])?));
            rest = &rest[end..];
        } else if rest.starts_with("++") || rest.starts_with("--") {
            return Err("`++` and `--`".to_owned());
        } else if let Some(tail) = rest.strip_prefix(')') {
            tokens.push(Token::Operator(")"));
            rest = tail;
        } else {
            let Some(operator) = OPERATORS.into_iter().find(|o| rest.starts_with(o)) else {
                return Err(format!("`{first}`"));
            };
            rest = &rest[operator.len()..];
            if rest.starts_with('=') {
                return Err("an assignment".to_owned());
            }
            tokens.push(Token::Operator(operator));
        }
        rest = rest.trim_start_matches([' ', '\t']);
    }
    Ok(tokens)
}

fn number(text: &str) -> Result<i64, String> {
    let parsed = if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        i64::from_str_radix(hex, 16)
    } else if text.len() > 1 && text.starts_with('0') {
        i64::from_str_radix(text, 8)
    } else {
        text.parse()
    };
    parsed.map_err(|_| format!("`{text}` is not a number"))
}

struct Reader<'a> {
    tokens: &'a [Token],
    at: usize,
    depth: usize,
}

/// Operators from the loosest to the tightest; `**` and unary ones are tighter still.
const LEVELS: [&[&str]; 10] = [
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!="],
    &["<", "<=", ">", ">="],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];

impl Reader<'_> {
    fn take(&mut self, operators: &[&'static str]) -> Option<&'static str> {
        match self.tokens.get(self.at) {
            Some(Token::Operator(operator)) if operators.contains(operator) => {
                self.at += 1;
                Some(operator)
            }
            Some(_) | None => None,
        }
    }

    fn ternary(&mut self) -> Result<i64, String> {
        self.depth += 1;
        if self.depth > 50 {
            return Err("too deep a nesting".to_owned());
        }
        let condition = self.level(0)?;
        let value = if self.take(&["?"]).is_some() {
            let yes = self.ternary()?;
            if self.take(&[":"]).is_none() {
                return Err("`?` without `:`".to_owned());
            }
            let no = self.ternary()?;
            if condition != 0 { yes } else { no }
        } else {
            condition
        };
        self.depth -= 1;
        Ok(value)
    }

    fn level(&mut self, level: usize) -> Result<i64, String> {
        let Some(operators) = LEVELS.get(level) else { return self.power() };
        let mut left = self.level(level + 1)?;
        while let Some(operator) = self.take(operators) {
            let right = self.level(level + 1)?;
            left = apply(operator, left, right)?;
        }
        Ok(left)
    }

    fn power(&mut self) -> Result<i64, String> {
        let base = self.unary()?;
        if self.take(&["**"]).is_none() {
            return Ok(base);
        }
        self.depth += 1;
        if self.depth > 50 {
            return Err("too deep a nesting".to_owned());
        }
        let exponent = self.power()?;
        self.depth -= 1;
        let exponent = u32::try_from(exponent).map_err(|_| "a negative exponent".to_owned())?;
        base.checked_pow(exponent).ok_or_else(|| "an overflow".to_owned())
    }

    fn unary(&mut self) -> Result<i64, String> {
        let mut signs = Vec::new();
        while let Some(sign) = self.take(&["-", "+", "!", "~"]) {
            signs.push(sign);
        }
        let mut value = match self.tokens.get(self.at) {
            Some(Token::Number(number)) => {
                self.at += 1;
                *number
            }
            Some(Token::Operator("(")) => {
                self.at += 1;
                let value = self.ternary()?;
                if self.take(&[")"]).is_none() {
                    return Err("`(` without `)`".to_owned());
                }
                value
            }
            Some(Token::Operator(other)) => return Err(format!("`{other}` without a number")),
            None => return Err("a number is missing".to_owned()),
        };
        for sign in signs.into_iter().rev() {
            value = match sign {
                "-" => value.checked_neg().ok_or_else(|| "an overflow".to_owned())?,
                "!" => i64::from(value == 0),
                "~" => !value,
                _ => value,
            };
        }
        Ok(value)
    }
}

fn apply(operator: &str, left: i64, right: i64) -> Result<i64, String> {
    let checked = match operator {
        "||" => Some(i64::from(left != 0 || right != 0)),
        "&&" => Some(i64::from(left != 0 && right != 0)),
        "|" => Some(left | right),
        "^" => Some(left ^ right),
        "&" => Some(left & right),
        "==" => Some(i64::from(left == right)),
        "!=" => Some(i64::from(left != right)),
        "<" => Some(i64::from(left < right)),
        "<=" => Some(i64::from(left <= right)),
        ">" => Some(i64::from(left > right)),
        ">=" => Some(i64::from(left >= right)),
        "<<" => u32::try_from(right).ok().filter(|n| *n < 63).and_then(|n| left.checked_mul(1 << n)),
        ">>" => u32::try_from(right).ok().and_then(|n| left.checked_shr(n)),
        "+" => left.checked_add(right),
        "-" => left.checked_sub(right),
        "*" => left.checked_mul(right),
        "/" => left.checked_div(right),
        "%" => left.checked_rem(right),
        _ => None,
    };
    checked.ok_or_else(|| format!("`{left} {operator} {right}` has no value"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_operators_have_the_value_that_bash_gives_them() {
        let cases = [
            ("1 + 2*3", 7),
            ("(1+2)*3", 9),
            ("2**3**2", 512),
            ("-2**2", 4),
            ("0x1f", 31),
            ("010", 8),
            ("7/2", 3),
            ("-7%3", -1),
            ("1<2 && 3>=3", 1),
            ("1 ? 2 : 3", 2),
            ("!0 + ~0", 0),
            ("1<<4", 16),
        ];
        for (text, value) in cases {
            assert_eq!(evaluate(text), Ok(value), "{text}");
        }
        for text in ["x", "1/0", "a[$(id)]", "1++2", "08", "1=2", "x=1", "", "(1", "1,2", "16#ff", "2**-1", "1 2"] {
            assert!(evaluate(text).is_err(), "{text}");
        }
    }
}
