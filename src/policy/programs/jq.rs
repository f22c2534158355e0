//! Judges jq: its options, and filters that read the environment or modules.

use super::table::{Call, Operands, TABLE, Table};
use crate::policy::decision::Denial;

pub(crate) const JQ: Table = Table {
    names: "jq jaq gojq",
    options: "-n,--null-input -R,--raw-input -s,--slurp -c,--compact-output -r,--raw-output --raw-output0 -j,--join-output -a,--ascii-output \
        -S,--sort-keys -C,--color-output -M,--monochrome-output --tab --indent=D --unbuffered --stream --stream-errors --seq -e,--exit-status \
        !-f,--from-file=R !-L=R !--library-path=R --binary -b --argjson=D --arg=D --slurpfile=D --rawfile=D --args --jsonargs -h,--help \
        -V,--version --build-configuration",
    operands: Operands::Special,
    special: Some(jq),
    ..TABLE
};

// `--arg NAME VALUE` and its kin take two words, which the general reader cannot know.
fn jq(call: &mut Call<'_>) -> Result<(), Denial> {
    let words = &call.words[1..];
    let mut operands = Vec::new();
    let mut effects = Vec::new();
    let mut at = 0;
    let mut ended = false;
    let mut rest_is_data = false;
    while at < words.len() {
        let word = &words[at];
        at += 1;
        let text = word.text.as_str();
        if ended || !text.starts_with('-') || text.len() < 2 || !word.literal {
            operands.push((word.clone(), rest_is_data));
            continue;
        }
        match text {
            "--" => ended = true,
            "--arg" | "--argjson" => at += 2,
            "--slurpfile" | "--rawfile" => {
                let file = words.get(at + 1).ok_or_else(|| call.deny(format!("`{text}` needs a file")))?;
                effects.push(file.clone());
                at += 2;
            }
            "--args" | "--jsonargs" => rest_is_data = true,
            "--indent" => at += 1,
            // jq takes `-L DIR` and `-f FILE`; what they name was judged while the options were read.
            "-L" | "--library-path" | "-f" | "--from-file" => at += 1,
            // jq does not abbreviate long options: what begins like one that takes values is refused for its doubt.
            _ if text.starts_with("--")
                && ["--arg", "--argjson", "--slurpfile", "--rawfile", "--args", "--jsonargs"]
                    .iter()
                    .any(|known| known.starts_with(text.split('=').next().unwrap_or(text))) =>
            {
                return Err(call.deny(format!("the option `{text}` is not written out")));
            }
            _ => {}
        }
    }
    let from_file = call.has("-f");
    let mut operands = operands.into_iter();
    if !from_file {
        let Some((filter, _)) = operands.next() else { return Err(call.deny("the filter is missing")) };
        if !filter.literal {
            return Err(call.deny("its filter is not known"));
        }
        if !call.is_open() {
            check(&filter.text).map_err(|what| call.deny(what))?;
        }
    }
    for (word, _) in operands.filter(|(_, data)| !data) {
        call.read(&word);
    }
    effects.iter().for_each(|word| call.read(word));
    Ok(())
}

/// Finds what a filter takes from elsewhere; an error names it.
pub(crate) fn check(filter: &str) -> Result<(), String> {
    let text: Vec<char> = filter.chars().collect();
    let mut at = 0;
    code(&text, &mut at, false)
}

// Reads code up to the end, or inside an interpolation up to its closing parenthesis.
fn code(text: &[char], at: &mut usize, interpolated: bool) -> Result<(), String> {
    let mut depth = 0usize;
    let mut before = ' ';
    while *at < text.len() {
        let c = text[*at];
        match c {
            '#' => {
                while *at < text.len() && text[*at] != '\n' && text[*at] != '\r' {
                    *at += 1;
                }
                // Newer versions continue the comment in the next line, and older ones do not.
                if text[..*at].ends_with(&['\\']) {
                    return Err("a comment that ends in a backslash".to_owned());
                }
            }
            '"' => {
                *at += 1;
                string(text, at)?;
                before = '"';
            }
            '(' => {
                depth += 1;
                *at += 1;
                before = c;
            }
            ')' => {
                *at += 1;
                if depth == 0 && interpolated {
                    return Ok(());
                }
                depth = depth.saturating_sub(1);
                before = c;
            }
            c if c.is_ascii_alphabetic() || c == '_' => {
                let start = *at;
                while *at < text.len()
                    && (text[*at].is_ascii_alphanumeric()
                        || text[*at] == '_'
                        || (text[*at] == ':' && text.get(*at + 1) == Some(&':')))
                {
                    *at += 1 + usize::from(text[*at] == ':');
                }
                let word: String = text[start..*at].iter().collect();
                let after = text[*at..].iter().find(|c| !c.is_whitespace());
                name(&word, before, after == Some(&':'))?;
                before = 'a';
            }
            c if c.is_whitespace() => {
                *at += 1;
                before = if before == '.' { ' ' } else { before };
            }
            c => {
                // `..env` is recursion and then `env`? jq reads `..` as a term: what follows is not a key.
                before = if c == '.' && before == '.' { ' ' } else { c };
                *at += 1;
            }
        }
    }
    Ok(())
}

// Judges a name by the character before it; `colon`: a colon is after it.
fn name(word: &str, before: char, colon: bool) -> Result<(), String> {
    let is_key = colon && !matches!(word, "import" | "include");
    match word {
        // After a dot, or before a colon in an object, it is the name of a key.
        "env" if before == '.' => Ok(()),
        "env" if is_key && before != '$' && (before == '{' || before == ',') => Ok(()),
        "ENV" if before == '$' => Err("the environment (`$ENV`)".to_owned()),
        // A variable of the program's own.
        "env" if before == '$' => Ok(()),
        "env" => Err("the environment (`env`)".to_owned()),
        "import" | "include" if before != '.' && before != '{' => Err(format!("a module (`{word}`)")),
        "modulemeta" if before != '.' => Err("a module (`modulemeta`)".to_owned()),
        _ => Ok(()),
    }
}

fn string(text: &[char], at: &mut usize) -> Result<(), String> {
    while *at < text.len() {
        match text[*at] {
            '"' => {
                *at += 1;
                return Ok(());
            }
            '\\' if text.get(*at + 1) == Some(&'(') => {
                *at += 2;
                code(text, at, true)?;
            }
            '\\' => *at += 2,
            _ => *at += 1,
        }
    }
    Err("a string without its end".to_owned())
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn keys_are_not_the_environment() {
        for filter in [
            ".env",
            ".a.env",
            ".environment // \"dev\"",
            "{env: .x}",
            "{a: 1, env: 2}",
            ".[] | .env.PATH",
            "\"env\"",
            ".\"env\"",
            ".a # env",
            "map(.include)",
        ] {
            assert_eq!(check(filter), Ok(()), "{filter}");
        }
    }

    #[test]
    fn the_environment_and_modules_are_found() {
        for filter in [
            "env",
            "env.HOME",
            "$ENV",
            "$ENV.PATH",
            ".a|env",
            "\"\\(env.X)\"",
            "[env]",
            "import \"a\" as x; .",
            "include \"a\"; .",
            "{env}",
            "{a: env}",
            "$ ENV",
            "..|env",
            "{(env|tostring): 1}",
            "$__loc__, env",
            ". env",
            "1 # \\\n| env",
            "1 # \\\n\"| env #\"",
            "\"a\" | modulemeta",
        ] {
            assert!(check(filter).is_err(), "{filter}");
        }
    }
}
