//! FFTW 3, opened at run time where the machine has it: a judge and a competitor that nothing
//! links to. Debian: libfftw3-double3 and libfftw3-single3.

use num_complex::Complex;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::marker::PhantomData;

unsafe extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// The library of a precision, and its functions for planning and running on another array.
pub trait Precision: Copy {
    /// Shared object, planning, execution.
    const NAMES: [&'static CStr; 3];
}

impl Precision for f64 {
    const NAMES: [&'static CStr; 3] = [c"libfftw3.so.3", c"fftw_plan_dft_1d", c"fftw_execute_dft"];
}

impl Precision for f32 {
    const NAMES: [&'static CStr; 3] =
        [c"libfftw3f.so.3", c"fftwf_plan_dft_1d", c"fftwf_execute_dft"];
}

/// How much a plan may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Some variants are timed; from 2^24 on that takes minutes.
    Measure,
    /// A guess.
    Estimate,
}

type PlanDft = unsafe extern "C" fn(c_int, *mut c_void, *mut c_void, c_int, c_uint) -> *mut c_void;
type Execute = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_void);

/// A forward transform in place.
pub struct Fftw<T> {
    plan: *mut c_void,
    execute: Execute,
    n: usize,
    precision: PhantomData<T>,
}

/// Plans assume arrays that start on such an address, as large allocations do.
const ALIGNMENT: usize = 16;

impl<T: Precision> Fftw<T> {
    /// Plans for arrays like this one, which is overwritten; `None` where FFTW is not installed.
    pub fn new(data: &mut [Complex<T>], effort: Effort) -> Option<Self> {
        let flags = match effort {
            Effort::Measure => 0,
            Effort::Estimate => 1 << 6,
        };
        let n = c_int::try_from(data.len()).ok()?;
        let x: *mut c_void = aligned(data);
        // SAFETY: the names and signatures are those of FFTW 3's documented interface, the array
        // holds n interleaved values, and the library is never closed.
        unsafe {
            let library = dlopen(T::NAMES[0].as_ptr(), 2);
            if library.is_null() {
                return None;
            }
            let [plan, execute] = [1, 2].map(|i| dlsym(library, T::NAMES[i].as_ptr()));
            if plan.is_null() || execute.is_null() {
                return None;
            }
            let plan = std::mem::transmute::<*mut c_void, PlanDft>(plan)(n, x, x, -1, flags);
            let execute = std::mem::transmute::<*mut c_void, Execute>(execute);
            let precision = PhantomData;
            (!plan.is_null()).then_some(Fftw { plan, execute, n: data.len(), precision })
        }
    }

    /// Transforms an array of the planned length.
    pub fn run(&self, data: &mut [Complex<T>]) {
        assert_eq!(data.len(), self.n, "another length than planned");
        let x = aligned(data);
        // SAFETY: the array has the length and the alignment of the plan, in place as planned.
        unsafe { (self.execute)(self.plan, x, x) }
    }
}

fn aligned<T>(data: &mut [Complex<T>]) -> *mut c_void {
    let start = data.as_mut_ptr();
    assert_eq!(start as usize % ALIGNMENT, 0, "FFTW plans need an aligned array");
    start.cast()
}
