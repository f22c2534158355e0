//! Judges commands by allow rules, and by the table of the program where there is one.

use super::alone;
use super::place::{self, programs_at, seen_from, subcommand};
use crate::policy::decision::Denial;
use crate::policy::ecosystems::{CUT, is_tool};
use crate::policy::file::{CommandRule, OperandKind, Options};
use crate::policy::launchers;
use crate::policy::layers::Layer;
use crate::policy::names::{base_name, unversioned};
use crate::policy::programs::table::{Call, Context, Operands, Out, Table};
use crate::policy::programs::{self, Word, is_listed};
use crate::policy::rules::Rule;

/// Directories of the workspace with installed programs: a rule of `builtin:ci-dev` names these by their bare name.
const INSTALLED: [&str; 5] = ["node_modules/.bin", "vendor/bin", ".venv/bin", "venv/bin", "bin"];

/// Judges a command by an allow rule; `None` where the rule does not speak of this command.
pub(super) fn judge(cx: Context<'_>, rule: &Rule<CommandRule>, words: &[Word]) -> Result<Option<Out>, Denial> {
    let mut out = allowed(cx, rule, words)?;
    if let Some(out) = &mut out {
        if launchers::leaves_the_package(words) {
            let denial = Denial::new(format!("{} would start a program of another package", words[0].text)).by("G7");
            return Err(denial.hint("run it in the directory of that package"));
        }
        out.unchanged.extend(launchers::asked_first(words, cx.folders));
    }
    Ok(out)
}

fn allowed(cx: Context<'_>, rule: &Rule<CommandRule>, words: &[Word]) -> Result<Option<Out>, Denial> {
    let cmd = &rule.value.cmd;
    let program = words[0].text.as_str();
    let is_path = program.contains('/');
    let everyday = rule.at.source == CUT;
    if cmd.len() == 2 && asks_only(words) && cmd[1].0.contains(&words[1].text) {
        // Some would go on with what they are given there.
        Call::new(cx, words, &[]).refuse_input()?;
        let unchanged = if is_path { programs_at(cx, program)? } else { Vec::new() };
        return Ok(Some(Out { unchanged, writes: is_path, ..Out::default() }));
    }
    let table = if everyday { programs::find(base_name(program)) } else { programs::find_for_rules(program) };
    if let Some(table) = table.filter(|_| everyday || !is_path) {
        return by_table(cx, rule, table, words);
    }
    let fits = words.len() >= cmd.len()
        && words.iter().zip(cmd).all(|(word, element)| word.literal && element.0.contains(&word.text));
    if !fits {
        return Ok(None);
    }
    if is_path && cx.folders.iter().any(|folder| !folder.is_root()) {
        return Err(Denial::new(format!("`{program}` is run from the workspace's root only")).by("G7"));
    }
    alone::judge(cx, rule, words).map(Some)
}

fn by_table(cx: Context<'_>, rule: &Rule<CommandRule>, table: &Table, words: &[Word]) -> Result<Option<Out>, Denial> {
    let listed: Vec<Vec<String>> = rule.value.cmd[1..].iter().map(|element| element.0.clone()).collect();
    let everyday = rule.at.source == CUT;
    let moved;
    let mut call = Call::new(cx, words, &listed);
    call.everyday = everyday;
    call.granted = rule.value.options.iter().flat_map(Options::listed).collect();
    if words[0].text.contains('/') {
        call.out.unchanged = programs_at(cx, &words[0].text)?;
    }
    if table.subcommands.is_empty() {
        // The table itself examines tasks and the words of started commands.
        let judges = matches!(table.operands, Operands::Tasks(_) | Operands::Script | Operands::Starts);
        if !judges && !starts_with(&words[1..], &listed) {
            return Ok(None);
        }
        call.apply(table, &words[1..])?;
        return narrowed(call, &rule.value, words, cx).map(Some);
    }
    let skipped = 1 + usize::from(everyday && programs::is_toolchain(words));
    call.parse(table, &words[skipped..])?;
    call.out.writes |= !table.writes_nothing;
    let rest = std::mem::take(&mut call.operands);
    if let Some(folders) = place::moved(&call)? {
        moved = folders;
        call.cx.folders = &moved;
    }
    let Some(first) = rest.first() else {
        let asks = |name: &str| matches!(name, "--version" | "--help" | "-h" | "-V");
        let harmless = !call.found.is_empty() && call.found.iter().all(|found| asks(&found.name));
        return Ok((listed.is_empty() && harmless).then_some(call.out));
    };
    let sub = subcommand(table, &first.text);
    // The names of scripts and tasks may be after options of the subcommand.
    let judges = sub.is_some_and(|sub| matches!(sub.operands, Operands::Tasks(_) | Operands::Script));
    let places = if judges { listed.len().min(1) } else { listed.len() };
    if !first.literal || !starts_with(&rest, &listed[..places]) {
        return Ok(None);
    }
    let value = &rule.value;
    match sub.filter(|sub| everyday || sub.operands != Operands::Starts) {
        Some(sub) => place::apply_below(&mut call, sub, &words[0].text, &rest)?,
        None if value.options.is_some() || value.operands.is_some() || value.args.is_some() => {
            let mut out = alone::judge(cx, rule, words)?;
            out.effects.extend(call.out.effects);
            return Ok(Some(out));
        }
        None if listed.is_empty() => return Ok(None),
        None => {
            let denial = call.deny(format!("the subcommand `{}` has no table", first.text));
            return Err(denial.hint("a rule that lists `options` and `operands` can allow it"));
        }
    }
    narrowed(call, value, words, cx).map(Some)
}

// What a rule on a known program says besides `cmd` narrows what its table allows.
fn narrowed(mut call: Call<'_>, rule: &CommandRule, words: &[Word], started: Context<'_>) -> Result<Out, Denial> {
    if call.out.writes_git && rule.cmd.len() == 1 {
        return Err(call.deny("it writes .git, which needs a rule that names the subcommand").by("G11"));
    }
    if rule.max_args.is_some_and(|most| words.len() > most + 1) {
        return Err(call.deny("more arguments than the rule allows"));
    }
    if let Some(options) = &rule.options {
        let listed = |name: &str| options.allow.iter().any(|known| known == name) || options.paths.contains_key(name);
        if let Some(found) = call.found.iter().find(|found| !listed(&found.name)) {
            return Err(call.deny(format!("the option `{}` is not listed by the rule", found.name)));
        }
    }
    if rule.operands == Some(OperandKind::None) && !call.operands.is_empty() {
        return Err(call.deny("the rule allows no operands"));
    }
    if let Some(args) = &rule.args {
        let rest = &words[rule.cmd.len().min(words.len())..];
        let fits = rest.len() == args.len()
            && rest.iter().zip(args).all(|(word, element)| word.literal && element.0.contains(&word.text));
        if !fits {
            return Err(call.deny("the arguments are not those that the rule lists"));
        }
    }
    seen_from(&mut call, started);
    Ok(call.out)
}

fn starts_with(words: &[Word], listed: &[Vec<String>]) -> bool {
    let is =
        |(word, names): (&Word, &Vec<String>)| word.literal && is_listed(names.iter().map(String::as_str), &word.text);
    words.len() >= listed.len() && words.iter().zip(listed).all(is)
}

fn asks_only(words: &[Word]) -> bool {
    words.len() == 2
        && words[1].literal
        && ["--version", "-V", "-v", "-version", "--info", "--help", "-h", "--list", "--list-sdks", "--list-runtimes"]
            .contains(&words[1].text.as_str())
}

/// Tells whether a rule speaks of a program as it was written.
pub(super) fn names_program(rule: &Rule<CommandRule>, program: &str) -> bool {
    let listed = &rule.value.cmd[0].0;
    let plain = if rule.at.source == CUT { unversioned(program) } else { program };
    if listed.iter().any(|known| known == program || known == plain) {
        return true;
    }
    let Some((folder, name)) = program.rsplit_once('/').filter(|_| rule.at.source == CUT) else { return false };
    let ends =
        |installed: &&str| folder.strip_suffix(*installed).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'));
    let is_installed = !folder.starts_with('/') && INSTALLED.iter().any(ends);
    listed
        .iter()
        .any(|known| if is_installed { known == name && is_tool(name) } else { known.strip_prefix("./") == Some(name) })
}

pub(super) fn no_rule(layer: &Layer, rules: &[Rule<CommandRule>], program: &Word, name: &str) -> Denial {
    let known = |rule: &&Rule<CommandRule>| rule.value.cmd[0].0.iter().any(|word| word == name);
    let shown: Vec<String> = rules
        .iter()
        .filter(known)
        .map(|rule| rule.value.cmd.iter().map(|element| element.0.join("|")).collect::<Vec<_>>().join(" "))
        .collect();
    if program.text.contains('/') {
        let denial = Denial::new(format!("`{}`: rules allow programs by their bare name", program.text)).by("G7");
        let is_own = !program.text.starts_with(['/', '~']) && !program.text.split('/').any(|part| part == "..");
        return match (shown.is_empty(), is_own) {
            (false, _) => denial.hint(format!("write `{name}`")),
            (true, true) => denial.hint(format!(
                "a rule may name a file of the workspace with its digest: {{cmd: [{}], sha256: …}}",
                program.text
            )),
            (true, false) => denial,
        };
    }
    let denial =
        Denial::new(format!("no rule of `shell.allow` in {} allows this use of `{name}`", layer.origin.source))
            .by("G1");
    if shown.is_empty() { denial } else { denial.hint(format!("allowed is: {}", shown.join(", "))) }
}
