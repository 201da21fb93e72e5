//! Standard input: mapped where it is a file at its start, otherwise copied to a temporary file
//! first.
//!
//! A pipe cannot be read at random, and holding it in memory would limit its length, so it goes
//! to an unnamed file in the temporary directory (`TMPDIR`), which vanishes with the process.

use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::io::{Read, Seek};

/// A file that holds what standard input gives.
pub(super) fn file() -> Result<File> {
    #[cfg(unix)]
    {
        use std::os::fd::AsFd;
        let own = std::io::stdin().as_fd().try_clone_to_owned().map(File::from);
        if let Ok(file) = own
            && file.metadata().is_ok_and(|m| m.is_file())
            // Where another program has read a part already, what is left is the input.
            && (&file).stream_position().is_ok_and(|at| at == 0)
        {
            return Ok(file);
        }
    }
    let mut spool = tempfile::tempfile().context("no temporary file can be made; set TMPDIR")?;
    let progress = crate::output::progress::Bar::bytes("reading standard input");
    let mut input = progress.reader(std::io::stdin().lock());
    let mut buffer = vec![0; 1 << 20];
    let mut total = 0u64;
    loop {
        let got = input.read(&mut buffer).context("reading it failed")?;
        if got == 0 {
            break;
        }
        std::io::Write::write_all(&mut spool, &buffer[..got])
            .context("the temporary file cannot be written; set TMPDIR to a larger disk")?;
        total += got as u64;
    }
    ensure!(total > 0, "it is empty; pipe a recording into it");
    Ok(spool)
}
