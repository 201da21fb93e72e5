//! Running other programs from the repository root, with their output shown and kept.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The repository root: the parent of this crate.
pub fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(PathBuf::from).unwrap_or(here)
}

/// The cargo that runs us.
pub fn cargo() -> Command {
    let mut c = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    c.current_dir(root());
    c
}

/// Whether a program runs with these arguments, quietly.
pub fn works(program: &str, args: &[&str]) -> bool {
    Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
}

/// Installs packages of the distribution, where it is Debian or one of its kind.
pub fn apt_install(packages: &[&str]) {
    if !works("apt-get", &["--version"]) {
        return;
    }
    let sudo = !works("sh", &["-c", "test $(id -u) = 0"]);
    let install = [&["install", "-y", "--no-install-recommends"], packages].concat();
    for words in [&["update"][..], &install] {
        let mut command = Command::new(if sudo { "sudo" } else { "apt-get" });
        if sudo {
            command.args(["-n", "apt-get"]);
        }
        tee(command.args(words).env("DEBIAN_FRONTEND", "noninteractive"));
    }
}

/// What a program left behind.
pub struct Outcome {
    /// Whether it exited with 0.
    pub success: bool,
    /// Everything it wrote, stdout and stderr.
    pub output: String,
}

/// Runs a command, passes its output through and keeps a copy.
pub fn tee(command: &mut Command) -> Outcome {
    eprintln!("\n$ {}", describe(command));
    let spawned =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(e) => {
            let output = format!("cannot start {}: {e}", command.get_program().display());
            eprintln!("{output}");
            return Outcome { success: false, output };
        }
    };
    let out = child.stdout.take();
    let err = child.stderr.take();
    let output = std::thread::scope(|s| {
        let a = s.spawn(move || out.map_or(String::new(), |o| copy(o, std::io::stdout())));
        let b = s.spawn(move || err.map_or(String::new(), |e| copy(e, std::io::stderr())));
        a.join().unwrap_or_default() + &b.join().unwrap_or_default()
    });
    let success = child.wait().is_ok_and(|s| s.success());
    Outcome { success, output }
}

fn copy(from: impl Read, mut to: impl Write) -> String {
    let mut reader = BufReader::new(from);
    let mut all = String::new();
    let mut line = Vec::new();
    while matches!(reader.read_until(b'\n', &mut line), Ok(count) if count > 0) {
        // A closed terminal must not lose the verdict.
        let _ = to.write_all(&line);
        all.push_str(&String::from_utf8_lossy(&line));
        line.clear();
    }
    all
}

fn describe(command: &Command) -> String {
    let mut words = vec![
        std::path::Path::new(command.get_program())
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
    ];
    words.extend(command.get_args().map(|a| a.to_string_lossy().into_owned()));
    words.join(" ")
}
