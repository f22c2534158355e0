//! Judges a program's words by its table.

use super::specs::{Denied, Spec, Value, specs};
use super::table::{Call, Found, Operands, Table};
use super::word::Word;
use crate::policy::decision::Denial;
use crate::policy::effect::Effect;

impl Call<'_> {
    /// Applies a table to the words after the program's name (or after the subcommand's), and judges what it is given on
    /// its standard input.
    pub(crate) fn apply(&mut self, table: &Table, words: &[Word]) -> Result<(), Denial> {
        self.apply_words(table, words)?;
        self.refuse_input()
    }

    fn apply_words(&mut self, table: &Table, words: &[Word]) -> Result<(), Denial> {
        // `git stash list`: a subcommand of the subcommand, with other options. Any other word is an operand.
        if let Some((first, rest)) = words.split_first().filter(|(first, _)| first.literal)
            && let Some(sub) = table.subcommands.iter().find(|sub| sub.names.split(' ').any(|name| name == first.text))
        {
            self.name = format!("{} {}", self.name, first.text);
            return self.apply_words(sub, rest);
        }
        if !table.subcommands.is_empty() {
            return self.apply_words(&Table { subcommands: &[], ..*table }, words);
        }
        self.out.writes |= !table.writes_nothing;
        self.out.open_ended |= !(self.cx.known.is_described)(table);
        if table.operands == Operands::Raw {
            return table.special.map_or(Ok(()), |special| special(self));
        }
        self.parse(table, words)?;
        // If an option is unknown, it is also unknown which word is written.
        if self.unknown && !table.writes_nothing && (self.cx.known.is_described)(table) {
            return Err(self.deny("an option of it is not known").hint("leave it out"));
        }
        self.values_of_unknown(table)?;
        let operands = std::mem::take(&mut self.operands);
        match table.operands {
            Operands::Special | Operands::Raw | Operands::Data => {}
            Operands::Revisions => super::git::revisions_named(self, &operands)?,
            Operands::Code => return Err(self.code("code, or a command, among its words")),
            Operands::Read => operands.iter().for_each(|word| self.read(word)),
            Operands::List => operands.iter().for_each(|word| self.effect(Effect::List, word)),
            Operands::Write => operands.iter().for_each(|word| self.write(word)),
            Operands::Inside => operands.iter().try_for_each(|word| self.inside(word))?,
            Operands::WrittenWith(options) => {
                let writes = options.split(',').any(|name| self.has(name));
                operands.iter().try_for_each(|word| self.formatted(word, writes))?;
            }
            Operands::WrittenWithout(options) => {
                let writes = !options.split(',').any(|name| self.has_on(name));
                operands.iter().try_for_each(|word| self.formatted(word, writes))?;
            }
            // A table that parses the words itself names the tasks.
            Operands::Tasks(separator) if table.special.is_none() => self.tasks(separator, &operands)?,
            Operands::Tasks(_) => {}
            Operands::Script => self.script(&operands)?,
            Operands::Starts => self.launches(&operands)?,
            Operands::TextThenRead(options) => {
                let given = options.split(',').any(|name| self.has(name));
                let recursive = table.special.is_some();
                for word in operands.iter().skip(usize::from(!given)).filter(|_| !recursive) {
                    self.read(word);
                }
            }
            Operands::None => {
                if let Some(word) = operands.first() {
                    return Err(self.deny(format!("takes no operand such as `{}`", word.text)));
                }
            }
        }
        self.operands = operands;
        match table.special {
            Some(special) if !asks(table, words) => special(self),
            Some(_) | None => Ok(()),
        }
    }

    // The word after an option that is not known may be its value: a file that is read, or written.
    fn values_of_unknown(&mut self, table: &Table) -> Result<(), Denial> {
        self.unknown_words(table)?;
        if table.operands != Operands::Starts {
            self.operands.iter().try_for_each(|word| self.no_response_file(word))?;
        }
        if !self.unknown {
            return Ok(());
        }
        let specs = specs(table.options);
        let known = |found: &Found| specs.iter().any(|spec| spec.names.contains(&found.name.as_str()));
        let after = self.found.iter().filter(|found| found.value.is_none() && !known(found));
        let values: Vec<Word> = after.filter_map(|found| self.operands.get(found.at).cloned()).collect();
        for value in values.iter().filter(|value| value.text != "-") {
            self.effect(Effect::Read, value);
            if !table.writes_nothing {
                self.effect(Effect::Write, value);
            }
        }
        Ok(())
    }

    // Words that xargs adds are operands of programs that read or print, and of nothing else.
    fn unknown_words(&self, table: &Table) -> Result<(), Denial> {
        let unknown = |word: &Word| !word.literal && !word.is_process();
        if self.found.iter().any(|found| found.value.as_ref().is_some_and(unknown)) {
            return Err(self.deny("an option's value is not known"));
        }
        let Some(first) = self.operands.iter().position(unknown) else { return Ok(()) };
        let ended = self.dashes.is_some_and(|dashes| first >= dashes);
        let harmful = specs(table.options).iter().any(|spec| {
            matches!(spec.denied, Denied::Always | Denied::Code)
                || (spec.value != Value::None && matches!(spec.kind, 'W' | 'O'))
        });
        let reads = match table.operands {
            Operands::Data | Operands::Revisions | Operands::Read | Operands::List => true,
            Operands::TextThenRead(_) => first > 0 || self.found.iter().any(|found| found.name == "-e"),
            Operands::Code
            | Operands::Write
            | Operands::Inside
            | Operands::WrittenWith(_)
            | Operands::WrittenWithout(_)
            | Operands::Tasks(_)
            | Operands::Script
            | Operands::Starts
            | Operands::Special
            | Operands::Raw
            | Operands::None => false,
        };
        if !reads || self.out.writes || (harmful && !ended) {
            let denial = self.deny("the words that are added to it are not known");
            return Err(denial.hint("write the command for files that you name"));
        }
        Ok(())
    }
}

// Whether a program is only asked what it is, or how it is used. Next to other words the question ends nothing: it may
// be the value of an option, and some versions pass it over.
fn asks(table: &Table, words: &[Word]) -> bool {
    let is = |spec: &Spec, name: &str| spec.denied == Denied::Never && spec.names.contains(&name);
    let question =
        |spec: &Spec| spec.names.iter().any(|name| matches!(*name, "--help" | "--version" | "--pcre2-version"));
    matches!(words, [only] if only.literal && specs(table.options).iter().any(|spec| is(spec, &only.text) && question(spec)))
}
