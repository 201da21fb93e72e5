//! The C interface as a C programmer meets it: installed, found by pkg-config, compiled, linked
//! both ways, checked by valgrind, built by CMake.
//!
//! Tools that are missing make a test pass with a note, or fail where SPARSEFFT_REQUIRE_C_TOOLS is
//! set, as `cargo xtask test` does after installing them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs a program and returns what it wrote to stdout; the test fails if the program does.
fn run(command: &mut Command) -> String {
    let done = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{command:?}\n{out}\n{err}");
    out.into_owned()
}

/// Whether the tools are there; if not, whether that is a failure.
fn have(tools: &[&str]) -> bool {
    let missing: Vec<_> = tools
        .iter()
        .filter(|tool| {
            !Command::new(tool).arg("--version").output().is_ok_and(|o| o.status.success())
        })
        .collect();
    if !missing.is_empty() {
        let required = std::env::var_os("SPARSEFFT_REQUIRE_C_TOOLS").is_some();
        assert!(!required, "missing: {missing:?}");
        eprintln!("skipped; missing: {missing:?}");
    }
    missing.is_empty()
}

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn test_program() -> PathBuf {
    here().join("tests/c/test.c")
}

/// The library, installed in a folder of its own that goes away with it.
struct Installed(PathBuf);

impl Drop for Installed {
    fn drop(&mut self) {
        // What is left behind by a failed test may help to understand it.
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

impl Installed {
    fn new(name: &str) -> Self {
        let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        run(Command::new(cargo)
            .current_dir(here().join("../.."))
            .args(["xtask", "install-c", "--debug", "--prefix"])
            .arg(&prefix));
        Installed(prefix)
    }

    fn lib(&self) -> PathBuf {
        self.0.join("lib")
    }

    fn pkg_config(&self, args: &[&str]) -> Vec<String> {
        let mut command = Command::new("pkg-config");
        command.env("PKG_CONFIG_PATH", self.lib().join("pkgconfig")).args(args).arg("sparsefft");
        run(&mut command).split_whitespace().map(String::from).collect()
    }

    /// Compiles a program with warnings as errors.
    fn compile(&self, source: &Path, link: &[String]) -> PathBuf {
        let program = self.0.join("test");
        run(Command::new("cc")
            .args(["-std=c11", "-D_GNU_SOURCE", "-g", "-O1", "-Wall", "-Wextra", "-Werror"])
            .args(self.pkg_config(&["--cflags"]))
            .arg("-o")
            .arg(&program)
            .arg(source)
            .args(link)
            .args(["-lm", "-pthread"]));
        program
    }
}

#[test]
fn shared_library() {
    if have(&["cc", "pkg-config"]) {
        let installed = Installed::new("c-shared");
        let program = installed.compile(&test_program(), &installed.pkg_config(&["--libs"]));
        let out = run(Command::new(program).env("LD_LIBRARY_PATH", installed.lib()));
        assert!(out.ends_with("all passed\n"), "{out}");
        // Nothing but the interface is visible.
        if have(&["nm"]) {
            let symbols = run(Command::new("nm")
                .args(["-D", "--defined-only", "--format=posix"])
                .arg(installed.lib().join("libsparsefft.so")));
            let strangers: Vec<_> = symbols
                .lines()
                .filter_map(|line| line.split(' ').next())
                .filter(|name| !name.starts_with("sparsefft_"))
                .collect();
            assert!(strangers.is_empty(), "{strangers:?}");
        }
    }
}

#[test]
fn static_library_under_valgrind() {
    if have(&["cc", "pkg-config", "valgrind"]) {
        let installed = Installed::new("c-static");
        let mut link = vec![installed.lib().join("libsparsefft.a").display().to_string()];
        let private = installed.pkg_config(&["--static", "--libs-only-l"]);
        link.extend(private.into_iter().filter(|l| l != "-lsparsefft"));
        let out = run(Command::new("valgrind")
            .args([
                "--error-exitcode=9",
                "--leak-check=full",
                "--show-leak-kinds=definite,indirect",
            ])
            .args(["--errors-for-leak-kinds=definite,indirect", "--quiet"])
            .arg(installed.compile(&test_program(), &link)));
        assert!(out.ends_with("all passed\n"), "{out}");
    }
}

#[test]
fn header_in_cpp() {
    if have(&["c++", "pkg-config"]) {
        let installed = Installed::new("c-cpp");
        let source = installed.0.join("header.cpp");
        let text = "#include <sparsefft.h>\n#include <complex>\nint main() {\n\
                    sparsefft_options options{sizeof options};\n\
                    sparsefft_plan *plan = sparsefft_plan_1d(64, 1, &options, nullptr);\n\
                    std::complex<double> x[64];\nfor (auto &v : x) v = 2.0;\n\
                    sparsefft_peak peak;\nuint64_t found = 1;\n\
                    int error = sparsefft_execute_complex_f64(\n\
                    plan, reinterpret_cast<double *>(x), &peak, &found, nullptr);\n\
                    sparsefft_destroy_plan(plan);\n\
                    return error || found != 1 || peak.re != 128.0;\n}\n";
        std::fs::write(&source, text).unwrap();
        let program = installed.0.join("cpp");
        run(Command::new("c++")
            .args(["-std=c++17", "-Wall", "-Wextra", "-Wno-missing-field-initializers", "-Werror"])
            .args(installed.pkg_config(&["--cflags"]))
            .arg("-o")
            .arg(&program)
            .arg(&source)
            .args(installed.pkg_config(&["--libs"])));
        run(Command::new(program).env("LD_LIBRARY_PATH", installed.lib()));
    }
}

#[test]
fn cmake_example() {
    if have(&["cc", "pkg-config", "cmake"]) {
        let installed = Installed::new("c-cmake");
        let build = installed.0.join("build");
        run(Command::new("cmake")
            .env("PKG_CONFIG_PATH", installed.lib().join("pkgconfig"))
            .arg("-S")
            .arg(here().join("example"))
            .arg("-B")
            .arg(&build));
        run(Command::new("cmake").arg("--build").arg(&build));
        let out = run(&mut Command::new(build.join("peaks")));
        assert_eq!(out.lines().next(), Some("bin 77 = 1048576.000-0.000i"), "{out}");
        assert!(out.contains("certified, "), "{out}");
    }
}

#[test]
fn programs_in_the_guides() {
    if have(&["cc", "pkg-config"]) {
        let installed = Installed::new("c-guides");
        // Each guide with the lines that its programs print.
        for (guide, lines) in [("README.md", &[4][..]), ("docs/c.md", &[4, 5])] {
            let text = std::fs::read_to_string(here().join("../..").join(guide)).unwrap();
            let programs = text.split("```c\n").skip(1);
            assert_eq!(programs.clone().count(), lines.len(), "{guide}");
            for (program, lines) in programs.zip(lines) {
                let source = installed.0.join("guide.c");
                std::fs::write(&source, program.split("```").next().unwrap()).unwrap();
                let program = installed.compile(&source, &installed.pkg_config(&["--libs"]));
                let out = run(Command::new(program).env("LD_LIBRARY_PATH", installed.lib()));
                assert_eq!(out.lines().count(), *lines, "{guide}: {out}");
            }
        }
    }
}
