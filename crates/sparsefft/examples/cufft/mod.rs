//! cuFFT, opened at run time for comparison.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

unsafe extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

type Plan1d = unsafe extern "C" fn(*mut c_int, c_int, c_int, c_int) -> c_int;
type SetStream = unsafe extern "C" fn(c_int, *mut c_void) -> c_int;
type Exec = unsafe extern "C" fn(c_int, u64, u64, c_int) -> c_int;
type Destroy = unsafe extern "C" fn(c_int) -> c_int;

/// The functions of cuFFT that are needed.
#[derive(Clone, Copy)]
pub struct Cufft {
    pub plan: Plan1d,
    pub stream: SetStream,
    /// Of f32 and of f64.
    pub exec: [Exec; 2],
    pub destroy: Destroy,
}

impl Cufft {
    /// Opens cuFFT if the machine has it.
    pub fn open() -> Option<Self> {
        let mut names: Vec<PathBuf> =
            std::env::var_os("CUFFT_LIBRARY").map(Into::into).into_iter().collect();
        names.extend(["libcufft.so.12", "libcufft.so.11", "libcufft.so"].map(PathBuf::from));
        for folder in ["/usr/local/cuda/lib64", "/usr/lib/x86_64-linux-gnu", "/opt"] {
            find(Path::new(folder), 9, &mut names);
        }
        names.iter().find_map(|name| {
            let name = CString::new(name.to_str()?).ok()?;
            // SAFETY: cuFFT's constructors are safe to run.
            let library = unsafe { dlopen(name.as_ptr(), 2) };
            if library.is_null() {
                return None;
            }
            let symbol = |name: &CStr| {
                // SAFETY: the library is open.
                let s = unsafe { dlsym(library, name.as_ptr()) };
                (!s.is_null()).then_some(s)
            };
            println!("cuFFT: {}", name.to_string_lossy());
            // SAFETY: the types are those of cuFFT's documented interface.
            unsafe {
                Some(Cufft {
                    plan: std::mem::transmute::<*mut c_void, Plan1d>(symbol(c"cufftPlan1d")?),
                    stream: std::mem::transmute::<*mut c_void, SetStream>(symbol(
                        c"cufftSetStream",
                    )?),
                    exec: [
                        std::mem::transmute::<*mut c_void, Exec>(symbol(c"cufftExecC2C")?),
                        std::mem::transmute::<*mut c_void, Exec>(symbol(c"cufftExecZ2Z")?),
                    ],
                    destroy: std::mem::transmute::<*mut c_void, Destroy>(symbol(c"cufftDestroy")?),
                })
            }
        })
    }
}

/// Files named libcufft.so.1* below a folder.
fn find(folder: &Path, depth: u32, names: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_symlink() && path.is_dir() {
            continue;
        }
        if path.is_dir() {
            if depth > 0 {
                find(&path, depth - 1, names);
            }
        } else if entry.file_name().to_string_lossy().starts_with("libcufft.so.1") {
            names.push(path);
        }
    }
}
