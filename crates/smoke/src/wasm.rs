//! What `run.mjs` calls.

use crate::CASES;
use std::panic::PanicHookInfo;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Why the last case failed.
static MESSAGE: Mutex<String> = Mutex::new(String::new());

fn message() -> MutexGuard<'static, String> {
    MESSAGE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Number of cases.
#[unsafe(no_mangle)]
pub extern "C" fn smoke_count() -> usize {
    CASES.len()
}

/// Where the name of a case begins.
#[unsafe(no_mangle)]
pub extern "C" fn smoke_name(case: usize) -> *const u8 {
    CASES[case].name.as_ptr()
}

/// Bytes of the name of a case.
#[unsafe(no_mangle)]
pub extern "C" fn smoke_name_length(case: usize) -> usize {
    CASES[case].name.len()
}

/// Runs a case: 0 if it holds. A panic is a trap, and has left a message.
#[unsafe(no_mangle)]
pub extern "C" fn smoke_run(case: usize) -> i32 {
    std::panic::set_hook(Box::new(|info: &PanicHookInfo<'_>| *message() = info.to_string()));
    match (CASES[case].run)() {
        Ok(()) => 0,
        Err(why) => {
            *message() = why;
            1
        }
    }
}

/// Where the message begins.
#[unsafe(no_mangle)]
pub extern "C" fn smoke_message() -> *const u8 {
    message().as_ptr()
}

/// Bytes of the message.
#[unsafe(no_mangle)]
pub extern "C" fn smoke_message_length() -> usize {
    message().len()
}
