//! Reads a program's words into options and operands.

use super::hidden::hidden_path;
use super::specs::{Denied, Spec, Value, specs};
use super::spelling::begins_like_an_option;
use super::table::{Call, Found, Style, Table};
use super::word::Word;
use crate::policy::decision::Denial;
use crate::policy::effect::Effect;
use crate::policy::names::is_display_setting;

impl Call<'_> {
    /// Reads words into options and operands.
    pub(crate) fn parse(&mut self, table: &Table, words: &[Word]) -> Result<(), Denial> {
        let specs = specs(table.options);
        let mut at = 0;
        while at < words.len() {
            let word = &words[at];
            at += 1;
            let text = word.text.as_str();
            let is_option =
                word.literal && (text.len() > 1 && text.starts_with('-') || is_slashed(&specs, table, text));
            if !is_option {
                self.operands.push(word.clone());
                if table.style == Style::First || !table.subcommands.is_empty() {
                    self.operands.extend(words[at..].iter().cloned());
                    break;
                }
                continue;
            }
            if text == "--" {
                self.dashes = Some(self.operands.len());
                self.behind_dashes(table, &words[at..])?;
                break;
            }
            // `-Wno-dev`, `-PskipTests=true`: a table names such a word as a whole.
            let name = text.split('=').next().unwrap_or(text);
            let whole = name.len() > 2 && specs.iter().any(|spec| spec.names.contains(&name));
            if table.style == Style::SingleDash || text.starts_with("--") || whole {
                at = self.long(&specs, table, word, words, at)?;
            } else {
                at = self.short(&specs, table, word, words, at)?;
            }
        }
        Ok(())
    }

    fn long(
        &mut self,
        specs: &[Spec],
        table: &Table,
        word: &Word,
        words: &[Word],
        mut at: usize,
    ) -> Result<usize, Denial> {
        let (name, attached) = match word.text.split_once('=') {
            Some((name, value)) => (name, Some(Word { text: value.to_owned(), literal: word.literal })),
            None => (word.text.as_str(), None),
        };
        let Some(spec) = self.spelled(specs, table.style, name)? else {
            if table.style != Style::SingleDash || !self.glued(specs, &word.text)? {
                self.unknown_option(specs, name, attached)?;
            }
            return Ok(at);
        };
        let is_flag = spec.value == Value::None && spec.denied == Denied::Never;
        // yargs takes `--watch=false`; the option counts as there all the same.
        let is_boolean = |value: &Word| table.style == Style::Last && matches!(value.text.as_str(), "true" | "false");
        if is_flag && !self.is_open() && attached.as_ref().is_some_and(|value| !is_boolean(value)) {
            return Err(self.deny(format!("the option `{name}` takes no value")));
        }
        if spec.value == Value::Rest {
            let rest = attached.iter().chain(&words[at..]).cloned().collect();
            return self.rest(spec, rest).map(|()| words.len());
        }
        let is_attached = attached.is_some();
        self.read_in_two_ways(spec, name, attached.as_ref())?;
        let value = self.value(table, spec, (name, attached), words, &mut at)?;
        self.option(spec, name, value)?;
        let end = match is_attached && table.style != Style::Last {
            true => at,
            false => self.further_values(spec, name, words, at)?,
        };
        // After `=` yargs alone takes more values; to other programs the words are operands.
        if is_attached {
            self.operands.extend(words[at..end].iter().cloned());
        }
        Ok(end)
    }

    // The option of a long name, which may be abbreviated where the program takes that.
    fn spelled<'s>(&self, specs: &'s [Spec], style: Style, name: &str) -> Result<Option<&'s Spec>, Denial> {
        let double = format!("-{name}");
        let same = |known: &str| {
            known == name || (style == Style::SingleDash && (known == double || format!("-{known}") == name))
        };
        let exact = specs.iter().find(|spec| spec.names.iter().any(|known| same(known)));
        if exact.is_some() || !matches!(style, Style::Gnu | Style::First) || name.len() <= 2 {
            return Ok(exact);
        }
        let begins = |spec: &&Spec| spec.names.iter().any(|known| known.starts_with(name));
        let candidates: Vec<_> = specs.iter().filter(begins).collect();
        match candidates.as_slice() {
            [one] => Ok(Some(*one)),
            [] => Ok(None),
            _ if self.is_open() => Ok(None),
            _ => Err(self.deny(format!("`{name}` is ambiguous"))),
        }
    }

    // An option with one dash and its value in the same word.
    fn glued(&mut self, specs: &[Spec], word: &str) -> Result<bool, Denial> {
        let takes = |name: &str| specs.iter().find(|spec| spec.names.contains(&name) && spec.value != Value::None);
        // `-j8`, `-T1C`, `-Pname`: a letter and its number or name.
        if let Some(rest) = word.get(2..)
            && let Some(spec) = takes(&word[..2])
            && (spec.kind == 'B'
                || spec.kind == 'N' && !rest.contains([':', '='])
                || rest.starts_with(|c: char| c.is_ascii_digit()))
        {
            return self.option(spec, &word[..2], Some(Word::literal(rest))).map(|()| true);
        }
        // `--collect:NAME`, as MSBuild has it.
        match word.split_once(':').and_then(|(before, value)| Some((takes(before)?, before, value))) {
            Some((spec, before, value)) => self.option(spec, before, Some(Word::literal(value))).map(|()| true),
            None => Ok(false),
        }
    }

    fn unknown_option(&mut self, specs: &[Spec], name: &str, attached: Option<Word>) -> Result<(), Denial> {
        if !self.is_open() {
            return Err(self.deny(format!("the option `{name}` is not known to be harmless")));
        }
        self.may_mean_code(specs, name)?;
        if !name.starts_with("--") || name.contains([':', '/']) {
            // What follows the letters, or a mark, may be their value.
            hidden_path(&self.cx, name.trim_start_matches('-'))?;
        }
        self.unknown = true;
        self.note(name.to_owned(), attached.clone());
        attached.iter().try_for_each(|value| self.no_response_file(value))?;
        if let Some(mut value) = attached.filter(|value| !value.text.is_empty()) {
            // `--output==FILE` is `FILE` to some programs.
            value.text = value.text.trim_start_matches('=').to_owned();
            self.out.effects.push(Effect::Read(value.text.clone()));
            self.out.effects.push(Effect::Write(value.text));
        }
        Ok(())
    }

    // The value of an option: attached to it, or the next word.
    fn value(
        &self,
        table: &Table,
        spec: &Spec,
        (name, attached): (&str, Option<Word>),
        words: &[Word],
        at: &mut usize,
    ) -> Result<Option<Word>, Denial> {
        let takes_next = matches!(spec.value, Value::Required | Value::NextIfAny | Value::Several);
        let mut value = attached;
        if value.is_none() && takes_next {
            value = self.next_value(table, spec, name, words.get(*at))?;
            *at += usize::from(value.is_some());
        }
        if matches!(spec.value, Value::Required | Value::Several) && value.is_none() && !self.is_open() {
            return Err(self.deny(format!("the option `{name}` needs a value")));
        }
        Ok(value)
    }

    // Many programs take the beginning of a long option for the whole.
    fn may_mean_code(&self, specs: &[Spec], name: &str) -> Result<(), Denial> {
        let begins = |spec: &Spec| name.len() > 3 && spec.names.iter().any(|known| known.starts_with(name));
        let refused = |spec: &&Spec| matches!(spec.denied, Denied::Always | Denied::Code) && begins(spec);
        match specs.iter().find(refused) {
            None => Ok(()),
            Some(spec) if spec.denied == Denied::Code => Err(self.code(format!("code given by `{name}`"))),
            Some(_) => Err(self.deny(format!("`{name}` may mean an option that runs programs"))),
        }
    }

    fn short(
        &mut self,
        specs: &[Spec],
        table: &Table,
        word: &Word,
        words: &[Word],
        mut at: usize,
    ) -> Result<usize, Denial> {
        let digits = specs.iter().any(|spec| spec.names.contains(&"-NUM"));
        if digits {
            self.refuse_old_count(&word.text)?;
        }
        for (index, letter) in word.text.char_indices().skip(1) {
            let name = format!("-{letter}");
            let rest = &word.text[index + letter.len_utf8()..];
            let Some(spec) = specs.iter().find(|spec| spec.names.contains(&name.as_str())) else {
                if digits && letter.is_ascii_digit() {
                    self.note("-NUM".to_owned(), None);
                    continue;
                }
                if !self.is_open() {
                    return Err(self.deny(format!("the option `{name}` is not known to be harmless")));
                }
                self.unknown = true;
                self.note(name, None);
                // What follows the letter may be its value.
                hidden_path(&self.cx, rest)?;
                continue;
            };
            if spec.value == Value::None {
                self.option(spec, &name, None)?;
                continue;
            }
            let attached = (!rest.is_empty()).then(|| Word { text: rest.to_owned(), literal: word.literal });
            if spec.value == Value::Rest {
                let rest = attached.iter().chain(&words[at..]).cloned().collect();
                return self.rest(spec, rest).map(|()| words.len());
            }
            if table.style == Style::Last && !rest.is_empty() && !rest.starts_with(|c: char| c.is_ascii_digit()) {
                let denial = self.deny(format!("`{}`: the text after `{name}` may be more options", word.text));
                return Err(denial.hint(format!("write `{name}` and its value apart")));
            }
            self.read_in_two_ways(spec, &name, attached.as_ref())?;
            let value = self.value(table, spec, (&name, attached), words, &mut at)?;
            self.option(spec, &name, value)?;
            return self.further_values(spec, &name, words, at);
        }
        Ok(at)
    }

    // `-o=FILE`, `--output==FILE`: to some parsers (clap, argparse, pflag) the value is `FILE`, to others `=FILE`.
    fn read_in_two_ways(&mut self, spec: &Spec, name: &str, attached: Option<&Word>) -> Result<(), Denial> {
        let other = attached.and_then(|value| Some((value.text.strip_prefix('=')?.trim_start_matches('='), value)));
        let Some((other, value)) = other.filter(|(other, _)| !other.is_empty()) else { return Ok(()) };
        if matches!(spec.kind, 'D' | 'N' | 'A' | '{') {
            self.note(spec.names[0].to_owned(), Some(Word { text: other.to_owned(), literal: value.literal }));
            return Ok(());
        }
        let denial = self.deny(format!("the value of `{name}` is `{other}` or `={other}`: programs differ"));
        Err(denial.hint(format!("write `{name}` and `{other}` as two words")))
    }

    // `head -5c FILE` is an old way to write `-c 5`: there the letters after the digits take no value.
    fn refuse_old_count(&self, word: &str) -> Result<(), Denial> {
        let mut letters = word.chars().skip(1);
        let old_count = letters.next().is_some_and(|first| first.is_ascii_digit())
            && letters.any(|letter| !letter.is_ascii_digit());
        if old_count && matches!(self.name.as_str(), "head" | "tail") {
            return Err(self.deny(format!("the old way to count, `{word}`")).hint("write `-n NUM` or `-c NUM`"));
        }
        Ok(())
    }

    // The word after an option as its value. One that begins with a dash is another option to most programs: what it is
    // would not be judged.
    fn next_value(&self, table: &Table, spec: &Spec, name: &str, next: Option<&Word>) -> Result<Option<Word>, Denial> {
        let Some(next) = next else { return Ok(None) };
        if spec.value == Value::NextIfAny {
            return Ok((!next.text.starts_with('-')).then(|| next.clone()));
        }
        if !table.dash_values && begins_like_an_option(&next.text) {
            let denial = self.deny(format!("`{}` after `{name}` may be its value or another option", next.text));
            return Err(match name.starts_with("--") {
                true => denial.hint(format!("write `{name}=VALUE`")),
                false => denial.hint(format!("give `{name}` a value that does not begin with a dash")),
            });
        }
        Ok(Some(next.clone()))
    }

    // All words after an option are those of a program that it starts (`python -m NAME …`), or of one of the project.
    fn rest(&mut self, spec: &Spec, words: Vec<Word>) -> Result<(), Denial> {
        self.option(spec, spec.names[0], None)?;
        match spec.kind {
            'S' => self.starts(words),
            _ => self.all_passed(&words)?,
        }
        Ok(())
    }

    // The words up to the next option are values, too, of an option that takes several.
    fn further_values(&mut self, spec: &Spec, name: &str, words: &[Word], mut at: usize) -> Result<usize, Denial> {
        while spec.value == Value::Several
            && let Some(word) = words.get(at).filter(|word| !word.text.starts_with('-'))
        {
            self.option(spec, name, Some(word.clone()))?;
            at += 1;
        }
        Ok(at)
    }

    fn option(&mut self, spec: &Spec, name: &str, value: Option<Word>) -> Result<(), Denial> {
        match spec.denied {
            Denied::Always
                if spec.kind != 'K'
                    || !value.as_ref().is_some_and(|value| value.literal && is_display_setting(&value.text)) =>
            {
                return Err(self.deny(format!("`{name}` (`{}`) runs programs or hides what is done", spec.names[0])));
            }
            Denied::Code if self.is_open() => {
                return Err(self.code(format!("code or a command given by `{name}`")));
            }
            Denied::Strict | Denied::Usual | Denied::Code
                if !(self.is_open()
                    || spec.denied == Denied::Usual && self.everyday
                    || spec.names.iter().any(|name| self.granted.contains(name))) =>
            {
                return Err(self.deny(format!("the option `{name}` is denied")));
            }
            Denied::Strict | Denied::Usual | Denied::Code | Denied::Never | Denied::Always => {}
        }
        if let Some(value) = &value {
            self.given(spec, name, value)?;
        }
        self.note(spec.names[0].to_owned(), value);
        Ok(())
    }

    // What an option does with its value.
    fn given(&mut self, spec: &Spec, name: &str, value: &Word) -> Result<(), Denial> {
        let tag = |c: char| c.is_alphanumeric() || "@_-:,!|".contains(c);
        if spec.kind != 'A' || !value.text.chars().all(tag) {
            self.no_response_file(value)?;
        }
        if self.is_open() && value.text.to_ascii_lowercase().contains("data:text/") {
            return Err(self.code(format!("code in the address given by `{name}`")));
        }
        let is_path = "RWOTELI".contains(spec.kind) || spec.kind == 'V' && value.text.contains('/');
        if is_path && super::passed::is_expanded(&value.text) {
            return Err(self.expanded(&value.text));
        }
        if matches!(spec.kind, 'E' | 'I') {
            self.out.directories.push(value.text.clone());
        }
        match spec.kind {
            'R' => self.read(value),
            'F' => return Err(self.deny(format!("the files that `{name}` lists are not known"))),
            'T' => self.read_tree(value, false),
            'W' | 'O' if super::words::is_address(&value.text) => {
                return Err(self.deny(format!("`{}` is an address, not a file", value.text)));
            }
            'W' if value.text == "/dev/null" => {}
            'W' => self.write(value),
            'O' => {
                self.out.writes = true;
                self.effect(Effect::WriteTree, value);
            }
            'L' => self.effect(Effect::List, value),
            'E' => {
                for folder in self.cx.folders {
                    self.cx.paths.enter(folder, &value.text)?;
                }
            }
            'I' => self.own_folder(value)?,
            'C' => self.setting(value)?,
            'B' if !self.is_open() => return self.switch(value),
            'P' | 'B' => self.leads_to(&value.text),
            'V' => {
                let parts = value.text.split(|c: char| c.is_whitespace() || ",:;=[]{}()'\"".contains(c));
                parts.for_each(|part| self.looks_at(part));
                // A path may have a blank or a mark in it.
                self.looks_at(&value.text);
            }
            'M' => self.module(&value.text),
            'G' => self.revision(value)?,
            'H' => self.packages(value)?,
            'X' => self.pattern(&value.text, true, false)?,
            'N' | '{' => self.name(spec.choices, name, value)?,
            _ => {}
        }
        Ok(())
    }

    fn note(&mut self, name: String, value: Option<Word>) {
        self.found.push(Found { name, value, at: self.operands.len() });
    }
}

// `/p:NAME=VALUE`, `/nologo`: MSBuild's options may begin with a slash. Only those that the table writes so are no paths.
fn is_slashed(specs: &[Spec], table: &Table, text: &str) -> bool {
    let name = text.split('=').next().unwrap_or(text);
    let short = text.split(':').next().unwrap_or(text);
    table.style == Style::SingleDash
        && text.starts_with('/')
        && specs.iter().any(|spec| spec.names.contains(&name) || spec.names.contains(&short))
}
