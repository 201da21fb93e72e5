//! scratch
use sparsefft::*;
use std::time::Instant;
struct R(u64);
impl R {
    fn u(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e3779b97f4a7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d049bb133111eb);
        z ^ (z >> 31)
    }
    fn f(&mut self) -> f64 {
        (self.u() >> 11) as f64 / (1u64 << 53) as f64
    }
    fn g(&mut self) -> Complex<f64> {
        let r = (-(self.f() + 1e-300).ln()).sqrt();
        Complex::from_polar(r, self.f() * std::f64::consts::TAU)
    }
}
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let n: u64 = {
        let s = &a[1];
        if let Some(p) = s.strip_prefix("2^") {
            1 << p.parse::<u32>().unwrap()
        } else {
            s.parse().unwrap()
        }
    };
    let k: usize = a[2].parse().unwrap();
    let snr: f64 = a[3].parse().unwrap(); // dB, 999 none
    let kind = a[4].as_str();
    let trials: usize = a[5].parse().unwrap();
    let ask: i64 = a.get(6).map_or(k as i64, |s| s.parse().unwrap());
    let mut r = R(12345);
    let mut buf = vec![Complex::<f64>::ZERO; n as usize];
    let fft = rustfft::FftPlanner::new().plan_fft_inverse(n as usize);
    let mut ok = 0;
    let mut cert = 0;
    let mut wrongcert = 0;
    let mut dense = 0;
    let mut first = 0;
    let mut times = vec![];
    let mut reads = 0u64;
    let mut maxerr = 0f64;
    let mut rms = 0.;
    for trial in 0..trials {
        let mut fs: Vec<u64> = vec![];
        while fs.len() < k {
            let i = fs.len() as u64;
            let f = match kind {
                "rand" | "db" => r.u() % n,
                "res" => (r.u() % (n / 4096)) * 4096 + 17,
                "ap" => (31 + i * (n / (k as u64 * 3) + 1)) % n,
                "train" => i * (n / k as u64),
                "cluster" => (n / 3 + i) % n,
                "pow2ap" => (5 + i * 1024) % n,
                "pairs" => {
                    if i % 2 == 0 {
                        r.u() % n
                    } else {
                        (fs[fs.len() - 1] + n / 2) % n
                    }
                }
                _ => panic!(),
            };
            if !fs.contains(&f) {
                fs.push(f)
            } else if kind != "rand" && kind != "db" && kind != "res" {
                panic!("dup")
            }
        }
        let t0 = r.u() % n;
        let amps: Vec<Complex<f64>> = fs
            .iter()
            .map(|&f| {
                let ph = r.f() * std::f64::consts::TAU;
                if kind == "train" {
                    Complex::cis(
                        std::f64::consts::TAU * ((f as u128 * t0 as u128 % n as u128) as f64)
                            / n as f64,
                    )
                } else {
                    Complex::from_polar(
                        if kind == "db" { 10f64.powf(-6.0 * r.f()) } else { 1.0 },
                        ph,
                    )
                }
            })
            .collect();
        buf.fill(Complex::ZERO);
        for (f, a) in fs.iter().zip(&amps) {
            buf[*f as usize] = *a;
        }
        fft.process(&mut buf);
        let sigma = if snr > 900. { 0. } else { 10f64.powf(-snr / 20.) };
        if sigma > 0. {
            for v in buf.iter_mut() {
                *v += r.g() * sigma;
            }
        }
        let mut p = Problem::new(n).seed(trial as u64);
        if ask >= 0 {
            p = p.sparsity(ask as u64)
        }
        if let Ok(alg) = std::env::var("ALG") {
            p = p.algorithm(alg.parse().unwrap());
        }
        if std::env::var("NODENSE").is_ok() {
            p = p.fallback(Fallback::Never);
        }
        let plan = Plan::new(p).unwrap();
        let s = plan.transform(&buf).unwrap();
        let mut best = u128::MAX;
        for _ in 0..3 {
            let t = Instant::now();
            let _ = plan.transform(&buf).unwrap();
            best = best.min(t.elapsed().as_nanos());
            if best > 20_000_000 {
                break;
            }
        }
        times.push(best);
        reads += s.report().samples_read;
        let mut want: Vec<(u64, Complex<f64>)> =
            fs.iter().cloned().zip(amps.iter().cloned()).collect();
        want.sort_by_key(|x| x.0);
        let lim = if sigma > 0. {
            6.0 * sigma / ((s.report().samples_read as f64).sqrt()) * 2.0
        } else {
            1e-9
        };
        let mut good = want.len() == s.peaks().len();
        if good {
            for (w, p) in want.iter().zip(s.peaks()) {
                let e = (p.value / n as f64 - w.1).norm();
                if w.0 != p.index || e > lim {
                    good = false;
                } else {
                    maxerr = maxerr.max(e);
                    rms += e * e;
                }
            }
        }
        let c = s.certificate();
        if good {
            ok += 1
        }
        match c.verdict {
            Verdict::Certified => {
                cert += 1;
                if !good {
                    wrongcert += 1;
                    let miss: Vec<_> =
                        want.iter().filter(|w| !s.peaks().iter().any(|p| p.index == w.0)).collect();
                    let extra: Vec<_> =
                        s.peaks().iter().filter(|p| !want.iter().any(|w| p.index == w.0)).collect();
                    println!(
                        "WRONG trial {trial}: found {} miss {:?} extra {:?} maxerr {} {c}",
                        s.peaks().len(),
                        &miss[..miss.len().min(3)],
                        &extra[..extra.len().min(3)],
                        want.iter()
                            .map(|w| (s.value(w.0) / n as f64 - w.1).norm())
                            .fold(0., f64::max)
                    );
                }
            }
            Verdict::Dense => {
                dense += 1;
                if dense < 3 {
                    println!("DENSE {trial} {c}")
                }
            }
            _ => {
                println!("trial {trial}: found {} {c}", s.peaks().len());
            }
        }
        if c.attempts == 1 && c.verdict == Verdict::Certified {
            first += 1
        }
        if trial == 0 {
            println!("{plan}");
            println!("{:?}", s.report().stages);
            println!("{c}");
        }
    }
    times.sort();
    println!(
        "n {n} k {k} snr {snr} {kind}: right {ok}/{trials} certified {cert} first {first} dense {dense} WRONGCERT {wrongcert} median {} us p90 {} reads {} maxerr {maxerr:.2e} rms {:.2e}",
        times[times.len() / 2] as f64 / 1e3,
        times[times.len() * 9 / 10] as f64 / 1e3,
        reads / trials as u64,
        (rms / (ok.max(1) * k) as f64).sqrt()
    );
}
