//! `qwen policy`: what the rules say of calls, before a run.
use std::io::Write;

use super::{Place, alone, print, read};
use crate::cli::policy::PolicyVerb;
use crate::exit::Exit;
use crate::policy::builtin;
use crate::run::Failure;
use crate::settings::Environment;

pub(super) fn run(verb: &PolicyVerb, environment: &Environment, out: &mut dyn Write) -> Result<Exit, Failure> {
    match verb {
        PolicyVerb::Builtin { name: None } => {
            let names: Vec<&str> = builtin::BUILTINS.iter().map(|(name, _)| *name).collect();
            print(out, &(names.join("\n") + "\n"))
        }
        PolicyVerb::Builtin { name: Some(name) } => match builtin::text(name.trim_start_matches("builtin:")) {
            Some(text) => print(out, text),
            None => Err(Failure::new(Exit::Config, format!("there is no built-in policy `{name}`"), "`qwen policy builtin` names them")),
        },
        _ => { let _ = (alone, read, environment, Place::open); todo!() }
    }
}
