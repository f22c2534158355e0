//! Decides which flags of `qwen run` the input `flags` may give: those that choose how the model is asked, or that limit.

/// Flags that take a value.
const WITH_VALUE: [&str; 18] = [
    "model",
    "fallback-model",
    "temperature",
    "top-p",
    "seed",
    "max-output-tokens",
    "text-tools",
    "request-timeout",
    "stream-idle-timeout",
    "retries",
    "max-wait",
    "max-session-turns",
    "max-tool-calls",
    "max-wall-time",
    "max-denials",
    "max-total-tokens",
    "max-cost-usd",
    "exclude-tools",
];

/// Flags without a value.
const ALONE: [&str; 2] = ["--strict", "-v"];

/// Flags that have an input of their own.
const INPUTS: [(&str, &str); 16] = [
    ("recipe", "recipe"),
    ("prompt", "prompt"),
    ("param", "params"),
    ("policy", "policy"),
    ("trusted-ref", "trusted-ref"),
    ("openai-api-key", "api-key"),
    ("api-key-file", "api-key"),
    ("openai-base-url", "base-url"),
    ("base-url", "base-url"),
    ("cd", "working-directory"),
    ("apply", "changes"),
    ("commit", "changes"),
    ("dry-run", "changes"),
    ("fail-on", "fail-on"),
    ("fail-confidence", "fail-confidence"),
    ("on-deny", "on-deny"),
];

/// Tells why a line of the input `flags` is none of those that may be given.
pub(super) fn check(line: &str) -> Result<(), String> {
    let (flag, value) = line.split_once('=').map_or((line, None), |(flag, value)| (flag, Some(value)));
    let name = flag.strip_prefix("--").unwrap_or_default();
    match value {
        Some(value) if WITH_VALUE.contains(&name) && !value.is_empty() => return Ok(()),
        None if ALONE.contains(&flag) => return Ok(()),
        None if WITH_VALUE.contains(&name) => return Err(format!("the input flags has `{line}`: write {flag}=VALUE")),
        Some(_) | None => {}
    }
    Err(match INPUTS.iter().find(|(known, _)| *known == name) {
        Some((_, input)) => format!("the input flags has `{flag}`: give the input {input} instead"),
        None => format!("the input flags has `{flag}`, which it does not take"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::usage;

    #[test]
    fn each_flag_that_may_be_given_is_one_of_run() {
        for name in WITH_VALUE {
            let value = match name {
                "model" | "fallback-model" | "exclude-tools" => "x",
                "text-tools" => "force",
                "request-timeout" | "stream-idle-timeout" | "max-wait" | "max-wall-time" => "1m",
                _ => "1",
            };
            let flag = format!("--{name}={value}");
            assert_eq!(check(&flag), Ok(()));
            let parsed = usage::parse(["qwen", "run", "--recipe=r", &flag]);
            assert!(parsed.is_ok(), "{flag}");
        }
        for flag in ALONE {
            assert!(check(flag).is_ok() && usage::parse(["qwen", "run", "--recipe=r", flag]).is_ok(), "{flag}");
        }
    }

    #[test]
    fn a_flag_that_gives_more_is_refused_and_its_input_is_named() {
        for (line, part) in [
            ("--openai-base-url=https://evil.example", "the input base-url"),
            ("--allow-http", "does not take"),
            ("--local=x.gguf", "does not take"),
            ("--yolo", "does not take"),
            ("--sandbox=off", "does not take"),
            ("--allowed-tools=edit", "does not take"),
            ("--policy=x", "the input policy"),
            ("--model", "--model=VALUE"),
            ("--model=", "does not take"),
            ("--seed=1 --yolo", ""),
            ("seed=1", "does not take"),
            ("-y", "does not take"),
        ] {
            match check(line) {
                Err(message) => assert!(message.contains(part) && !part.is_empty(), "{line}: {message}"),
                // One word of a command line, whatever is in it.
                Ok(()) => assert!(part.is_empty(), "{line}"),
            }
        }
    }
}
