//! Starts programs of the user beside the sandbox: the model server of `--local`, and the browser.
//!
//! They are not confined, so nothing of the checkout may reach them: they start in `/` (llama.cpp loads libraries from
//! its working directory), find programs in the cleaned PATH, and get listed variables alone, none of them a key.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::helper::ending_with_us;
use crate::git::{Program, Programs};

/// What every program gets; a name that ends in `_` stands for all that begin with it.
const ALL: &[&str] = &["HOME", "LANG", "LANGUAGE", "LC_", "LOGNAME", "TMPDIR", "USER", "XDG_RUNTIME_DIR"];

/// What a model server gets as well: graphics cards, and llama.cpp's own options.
const SERVER: &[&str] = &["CUDA_", "GGML_", "HIP_", "HSA_", "LLAMA_", "OMP_", "ROCR_", "VK_"];

/// What a browser gets as well: the user's session, and where the desktop keeps its applications.
const BROWSER: &[&str] = &[
    "BROWSER",
    "DBUS_SESSION_BUS_ADDRESS",
    "DESKTOP_SESSION",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "WSL_DISTRO_NAME",
    "WSL_INTEROP",
    "XAUTHORITY",
    "XDG_",
];

/// Keys that a model server would ask every client for.
const KEYS: &[&str] = &["LLAMA_API_KEY", "LLAMA_ARG_API_KEY", "LLAMA_ARG_API_KEY_FILE", "LLAMA_ARG_HF_TOKEN"];

/// Variables for the dynamic loader that are passed on, without their entries in the checkout.
const LIBRARIES: &[&str] = &["LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH"];

/// Returns the path of a model server, and the command that starts it and ends it together with this process; `None` if
/// it is not installed. `variables` are those of this process.
pub fn server(
    name: &str,
    programs: &Programs,
    variables: &BTreeMap<String, String>,
) -> Option<(PathBuf, tokio::process::Command)> {
    let program = programs.find(name).ok()?;
    let mut command = ending_with_us(program.path());
    surround(command.as_std_mut(), programs, variables, SERVER);
    Some((program.path().to_path_buf(), command))
}

/// Opens a file with the user's browser, and does not wait for it. `variables` are those of this process.
#[expect(clippy::disallowed_methods, reason = "the user's own programs are started here, beside the sandbox")]
pub fn browse(
    browser: &Program,
    page: &Path,
    programs: &Programs,
    variables: &BTreeMap<String, String>,
) -> std::io::Result<()> {
    use std::os::unix::process::CommandExt as _;
    let mut command = std::process::Command::new(browser.path());
    surround(&mut command, programs, variables, BROWSER);
    command.arg(std::path::absolute(page)?).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().map(drop)
}

/// Sets the working directory and the whole environment of a command.
fn surround(
    command: &mut std::process::Command,
    programs: &Programs,
    variables: &BTreeMap<String, String>,
    more: &[&str],
) {
    command.current_dir("/").env_clear().envs(listed(programs, variables, more));
    command.env("PATH", programs.path_variable());
    let libraries = programs.loader_variables().into_iter().filter(|(name, _)| LIBRARIES.contains(name));
    command.envs(libraries.filter_map(|(name, value)| Some((name, value?))));
}

/// Returns the listed variables whose values name nothing in the checkout.
fn listed(programs: &Programs, variables: &BTreeMap<String, String>, more: &[&str]) -> Vec<(String, OsString)> {
    let is_listed = |name: &str| {
        let means = |entry: &&str| name == *entry || (entry.ends_with('_') && name.starts_with(*entry));
        ALL.iter().chain(more).any(means) && !KEYS.contains(&name)
    };
    let is_outside = |value: &str| {
        let paths = value.split([':', ';', ',', '=']).map(Path::new).filter(|path| path.is_absolute());
        paths.into_iter().all(|path| !programs.is_kept_from(path))
    };
    let kept = variables.iter().filter(|(name, value)| is_listed(name) && is_outside(value));
    kept.map(|(name, value)| (name.clone(), OsString::from(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_variables_that_name_nothing_in_the_checkout_are_passed_on() {
        let top = tempfile::tempdir().unwrap();
        let checkout = top.path().join("checkout");
        std::fs::create_dir_all(checkout.join("lib")).unwrap();
        std::os::unix::fs::symlink(checkout.join("lib"), top.path().join("link")).unwrap();
        let programs = Programs::of_process(&checkout);
        let inside = checkout.join("lib/evil.so").display().to_string();
        let linked = format!("/opt/lib:{}", top.path().join("link/evil.so").display());
        let given = [
            ("HOME", "/home/u"),
            ("LC_TIME", "C"),
            ("CUDA_VISIBLE_DEVICES", "0,1"),
            ("GGML_BACKEND_PATH", inside.as_str()),
            ("VK_ICD_FILENAMES", linked.as_str()),
            ("LLAMA_ARG_THREADS", "4"),
            ("LLAMA_API_KEY", "k"),
            ("HOMEBREW_GITHUB_API_TOKEN", "t"),
            ("QWEN_API_KEY", "k"),
            ("LD_PRELOAD", "/x.so"),
            ("PYTHONPATH", "/x"),
            ("DISPLAY", ":0"),
        ];
        let given = given.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let names = |more| listed(&programs, &given, more).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(names(SERVER), ["CUDA_VISIBLE_DEVICES", "HOME", "LC_TIME", "LLAMA_ARG_THREADS"]);
        assert_eq!(names(BROWSER), ["DISPLAY", "HOME", "LC_TIME"]);
    }
}
