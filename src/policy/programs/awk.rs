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
    let mut scan = Scan {
        text: &text,
        environment,
        at: 0,
        value_before: false,
        depth: 0,
        conditions: Vec::new(),
        condition: false,
        two_ways: false,
        printing: None,
        last: ' ',
    };
    while scan.at < text.len() {
        scan.step()?;
    }
    Ok(())
}

/// A program while it is read.
struct Scan<'t> {
    text: &'t [char],
    /// `ENVIRON` may be used.
    environment: bool,
    at: usize,
    /// Whether a `/` here divides: after a value it does, elsewhere it begins a pattern.
    value_before: bool,
    depth: usize,
    /// Open parentheses: whether each holds the condition of `if`, `while`, `for` or `switch`, after which a pattern may
    /// be.
    conditions: Vec<bool>,
    condition: bool,
    two_ways: bool,
    /// Inside a `print`, a bare `>` writes a file.
    printing: Option<usize>,
    last: char,
}

impl Scan<'_> {
    fn step(&mut self) -> Result<(), String> {
        let c = self.text[self.at];
        let next = self.text.get(self.at + 1).copied();
        match c {
            '#' => return self.comment(),
            '"' => {
                self.at = string(self.text, self.at + 1)?;
                self.value('"', false);
            }
            // Whether this divides or begins a pattern, awks read differently.
            '/' if self.two_ways => return Err("a slash that could divide or begin a pattern".to_owned()),
            '/' if !self.value_before => {
                self.at = pattern(self.text, self.at + 1)?;
                (self.last, self.value_before, self.two_ways) = ('/', true, true);
            }
            '\\' if next == Some('\n') => self.at += 2,
            '\\' => return Err("a backslash outside a string".to_owned()),
            '@' => return Err("`@` (indirect calls, @include, @load)".to_owned()),
            ')' | ']' => {
                self.depth = self.depth.saturating_sub(1);
                let two_ways = self.conditions.pop().unwrap_or(true);
                self.at += 1;
                self.value(c, two_ways);
            }
            '\n' if self.two_ways && self.last == ')' => self.at += 1,
            ' ' | '\t' => self.at += 1,
            // To some awks it is a blank, to others it is not: what comes after it is read differently.
            c if c != '\n' && !c.is_ascii_graphic() => {
                return Err(format!("the character U+{:04X} outside a string or pattern", u32::from(c)));
            }
            c if c.is_ascii_digit() || c == '.' => return self.number(),
            c if c.is_ascii_alphabetic() || c == '_' => return self.word(),
            c => return self.operator(c, next),
        }
        Ok(())
    }

    fn skip(&mut self, belongs: impl Fn(char) -> bool) {
        while self.text.get(self.at).is_some_and(|c| belongs(*c)) {
            self.at += 1;
        }
    }

    // Reads a number as each awk does. A name right behind it is a value of its own, which `0x` and `1e` hide.
    fn number(&mut self) -> Result<(), String> {
        let is_digit = |c: char| c.is_ascii_digit();
        self.skip(is_digit);
        if self.text.get(self.at) == Some(&'.') {
            self.at += 1;
            self.skip(is_digit);
        }
        let exponent = match self.text.get(self.at..) {
            Some(['e' | 'E', '+' | '-', c, ..]) if c.is_ascii_digit() => 2,
            Some(['e' | 'E', c, ..]) if c.is_ascii_digit() => 1,
            _ => 0,
        };
        self.at += exponent;
        if exponent > 0 {
            self.skip(is_digit);
        }
        if self.text.get(self.at).is_some_and(|c| c.is_ascii_alphabetic() || *c == '_') {
            return Err("a name right behind a number".to_owned());
        }
        self.value('0', false);
        Ok(())
    }

    // What was read is a value; `two_ways`: a slash after it could divide or begin a pattern.
    fn value(&mut self, last: char, two_ways: bool) {
        (self.last, self.two_ways) = (last, two_ways);
        (self.value_before, self.condition) = (true, false);
    }

    fn comment(&mut self) -> Result<(), String> {
        self.skip(|c| c != '\n');
        match self.text[..self.at].ends_with(&['\\']) {
            true => Err("a comment that ends in a backslash".to_owned()),
            false => Ok(()),
        }
    }

    fn word(&mut self) -> Result<(), String> {
        let start = self.at;
        self.skip(|c| c.is_ascii_alphanumeric() || c == '_');
        let word: String = self.text[start..self.at].iter().collect();
        self.last = 'a';
        self.condition = matches!(word.as_str(), "if" | "while" | "for" | "switch");
        self.two_ways = word == "length";
        self.value_before = true;
        match word.as_str() {
            "fflush" | "close" => {}
            "ENVIRON" if self.environment => {}
            "system" | "getline" | "ENVIRON" | "ARGV" | "ARGC" | "PROCINFO" | "SYMTAB" | "FUNCTAB" => {
                return Err(format!("`{word}`"));
            }
            "print" | "printf" => {
                self.printing = Some(self.depth);
                self.value_before = false;
            }
            "in" | "return" | "else" | "do" | "if" | "while" | "for" | "case" | "delete" | "exit" => {
                self.value_before = false;
            }
            _ => {}
        }
        Ok(())
    }

    fn operator(&mut self, c: char, next: Option<char>) -> Result<(), String> {
        let mut value = false;
        match c {
            '|' if next == Some('|') => self.at += 1,
            '|' => return Err("a pipe to or from a command".to_owned()),
            '>' if self.printing.is_some_and(|outer| self.depth <= outer) => {
                return Err("output to a file".to_owned());
            }
            '(' | '[' => {
                self.depth += 1;
                self.conditions.push(c == '(' && self.condition);
            }
            // A statement continues after a newline after these; after the last two only gawk's does.
            '\n' if matches!(self.last, ',' | '&' | '|' | '\\') => {}
            '\n' if matches!(self.last, '?' | ':') && self.printing.is_some() => {
                return Err("a line break after `?` or `:`".to_owned());
            }
            '\n' if self.depth > 0 && self.last != ';' => {
                return Err("a line break inside parentheses".to_owned());
            }
            '\n' | ';' | '{' | '}' => self.printing = None,
            '+' | '-' if next == Some(c) => {
                // `x++ / y` divides, `++ /re/` is not a program.
                self.at += 1;
                value = self.value_before;
            }
            _ => {}
        }
        self.value_before = value;
        if !c.is_whitespace() {
            self.last = c;
        }
        (self.condition, self.two_ways) = (false, false);
        self.at += 1;
        Ok(())
    }
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
            "{x=1 \u{b}/ system(\"id\") /1}",
            "{x=1 \u{c}/ system(\"id\") /1}",
            "{x=1 \r/ system(\"id\") /1}",
            "{x=1 \u{a0}/ system(\"id\") /1}",
        ] {
            assert!(check(program, false).is_err(), "{program}");
        }
    }
}
