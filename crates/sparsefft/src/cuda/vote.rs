//! `vote` and `comb-vote` with the hashes on the device (`kernels/vote.cu`).
//!
//! `algorithms/vote.rs` decides: attempts, rounds, sweeps, what counts as noise. This module carries
//! its ten steps out where the signal lies. Samples, buckets, energies and votes stay there; what
//! comes back is the list of elected frequencies, their medians, and a few numbers per step.

use super::signal::Signal;
use super::sparse::Landing;
use super::{Buffer, CudaFft, Device, failed};
use crate::algorithms::vote::{
    Ask, Hashes, Judge, Keeper, MAX_LOOPS, NOISE_SAMPLE, Streams, Witness, largest, noise_rank,
};
use crate::dense::Direction;
use crate::plan::VoteRecipe;
use crate::spectrum::Peak;
use crate::stages::flat_hash::{Permutation, blame};
use crate::stages::flat_window::Flat;
use crate::stages::number::mul_mod;
use crate::{Complex, Error, Samples};
use cudarc::driver::{
    CudaFunction, CudaSlice, DevicePtr, DeviceRepr, LaunchConfig, PushKernelArg, result,
};
use cudarc::nvrtc::Ptx;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

type Z = Complex<f64>;

/// Hashes and the witness.
const ROWS: usize = MAX_LOOPS + 1;
/// Digits of a selection, as in the kernels, and how many of them.
const DIGITS: usize = 2048;
const PASSES: u32 = 3;
/// Most combs.
const COMBS: usize = 4;
/// Most buckets, and most teeth of a comb, on the device.
const MOST_BUCKETS: u64 = 1 << 22;

/// As `struct Voter` in `vote.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Voter {
    sigma: u64,
    inverse: u64,
    tau: u64,
    start: u64,
    leap: u64,
}

/// As `struct Found`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Found {
    largest: u64,
    bad: u32,
    pad: u32,
    loudest: u64,
    change: [u64; 2],
    noise: [f64; 2],
    above: u32,
    elected: u32,
    reach: [u32; ROWS + 1],
    exceed: [u32; ROWS + 1],
    listed: [u32; ROWS + 1],
}

/// Bytes of `Found` that belong to the whole attempt.
const LASTING: usize = 16;

/// As `struct Vote`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Vote {
    x: u64,
    n: u64,
    mask: u64,
    inverse: f64,
    scale: f64,
    format: u32,
    rows: u32,
    buckets: u32,
    half: u32,
    width: u32,
    teeth: u32,
    combs: u32,
    pad: u32,
    offset: [u64; COMBS],
    taps: u64,
    table: u64,
    z: u64,
    model: u64,
    comb: u64,
    energies: u64,
    map: u64,
    list: u64,
    digits: u64,
    ranks: u64,
    found: u64,
    voter: [Voter; ROWS],
}

// SAFETY: plain numbers with the layout of `struct Vote`.
unsafe impl DeviceRepr for Vote {}

/// The kernels, loaded.
pub(super) struct VoteKernels {
    fold: CudaFunction,
    teeth: CudaFunction,
    first: CudaFunction,
    energies: CudaFunction,
    above: CudaFunction,
    count: CudaFunction,
    pick: CudaFunction,
    reach: CudaFunction,
    keep: CudaFunction,
    elect: CudaFunction,
    medians: CudaFunction,
    subtract: CudaFunction,
    noise: CudaFunction,
    witness: CudaFunction,
    instants: CudaFunction,
}

impl Device {
    fn vote_kernels(&self) -> Result<Arc<VoteKernels>, Error> {
        let load = || {
            let ptx = Ptx::from_src(include_str!("kernels/vote.ptx"));
            let module = self.shared.context.load_module(ptx).map_err(failed)?;
            let find = |name: &str| module.load_function(&format!("vote_{name}")).map_err(failed);
            Ok(Arc::new(VoteKernels {
                fold: find("fold")?,
                teeth: find("teeth")?,
                first: find("first")?,
                energies: find("energies")?,
                above: find("above")?,
                count: find("count")?,
                pick: find("pick")?,
                reach: find("reach")?,
                keep: find("keep")?,
                elect: find("elect")?,
                medians: find("medians")?,
                subtract: find("subtract")?,
                noise: find("noise")?,
                witness: find("witness")?,
                instants: find("instants")?,
            }))
        };
        self.shared.vote.get_or_init(load).clone()
    }
}

/// Buffers and tables for one shape of hashes, kept from one transform to the next.
struct Room {
    /// Rows, buckets, taps, teeth, combs; and the leakage's bits.
    shape: ([u64; 5], u64),
    taps: CudaSlice<f64>,
    table: CudaSlice<f64>,
    z: Buffer<f64>,
    model: CudaSlice<i64>,
    comb: Buffer<f64>,
    energies: CudaSlice<f64>,
    map: CudaSlice<u32>,
    list: CudaSlice<u32>,
    digits: CudaSlice<u32>,
    ranks: CudaSlice<u64>,
    found: CudaSlice<u8>,
    fft: CudaFft<f64>,
    comb_fft: Option<CudaFft<f64>>,
    /// Lists of frequencies and of values.
    fs: CudaSlice<u64>,
    values: Buffer<f64>,
    /// Page-locked memory for what comes back.
    landing: Landing,
    /// What came back last: frequencies, and values. Memory that is kept is not mapped anew each time.
    fetched: (Vec<u64>, Vec<Z>),
    /// Elected frequencies with their medians.
    early: Vec<(u64, Z)>,
}

impl Room {
    fn new(device: &Device, shape: ([u64; 5], u64), window: &Flat) -> Result<Self, Error> {
        let [rows, buckets, _, teeth, combs] = shape.0;
        let cells = (rows * buckets) as usize;
        let stream = device.stream();
        let table: Vec<f64> = window.nodes().iter().flatten().copied().collect();
        let mut taps = device.alloc_parts::<f64>(window.taps.len())?;
        let mut nodes = device.alloc_parts::<f64>(table.len())?;
        stream.memcpy_htod(&window.taps, &mut taps).map_err(failed)?;
        stream.memcpy_htod(&table, &mut nodes).map_err(failed)?;
        let mut digits = device.alloc_parts::<u32>(2 * (ROWS + 1) * DIGITS)?;
        // Selections leave them so.
        stream.memset_zeros(&mut digits).map_err(failed)?;
        let comb_fft = (teeth > 0).then(|| CudaFft::new(device, teeth)).transpose()?;
        let room = Room {
            shape,
            taps,
            table: nodes,
            z: device.alloc(cells)?,
            model: device.alloc_parts(2 * cells)?,
            comb: device.alloc((teeth * combs) as usize)?,
            energies: device.alloc_parts(cells + teeth as usize)?,
            map: device.alloc_parts((cells + teeth as usize) / 32 + 1)?,
            list: device.alloc_parts(cells + teeth as usize)?,
            digits,
            ranks: device.alloc_parts(4 * (ROWS + 1))?,
            found: device.alloc_parts(size_of::<Found>())?,
            fft: CudaFft::new(device, buckets)?,
            comb_fft,
            fs: device.alloc_parts(1 << 14)?,
            values: device.alloc(1 << 14)?,
            landing: Landing::empty(),
            fetched: Default::default(),
            early: Vec::new(),
        };
        // The host's tables may go now.
        device.synchronize()?;
        Ok(room)
    }

    /// Room for so many frequencies and values; what was there is lost.
    fn reserve(&mut self, device: &Device, count: usize) -> Result<(), Error> {
        // Two corrections of each, or the values at instants behind them.
        let count = 2 * count + 64;
        if self.fs.len() < count {
            self.fs = device.alloc_parts(count.next_power_of_two())?;
            self.values = device.alloc(count.next_power_of_two())?;
        }
        Ok(())
    }
}

/// Keeps the hashes of one signal's transforms on its device.
pub(super) struct Voting<'a> {
    signal: &'a Signal<'a>,
    seed: u64,
    room: &'a Pool,
}

/// Buffers of a plan, lent to one transform at a time.
#[derive(Default)]
pub(super) struct Pool(Mutex<Option<Room>>);

impl<'a> Voting<'a> {
    pub(super) fn new(signal: &'a Signal<'a>, seed: u64, room: &'a Pool) -> Self {
        Voting { signal, seed, room }
    }
}

fn launch(blocks: (u32, u32), threads: u32) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (blocks.0, blocks.1, 1),
        block_dim: (threads, 1, 1),
        shared_mem_bytes: 0,
    }
}

/// Blocks of 256 threads for so many items.
fn blocks(items: u64) -> u32 {
    items.div_ceil(256).clamp(1, 1056) as u32
}

impl Keeper for Voting<'_> {
    fn hashes(
        &self,
        recipe: &VoteRecipe,
        window: &Flat,
        stream: u64,
    ) -> Result<Option<Box<dyn Hashes + '_>>, Error> {
        let n = self.signal.len();
        let teeth = recipe.comb.map_or(0, |c| c.teeth);
        let combs = recipe.comb.map_or(0, |c| u64::from(c.combs));
        // Products of two numbers below n must fit in 64 bits, or wrap to the right value. Maps of
        // bits want whole words per row.
        let fits = (n.is_power_of_two() || n <= 1 << 32)
            && (32..=MOST_BUCKETS).contains(&recipe.buckets)
            && teeth <= MOST_BUCKETS
            && combs as usize <= COMBS
            && (2..=MAX_LOOPS as u32).contains(&recipe.loops);
        if !fits {
            return Ok(None);
        }
        let device = self.signal.device();
        let kernels = device.vote_kernels()?;
        let loops = recipe.loops as usize;
        let rows = loops as u64 + 1;
        let shape = ([rows, recipe.buckets, recipe.width, teeth, combs], recipe.leakage.to_bits());
        let mut room = self.room.0.lock().unwrap_or_else(|e| e.into_inner());
        if room.as_ref().is_none_or(|r| r.shape != shape) {
            *room = None;
            *room = Some(Room::new(device, shape, window)?);
        }
        let streams = Streams(stream);
        let hash = |l: usize| match l {
            _ if l < loops => streams.hash(n, self.seed, l),
            _ => streams.witness(n, self.seed),
        };
        let permutations: Vec<Permutation> = (0..=loops).map(hash).collect();
        let mut voter = [Voter::default(); ROWS];
        for (v, p) in voter.iter_mut().zip(&permutations) {
            *v = Voter {
                sigma: p.sigma,
                inverse: p.inverse,
                tau: p.tau,
                start: p.start(window.half as u64, n),
                leap: mul_mod(p.sigma, recipe.buckets % n, n),
            };
        }
        let mut offset = [0; COMBS];
        if let Some(comb) = &recipe.comb {
            for c in 0..combs {
                offset[c as usize] = streams.comb(n, comb, self.seed, c);
            }
        }
        let mut there = There {
            signal: self.signal,
            device,
            kernels,
            vote: Vote {
                x: self.signal.pointer(),
                n,
                mask: if n.is_power_of_two() { n - 1 } else { 0 },
                inverse: 1.0 / n as f64,
                scale: recipe.buckets as f64 / n as f64,
                format: self.signal.format().code(),
                rows: rows as u32,
                buckets: recipe.buckets as u32,
                half: window.half as u32,
                width: recipe.width as u32,
                teeth: teeth as u32,
                combs: combs as u32,
                pad: 0,
                offset,
                taps: 0,
                table: 0,
                z: 0,
                model: 0,
                comb: 0,
                energies: 0,
                map: 0,
                list: 0,
                digits: 0,
                ranks: 0,
                found: 0,
                voter,
            },
            recipe: recipe.clone(),
            room,
            tones: Vec::new(),
            placed: false,
            residues: false,
            ahead: [None; 2],
            loudest: None,
        };
        there.measure()?;
        Ok(Some(Box::new(there)))
    }
}

/// The hashes of one attempt, on the device.
struct There<'a> {
    signal: &'a Signal<'a>,
    device: &'a Device,
    kernels: Arc<VoteKernels>,
    vote: Vote,
    recipe: VoteRecipe,
    room: MutexGuard<'a, Option<Room>>,
    tones: Vec<(u64, Complex<f64>)>,
    /// Whether the list of frequencies on the device is that of the tones.
    placed: bool,
    /// Whether the combs' residues have been chosen.
    residues: bool,
    /// Noise that was measured ahead, from the median and from the quartile.
    ahead: [Option<f64>; 2],
    /// The largest energy of any bucket, likewise.
    loudest: Option<f64>,
}

impl There<'_> {
    fn loops(&self) -> u32 {
        self.vote.rows - 1
    }

    fn buckets(&self) -> u64 {
        u64::from(self.vote.buckets)
    }

    fn room(&mut self) -> Result<&mut Room, Error> {
        self.room.as_mut().ok_or_else(|| Error::Device("buffers of the votes are missing".into()))
    }

    /// Reads the samples and transforms the buckets of all hashes, the witness among them.
    fn measure(&mut self) -> Result<(), Error> {
        let (device, rows, teeth) = (self.device, self.vote.rows, self.vote.teeth);
        let stream = device.stream().clone();
        let mut vote = self.vote;
        let room = self.room()?;
        macro_rules! address {
            ($slice:expr) => {
                $slice.device_ptr(&stream).0
            };
        }
        vote.taps = address!(room.taps);
        vote.table = address!(room.table);
        vote.z = address!(room.z.parts);
        vote.model = address!(room.model);
        vote.comb = address!(room.comb.parts);
        vote.energies = address!(room.energies);
        vote.map = address!(room.map);
        vote.list = address!(room.list);
        vote.digits = address!(room.digits);
        vote.ranks = address!(room.ranks);
        vote.found = address!(room.found);
        stream.memset_zeros(&mut room.found).map_err(failed)?;
        self.vote = vote;
        let buckets = self.buckets();
        let fold = launch((buckets.div_ceil(128) as u32, rows), 128);
        let kernels = self.kernels.clone();
        self.run(&kernels.fold, fold, |_| ())?;
        if teeth > 0 {
            let shape = launch((blocks(u64::from(teeth)), vote.combs), 256);
            self.run(&kernels.teeth, shape, |_| ())?;
        }
        let room = self.room()?;
        room.fft.run(Direction::Forward, &mut room.z)?;
        if let Some(fft) = &room.comb_fft {
            fft.run(Direction::Forward, &mut room.comb)?;
        }
        let shape = launch((blocks(u64::from(rows) * buckets), 1), 256);
        // Whether all is finite is known with the first numbers that come back.
        self.run(&kernels.first, shape, |_| ())
    }

    /// Names the sample that made the sums of some row worthless.
    fn blame(&self, bad: u32) -> Error {
        let n = self.vote.n;
        let row = bad.trailing_zeros() as usize;
        if row >= ROWS {
            let teeth = u64::from(self.vote.teeth.max(1));
            return blame(self.signal, self.vote.offset[0], n / teeth, teeth);
        }
        let v = self.vote.voter[row];
        blame(self.signal, v.start, v.sigma, self.recipe.width)
    }

    /// Enqueues a kernel; `more` adds arguments behind the first.
    fn run<'f>(
        &'f self,
        function: &'f CudaFunction,
        shape: LaunchConfig,
        more: impl FnOnce(&mut cudarc::driver::LaunchArgs<'f>),
    ) -> Result<(), Error> {
        let mut args = self.device.stream().launch_builder(function);
        args.arg(&self.vote);
        more(&mut args);
        // SAFETY: the buffers have the sizes that the arguments name, and the signal holds what it
        // promises; arguments follow each kernel's list of parameters.
        unsafe { args.launch(shape) }.map_err(failed)?;
        Ok(())
    }

    /// Forgets the numbers of the last stage.
    fn clear(&mut self) -> Result<(), Error> {
        let stream = self.device.stream().clone();
        let room = self.room()?;
        let mut part = room.found.slice_mut(LASTING..);
        stream.memset_zeros(&mut part).map_err(failed)
    }

    /// The numbers of the last stage, once it has ended, and so many of the first frequencies and
    /// values on the device: one copy each, one wait.
    fn fetch(&mut self, fs: usize, values: usize) -> Result<Found, Error> {
        let device = self.device;
        let stream = device.stream().cu_stream();
        let room = self.room()?;
        let (fs, values) = (fs.min(room.fs.len()), values.min(room.values.len()));
        let bytes = [size_of::<Found>().next_multiple_of(16), 16 * values, 8 * fs];
        device.shared.context.bind_to_thread().map_err(failed)?;
        room.landing.reserve(bytes.iter().sum())?;
        let from = [
            room.found.device_ptr(device.stream()).0,
            room.values.parts.device_ptr(device.stream()).0,
            room.fs.device_ptr(device.stream()).0,
        ];
        let sizes = [size_of::<Found>(), 16 * values, 8 * fs];
        let mut to = room.landing.at.cast::<u8>();
        let mut places = [std::ptr::null::<u8>(); 3];
        for i in 0..3 {
            places[i] = to;
            if sizes[i] > 0 {
                // SAFETY: the landing place has room for all, each on the device for its own.
                unsafe {
                    let part = std::slice::from_raw_parts_mut(to, sizes[i]);
                    result::memcpy_dtoh_async(part, from[i], stream).map_err(failed)?;
                }
            }
            // SAFETY: inside the landing place, or at its end.
            to = unsafe { to.add(bytes[i]) };
        }
        device.synchronize()?;
        // SAFETY: the copies have ended; any bits are numbers.
        let found = unsafe {
            let from = std::slice::from_raw_parts(places[2].cast::<u64>(), fs);
            room.fetched.0.clear();
            room.fetched.0.extend_from_slice(from);
            let from = std::slice::from_raw_parts(places[1].cast::<Z>(), values);
            room.fetched.1.clear();
            room.fetched.1.extend_from_slice(from);
            places[0].cast::<Found>().read()
        };
        if found.bad != 0 {
            return Err(self.blame(found.bad));
        }
        Ok(found)
    }

    fn found(&mut self) -> Result<Found, Error> {
        self.fetch(0, 0)
    }

    /// Enqueues a measurement of the noise, to be found under this number.
    fn enqueue_noise(&self, occupied: bool, which: u32) -> Result<(), Error> {
        let each = (self.vote.buckets as usize).min(NOISE_SAMPLE);
        let (rank, divisor) = noise_rank(2 * each, occupied);
        let (each, rank) = (each as u32, rank as u32);
        self.run(&self.kernels.noise, launch((1, 1), 1024), |args| {
            args.arg(&each).arg(&rank).arg(&divisor).arg(&which);
        })
    }

    /// Energies of what is left in the rows from..to.
    fn energies(&self, from: u32, to: u32) -> Result<(), Error> {
        let shape = launch((blocks(u64::from(to - from) * self.buckets()), 1), 256);
        self.run(&self.kernels.energies, shape, |args| {
            args.arg(&from).arg(&to);
        })
    }

    /// Enqueues a measurement of what the model leaves: noise from the median, and the largest energy.
    fn enqueue_rest(&mut self) -> Result<(), Error> {
        self.energies(0, self.loops())?;
        self.enqueue_noise(false, 1)
    }

    /// Takes what [`enqueue_rest`](There::enqueue_rest) measured.
    fn note_rest(&mut self, found: &Found) {
        self.ahead = [Some(found.noise[1]), None];
        self.loudest = Some(f64::from_bits(found.loudest));
    }

    /// Selects two ranks of the energies in each of `rows` rows from `row` on.
    fn select(&self, row: u32, rows: u32, ranks: [u64; 2], rank_teeth: u64) -> Result<(), Error> {
        let longest = self.vote.buckets.max(self.vote.teeth);
        let count = launch(((longest / 4096).clamp(1, 64), rows), 512);
        let pick = launch((2, rows), 1024);
        for pass in 0..PASSES {
            self.run(&self.kernels.count, count, |args| {
                args.arg(&row).arg(&pass);
            })?;
            self.run(&self.kernels.pick, pick, |args| {
                args.arg(&row).arg(&pass).arg(&ranks[0]).arg(&ranks[1]).arg(&rank_teeth);
            })?;
        }
        Ok(())
    }

    /// Puts frequencies on the device.
    fn send(&mut self, fs: &[u64]) -> Result<(), Error> {
        let (device, stream) = (self.device, self.device.stream().clone());
        self.placed = false;
        let room = self.room()?;
        room.reserve(device, fs.len())?;
        if !fs.is_empty() {
            stream.memcpy_htod(fs, &mut room.fs.slice_mut(..fs.len())).map_err(failed)?;
        }
        Ok(())
    }

    /// Puts values on the device, beside as many frequencies.
    fn send_values(&mut self, values: &[Complex<f64>]) -> Result<(), Error> {
        let stream = self.device.stream().clone();
        let room = self.room()?;
        // SAFETY: complex values are pairs of their parts, without padding.
        let parts =
            unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<f64>(), 2 * values.len()) };
        stream.memcpy_htod(parts, &mut room.values.parts.slice_mut(..parts.len())).map_err(failed)
    }

    /// The address of the values on the device from number `first` on.
    fn values_from(&self, room: &Room, first: u32) -> u64 {
        room.values.parts.device_ptr(self.device.stream()).0 + 16 * u64::from(first)
    }

    /// Medians at the first frequencies on the device, left there as values; `elected`: at those just
    /// elected, at most so many.
    fn medians(&self, count: u32, elected: bool) -> Result<(), Error> {
        self.medians_to(count, 0, u32::from(elected), None)
    }

    /// The same, left as values from number `to` on; `again`: the second time, unless the first has
    /// settled them.
    fn medians_to(
        &self,
        count: u32,
        to: u32,
        elected: u32,
        again: Option<Judge>,
    ) -> Result<(), Error> {
        let Some(room) = self.room.as_ref() else { return Ok(()) };
        let (fs, values, second) = (&room.fs, self.values_from(room, to), again.is_some() as u32);
        let Judge { floor, factor } = again.unwrap_or(Judge { floor: 0.0, factor: 0.0 });
        let (loops, shape) = (self.loops(), launch((blocks(8 * u64::from(count)), 1), 256));
        self.run(&self.kernels.medians, shape, |args| {
            args.arg(&loops).arg(fs).arg(&count).arg(&values).arg(&elected);
            args.arg(&second).arg(&floor).arg(&factor);
        })
    }

    /// Subtracts values on the device, from number `at` on and times a sign, at the first frequencies,
    /// in these rows.
    fn subtract(&self, rows: Range<u32>, at: u32, count: u32, sign: f64) -> Result<(), Error> {
        let Some(room) = self.room.as_ref().filter(|_| count > 0) else { return Ok(()) };
        let (fs, values) = (&room.fs, self.values_from(room, at));
        let Range { start: from, end: to } = rows;
        let shape = launch((blocks(u64::from(count) * u64::from(to - from)), 1), 256);
        self.run(&self.kernels.subtract, shape, |args| {
            args.arg(&from).arg(&to).arg(fs).arg(&values).arg(&count).arg(&sign);
        })
    }

    /// How many energies of a row exceed a threshold.
    fn above(&mut self, row: u32, threshold: f64) -> Result<u64, Error> {
        self.clear()?;
        self.energies(row, row + 1)?;
        let shape = launch((blocks(self.buckets()), 1), 256);
        self.run(&self.kernels.above, shape, |args| {
            args.arg(&row).arg(&threshold);
        })?;
        Ok(u64::from(self.found()?.above))
    }
}

impl Hashes for There<'_> {
    fn noise(&mut self, occupied: bool) -> Result<f64, Error> {
        if let Some(noise) = self.ahead[usize::from(occupied)] {
            return Ok(noise);
        }
        if occupied {
            self.enqueue_noise(true, 1)?;
            return Ok(self.found()?.noise[1]);
        }
        // The largest energy is asked for next.
        self.clear()?;
        self.enqueue_rest()?;
        let found = self.found()?;
        self.note_rest(&found);
        Ok(found.noise[1])
    }

    fn occupied(&mut self, threshold: f64) -> Result<u64, Error> {
        self.above(0, threshold)
    }

    fn locate(&mut self, ask: &Ask) -> Result<Vec<u64>, Error> {
        self.clear()?;
        self.placed = false;
        let (loops, buckets) = (self.loops(), self.buckets());
        let length = buckets as usize;
        let ranks = [length.saturating_sub(ask.keep.max(1)) as u64, (length / 4) as u64];
        let comb_keep = self.recipe.comb.map_or(0, |c| c.keep);
        let rank_teeth = u64::from(self.vote.teeth).saturating_sub(comb_keep.max(1));
        // The row of the combs comes last, behind the witness', which goes along.
        let rows = self.vote.rows + u32::from(self.vote.teeth > 0);
        if self.vote.teeth > 0 && !self.residues {
            self.energies(0, self.vote.rows)?;
            self.select(0, rows, ranks, rank_teeth)?;
            self.residues = true;
        } else {
            self.energies(0, loops)?;
            self.select(0, loops, ranks, rank_teeth)?;
        }
        let shape = launch((blocks(buckets), rows), 256);
        let (floor, keep, keep_teeth) = (ask.floor, ask.keep as u32, comb_keep as u32);
        self.run(&self.kernels.reach, shape, |args| {
            args.arg(&floor);
        })?;
        self.run(&self.kernels.keep, shape, |args| {
            args.arg(&floor).arg(&keep).arg(&keep_teeth);
        })?;
        let recipe = &self.recipe;
        let (locate_loops, votes) = (recipe.locate_loops, recipe.votes);
        let confirmations = recipe.confirmations;
        // The noise is asked for next.
        self.enqueue_noise(true, 1)?;
        // Parts of a bucket's frequencies, so that few buckets keep the device busy.
        let parts = (self.vote.n / buckets / 1024).clamp(1, 32) as u32;
        // Behind a comb, no more of them than kept residues are shared out in.
        let parts = if comb_keep > 0 { parts.min(comb_keep.div_ceil(256) as u32) } else { parts };
        let mut guess = 4 * ask.keep + 64;
        loop {
            let Some(room) = self.room.as_ref() else { return Ok(Vec::new()) };
            let (fs, capacity) = (&room.fs, room.fs.len() as u32);
            for proposer in 0..ask.proposers as u32 {
                self.run(&self.kernels.elect, launch((2112, 1), 256), |args| {
                    args.arg(&proposer).arg(&loops).arg(&locate_loops).arg(&votes);
                    args.arg(&confirmations).arg(&parts).arg(fs).arg(&capacity);
                })?;
            }
            // Medians are asked for next.
            self.medians(capacity, true)?;
            let found = self.fetch(guess, guess)?;
            let elected = found.elected as usize;
            if elected > guess && elected <= capacity as usize {
                // All are there, but not all have been fetched.
                self.fetch(elected, elected)?;
            }
            if elected <= capacity as usize {
                self.ahead[1] = Some(found.noise[1]);
                let Room { fetched: (fs, values), early, .. } = self.room()?;
                fs.truncate(elected);
                early.clear();
                early.extend(fs.iter().copied().zip(values.iter().copied()));
                return Ok(fs.clone());
            }
            // Once more with room for all. What is elected counts from zero again.
            let (device, stream) = (self.device, self.device.stream().clone());
            let room = self.room()?;
            room.reserve(device, elected)?;
            guess = elected;
            let at = std::mem::offset_of!(Found, elected);
            stream.memset_zeros(&mut room.found.slice_mut(at..at + 4)).map_err(failed)?;
        }
    }

    fn estimate(&mut self, candidates: &[u64], least: f64, most: usize) -> Result<bool, Error> {
        let mut tones = match self.early_of(candidates) {
            Some(tones) => tones,
            None => {
                self.send(candidates)?;
                self.medians(candidates.len() as u32, false)?;
                self.fetch(0, candidates.len())?;
                let values = self.room()?.fetched.1.iter().copied();
                candidates.iter().copied().zip(values).collect()
            }
        };
        tones.retain(|(_, a)| a.norm_sqr() > least);
        largest(&mut tones, most, |t| *t);
        // The device elects in any order.
        tones.sort_unstable_by_key(|t| t.0);
        self.add(&tones, 1.0)?;
        let added = !tones.is_empty();
        self.tones.extend_from_slice(&tones);
        self.room()?.early = tones;
        Ok(added)
    }

    fn correct(&mut self, settled: Judge) -> Result<(usize, f64), Error> {
        if !self.placed {
            let fs: Vec<u64> = self.tones.iter().map(|t| t.0).collect();
            self.send(&fs)?;
            self.placed = true;
        }
        // Once is seldom enough: the second time follows without a word from here.
        let (count, loops) = (self.tones.len(), self.loops());
        let second = count as u32;
        self.clear()?;
        self.medians(second, false)?;
        self.subtract(0..loops, 0, second, 1.0)?;
        self.enqueue_noise(false, 0)?;
        self.medians_to(second, second, 0, Some(settled))?;
        self.subtract(0..loops, second, second, 1.0)?;
        self.enqueue_rest()?;
        let found = self.fetch(0, 2 * count)?;
        self.note_rest(&found);
        let [first, last] = found.change.map(f64::from_bits);
        let mut tones = std::mem::take(&mut self.tones);
        let (changes, more) = self.room()?.fetched.1.split_at(count);
        for (tone, (change, more)) in tones.iter_mut().zip(changes.iter().zip(more)) {
            tone.1 += change + more;
        }
        self.tones = tones;
        let enough = first < settled.threshold(found.noise[0]);
        Ok(if enough { (1, first) } else { (2, last) })
    }

    fn prune(&mut self, least: f64) -> Result<(), Error> {
        let (keep, drop): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.tones).into_iter().partition(|t| t.1.norm_sqr() > least);
        self.tones = keep;
        self.add(&drop, -1.0)
    }

    fn model(&self) -> Vec<(u64, Complex<f64>)> {
        self.tones.clone()
    }

    fn loudest(&mut self) -> Result<f64, Error> {
        if let Some(loudest) = self.loudest {
            return Ok(loudest);
        }
        self.clear()?;
        self.enqueue_rest()?;
        let found = self.found()?;
        self.note_rest(&found);
        Ok(f64::from_bits(found.loudest))
    }

    fn witness(
        &mut self,
        peaks: &[Peak],
        instants: &[u64],
        judge: Judge,
    ) -> Result<Witness, Error> {
        let n = self.vote.n as f64;
        let fs: Vec<u64> = peaks.iter().map(|p| p.index).chain(instants.iter().copied()).collect();
        let values: Vec<_> = peaks.iter().map(|p| p.value / n).collect();
        let (row, count, more) = (self.loops(), peaks.len(), instants.len());
        self.send(&fs)?;
        if !values.is_empty() {
            self.send_values(&values)?;
        }
        self.subtract(row..row + 1, 0, count as u32, 1.0)?;
        if let Some(room) = self.room.as_ref() {
            // The instants lie behind the frequencies, and so do their values.
            let (fs, values, tones) = (&room.fs, &room.values.parts, count as u32);
            let times = fs.device_ptr(self.device.stream()).0 + 8 * count as u64;
            let out = self.values_from(room, tones);
            self.run(&self.kernels.instants, launch((more as u32, 1), 256), |args| {
                args.arg(&times).arg(fs).arg(values).arg(&tones).arg(&out);
            })?;
        }
        self.clear()?;
        self.energies(row, row + 1)?;
        let (rank, divisor) = noise_rank(self.vote.buckets as usize, false);
        self.select(row, 1, [rank as u64, rank as u64], 0)?;
        let shape = launch((blocks(self.buckets()), 1), 256);
        self.run(&self.kernels.witness, shape, |args| {
            args.arg(&row).arg(&divisor).arg(&judge.floor).arg(&judge.factor);
        })?;
        let found = self.fetch(0, count + 2 * more)?;
        let (model, samples) = self.room()?.fetched.1[count..].split_at(more);
        Ok(Witness {
            noise: found.noise[0],
            unexplained: u64::from(found.above),
            samples: samples.to_vec(),
            model: model.to_vec(),
            set: None,
        })
    }
}

impl There<'_> {
    /// Adds tones to the model, times a sign.
    fn add(&mut self, tones: &[(u64, Complex<f64>)], sign: f64) -> Result<(), Error> {
        if tones.is_empty() {
            return Ok(());
        }
        let (fs, values): (Vec<u64>, Vec<_>) = tones.iter().copied().unzip();
        self.send(&fs)?;
        self.send_values(&values)?;
        (self.ahead, self.loudest) = ([None; 2], None);
        self.subtract(0..self.loops(), 0, fs.len() as u32, sign)
    }

    /// These frequencies with the medians that were taken when they were elected; nothing if some
    /// were not.
    fn early_of(&mut self, candidates: &[u64]) -> Option<Vec<(u64, Z)>> {
        let mut early = std::mem::take(&mut self.room.as_mut()?.early);
        if early.iter().map(|e| e.0).eq(candidates.iter().copied()) {
            return Some(early);
        }
        early.sort_unstable_by_key(|e| e.0);
        let find = |f: &u64| early.binary_search_by_key(f, |e| e.0).ok().map(|i| early[i]);
        candidates.iter().map(find).collect()
    }
}
