//! `cargo xtask mutants [--list] [--all] [--sample K/N] [AREA ...]`: whether the tests notice a fault in the code that
//! certificates and the safety of input rest on; by command, not a step of the tests.
//!
//! cargo-mutants changes one operator, constant or function body at a time in a copy of the tree, and runs
//! tests. Each area names its files, the tests that judge every mutant of a file, and further ones for those
//! that are left. What no test notices must stand in [`EXPLAINED`] with a reason; any other is a failure.
//! Results lie in `target/mutation/AREA/FILE/mutants.out`.
//!
//! Without `--all` one replacement is tried for each operator: `+` becomes `-` and not `*` as well, and so
//! on ([`SECOND`]). `--sample K/N` tries every Nth mutant from number K on, counted from 0; `--list` only says
//! what would be tried.

use crate::shell::{cargo, root, tee, works};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Survivors that are known, and why no test can see them.
const EXPLAINED: &str = "docs/mutants.md";
/// Address space of compilers and tests, in KiB: a mutant may fill memory in a loop without an end.
const MEMORY: u64 = 12 << 20;

/// Code that is asked for by one name.
struct Area {
    name: &'static str,
    package: &'static str,
    parts: &'static [Part],
    /// Tests for mutants that those of the parts do not notice.
    wide: Tests,
}

/// A file, and the tests that judge every mutant in it: the fewer, the sooner.
struct Part {
    file: &'static str,
    tests: Tests,
}

struct Tests {
    /// What is built for every mutant.
    targets: &'static [&'static str],
    /// Which tests of that run.
    filter: &'static str,
    /// Seconds until a mutant counts as one without an end.
    timeout: u32,
}

/// A file that tests next to the code judge.
const fn inside(file: &'static str, filter: &'static str) -> Part {
    Part { file, tests: Tests { targets: &["--lib"], filter, timeout: 20 } }
}

/// An argument of cargo: dependencies are compiled as the library is.
const UNOPTIMISED: &str = "--config=profile.mutants.package.\"*\".opt-level=0";

const AREAS: [Area; 4] = [
    Area {
        name: "judge",
        package: "sparsefft",
        // Left out is what takes long unoptimised and has a sibling that is quicker.
        parts: &[
            inside("crates/sparsefft/src/judge/mod.rs", "test(/^judge::tests/)"),
            inside(
                "crates/sparsefft/src/judge/checksum.rs",
                "test(/^judge::checksum/) - test(one_sample_that_differs)",
            ),
            inside("crates/sparsefft/src/judge/evidence.rs", "test(/^judge::evidence/)"),
            inside("crates/sparsefft/src/judge/residual.rs", "test(/^judge::residual/)"),
            inside(
                "crates/sparsefft/src/judge/rest.rs",
                "test(/^judge::rest/) - test(white_noise_is_hardly_ever)",
            ),
        ],
        wide: Tests { targets: &["--lib"], filter: "test(/^judge::/)", timeout: 300 },
    },
    Area {
        name: "limits",
        package: "sparsefft",
        parts: &[
            inside("crates/sparsefft/src/stages/certify.rs", "test(/^stages::certify/)"),
            inside(
                "crates/sparsefft/src/algorithms/peeling/conclude.rs",
                "test(/^algorithms::peeling::conclude/)",
            ),
            inside(
                "crates/sparsefft/src/algorithms/tones/certify.rs",
                "test(/^algorithms::tones::certify/)",
            ),
            inside(
                "crates/sparsefft/src/algorithms/tones/accuracy.rs",
                "test(/^algorithms::tones::accuracy/)",
            ),
            inside("crates/sparsefft/src/certificate.rs", "test(/^certificate/)"),
        ],
        wide: Tests {
            targets: &["--test=spectrum", "--test=rounded", "--test=tones"],
            filter: "all()",
            timeout: 900,
        },
    },
    Area {
        name: "sketch",
        package: "sparsefft",
        parts: &[
            inside("crates/sparsefft/src/sketch/coverage.rs", "test(/^sketch::coverage/)"),
            Part {
                file: "crates/sparsefft/src/sketch/bytes.rs",
                tests: Tests {
                    targets: &["--test=sketch"],
                    filter: "test(/the_stored_form|damage_and|few_bytes|lengths_beyond/)",
                    timeout: 25,
                },
            },
        ],
        wide: Tests { targets: &["--test=sketch"], filter: "all()", timeout: 120 },
    },
    Area {
        name: "readers",
        package: "sparsefft-cli",
        parts: &[Part {
            file: "crates/sparsefft-cli/src/input/*.rs",
            // Its many dependencies need not be quick.
            tests: Tests {
                targets: &["--lib", UNOPTIMISED],
                filter: "test(/^input::/)",
                timeout: 25,
            },
        }],
        wide: Tests {
            targets: &[
                "--test=bad_input",
                "--test=formats",
                "--test=http",
                "--test=mutations",
                UNOPTIMISED,
            ],
            // Left out is what maps more than MEMORY.
            filter: "all() - test(signals_and_files_that_cannot_be)",
            timeout: 120,
        },
    },
];

/// What is never tried: text that is only shown, and replacements that do not compile.
const NEVER: [&str; 2] =
    ["(Display|Debug) for |Fault::reason", r"Complex::(from_iter|new)\(|Complex::from\(-?1"];

/// Replacements beyond the first of each operator, and constants beyond the first of each function.
const SECOND: [&str; 3] = [
    r"replace (\+ with \*|- with /|\* with \+|/ with %|% with [+/]|\| with \^|& with \^)( |$)",
    r"replace (\+= with \*=|-= with /=|\*= with \+=|/= with %=|(<|>|<=|>=) with ==)( |$)",
    r" with -1\.0$|-> (usize|u64|u32) with 1$",
];

/// What is tried, of each file.
#[derive(Default)]
struct Choice {
    list: bool,
    all: bool,
    /// Every so many mutants, from which on.
    sample: Option<String>,
}

/// Runs the areas that are named, or all.
pub fn run(args: &[String]) -> Result<bool, String> {
    let (mut choice, mut names) = (Choice::default(), Vec::new());
    let mut args = args.iter().map(String::as_str);
    while let Some(arg) = args.next() {
        match arg {
            "--list" => choice.list = true,
            "--all" => choice.all = true,
            "--sample" => choice.sample = args.next().map(str::to_string),
            name if AREAS.iter().any(|area| area.name == name) => names.push(name),
            other => return Err(format!("there is no '{other}'; {}", usage())),
        }
    }
    for tool in ["mutants", "nextest"] {
        if !works("cargo", &[tool, "--version"]) {
            let name = format!("cargo-{tool}");
            if !tee(cargo().args(["install", &name, "--locked"])).success {
                return Err(format!("it needs `cargo install {name} --locked`"));
            }
        }
    }
    let mut good = true;
    for area in AREAS.iter().filter(|area| names.is_empty() || names.contains(&area.name)) {
        good &= if choice.list { listed(area, &choice) } else { judged(area, &choice)? };
    }
    Ok(good)
}

fn usage() -> String {
    let names = AREAS.map(|area| area.name).join(" | ");
    format!("usage: cargo xtask mutants [--list] [--all] [--sample K/N] [{names} ...]")
}

fn listed(area: &Area, choice: &Choice) -> bool {
    area.parts.iter().all(|part| tee(chosen(area, part, choice, None).arg("--list")).success)
}

/// Of the mutants of a file those that are asked for, or those of these names.
fn chosen(area: &Area, part: &Part, choice: &Choice, names: Option<&[String]>) -> Command {
    let mut command = mutants(area, part, choice);
    match (names, &choice.sample) {
        (Some(names), _) => {
            let exactly = |name: &String| format!("^{}$", literal(name));
            command.args(names.iter().flat_map(|name| ["--re".to_string(), exactly(name)]));
        }
        (None, Some(sample)) => {
            command.args(["--shard", sample, "--sharding", "round-robin"]);
        }
        (None, None) => {}
    }
    command
}

/// A text as the regular expression that it alone matches.
fn literal(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if r"\.+*?()|[]{}^$#&-~".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// cargo-mutants for a file, in bounded memory.
fn mutants(area: &Area, part: &Part, choice: &Choice) -> Command {
    let mut command = Command::new("sh");
    command.current_dir(root()).args(["-c", &format!("ulimit -v {MEMORY} && exec \"$@\""), "sh"]);
    command.args(["cargo", "mutants", "--package", area.package, "--colors", "never"]);
    let excluded = NEVER.iter().chain(if choice.all { &[][..] } else { &SECOND });
    command.args(["--file", part.file]).args(excluded.flat_map(|name| ["--exclude-re", name]));
    command
}

/// Tries every mutant of an area, and says which of those that are left nothing explains.
fn judged(area: &Area, choice: &Choice) -> Result<bool, String> {
    let mut total = Found::default();
    for part in area.parts {
        let name = Path::new(part.file).file_stem().unwrap_or_default().to_string_lossy();
        let home = format!("target/mutation/{}/{}", area.name, name.replace('*', "all"));
        let folder = root().join(&home);
        // What earlier runs have caught says nothing about the tests of today.
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).map_err(|e| format!("{home}: {e}"))?;
        let mut found = Found::default();
        for (tests, further) in [(&part.tests, false), (&area.wide, true)] {
            if further && found.left.is_empty() {
                continue;
            }
            let mut command = chosen(area, part, choice, further.then_some(&found.left));
            command.args(["--profile", "mutants", "--test-tool", "nextest", "--jobs", "1"]);
            command.args(["--timeout", &tests.timeout.to_string(), "--build-timeout", "900"]);
            command.args(["--output", &home]);
            // For the build as well as for the run; it would else build every test of the package.
            command.args(tests.targets.iter().map(|target| format!("--cargo-arg={target}")));
            command.args(["--", "-E", tests.filter]);
            // Kept, so that of the package only what a mutant changes is compiled.
            command.env("CARGO_TARGET_DIR", root().join("target/mutation/build"));
            command.env("RUST_BACKTRACE", "0");
            tee(&mut command);
            found = Found::read(&folder.join("mutants.out"), further.then_some(found))?;
        }
        total.add(found);
    }
    Ok(total.report(area.name))
}

/// What became of the mutants.
#[derive(Default)]
struct Found {
    caught: usize,
    endless: usize,
    /// Did not compile.
    unviable: usize,
    /// Names of those that no test noticed, with their places.
    left: Vec<String>,
}

impl Found {
    fn add(&mut self, other: Found) {
        self.caught += other.caught;
        self.endless += other.endless;
        self.unviable += other.unviable;
        self.left.extend(other.left);
    }

    /// The outcome of a run, which looked at what an earlier one has left.
    fn read(out: &Path, earlier: Option<Found>) -> Result<Found, String> {
        let lines = |name: &str| -> Result<Vec<String>, String> {
            let path = out.join(name);
            let text = std::fs::read_to_string(&path)
                .map_err(|e| format!("cargo mutants has not ended: {}: {e}", path.display()))?;
            Ok(text.lines().map(str::to_string).collect())
        };
        let earlier = earlier.unwrap_or_default();
        let caught = lines("caught.txt")?.len() + earlier.caught;
        let endless = lines("timeout.txt")?.len() + earlier.endless;
        let unviable = lines("unviable.txt")?.len() + earlier.unviable;
        let found = Found { caught, endless, unviable, left: lines("missed.txt")? };
        if found.caught + found.endless + found.left.len() == 0 {
            return Err(
                "nothing was tried: the unchanged tests fail, or nothing was left to try".into()
            );
        }
        Ok(found)
    }

    /// Prints the counts, and what is left without an explanation; whether that is nothing.
    fn report(&self, area: &str) -> bool {
        let explained = std::fs::read_to_string(root().join(EXPLAINED)).unwrap_or_default();
        let new = unexplained(&self.left, &explained);
        println!(
            "\n{area}: {} tried: {} killed, {} without an end, {} left, of which {} are not in {EXPLAINED}; \
             {} more do not compile",
            self.caught + self.endless + self.left.len(),
            self.caught,
            self.endless,
            self.left.len(),
            new.len(),
            self.unviable
        );
        new.iter().for_each(|name| println!("  {name}"));
        new.is_empty()
    }
}

/// Mutants beyond those that a table explains: rows `file | mutation | places | why`, where the file is the
/// end of its path. Lines change, so that places are counted.
fn unexplained<'a>(left: &'a [String], table: &str) -> Vec<&'a str> {
    let mut room: BTreeMap<(String, String), usize> = BTreeMap::new();
    for row in table.lines().filter(|row| row.starts_with('|')) {
        let row = row.replace(r"\|", "\u{1}");
        let cells: Vec<String> = row
            .split('|')
            .map(|cell| cell.trim().trim_matches('`').replace('\u{1}', "|"))
            .collect();
        if let [_, file, mutation, places, ..] = &cells[..]
            && let Ok(places) = places.parse::<usize>()
        {
            *room.entry((file.clone(), mutation.clone())).or_default() += places;
        }
    }
    let mut new = Vec::new();
    for name in left {
        let mut parts = name.splitn(4, ':');
        let (file, mutation) = (parts.next().unwrap_or(""), parts.nth(2).unwrap_or("").trim());
        let known = room
            .iter_mut()
            .find(|((f, m), places)| file.ends_with(f) && m == mutation && **places > 0);
        match known {
            Some((_, places)) => *places -= 1,
            None => new.push(name.as_str()),
        }
    }
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survivors_are_explained_as_often_as_the_table_says() {
        let table = "| file | mutation | places | why |\n|---|---|---|---|\n\
                     | judge/mod.rs | `replace < with <= in grown` | 2 | equal |\n\
                     | rest.rs | `replace \\|\\| with && in of` | 1 | equal |\n";
        let name = |file: &str, line: u32, what: &str| format!("crates/x/{file}:{line}:5: {what}");
        let left: Vec<String> = (1..=3)
            .map(|line| name("judge/mod.rs", line, "replace < with <= in grown"))
            .chain([name("judge/rest.rs", 1, "replace || with && in of")])
            .chain([name("judge/rest.rs", 1, "replace < with <= in grown")])
            .collect();
        assert_eq!(unexplained(&left, table), [left[2].as_str(), left[4].as_str()]);
        assert_eq!(unexplained(&left, "").len(), 5);
    }

    #[test]
    fn names_are_taken_literally() {
        let name = "a/b.rs:3:4: replace <impl A for B>::f -> (u8, [f64; 2]) with (1, -1.0) | $";
        let expected = r"a/b\.rs:3:4: replace <impl A for B>::f \-> \(u8, \[f64; 2\]\) with \(1, \-1\.0\) \| \$";
        assert_eq!(literal(name), expected);
    }
}
