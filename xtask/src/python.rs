//! The Python package: a virtual environment, the wheel as users get it, and pytest.

use crate::shell::{Outcome, apt_install, root, tee, works};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the package, installs it and runs its tests.
pub fn suite() -> Outcome {
    run().unwrap_or_else(|message| {
        eprintln!("xtask test: {message}");
        Outcome { success: false, output: message }
    })
}

fn run() -> Result<Outcome, String> {
    let python = install()?;
    let package = root().join("python");
    Ok(tee(Command::new(&python).current_dir(package).args(["-m", "pytest", "-q"])))
}

/// Builds the wheel and installs it into the environment, whose interpreter this gives.
pub fn install() -> Result<PathBuf, String> {
    let package = root().join("python");
    let venv = root().join("target/venv");
    let python = venv.join("bin/python");
    prepare(&package, &venv, &python)?;
    let wheels = root().join("target/wheels");
    // Wheels of other versions would be installed as well.
    let _ = fs::remove_dir_all(&wheels);
    let mut build = Command::new(venv.join("bin/maturin"));
    // The profile of the other tests: the library is compiled already.
    build.current_dir(&package).args(["build", "--profile", "dev", "--interpreter"]);
    step("building the wheel", build.arg(&python).arg("--out").arg(&wheels))?;
    let wheel = fs::read_dir(&wheels)
        .ok()
        .and_then(|files| files.flatten().map(|f| f.path()).next())
        .ok_or("maturin left no wheel in target/wheels")?;
    let mut install = pip(&python);
    install.args(["install", "--force-reinstall", "--no-deps"]).arg(wheel);
    step("installing the wheel", &mut install)?;
    Ok(python)
}

/// Makes the environment, unless it is there with everything that is asked for.
fn prepare(package: &Path, venv: &Path, python: &Path) -> Result<(), String> {
    let wanted = package.join("requirements-test.txt");
    let text = fs::read(&wanted).map_err(|e| format!("{}: {e}", wanted.display()))?;
    let stamp = venv.join("requirements-test.txt");
    if fs::read(&stamp).is_ok_and(|installed| installed == text) {
        return Ok(());
    }
    if !works(&python.display().to_string(), &["-m", "pip", "--version"]) {
        let make =
            || tee(Command::new("python3").args(["-m", "venv", "--clear"]).arg(venv)).success;
        if !make() {
            apt_install(&["python3", "python3-venv"]);
            if !make() {
                return Err("python3 -m venv failed; install Python 3.10 or later".into());
            }
        }
    }
    step("installing Python packages", pip(python).args(["install", "-r"]).arg(&wanted))?;
    fs::write(&stamp, text).map_err(|e| format!("{}: {e}", stamp.display()))
}

fn pip(python: &Path) -> Command {
    let mut command = Command::new(python);
    command.args(["-m", "pip", "--quiet", "--disable-pip-version-check"]);
    command
}

fn step(name: &str, command: &mut Command) -> Result<(), String> {
    if tee(command).success { Ok(()) } else { Err(format!("{name} failed")) }
}
