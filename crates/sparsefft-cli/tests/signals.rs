//! What a signal leaves behind: nothing, and the status that a shell expects.
#![cfg(unix)]

mod common;

use common::*;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const HUP: i32 = 1;
const INT: i32 = 2;
const TERM: i32 = 15;

fn send(signal: i32, child: &Child) {
    let pid = child.id().to_string();
    let sent = Command::new("kill").arg(format!("-{signal}")).arg(pid).status().unwrap();
    assert!(sent.success());
}

/// Bytes in the unfinished files of a directory.
fn unfinished(dir: &Path) -> Option<u64> {
    let files = fs::read_dir(dir).unwrap().map(|e| e.unwrap());
    let parts = files.filter(|e| e.file_name().to_str().unwrap().starts_with(".sparsefft-"));
    // A file may vanish between being listed and being asked for its length.
    parts.map(|e| e.metadata().map_or(0, |m| m.len())).reduce(|a, b| a + b)
}

/// Waits until the command has written so many bytes; it must not end before.
fn wait_for(bytes: u64, dir: &Path, child: &mut Child) {
    while unfinished(dir).is_none_or(|held| held < bytes) {
        assert!(child.try_wait().unwrap().is_none(), "the command has ended already");
        std::thread::yield_now();
    }
}

/// Commands that would take minutes.
fn start(dir: &Path, which: usize) -> Child {
    let path = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    let mut command = sparsefft();
    match which {
        0 => command.args(["gen", "-n", "1Gi", "--noise", "-40", "-o", &path("out.cs8")]),
        1 => command.args(["gen", "-n", "1Gi", "--noise", "-40", "-o", &path("out.sigmf-meta")]),
        _ => {
            // Far longer to transform than the test needs to see the first of it.
            let input = fs::File::create(path("in.cs8")).unwrap();
            input.set_len(2 << 26).unwrap();
            command.args(["fft", &path("in.cs8"), "--memory", "16Mi", "-o", &path("out.npy")])
        }
    };
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn no_unfinished_file_is_left() {
    for which in 0..3 {
        for signal in [INT, TERM, HUP] {
            let dir = tempfile::tempdir().unwrap();
            let mut child = start(dir.path(), which);
            wait_for(1 << 20, dir.path(), &mut child);
            send(signal, &child);
            let output = child.wait_with_output().unwrap();
            assert_eq!(output.status.signal(), Some(signal), "{which}");
            assert_eq!(stderr(&output), "");
            let left: Vec<_> = fs::read_dir(dir.path()).unwrap().collect();
            assert_eq!(left.len(), usize::from(which == 2), "{left:?}");
        }
    }
}

#[test]
fn ignored_signals_stay_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.cs8");
    let mut shell = Command::new("sh");
    let script = "trap '' HUP; exec \"$0\" gen -n 1Gi --noise -40 -o \"$1\"";
    shell.args(["-c", script, env!("CARGO_BIN_EXE_sparsefft")]).arg(&out);
    let mut child = shell.spawn().unwrap();
    wait_for(1 << 20, dir.path(), &mut child);
    send(HUP, &child);
    let held = unfinished(dir.path()).unwrap();
    wait_for(held + (16 << 20), dir.path(), &mut child);
    send(TERM, &child);
    assert_eq!(child.wait().unwrap().signal(), Some(TERM));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_limit_on_the_size_of_files_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let mut shell = Command::new("sh");
    let script = "ulimit -f 64; exec \"$0\" gen -n 1Mi --noise -40 -o \"$1\"";
    shell.args(["-c", script, env!("CARGO_BIN_EXE_sparsefft")]);
    let output = shell.arg(dir.path().join("x.cs8")).output().unwrap();
    refused(&output, &["larger than the system allows", "nothing was written"]);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_reader_that_goes_away_ends_it_silently() {
    const PIPE: i32 = 13;
    let dir = tempfile::tempdir().unwrap();
    // Enough output to fill the pipe: 8192 coefficients in CSV.
    let mut random = noise(3);
    let x: Vec<_> = (0..8192).map(|_| num_complex::Complex::new(random(), random())).collect();
    let file = npy_c16(dir.path(), "x.npy", &x);
    let file = file.to_str().unwrap();
    let commands: [&[&str]; 3] = [
        &["peaks", file, "-k", "8192", "--mode", "grid", "--csv"],
        &["gen", "-n", "1Mi", "--noise", "-40", "--format", "raw", "--type", "cf32", "-o", "-"],
        &["fft", file, "-o", "-"],
    ];
    for args in commands {
        let mut child =
            sparsefft().args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        std::io::Read::read_exact(&mut out, &mut [0; 16]).unwrap();
        drop(out);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.signal(), Some(PIPE), "{args:?}: {}", stderr(&output));
        let said = stderr(&output);
        assert!(said.lines().all(|l| l.starts_with("sparsefft: certified")), "{args:?}: {said}");
    }
}

#[test]
fn what_cannot_be_printed_is_an_error() {
    let full = || fs::File::options().write(true).open("/dev/full");
    if full().is_err() {
        eprintln!("skipped: there is no /dev/full");
        return;
    }
    let all: [&[&str]; 7] = [
        &["--help"],
        &["peaks", "--help"],
        &["help", "gen"],
        &["--version"],
        &["man"],
        &["completions", "bash"],
        &["plan", "-n", "4096"],
    ];
    for args in all {
        let output = sparsefft().args(args).stdout(full().unwrap()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let said = stderr(&output);
        assert_eq!(said.lines().count(), 1, "{args:?}: {said}");
        assert!(said.starts_with("sparsefft: ") && said.contains("No space left"), "{said}");
        // Nobody can be told, but nothing panics either.
        let mut silent = sparsefft();
        silent.args(args).stdout(full().unwrap()).stderr(full().unwrap());
        assert_eq!(silent.status().unwrap().code(), Some(2), "{args:?}");
    }
    let mut noted = sparsefft();
    noted.args(["-v", "plan", "-n", "0"]).stderr(full().unwrap());
    assert_eq!(noted.status().unwrap().code(), Some(2));
    let dir = tempfile::tempdir().unwrap();
    let file = npy_f8(dir.path(), "x.npy", &[1.0; 64]);
    let mut noted = sparsefft();
    noted.args(["-v", "peaks"]).arg(file).arg("--csv").stderr(full().unwrap());
    let output = noted.output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).starts_with("index,"));
}

#[test]
fn an_input_that_is_shortened_is_an_error() {
    // Converted block by block; the first megabyte of the output is there long before the last block.
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let input = fs::File::create(path("in.cs8")).unwrap();
    input.set_len(2 << 25).unwrap();
    let args = ["fft", &path("in.cs8"), "--memory", "16Mi", "-o", &path("out.npy")];
    let mut child = sparsefft().args(args).stderr(Stdio::piped()).spawn().unwrap();
    wait_for(1 << 20, dir.path(), &mut child);
    input.set_len(0).unwrap();
    let output = child.wait_with_output().unwrap();
    refused(&output, &["was shortened"]);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

/// Where no more threads are to be had, one does the work. The limit counts all threads of a user, so
/// the user must be one that runs nothing else.
#[test]
fn one_thread_is_enough() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    // Where that user may start it.
    fs::copy(env!("CARGO_BIN_EXE_sparsefft"), path("sparsefft")).unwrap();
    let input = fs::File::create(path("long.cs8")).unwrap();
    input.set_len(200 << 20).unwrap();
    let commands = [
        format!("gen -n 1Mi --noise -40 -o {}", path("g.cs8")),
        format!("peaks {} --mode grid --no-dense", path("long.cs8")),
        format!("demo -n 64Ki -k 5 -o {}", path("d.svg")),
        format!("fft {} -o {}", path("g.cs8"), path("f.npy")),
        format!("report {} -k 3 --count 4096 -o {}", path("g.cs8"), path("r.html")),
    ];
    for command in commands {
        let script = format!("ulimit -u 1; exec {} {command}", path("sparsefft"));
        let mut shell = Command::new("bash");
        shell.args(["-c", &script]).current_dir("/");
        use std::os::unix::process::CommandExt;
        let Ok(output) = shell.uid(54_321).gid(54_321).output() else {
            eprintln!("skipped: the command cannot run as another user");
            return;
        };
        let code = output.status.code();
        let said = stderr(&output);
        assert!(matches!(code, Some(0 | 1 | 3)) && !said.contains("ulimit"), "{code:?} {said}");
    }
}
