//! `cargo xtask install-c --prefix DIR [--debug]`: builds the C library and installs the header,
//! the static and the shared library and the pkg-config file.

use crate::shell::{cargo, root, tee};
use std::fs;
use std::path::{Path, PathBuf};

/// Builds and installs.
pub fn run(args: &[String]) -> Result<bool, String> {
    let (mut prefix, mut profile) = (None, "release");
    let mut words = args.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--prefix" => prefix = words.next(),
            "--debug" => profile = "debug",
            _ => return Err(format!("unexpected '{word}'; {USAGE}")),
        }
    }
    let prefix = std::path::absolute(prefix.ok_or(USAGE)?).map_err(|e| e.to_string())?;
    let mut build = cargo();
    build.args(["build", "-p", "sparsefft-capi"]);
    if profile == "release" {
        build.arg("--release");
    }
    if !tee(&mut build).success {
        return Ok(false);
    }
    let built = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("target"), |dir| root().join(dir))
        .join(profile);
    install(&built, &prefix).map_err(|e| format!("{}: {e}", prefix.display()))?;
    println!("installed in {}", prefix.display());
    Ok(true)
}

const USAGE: &str = "usage: cargo xtask install-c --prefix DIR [--debug]";

fn install(built: &Path, prefix: &Path) -> std::io::Result<()> {
    let source = root().join("crates/sparsefft-capi");
    let (lib, include) = (prefix.join("lib"), prefix.join("include"));
    let config = lib.join("pkgconfig");
    for folder in [&config, &include] {
        fs::create_dir_all(folder)?;
    }
    fs::copy(source.join("include/sparsefft.h"), include.join("sparsefft.h"))?;
    fs::copy(built.join("libsparsefft.a"), lib.join("libsparsefft.a"))?;
    // The version of the workspace is that of this crate.
    let version = env!("CARGO_PKG_VERSION");
    let major = env!("CARGO_PKG_VERSION_MAJOR");
    let full = format!("libsparsefft.so.{version}");
    fs::copy(built.join("libsparsefft.so"), lib.join(&full))?;
    link(&full, &lib.join(format!("libsparsefft.so.{major}")))?;
    link(&full, &lib.join("libsparsefft.so"))?;
    let text = fs::read_to_string(source.join("sparsefft.pc.in"))?
        .replace("@PREFIX@", &prefix.display().to_string())
        .replace("@VERSION@", version);
    fs::write(config.join("sparsefft.pc"), text)
}

/// A symbolic link that replaces an older one.
fn link(target: &str, path: &PathBuf) -> std::io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    #[cfg(unix)]
    return std::os::unix::fs::symlink(target, path);
    #[cfg(not(unix))]
    return fs::copy(path.with_file_name(target), path).map(|_| ());
}
