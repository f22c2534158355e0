use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == qwen_run::sandbox::HELPER) {
        return qwen_run::sandbox::helper_main(arguments);
    }
    ExitCode::SUCCESS
}
