//! The header in the repository is what cbindgen makes of the sources.
//!
//! `SPARSEFFT_WRITE_HEADER=1 cargo test -p sparsefft-capi --test header` writes it anew.

use std::path::Path;

#[test]
fn the_header_is_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let mut made = Vec::new();
    cbindgen::Builder::new()
        .with_config(config)
        .with_src(root.join("src/lib.rs"))
        .generate()
        .unwrap()
        .write(&mut made);
    // Rust's promises to itself say nothing new to a C programmer.
    let made = String::from_utf8(made).unwrap();
    let made = without_safety(&made);
    let path = root.join("include/sparsefft.h");
    if std::env::var_os("SPARSEFFT_WRITE_HEADER").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &made).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stored == made,
        "include/sparsefft.h is not current; run \
         SPARSEFFT_WRITE_HEADER=1 cargo test -p sparsefft-capi --test header"
    );
}

/// The header without the `# Safety` sections of its comments.
fn without_safety(text: &str) -> String {
    let mut out: Vec<&str> = Vec::new();
    let mut skipping = false;
    for line in text.lines() {
        if line.trim() == "// # Safety" {
            skipping = true;
            // The empty line before it, if there is one.
            out.pop_if(|before| before.trim() == "//");
        } else if !line.trim().starts_with("//") {
            skipping = false;
        }
        if !skipping {
            out.push(line);
        }
    }
    out.join("\n") + "\n"
}
