//! Where outputs go: regular files are replaced whole, everything else is written through.
#![cfg(unix)]

mod common;

use common::*;
use std::fs::{self, Permissions};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Every command that writes a file, by the file's name: the arguments before that name. `IN` is a
/// recording, `SK` a sketch.
const WRITERS: [(&str, &[&str]); 10] = [
    ("x.cf32", &["gen", "-n", "5000", "--bin", "77", "-o"]),
    ("x.wav", &["gen", "-n", "5000", "--bin", "77", "-o"]),
    ("x.sigmf", &["gen", "-n", "5000", "--bin", "77", "-o"]),
    ("s.npy", &["fft", "IN", "-o"]),
    ("t.npy", &["fft", "IN", "--memory", "49152", "-o"]),
    ("p.npz", &["peaks", "IN", "-k", "2", "--npz"]),
    ("p.sigmf-meta", &["peaks", "IN", "-k", "2", "--rate", "1M", "--sigmf"]),
    ("p.svg", &["plot", "IN", "-k", "2", "-o"]),
    ("w.png", &["waterfall", "IN", "--width", "64", "-o"]),
    ("m.sk", &["merge", "SK", "-o"]),
];

/// A directory with a recording `in.cf32` and its sketch `in.sk`.
fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (recording, sketch) = (path("in.cf32"), path("in.sk"));
    let bins = ["--bin", "100:-6", "--bin", "3000:-12"];
    let made = run([&["gen", "-n", "4096", "-o", &recording][..], &bins].concat());
    assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
    let of = ["--of", "4096", "--start", "0", "-k", "2"];
    let made = run([&["sketch", &recording, "-o", &sketch][..], &of].concat());
    assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
    dir
}

/// One of the [`WRITERS`] for this output.
fn writer(dir: &Path, args: &[&str], output: &Path) -> Command {
    let mut command = sparsefft();
    for arg in args {
        match *arg {
            "IN" => command.arg(dir.join("in.cf32")),
            "SK" => command.arg(dir.join("in.sk")),
            other => command.arg(other),
        };
    }
    command.arg(output);
    command
}

fn done(output: &Output) {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
}

/// The bytes of an output, without the line of a picture that tells the time it took.
fn content(bytes: Vec<u8>) -> Vec<u8> {
    if !bytes.starts_with(b"<svg") {
        return bytes;
    }
    let text = String::from_utf8(bytes).unwrap();
    let kept: Vec<&str> = text.lines().filter(|l| !l.contains(" peaks of ")).collect();
    assert!(kept.len() > 10);
    kept.join("\n").into_bytes()
}

/// No hidden file is left.
fn tidy(dir: &Path) {
    for entry in fs::read_dir(dir).unwrap() {
        let name = entry.unwrap().file_name();
        assert!(!name.to_str().unwrap().starts_with('.'), "{name:?} is left");
    }
}

/// Runs the command as a user without rights, if this one has them all.
fn unprivileged(command: &mut Command) -> Option<Output> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("f");
    fs::write(&file, "").unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o444)).unwrap();
    let root = fs::File::options().write(true).open(&file).is_ok();
    if root {
        // The working directory may be closed to that user.
        command.current_dir("/").uid(65534).gid(65534);
    }
    match command.output() {
        Ok(output) => Some(output),
        Err(e) => {
            eprintln!("skipped: the command cannot run as another user ({e})");
            None
        }
    }
}

#[test]
fn a_pipe_is_written_through() {
    let dir = folder();
    let pipes = dir.path().join("pipes");
    fs::create_dir(&pipes).unwrap();
    for (name, args) in WRITERS {
        let (file, pipe) = (dir.path().join(name), pipes.join(name));
        done(&writer(dir.path(), args, &file).output().unwrap());
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let reader = {
            let pipe = pipe.clone();
            std::thread::spawn(move || fs::read(pipe).unwrap())
        };
        done(&writer(dir.path(), args, &pipe).output().unwrap());
        let got = content(reader.join().unwrap());
        let wanted = content(fs::read(&file).unwrap());
        assert!(got == wanted, "{name}: {} bytes instead of {}", got.len(), wanted.len());
        assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo(), "{name}");
    }
    tidy(dir.path());
    tidy(&pipes);
}

#[test]
fn standard_output_has_several_names() {
    let dir = folder();
    for (name, args) in WRITERS {
        if name.ends_with("svg") || name.ends_with("png") || name.starts_with('x') {
            continue; // their names tell the kind of file
        }
        if args[0] == "peaks" {
            continue; // it prints beside
        }
        let file = dir.path().join(name);
        done(&writer(dir.path(), args, &file).output().unwrap());
        for stdout in ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
            let output = writer(dir.path(), args, Path::new(stdout)).output().unwrap();
            done(&output);
            assert!(output.stdout == fs::read(&file).unwrap(), "{name} {stdout}");
        }
    }
    let closed = writer(dir.path(), &["merge", "SK", "-o"], Path::new("/dev/fd/77")).output();
    refused(&closed.unwrap(), &["/dev/fd/77", "cannot be opened for writing"]);
    // What stands in the file before is kept, as with a redirection that appends.
    let log = dir.path().join("log");
    fs::write(&log, "kept\n").unwrap();
    let end = fs::File::options().append(true).open(&log).unwrap();
    let args = ["merge", "SK", "-o"];
    done(&writer(dir.path(), &args, Path::new("/dev/stdout")).stdout(end).output().unwrap());
    let sketch = fs::read(dir.path().join("m.sk")).unwrap();
    assert!(fs::read(&log).unwrap() == [b"kept\n", &sketch[..]].concat());
}

#[test]
fn links_are_followed_and_stay() {
    let dir = folder();
    let far = dir.path().join("far");
    fs::create_dir(&far).unwrap();
    for (name, args) in WRITERS {
        let plain = dir.path().join(name);
        done(&writer(dir.path(), args, &plain).output().unwrap());
        // A relative link to a link to a file in another directory.
        let target = far.join(name);
        fs::write(&target, "old").unwrap();
        fs::set_permissions(&target, Permissions::from_mode(0o640)).unwrap();
        let old = fs::metadata(&target).unwrap().ino();
        let links = dir.path().join(format!("links-{name}"));
        fs::create_dir(&links).unwrap();
        symlink(&target, links.join("second")).unwrap();
        let first = links.join(name);
        symlink("second", &first).unwrap();
        done(&writer(dir.path(), args, &first).output().unwrap());
        assert_eq!(fs::read_link(&first).unwrap(), Path::new("second"), "{name}");
        assert_eq!(fs::read_link(links.join("second")).unwrap(), target, "{name}");
        let [got, wanted] = [&target, &plain].map(|path| content(fs::read(path).unwrap()));
        assert!(got == wanted, "{name}");
        let new = fs::metadata(&target).unwrap();
        assert_eq!(new.mode() & 0o777, 0o640, "{name}");
        assert_ne!(new.ino(), old, "{name} was not replaced as a whole");
        tidy(&links);
    }
    tidy(&far);
    tidy(dir.path());
}

#[test]
fn links_to_what_is_not_there() {
    let dir = folder();
    let far = dir.path().join("far");
    fs::create_dir(&far).unwrap();
    let link = |to: &Path, name: &str| -> PathBuf {
        let link = dir.path().join(name);
        symlink(to, &link).unwrap();
        link
    };
    let args = ["fft", "IN", "-o"];
    let dangling = link(&far.join("new.npy"), "dangling.npy");
    done(&writer(dir.path(), &args, &dangling).output().unwrap());
    assert!(dangling.is_symlink() && !far.join("new.npy").is_symlink());
    assert_eq!(fs::metadata(far.join("new.npy")).unwrap().len(), 128 + 16 * 4096);
    let nowhere = link(&dir.path().join("none/new.npy"), "nowhere.npy");
    let output = writer(dir.path(), &args, &nowhere).output().unwrap();
    refused(&output, &["nowhere.npy", "directory is missing"]);
    link(Path::new("b.npy"), "a.npy");
    let circle = link(Path::new("a.npy"), "b.npy");
    refused(&writer(dir.path(), &args, &circle).output().unwrap(), &["b.npy", "circle"]);
    let folder = link(&far, "folder.npy");
    refused(&writer(dir.path(), &args, &folder).output().unwrap(), &["directory"]);
    tidy(dir.path());
    tidy(&far);
}

#[test]
fn devices_stay_devices() {
    let dir = folder();
    for (name, args) in WRITERS {
        let device = |minor: &str| {
            let path = dir.path().join(format!("{minor}-{name}"));
            let made = Command::new("mknod").arg(&path).args(["c", "1", minor]).output().unwrap();
            (made.status.success() && fs::File::options().write(true).open(&path).is_ok())
                .then_some(path)
        };
        let (Some(null), Some(full)) = (device("3"), device("7")) else {
            eprintln!("skipped: devices can be made by the superuser only");
            return;
        };
        done(&writer(dir.path(), args, &null).output().unwrap());
        let output = writer(dir.path(), args, &full).output().unwrap();
        refused(&output, &["the disk is full"]);
        for device in [null, full] {
            let kind = fs::symlink_metadata(&device).unwrap().file_type();
            assert!(kind.is_char_device(), "{} was replaced", device.display());
        }
    }
    tidy(dir.path());
}

#[test]
fn directories_are_refused() {
    let dir = folder();
    for (name, args) in WRITERS {
        let folder = dir.path().join(format!("folder-{name}"));
        fs::create_dir(&folder).unwrap();
        refused(&writer(dir.path(), args, &folder).output().unwrap(), &["directory"]);
        let slash = format!("{}/", dir.path().join(format!("none-{name}")).display());
        let output = writer(dir.path(), args, Path::new(&slash)).output().unwrap();
        refused(&output, &["directory"]);
        assert!(!Path::new(slash.trim_end_matches('/')).exists());
    }
    // Neither file of a pair appears where one of them cannot.
    fs::create_dir(dir.path().join("pair.sigmf-meta")).unwrap();
    let args = ["gen", "-n", "100", "--bin", "7", "-o"];
    let pair = dir.path().join("pair.sigmf-data");
    refused(&writer(dir.path(), &args, &pair).output().unwrap(), &["sigmf-meta", "directory"]);
    assert!(!pair.exists());
    tidy(dir.path());
}

#[test]
fn permissions_are_kept_and_obeyed() {
    let dir = folder();
    let open = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    open(dir.path(), 0o777);
    for (name, args) in WRITERS {
        let file = dir.path().join(name);
        for mode in [0o600, 0o664] {
            fs::write(&file, "old").unwrap();
            open(&file, mode);
            done(&writer(dir.path(), args, &file).output().unwrap());
            assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, mode, "{name}");
            assert_ne!(fs::read(&file).unwrap(), b"old", "{name}");
        }
        // In a directory of all, a file that is write-protected.
        fs::write(&file, "old").unwrap();
        open(&file, 0o444);
        let Some(output) = unprivileged(&mut writer(dir.path(), args, &file)) else { return };
        refused(&output, &["may not be written", "permissions"]);
        assert_eq!(fs::read(&file).unwrap(), b"old", "{name}");
        // A new file in a directory that is.
        let closed = dir.path().join(format!("closed-{name}"));
        fs::create_dir(&closed).unwrap();
        open(&closed, 0o555);
        let output = unprivileged(&mut writer(dir.path(), args, &closed.join(name)));
        refused(&output.unwrap(), &["cannot be written"]);
        assert_eq!(fs::read_dir(&closed).unwrap().count(), 0);
        open(&closed, 0o755);
    }
    tidy(dir.path());
}

#[test]
fn a_recording_is_not_replaced_by_what_is_made_of_it() {
    let dir = folder();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let pair = path("y.sigmf-meta");
    let made = run(["gen", "-n", "4096", "--bin", "5", "--rate", "1M", "-o", &pair]);
    done(&made);
    let (recording, data) = (path("in.cf32"), path("y.sigmf-data"));
    let link = path("link.npy");
    symlink(&recording, &link).unwrap();
    let (samples, second) = (fs::read(&recording).unwrap(), fs::read(&data).unwrap());
    let sketch = ["--of", "4096", "--start", "0", "-k", "2"];
    for args in [
        &["fft", &recording, "-o", &recording][..],
        &["fft", &recording, "-o", &link],
        &["fft", &recording, "--memory", "49152", "-o", &link],
        &["fft", &pair, "-o", &data],
        &["peaks", &recording, "--npz", &recording],
        &["peaks", &pair, "--npz", &data],
        &["peaks", &recording, "--rate", "1M", "--sigmf", &recording],
        &["peaks", &pair, "--sigmf", &data],
        &["report", &recording, "-o", &link],
        &[&["sketch", &recording, "-o", &recording][..], &sketch].concat(),
    ] {
        refused(&run(args), &["this is the input itself", "another name"]);
        assert!(fs::read(&recording).unwrap() == samples, "{args:?}");
        assert!(fs::read(&data).unwrap() == second, "{args:?}");
    }
    // Annotations may go where they come from, and sketches grow in place.
    done(&run(["peaks", &pair, "-k", "1", "--sigmf", &pair]));
    done(&run(["merge", &path("in.sk"), "-o", &path("in.sk")]));
    tidy(dir.path());
}

/// A place that cannot be written is told before the work, not after it.
#[test]
fn places_are_tried_before_the_work() {
    let dir = folder();
    // The first sample that is read ends the work with another error.
    let nan = npy_f8(dir.path(), "nan.npy", &[f64::NAN; 8192]);
    let nan = nan.to_str().unwrap();
    let sketch = ["--of", "8192", "--start", "0", "-k", "2"];
    for (name, args) in [
        ("x.npy", &["fft", nan, "-o"][..]),
        ("x.npz", &["peaks", nan, "--npz"]),
        ("x.sigmf-meta", &["peaks", nan, "--rate", "1", "--sigmf"]),
        ("x.svg", &["plot", nan, "-o"]),
        ("x.html", &["report", nan, "-o"]),
        ("x.png", &["waterfall", nan, "-o"]),
        ("x.sk", &[&["sketch", nan][..], &sketch, &["-o"]].concat()),
        ("x.sk", &["merge", nan, "-o"]),
    ] {
        let place = dir.path().join("none").join(name);
        let output = run([args, &[place.to_str().unwrap()]].concat());
        refused(&output, &["directory is missing"]);
    }
}
