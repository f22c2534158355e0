//! Tests the program as a whole, one file per behaviour.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "tests make projects, start the program, and say aloud what this machine does not let them try"
)]

mod action;
mod applied_files;
mod apply;
mod batch;
mod batch_api;
mod batch_changes;
mod batch_deliver;
mod batch_directory;
mod batch_prefix;
mod batch_push;
mod batch_repositories;
mod batch_sources;
mod bounded;
mod certificates;
mod change_modes;
mod checkout_files;
mod command_layer;
mod context;
mod converted_files;
mod docs;
mod drop_in;
mod endings;
mod examples;
#[cfg(target_os = "linux")]
mod exposure;
mod extra_tools;
#[cfg(target_os = "linux")]
mod failing_calls;
#[cfg(target_os = "linux")]
mod fault_harness;
mod faults;
mod formats;
mod gate;
mod hooks;
mod hostile;
mod house;
mod in_place;
mod input;
mod interrupted;
mod kept_by_git;
mod kept_runs;
mod killed_runs;
mod language;
mod language_check;
#[cfg(target_os = "linux")]
mod led_astray;

#[cfg(target_os = "linux")]
mod limits;
mod local_model;
mod local_rules;
mod long_values;
mod mcp;
mod odd_repositories;
mod own_programs;
mod pictures;
mod pins;
#[cfg(target_os = "linux")]
mod planted_repositories;
mod policy_cases;
mod policy_verbs;
mod preconditions;
mod qwen_code;
mod recipe_commands;
mod recipe_errors;
mod recipe_eval;
mod recipe_tests;
mod recipes;
mod redaction;
mod replay;
mod report;
mod request_size;
mod rewrites;
mod sandbox;
mod scripts;
mod second_names;
mod sessions;
mod started;
mod statements;
mod streams;
mod support;
mod telemetry;
mod terminal;
mod tools;
mod trust;
mod unanalysable;
mod verify;
mod wire;
mod yesterday;
