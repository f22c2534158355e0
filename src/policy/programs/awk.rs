//! Judges awk: its options, and what its programs run, write or read besides the operands.

use super::Word;
use super::table::{Call, Operands, Style, TABLE, Table};
use crate::policy::decision::Denial;

pub(crate) const AWK: Table = Table {
    names: "awk gawk mawk nawk original-awk",
    options: "-F,--field-separator=D -v,--assign=D !-f,--file=R !-i,--include=D !!-l,--load=D !-E,--exec=R -b,--characters-as-bytes \
        -c,--traditional -C,--copyright !-d,--dump-variables=?W !!-D,--debug=?D -e,--source=D -g,--gen-pot -h,--help -I,--trace -k,--csv \
        -L,--lint=?D -M,--bignum -n,--non-decimal-data -N,--use-lc-numeric !-o,--pretty-print=?W -O,--optimize !-p,--profile=?W -P,--posix \
        -r,--re-interval -s,--no-optimize -S,--sandbox -t,--lint-old -V,--version !!-W=D",
    operands: Operands::Special,
    style: Style::First,
    special: Some(awk),
    ..TABLE
};

fn awk(call: &mut Call<'_>) -> Result<(), Denial> {
    let mut operands = std::mem::take(&mut call.operands);
    let mut programs = call.values("-e");
    // Some versions pass over an option with its program attached, and take the first operand for the program.
    let attached = |word: &Word| {
        word.text.starts_with("--s") && word.text.contains('=')
            || word.text.starts_with('-')
                && word.text.len() > 2
                && !word.text.starts_with("--")
                && word.text.contains('e')
    };
    if !programs.is_empty() && !matches!(call.name.as_str(), "gawk" | "mawk") && call.words.iter().any(attached) {
        return Err(call
            .deny("a program in the same word as its option")
            .hint("write `-e PROGRAM`, or only the program"));
    }
    // Under `shell.default: allow`: a program in a file is read like any script; one from the standard input is not
    // known.
    let files = [call.values("-f"), call.values("-E")].concat();
    if files.iter().any(|file| file.text == "-" || file.text.starts_with("/dev/") || !file.literal) {
        return Err(Denial::unanalysable("awk: a program from its standard input").by("G3"));
    }
    if call.values("-i").iter().any(|name| name.text != "inplace") {
        return Err(call.deny("a library of functions"));
    }
    if programs.is_empty() && files.is_empty() {
        if operands.is_empty() {
            return Err(call.deny("the program is missing"));
        }
        programs.push(operands.remove(0));
    }
    for program in &programs {
        if !program.literal {
            return Err(call.deny("its program is unknown"));
        }
        check(&program.text, call.is_open()).map_err(|what| call.deny(what))?;
    }
    for word in &operands {
        // `name=value` among the files is an assignment; as a path it is harmless to judge as well.
        if is_assignment(&word.text) && word.literal {
            continue;
        }
        call.read(word);
        if call.has("-i") {
            call.write(word);
        }
    }
    for assigned in call.values("-v") {
        if assigned.text.starts_with("ARGV")
            || assigned.text.starts_with("ARGC")
            || assigned.text.starts_with("ENVIRON")
        {
            return Err(call.deny("an assignment to the list of files"));
        }
    }
    call.operands = operands;
    Ok(())
}

fn is_assignment(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// Says what a program does besides reading its operands and printing; an error where that is anything.
pub(crate) fn check(program: &str, environment: bool) -> Result<(), String> {
    let text: Vec<char> = program.chars().collect();
    let mut at = 0;
    // Whether a `/` here divides: after a value it does, elsewhere it begins a pattern.
    let mut value_before = false;
    let mut depth = 0usize;
    // Open parentheses: whether each holds the condition of `if`, `while`, `for` or `switch`, after which a pattern may
    // be.
    let mut conditions: Vec<bool> = Vec::new();
    let mut condition = false;
    let mut two_ways = false;
    // Inside a `print`, a bare `>` writes a file.
    let mut printing: Option<usize> = None;
    let mut last = ' ';
    while at < text.len() {
        let c = text[at];
        let next = text.get(at + 1).copied();
        match c {
            '#' => {
                while at < text.len() && text[at] != '\n' {
                    at += 1;
                }
                if text[..at].ends_with(&['\\']) {
                    return Err("a comment that ends in a backslash".to_owned());
                }
                continue;
            }
            '"' => {
                at = string(&text, at + 1)?;
                last = '"';
                value_before = true;
                two_ways = false;
                condition = false;
                continue;
            }
            // Whether this divides or begins a pattern, awks read differently.
            '/' if two_ways => return Err("a slash that could divide or begin a pattern".to_owned()),
            '/' if !value_before => {
                at = pattern(&text, at + 1)?;
                last = '/';
                value_before = true;
                two_ways = true;
                continue;
            }
            '\\' if next == Some('\n') || (next == Some('\r') && text.get(at + 2) == Some(&'\n')) => {
                at += 2;
                continue;
            }
            '\\' => return Err("a backslash outside a string".to_owned()),
            '@' => return Err("`@` (indirect calls, @include, @load)".to_owned()),
            '|' if next == Some('|') => {
                at += 1;
                value_before = false;
            }
            '|' => return Err("a pipe to or from a command".to_owned()),
            '>' if printing.is_some_and(|outer| depth <= outer) => return Err("output to a file".to_owned()),
            '(' | '[' => {
                depth += 1;
                conditions.push(c == '(' && condition);
                value_before = false;
            }
            ')' | ']' => {
                depth = depth.saturating_sub(1);
                two_ways = conditions.pop().unwrap_or(true);
                value_before = true;
                condition = false;
                last = c;
                at += 1;
                continue;
            }
            '\n' if two_ways && last == ')' => {
                at += 1;
                continue;
            }
            // A statement continues after a newline after these; after the last two only gawk's does.
            '\n' if matches!(last, ',' | '&' | '|' | '\\') => value_before = false,
            '\n' if matches!(last, '?' | ':') && printing.is_some() => {
                return Err("a line break after `?` or `:`".to_owned());
            }
            '\n' if depth > 0 && last != ';' => return Err("a line break inside parentheses".to_owned()),
            '\n' | ';' | '{' | '}' => {
                printing = None;
                value_before = false;
            }
            '+' | '-' if next == Some(c) => {
                // `x++ / y` divides, `++ /re/` is not a program.
                at += 1;
            }
            c if c.is_ascii_digit() || c == '.' => {
                last = '0';
                two_ways = false;
                condition = false;
                while at < text.len() && (text[at].is_ascii_alphanumeric() || text[at] == '.') {
                    at += 1;
                }
                value_before = true;
                continue;
            }
            c if c.is_ascii_alphabetic() || c == '_' => {
                let start = at;
                last = 'a';
                while at < text.len() && (text[at].is_ascii_alphanumeric() || text[at] == '_') {
                    at += 1;
                }
                let word: String = text[start..at].iter().collect();
                condition = matches!(word.as_str(), "if" | "while" | "for" | "switch");
                two_ways = word == "length";
                match word.as_str() {
                    "system" | "getline" | "ENVIRON" | "ARGV" | "ARGC" | "PROCINFO" | "SYMTAB" | "FUNCTAB"
                    | "fflush" | "close" => {
                        let free = word == "fflush" || word == "close" || (word == "ENVIRON" && environment);
                        if !free {
                            return Err(format!("`{word}`"));
                        }
                        value_before = true;
                    }
                    "print" | "printf" => {
                        printing = Some(depth);
                        value_before = false;
                    }
                    "in" | "return" | "else" | "do" | "if" | "while" | "for" | "case" | "delete" | "exit" => {
                        value_before = false
                    }
                    _ => value_before = true,
                }
                continue;
            }
            ' ' | '\t' | '\r' => {
                at += 1;
                continue;
            }
            '$' => value_before = false,
            _ => value_before = false,
        }
        if !c.is_whitespace() {
            last = c;
        }
        condition = false;
        two_ways = false;
        at += 1;
    }
    Ok(())
}

fn string(text: &[char], mut at: usize) -> Result<usize, String> {
    while at < text.len() {
        match text[at] {
            '\\' => at += 2,
            '"' => return Ok(at + 1),
            '\n' => return Err("a string that does not end in its line".to_owned()),
            _ => at += 1,
        }
    }
    Err("a string without its end".to_owned())
}

// A slash in brackets does not end a pattern in gawk, but does in other awks. If the two differ, neither is trusted.
fn pattern(text: &[char], start: usize) -> Result<usize, String> {
    let mut at = start;
    let mut bracket = false;
    while at < text.len() {
        match text[at] {
            '\\' => at += 1,
            // A class such as `[:alpha:]` does not end the brackets.
            '[' if bracket && text.get(at + 1).is_some_and(|c| ":.=".contains(*c)) => {
                let kind = text[at + 1];
                let rest = &text[at + 2..];
                match rest.windows(2).position(|pair| pair == [kind, ']']) {
                    Some(end) => at += end + 3,
                    None => return Err("a class without its end".to_owned()),
                }
            }
            '[' if !bracket => {
                bracket = true;
                if text.get(at + 1) == Some(&'^') {
                    at += 1;
                }
                if text.get(at + 1) == Some(&']') {
                    at += 1;
                }
            }
            ']' => bracket = false,
            // An awk that ends the pattern here finds the closing bracket next, which begins nothing, and refuses.
            '/' if bracket => {
                let rest = text[at + 1..].iter().take_while(|c| **c != ']');
                let plain = |c: &char| c.is_ascii_alphanumeric() || " _-.,:;".contains(*c);
                if !rest.clone().all(plain) || at + 1 + rest.count() == text.len() {
                    return Err("a slash inside the brackets of a pattern".to_owned());
                }
            }
            '/' => return Ok(at + 1),
            '\n' => return Err("a pattern that does not end in its line".to_owned()),
            _ => {}
        }
        at += 1;
    }
    Err("a pattern without its end".to_owned())
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn harmless_programs_pass() {
        for program in [
            "{print $1}",
            "/a|b/ {n++} END {print n}",
            "$3 > 5",
            "$1 > 2 {print $2}",
            "NR==1, NR==3",
            "{print ($1 > 2)}",
            "{s += $1 / 2} END {print s/NR}",
            "{gsub(/x/, \"a > b | c\"); print}",
            "BEGIN {FS=\":\"} {print $1 \" system(\" }",
            "a[$1]++ || b",
            "{printf \"%s\\n\", $NF}",
            "{if ($1 > 3) print $2; else print \"x\"}",
            "length > 72",
            "{ print # > file\n}",
            "!seen[$0]++",
            "{print substr($0, 1, length($0)/2)}",
            "{x = ($1 + $2) / 2; print x / NR}",
            "/a/, /b/ {print} /c/ {next}",
            "{if ($1 ~ /x/) print $2 / a[1]; else if (/y/) print}",
            "{switch ($1) { case 1:\n print; break }}",
            "{for (i = 1;\n i <= NF; i++) s += $i} END {print s / NR}",
            "$1 ? $2 : $3",
        ] {
            assert_eq!(check(program, false), Ok(()), "{program}");
        }
    }

    #[test]
    fn what_runs_or_writes_is_found() {
        for program in [
            "BEGIN{system(\"id\")}",
            "{print | \"sh\"}",
            "BEGIN{\"id\" | getline}",
            "{print > \"x\"}",
            "{print $1 >> \"x\"}",
            "BEGIN{while((getline l < \".env\")>0)print l}",
            "{printf \"%s\", $1 > \"x\"}",
            "BEGIN{f=\"system\"; @f(\"id\")}",
            "BEGIN{print ENVIRON[\"X\"]}",
            "BEGIN{ARGV[1]=\".env\"}",
            "@include \"x\"",
            "{print(1)(2) > \"x\"}",
            "{print $1 |& \"cmd\"}",
            "{ x = 1 / 2; print x > \"o\" }",
            "BEGIN { print /a/ > \"x\" }",
            "BEGIN{sys\\\ntem(1)}x|y",
            "{print a++ / b > \"f\" /1}",
            "{print $1,\n$2 > \"x\"}",
            "{print $1, # c\n$2 > \"x\"}",
            "BEGIN{if(1)/\"/;system(\"id\")#\"\n}",
            "BEGIN{if(1)\\\n/\"/;system(\"id\")#\"\n}",
            "BEGIN{if(1)\n/\"/;system(\"id\")#\"\n}",
            "BEGIN{while(i++<1)/\"/;system(\"id\")#\"\n}",
            "BEGIN{for(;i<1;i++)/\"/;system(\"id\")#\"\n}",
            "{print (1) ? $0 :\n $1 > \"x\"}",
            "{print (1) ?\n $0 : $1 > \"x\"}",
            "{print length /\"/;system(\"id\")#\"\n}",
            "/a/ /\"/;system(\"id\")#\"",
            "{print 1 # \\\n > \"x\"}",
            "/[[:alpha:]/\"]/ {system(\"id\")} #\"",
        ] {
            assert!(check(program, false).is_err(), "{program}");
        }
    }
}
