//! `cargo xtask kernels [--check | --variants DIR | --instrument DIR]`: compiles the CUDA kernels to PTX.
//!
//! Every PTX file starts with a line that holds a hash of its sources and options; files of machine
//! code (`.cubin`) end with it. `--check` compares these lines and needs no compiler. Compiling needs NVRTC 12.4
//! (`pip install nvidia-cuda-nvrtc-cu12==12.4.127`), found through `NVRTC_LIBRARY` or the usual
//! library path; users of the library need neither.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fs;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

const FOLDER: &str = "crates/sparsefft/src/cuda/kernels";

/// Kernels run on compute capability 7.0 and up.
const ARCHITECTURE: &str = "--gpu-architecture=compute_70";
/// Those with thread-block clusters on 9.0 and up.
const CLUSTERS: &str = "--gpu-architecture=compute_90";
/// Machine code for 9.0, for kernels that take the driver long to compile.
const HOPPER: &str = "--gpu-architecture=sm_90";

/// A PTX file: name, source, headers, architecture, options.
struct Unit {
    name: String,
    source: &'static str,
    headers: &'static [&'static str],
    architecture: &'static str,
    options: Vec<String>,
}

fn units() -> Vec<Unit> {
    let dense = |name: &str, options: &[&str]| Unit {
        name: name.into(),
        source: "dense_fft.cu",
        headers: &["fft.cuh"],
        architecture: ARCHITECTURE,
        options: options.iter().map(|o| o.to_string()).collect(),
    };
    let sparse = |name: &str, architecture| Unit {
        name: name.into(),
        source: "sparse.cu",
        headers: &["fft.cuh", "locate.cuh", "sparse.cuh", "windows.cuh"],
        architecture,
        options: Vec::new(),
    };
    let wide = |name: &str, architecture| Unit {
        source: "wide.cu",
        headers: &["fft.cuh", "locate.cuh", "sparse.cuh", "several.cuh", "four.cuh"],
        ..sparse(name, architecture)
    };
    let cluster = |source, name: &str, architecture| Unit {
        source,
        headers: &[
            "fft.cuh",
            "locate.cuh",
            "sparse.cuh",
            "several.cuh",
            "gates.cuh",
            "quick.cuh",
            "late.cuh",
        ],
        ..sparse(name, architecture)
    };
    let alone = |name: &str, source| Unit {
        name: name.into(),
        source,
        headers: &[],
        architecture: ARCHITECTURE,
        options: Vec::new(),
    };
    vec![
        alone("vote.ptx", "vote.cu"),
        alone("signals.ptx", "signals.cu"),
        dense("dense_f64.ptx", &[]),
        dense("dense_f32.ptx", &["-DSINGLE"]),
        sparse("sparse_70.ptx", ARCHITECTURE),
        sparse("sparse_90.ptx", CLUSTERS),
        sparse("sparse_90.cubin", HOPPER),
        cluster("quick.cu", "quick_90.ptx", CLUSTERS),
        cluster("quick.cu", "quick_90.cubin", HOPPER),
        cluster("noisy.cu", "noisy_90.ptx", CLUSTERS),
        cluster("noisy.cu", "noisy_90.cubin", HOPPER),
        wide("wide_70.ptx", ARCHITECTURE),
        wide("wide_90.cubin", HOPPER),
    ]
}

/// Other choices of points per thread and columns per block, for `dense_cuda_bench`.
fn variants() -> Vec<Unit> {
    let mut units = Vec::new();
    for (precision, single, wide, narrow) in [("f64", false, 3, 2), ("f32", true, 4, 3)] {
        for (p, c, stream) in [
            ([3, 3, 3, if single { 4 } else { 3 }, 4], wide, true),
            ([3, 4, 4, 4, 4], wide, false),
            ([3, 3, 3, 3, 4], narrow, false),
            ([3, 4, 4, 4, 4], narrow, false),
        ] {
            let columns = [c, c, c, c, narrow];
            let digits = |v: [u32; 5]| v.iter().map(u32::to_string).collect::<String>();
            let tail = if stream { "s" } else { "" };
            let name = format!("{precision}_p{}_c{}{tail}.ptx", digits(p), digits(columns));
            let mut options = Vec::new();
            for i in 0..5 {
                options.push(format!("-DP{}={}", i + 6, p[i]));
                options.push(format!("-DC{}={}", i + 6, columns[i]));
            }
            if single {
                options.push("-DSINGLE".into());
            }
            if stream {
                options.push("-DSTREAM".into());
            }
            let (source, headers) = ("dense_fft.cu", &["fft.cuh"]);
            units.push(Unit { name, source, headers, architecture: ARCHITECTURE, options });
        }
    }
    units
}

/// Kernels of one cluster for compute-sanitizer, with their lines: as they are, and for racecheck, which knows neither
/// gates nor barriers of some warps; and with clock readings. Named as `sparse_cuda_bench` wants its variants.
fn instrumented() -> Vec<Unit> {
    let mut made = Vec::new();
    for (kind, option) in
        [("plain", None), ("race", Some("-DRACECHECK")), ("profile", Some("-DPROFILE"))]
    {
        for unit in units() {
            let Some(name) = unit.name.strip_suffix("_90.cubin") else { continue };
            if name != "quick" && name != "noisy" {
                continue;
            }
            let name = format!("t384_c16_{name}_{kind}.cubin");
            let lines = (kind != "profile").then_some("--generate-line-info");
            let options = lines.into_iter().chain(option).map(String::from).collect();
            made.push(Unit { name, options, ..unit });
        }
    }
    made
}

/// Compiles the kernels, or checks that they are current.
pub fn run(args: &[String]) -> Result<bool, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folder = root.join(FOLDER);
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => {
            for unit in units() {
                if !unit.current(&folder)? {
                    unit.write(&folder, &folder.join(&unit.name))?;
                }
            }
            Ok(true)
        }
        [which @ ("--variants" | "--instrument"), out] => {
            fs::create_dir_all(out).map_err(|e| format!("{out}: {e}"))?;
            for unit in if which == "--variants" { variants() } else { instrumented() } {
                unit.write(&folder, &Path::new(out).join(&unit.name))?;
            }
            Ok(true)
        }
        ["--check"] => {
            let mut current = true;
            for unit in units() {
                let good = unit.current(&folder)?;
                println!("{} {}", if good { "current" } else { "STALE  " }, unit.name);
                current &= good;
            }
            Ok(current)
        }
        _ => Err("usage: cargo xtask kernels [--check | --variants DIR | --instrument DIR]".into()),
    }
}

impl Unit {
    fn text(folder: &Path, name: &str) -> Result<String, String> {
        let path = folder.join(name);
        fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))
    }

    /// The first line of the PTX file. FNV-1a is enough to notice a forgotten compilation.
    fn stamp(&self, folder: &Path) -> Result<String, String> {
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        let mut add = |text: &str| {
            for byte in text.bytes() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        };
        for name in self.headers.iter().chain([&self.source]) {
            add(&Self::text(folder, name)?);
        }
        self.options.iter().for_each(|o| add(o));
        add(self.architecture);
        Ok(format!("// made by `cargo xtask kernels` from {} {hash:016x}", self.source))
    }

    /// Whether the file was made from the present sources.
    fn current(&self, folder: &Path) -> Result<bool, String> {
        let bytes = fs::read(folder.join(&self.name)).unwrap_or_default();
        let stamp = self.stamp(folder)?.into_bytes();
        Ok(if self.binary() { bytes.ends_with(&stamp) } else { bytes.starts_with(&stamp) })
    }

    fn write(&self, folder: &Path, path: &Path) -> Result<(), String> {
        let code = self.compile(folder)?;
        let stamp = self.stamp(folder)?;
        let bytes = if self.binary() {
            // Loaders stop at the end that the header names.
            [&code, stamp.as_bytes()].concat()
        } else {
            [stamp.as_bytes(), b"\n", &code].concat()
        };
        fs::write(path, &bytes).map_err(|e| format!("{}: {e}", path.display()))?;
        println!("{} ({} KiB)", path.display(), bytes.len() / 1024);
        Ok(())
    }

    fn binary(&self) -> bool {
        self.architecture == HOPPER
    }

    fn compile(&self, folder: &Path) -> Result<Vec<u8>, String> {
        let nvrtc = Nvrtc::open()?;
        let c = |s: &str| CString::new(s).map_err(|e| e.to_string());
        let source = c(&Self::text(folder, self.source)?)?;
        let name = c(self.source)?;
        let mut headers = Vec::new();
        let mut names = Vec::new();
        for header in self.headers {
            headers.push(c(&Self::text(folder, header)?)?);
            names.push(c(header)?);
        }
        let mut options = vec![c(self.architecture)?, c("--std=c++17")?];
        for option in &self.options {
            options.push(c(option)?);
        }
        let pointers = |v: &[CString]| v.iter().map(|s| s.as_ptr()).collect::<Vec<_>>();
        let (headers, names) = (pointers(&headers), pointers(&names));
        let options = pointers(&options);
        let mut program = null_mut();
        // SAFETY: the signatures are NVRTC's, all strings end in zero and outlive the calls, and
        // the buffers have the sizes that NVRTC asked for.
        unsafe {
            let count = headers.len() as c_int;
            let (h, n) = (headers.as_ptr(), names.as_ptr());
            let rc = (nvrtc.create)(&mut program, source.as_ptr(), name.as_ptr(), count, h, n);
            if rc != 0 {
                return Err(format!("NVRTC refused the program: error {rc}"));
            }
            let rc = (nvrtc.compile)(program, options.len() as c_int, options.as_ptr());
            if rc != 0 {
                let log = Nvrtc::bytes(program, nvrtc.log_size, nvrtc.log);
                let log = String::from_utf8_lossy(&log);
                return Err(format!("{} does not compile:\n{log}", self.source));
            }
            if self.binary() {
                return Ok(Nvrtc::bytes(program, nvrtc.cubin_size, nvrtc.cubin));
            }
            let mut ptx = Nvrtc::bytes(program, nvrtc.ptx_size, nvrtc.ptx);
            ptx.truncate(ptx.iter().position(|&b| b == 0).unwrap_or(ptx.len()));
            Ok(ptx)
        }
    }
}

type Program = *mut c_void;
type Strings = *const *const c_char;
type Create = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    Strings,
    Strings,
) -> c_int;
type Compile = unsafe extern "C" fn(Program, c_int, Strings) -> c_int;
type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type Text = unsafe extern "C" fn(Program, *mut c_char) -> c_int;

/// The functions of NVRTC that are needed.
struct Nvrtc {
    create: Create,
    compile: Compile,
    log_size: Size,
    log: Text,
    ptx_size: Size,
    ptx: Text,
    cubin_size: Size,
    cubin: Text,
}

unsafe extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

impl Nvrtc {
    fn open() -> Result<Self, String> {
        let mut names: Vec<PathBuf> =
            std::env::var_os("NVRTC_LIBRARY").map(Into::into).into_iter().collect();
        names.extend(["libnvrtc.so.12", "libnvrtc.so"].map(PathBuf::from));
        let library = names.iter().find_map(|name| {
            let name = CString::new(name.to_str()?).ok()?;
            // SAFETY: the name ends in zero; NVRTC has no constructors that matter here.
            let library = unsafe { dlopen(name.as_ptr(), 2) };
            (!library.is_null()).then_some(library)
        });
        let library = library.ok_or(
            "NVRTC was not found; `pip install nvidia-cuda-nvrtc-cu12==12.4.127` and set \
             NVRTC_LIBRARY to its libnvrtc.so.12",
        )?;
        let find = |name: &CStr| {
            // SAFETY: the library is open and the name ends in zero.
            let symbol = unsafe { dlsym(library, name.as_ptr()) };
            if symbol.is_null() { Err(format!("{name:?} is missing")) } else { Ok(symbol) }
        };
        // SAFETY: the types are those of NVRTC's documented interface.
        unsafe {
            Ok(Nvrtc {
                create: std::mem::transmute::<Program, Create>(find(c"nvrtcCreateProgram")?),
                compile: std::mem::transmute::<Program, Compile>(find(c"nvrtcCompileProgram")?),
                log_size: std::mem::transmute::<Program, Size>(find(c"nvrtcGetProgramLogSize")?),
                log: std::mem::transmute::<Program, Text>(find(c"nvrtcGetProgramLog")?),
                ptx_size: std::mem::transmute::<Program, Size>(find(c"nvrtcGetPTXSize")?),
                ptx: std::mem::transmute::<Program, Text>(find(c"nvrtcGetPTX")?),
                cubin_size: std::mem::transmute::<Program, Size>(find(c"nvrtcGetCUBINSize")?),
                cubin: std::mem::transmute::<Program, Text>(find(c"nvrtcGetCUBIN")?),
            })
        }
    }

    /// A result of NVRTC's.
    unsafe fn bytes(program: Program, size: Size, get: Text) -> Vec<u8> {
        let mut bytes = 0;
        // SAFETY: the caller's program is valid.
        unsafe { size(program, &mut bytes) };
        let mut buffer = vec![0u8; bytes.max(1)];
        // SAFETY: the buffer has the size that was asked for.
        unsafe { get(program, buffer.as_mut_ptr().cast()) };
        buffer
    }
}
