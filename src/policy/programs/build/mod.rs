//! Tables for build and test tools. What they write while they build is judged as a diff before delivery.
//!
//! The tables are closed: an option that loads code or configuration is marked `!`, an option that is in no table is
//! denied, and the rule must list every task.

mod bundlers;
mod checkers;
mod compilers;
mod covered;
mod go;
mod jvm;
mod kinds;
mod manage;
mod native;
mod node;
mod others;
mod php;
mod python;
mod python_checks;
mod registry;
mod rust;
mod scripts;
mod shell_text;
mod web;

use super::table::{Call, Dashes, Operands, Style, Table};
use super::word::Word;
use crate::policy::decision::Denial;
use crate::policy::names::named;
use kinds::{GROUP, LAUNCHER, TABLE, TASKS, TOOL};

pub(super) use node::eslint_rules;
pub(crate) use rust::{is_toolchain, toolchain};
pub(super) use shell_text::refuse_shell_text;

pub(crate) const TABLES: [&[Table]; 16] = [
    rust::TABLES,
    native::TABLES,
    compilers::TABLES,
    go::TABLES,
    node::TABLES,
    web::TABLES,
    covered::TABLES,
    bundlers::TABLES,
    python::TABLES,
    python_checks::TABLES,
    manage::TABLES,
    jvm::TABLES,
    others::TABLES,
    php::TABLES,
    checkers::TABLES,
    scripts::TABLES,
];

/// Tools that `builtin:ci-dev` alone judges by their tables, besides those of whole files.
const OF_CI_DEV: &str = "terraform tofu tflint helm ansible-lint sqlfluff buf kubeconform buildifier hlint ormolu fourmolu gotestsum \
    c8 nyc gcc g++ cc c++ clang clang++ clang-tidy cppcheck gcovr javac brakeman bundle-audit bundler-audit srb steep cucumber minitest opam sphinx-build mkdocs deptry lint-imports djlint twine";

/// Tells whether a rule of a file has to list what a tool may get: its table covers only what is everyday.
pub(super) fn is_of_ci_dev(name: &str) -> bool {
    let mut tables = [web::TABLES, bundlers::TABLES, scripts::TABLES, manage::TABLES].into_iter().flatten();
    named(OF_CI_DEV, name) || tables.any(|table| named(table.names, name))
}

/// What a wrapper of the workspace loads and runs, from its own directory.
pub(crate) static LOADS: [(&str, &str); 2] = [
    ("gradlew", "gradle/wrapper/gradle-wrapper.jar gradle/wrapper/gradle-wrapper.properties"),
    ("mvnw", ".mvn/wrapper/maven-wrapper.jar .mvn/wrapper/maven-wrapper.properties .mvn/jvm.config .mvn/maven.config"),
];

/// Names of one subcommand, for deny rules: the programs, and for each subcommand its names.
pub(crate) static ALIASES: [(&str, &[&str]); 3] = [
    (
        "npm pnpm bun",
        &[
            "install i in ins inst insta instal isnt isnta isntal isntall add",
            "uninstall un unlink remove rm r",
            "ci clean-install ic install-clean isntall-clean",
            "run run-script rum urn",
            "exec x",
            "test t tst",
            "view v info show",
            "update up upgrade udpate",
            "config c",
            "adduser add-user login",
            "owner author",
            "init create innit",
            "link ln",
            "dist-tag dist-tags",
        ],
    ),
    ("cargo", &["build b", "check c", "clippy", "doc d", "test t", "run r", "remove rm"]),
    ("bundle", &["exec e ex exe", "install i"]),
];

/// Programs that take any beginning of a subcommand's name for it.
pub(crate) const ABBREVIATES: [&str; 5] = ["npm", "composer", "bundle", "gem", "hg"];
