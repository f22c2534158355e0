//! Tables for Maven, Gradle, sbt and similar tools.

use super::{Call, Denial, Operands, Style, TASKS, TOOL, Table, Word};

pub(super) const TABLES: &[Table] = &[
    Table {
        names: "mvn mvnw mvnd",
        options: "-q,--quiet -o,--offline -B,--batch-mode -v,--version -h,--help -V,--show-version -T,--threads=D -am,--also-make -amd,--also-make-dependents -pl,--projects=D -rf,--resume-from=D -U,--update-snapshots -nsu,--no-snapshot-updates \
            -e,--errors -X,--debug -ntp,--no-transfer-progress -fae,--fail-at-end -ff,--fail-fast -fn,--fail-never -N,--non-recursive -C,--strict-checksums -c,--lax-checksums --color=D -l,--log-file=W -r,--resume -ns -P,--activate-profiles=N \
            -DskipTests=?D -DskipITs=?D -DskipUTs=?D -Dmaven.test.skip=?D -Dtest=D -Dit.test=D -DfailIfNoTests=D -DfailIfNoSpecifiedTests=D -Dsurefire.failIfNoSpecifiedTests=D -Dfailsafe.failIfNoSpecifiedTests=D -Dsurefire.useFile=D \
            -Dsurefire.rerunFailingTestsCount=D -Dsurefire.skipAfterFailureCount=D -Dmaven.javadoc.skip=?D -Dmaven.source.skip=?D -Dcheckstyle.skip=?D -Dspotbugs.skip=?D -Dpmd.skip=?D -Dcpd.skip=?D -Djacoco.skip=?D -Denforcer.skip=?D -Drat.skip=?D -Dspotless.check.skip=?D \
            -Dspotless.apply.skip=?D -Dlicense.skip=?D -Dfmt.skip=?D -Dstyle.color=D -Dgroups=D -DexcludedGroups=D -Dtests=D -DtrimStackTrace=D -Dmaven.test.failure.ignore=?D -Dmaven.wagon.http.retryHandler.count=D -Dquick=?D -Dfast=?D -Dci=?D -Dparallel=D -DforkCount=D -DreuseForks=D -Dverbose=?D -Dincludes=D -Dscope=D -Dmaven.compiler.release=D -Dmaven.compiler.source=D -Dmaven.compiler.target=D -Dmaven.compiler.showWarnings=?D -Dmaven.compiler.showDeprecation=?D -Dmaven.compiler.failOnWarning=?D -Dmaven.javadoc.failOnError=?D \
            -Dmaven.test.redirectTestOutputToFile=?D -Dmaven.artifact.threads=D -Dmaven.wagon.http.pool={true|false} -Denv=N -Dbrowser=N -Dmaven.build.cache.enabled={true|false} -DforceStdout=?D \
            -Dexpression={project.version|project.groupId|project.artifactId|project.name|project.description|project.url|project.packaging|project.modules|project.parent.version|project.build.directory|project.build.finalName|project.build.sourceDirectory|project.build.outputDirectory|java.version|maven.compiler.source|maven.compiler.target|maven.compiler.release} \
            -Dspring.profiles.active=N -Dfile.encoding=N -Dproject.build.sourceEncoding=N -Duser.timezone=D -Djava.version={8|11|17|21|25|1.8} \
            -Dorg.slf4j.simpleLogger.log.org.apache.maven.cli.transfer.Slf4jMavenTransferListener=D -Dorg.slf4j.simpleLogger.defaultLogLevel=D \
            ~-f,--file=R !-s,--settings=R !-gs,--global-settings=R !-t,--toolchains=R !-gt=R -D,--define=B !-b=P !-ep=P !-emp=P !--raw-streams",
        style: Style::SingleDash,
        special: Some(maven),
        ..TASKS
    },
    Table {
        names: "gradle gradlew",
        options: "-q,--quiet -w,--warn -i,--info -d,--debug -s,--stacktrace -S,--full-stacktrace --offline -v,--version -h,--help --no-daemon --daemon --parallel --no-parallel --build-cache --no-build-cache --continue --no-continue --tests=D -x,--exclude-task=D \
            --rerun-tasks --rerun -m,--dry-run --console=D --warning-mode=D --max-workers=D --configuration-cache --no-configuration-cache --configure-on-demand --no-configure-on-demand --profile --refresh-dependencies -a,--no-rebuild --fail-fast --no-scan --info \
            --status --stop --watch-fs --no-watch-fs --write-locks --configuration=D --dependency=D --all --priority=D --problems-report --no-problems-report \
            !--scan !-b,--build-file=R !-c,--settings-file=R !$-I,--init-script=R ~-p,--project-dir=E !-g,--gradle-user-home=L !--project-cache-dir=I !--include-build=L -Dorg.gradle.daemon=D -Dorg.gradle.parallel=D -Dorg.gradle.caching=D -Dorg.gradle.console=D -Dorg.gradle.warning.mode=D -Dorg.gradle.logging.level=D -Dorg.gradle.workers.max=D -Dorg.gradle.configureondemand=D !-D,--system-prop=P -P,--project-prop=P !-F,--dependency-verification=P !-M,--write-verification-metadata=P !-U,--update-locks=P !-t,--continuous !--gui",
        operands: Operands::Tasks(":"),
        special: Some(gradle),
        ..TASKS
    },
    Table {
        names: "sbt sbtn",
        options: "-no-colors,--no-colors -v,--verbose -h,--help --version,-version --batch,-batch -error -warn -info -debug --supershell=D -Dsbt.log.noformat=D -Dsbt.color=D -Dsbt.supershell=D -Dsbt.ci=D --client -client --timings -timings \
            !-J=P !-D=P !--java-home=L !-java-home=L !--sbt-dir=L !--sbt-jar=R !--ivy=L !--addPluginSbtFile=R !--sbt-opts=R !-sbt-boot=L !-jvm-debug=P",
        style: Style::SingleDash,
        special: Some(sbt),
        ..TASKS
    },
    Table {
        names: "javac",
        options: "-d=O -cp,-classpath,--class-path=V -source,--source=D -target,--target=D --release=D -Xlint -Xlint:all -Xlint:unchecked -Xlint:deprecation -Werror \
            -g -nowarn -encoding=N -parameters -proc:none -verbose -deprecation -version --version -help --help --enable-preview !-J=P !-processor=P \
            !-processorpath,--processor-path=V !-Xplugin=P !-sourcepath,--source-path=V !-s=O !-h=O",
        style: Style::SingleDash,
        ..TOOL
    },
    Table { names: "lein", options: "", operands: Operands::Tasks(""), ..TASKS },
    Table {
        names: "ktlint",
        options: "-F,--format --color --relative --log-level=D -l=D --reporter={plain|json|checkstyle|html|plain-summary|sarif} --editorconfig=R --android -h,--help -v,--version \
            !-R,--ruleset=R !-b,--baseline=R",
        operands: Operands::Special,
        special: Some(ktlint),
        ..TOOL
    },
    Table {
        names: "detekt",
        options: "-F,--format --color --relative --parallel --log-level=D -l=D --reporter={plain|json|checkstyle|html|plain-summary|sarif} --editorconfig=R --android --fail-fast --auto-correct -h,--help -v,--version --excludes=D --includes=D --build-upon-default-config \
            !-R,--ruleset=R !-c,--config=R !-p,--plugins=P !-b,--baseline=R -i,--input=D !-r,--report=P",
        operands: Operands::Special,
        special: Some(detekt),
        ..TOOL
    },
    Table {
        names: "scalafmt scalafix",
        options: "--check --test --list --mode={diff|changed|any|anygit|test|stdout} --diff --quiet --reportError -h,--help -v,--version --exclude=D --non-interactive !-c,--config=R !--rules=P !--tool-classpath=P",
        operands: Operands::WrittenWithout("--check,--test,--list"),
        ..TOOL
    },
];

// `detekt --input src,lib`: a list of files and directories.
fn detekt(call: &mut Call<'_>) -> Result<(), Denial> {
    let writes = call.has("-F") || call.has("--auto-correct");
    for word in [call.operands.clone(), call.values("-i")].concat() {
        for part in word.text.split([',', ';']).map(str::trim).filter(|part| !part.is_empty()) {
            call.formatted(&Word { text: part.to_owned(), literal: word.literal }, writes)?;
        }
    }
    Ok(())
}

// `ktlint src/A.kt`: some words are subcommands that write hooks of git and settings of editors.
fn ktlint(call: &mut Call<'_>) -> Result<(), Denial> {
    let (words, writes) = (call.operands.clone(), call.has("-F"));
    let is_path = |word: &&Word| word.text.contains(['.', '/', '*']);
    match words.iter().find(|word| !is_path(word)) {
        Some(verb) => Err(call.deny(format!("`{}` is not a path: it may be a subcommand that writes", verb.text))),
        None => words.iter().try_for_each(|word| call.formatted(word, writes)),
    }
}

// What a task is given: names of tests and rules, and after `--` the options of a test framework that choose tests.
fn arguments<'w>(call: &Call<'_>, words: impl Iterator<Item = &'w str>) -> Result<(), Denial> {
    let chooses = ["-z", "-n", "-l", "-t", "-s", "-m", "-v", "-a", "-D", "-F", "-d"];
    let mut passed = false;
    for word in words {
        let option = word.starts_with(['-', '+']);
        let known = match (passed, option) {
            (_, false) => !word.contains([':', '/', '\\']) && !word.contains(".."),
            (true, true) => chooses.contains(&word) || word.starts_with("-o") || word.starts_with("--only="),
            (false, true) => ["--", "--check", "--test", "--syntactic", "--diff"].contains(&word),
        };
        if !known {
            return Err(call.deny(format!("the argument `{word}` is not known to be harmless")));
        }
        passed |= word == "--";
    }
    Ok(())
}

// `-PmaxParallelForks=2`: a plain value, of a property that is read for no code, program or key.
fn gradle(call: &mut Call<'_>) -> Result<(), Denial> {
    super::shell_text::refuse_expansions(call)?;
    let refused = |word: &&Word| {
        let name = word.text.split('=').next().unwrap_or_default().to_ascii_lowercase();
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-=".contains(c);
        !word.literal
            || word.text.matches('=').count() > 1
            || !word.text.chars().all(plain)
            || name.starts_with("org.gradle.")
            || ["jvmargs", "init", "signing", "mainclass", "exec", "command", "script"]
                .iter()
                .any(|part| name.contains(part))
    };
    match call.values("-P").iter().find(refused) {
        Some(word) if !call.is_open() => {
            Err(call.deny(format!("the property `{}` is not known to be harmless", word.text)))
        }
        _ => call.tasks(":", &call.operands.clone()),
    }
}

/// Properties of Maven's plugins that hold a command or code: what `exec` runs, what Groovy and others evaluate.
const CODE: [&str; 9] =
    ["exec.", "source", "script", "jvm", "argLine", "groovy.", "jshell.", "beanshell.", "maven.ext.class.path"];

fn maven(call: &mut Call<'_>) -> Result<(), Denial> {
    super::shell_text::refuse_expansions(call)?;
    call.only_own_file("-f", &["pom.xml"])?;
    if !call.is_open() {
        return call.tasks("", &call.operands.clone());
    }
    let texts = call.words.iter().map(|word| word.text.as_str());
    let set = texts.map(|text| text.strip_prefix("--define=").or_else(|| text.strip_prefix("-D")).unwrap_or(text));
    let mut named = set.filter(|text| CODE.iter().any(|code| text.starts_with(code)));
    match named.find(|text| text.contains('=')) {
        Some(text) => Err(call.code(format!("`{text}` may be code or a command"))),
        None => Ok(()),
    }
}

/// Commands of sbt that evaluate the words after them, or give them another name.
const EVALUATES: [&str; 8] =
    ["eval", "set", "alias", "apply", "console", "consoleQuick", "consoleProject", "onFailure"];

// A word may hold several commands of sbt, each a task after its project and configuration, and its arguments.
fn sbt(call: &mut Call<'_>) -> Result<(), Denial> {
    super::shell_text::refuse_expansions(call)?;
    if call.is_open() {
        let commands = call.operands.iter().flat_map(|word| word.text.split([';', '\n']));
        let names = commands.map(|command| command.trim_start_matches(|c: char| c.is_whitespace() || "+~".contains(c)));
        let evaluates = |text: &&str| {
            let name = text.split_whitespace().next().unwrap_or_default();
            text.contains(['!', '{'])
                || text.contains(":=")
                || EVALUATES.contains(&name.rsplit('/').next().unwrap_or(name))
        };
        return match names.into_iter().find(evaluates) {
            Some(text) => Err(call.code(format!("`{text}` may be code or a command"))),
            None => Ok(()),
        };
    }
    let mut tasks = Vec::new();
    for word in call.operands.clone() {
        if !word.literal {
            return Err(call.deny("a word of it is not known"));
        }
        for command in word.text.split([';', '\n']).map(str::trim).filter(|command| !command.is_empty()) {
            let command = command.split('/').map(str::trim).collect::<Vec<_>>().join("/");
            let mut words = command.trim_start_matches('+').split_whitespace().peekable();
            if command.starts_with("++") {
                // `++2.13.12`, and perhaps a command for that version; `++/PATH` would be a compiler.
                // `!` forces it on all projects.
                let version = words.next().unwrap_or_default().trim_end_matches('!');
                let plain = |c: char| c.is_ascii_alphanumeric() || ".-".contains(c);
                if !version.starts_with(|c: char| c.is_ascii_digit()) || !version.chars().all(plain) {
                    return Err(call.deny(format!("`{version}` is not a version of Scala")));
                }
                if words.peek().is_none() {
                    continue;
                }
            }
            // `show version`: what is shown is evaluated, and must be listed itself.
            words.next_if(|word| *word == "show");
            let task = words.next().unwrap_or_default();
            let name = task.rsplit(['/', ':']).next().unwrap_or_default();
            if command.contains('!') || name == "project" && words.clone().count() != 1 {
                return Err(call.deny(format!("the command `{command}` is not known to be harmless")));
            }
            arguments(call, words)?;
            tasks.push(super::Word::literal(name));
        }
    }
    call.tasks("", &tasks)
}
