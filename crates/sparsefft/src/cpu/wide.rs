//! Four numbers side by side: plain arrays whose elementwise loops become vector instructions.

use super::fma;
use std::ops::{Add, Mul, Neg, Sub};

/// Four f64 side by side.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct F4(pub(crate) [f64; 4]);

/// Four truth values.
pub(crate) type Mask = [bool; 4];

impl F4 {
    #[inline(always)] // register moves
    pub(crate) fn splat(x: f64) -> Self {
        F4([x; 4])
    }

    #[inline(always)] // one instruction
    pub(crate) fn map(self, f: impl Fn(f64) -> f64) -> Self {
        let a = self.0;
        F4([f(a[0]), f(a[1]), f(a[2]), f(a[3])])
    }

    #[inline(always)] // one instruction
    pub(crate) fn zip(self, b: F4, f: impl Fn(f64, f64) -> f64) -> Self {
        let (a, b) = (self.0, b.0);
        F4([f(a[0], b[0]), f(a[1], b[1]), f(a[2], b[2]), f(a[3], b[3])])
    }

    /// self·b + c.
    #[inline(always)] // one instruction with FMA, two without
    pub(crate) fn mul_add<const FMA: bool>(self, b: F4, c: F4) -> Self {
        let (a, b, c) = (self.0, b.0, c.0);
        let f = |i: usize| fma::<FMA>(a[i], b[i], c[i]);
        F4([f(0), f(1), f(2), f(3)])
    }

    #[inline(always)] // one instruction
    pub(crate) fn below(self, b: F4) -> Mask {
        let (a, b) = (self.0, b.0);
        [a[0] < b[0], a[1] < b[1], a[2] < b[2], a[3] < b[3]]
    }

    /// self where the mask holds, other elsewhere.
    #[inline(always)] // one instruction
    pub(crate) fn where_or(self, mask: Mask, other: F4) -> Self {
        let (a, b) = (self.0, other.0);
        let f = |i: usize| if mask[i] { a[i] } else { b[i] };
        F4([f(0), f(1), f(2), f(3)])
    }

    #[inline(always)] // one instruction
    pub(crate) fn abs(self) -> Self {
        F4([self.0[0].abs(), self.0[1].abs(), self.0[2].abs(), self.0[3].abs()])
    }

    #[inline(always)] // one instruction
    pub(crate) fn round(self) -> Self {
        self.map(f64::round_ties_even)
    }

    #[inline(always)] // one instruction
    pub(crate) fn floor(self) -> Self {
        self.map(f64::floor)
    }

    #[inline(always)] // one instruction
    pub(crate) fn div(self, b: F4) -> Self {
        self.zip(b, |a, b| a / b)
    }
}

macro_rules! elementwise {
    ($($trait:ident $method:ident $op:tt),*) => {$(
        impl $trait for F4 {
            type Output = F4;
            #[inline(always)] // one instruction
            fn $method(self, b: F4) -> F4 {
                self.zip(b, |a, b| a $op b)
            }
        }
    )*};
}
elementwise!(Add add +, Sub sub -, Mul mul *);

impl Neg for F4 {
    type Output = F4;
    #[inline(always)] // one instruction
    fn neg(self) -> F4 {
        self.map(|a| -a)
    }
}
