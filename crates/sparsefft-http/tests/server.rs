//! Against a server of this file's own: peaks from few bytes, faults, and servers without ranges.

use sparsefft::{Complex, Error, Plan, Problem, Samples};
use sparsefft_http::{Object, Patience, Remote};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use testkit::{Format, Rng, Signal, Source, generate};

/// How a server behaves.
#[derive(Clone, Copy, PartialEq)]
enum Manners {
    Good,
    /// After the very first, so many requests end in 503, in a closed connection, or in half an answer, in turn.
    Flaky(usize),
    /// Everything ends in 503 after the first request.
    Dying,
    /// Sends the whole file whatever is asked for.
    NoRanges,
    Missing,
    /// After the first request, a byte now and then, without end.
    Drip,
    /// The same within the headers.
    DripHeaders,
    /// After the first request, no answer at all.
    Silent,
    /// Every answer with these headers; after so many requests with the second ones.
    Versions(usize, &'static str, &'static str),
    /// After so many requests the object is so much longer, or shorter.
    Resized(usize, i64),
}

struct Server {
    url: String,
    bytes: Arc<AtomicU64>,
    together: Arc<AtomicUsize>,
}

/// Serves these bytes from a free port until the test ends.
fn serve(data: Vec<u8>, manners: Manners) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/x.bin", listener.local_addr().unwrap());
    let (bytes, together) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicUsize::new(0)));
    let (sent, most) = (bytes.clone(), together.clone());
    std::thread::spawn(move || {
        let (data, count) = (Arc::new(data), Arc::new(AtomicUsize::new(0)));
        let now = Arc::new(AtomicUsize::new(0));
        for stream in listener.incoming().flatten() {
            let (data, count) = (data.clone(), count.clone());
            let (sent, most, now) = (sent.clone(), most.clone(), now.clone());
            std::thread::spawn(move || {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                // A client that goes away is no concern of ours.
                let _ = answer(stream, &data, manners, &count, &sent);
                now.fetch_sub(1, Ordering::SeqCst);
            });
        }
    });
    Server { url, bytes, together }
}

fn answer(
    mut stream: TcpStream,
    data: &[u8],
    manners: Manners,
    count: &AtomicUsize,
    sent: &AtomicU64,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut range = None;
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("range: bytes=") {
            let (a, b) = value.trim().split_once('-').unwrap();
            range = Some((a.parse::<usize>().unwrap(), b.parse::<usize>().unwrap()));
        }
        line.clear();
    }
    let i = count.fetch_add(1, Ordering::SeqCst);
    let close = "Connection: close\r\n";
    let dead = manners == Manners::Dying && i > 0;
    let faulty = matches!(manners, Manners::Flaky(last) if (1..=last).contains(&i));
    if dead || (faulty && i.is_multiple_of(3)) {
        return write!(stream, "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n{close}\r\n");
    }
    if faulty && i % 3 == 1 {
        return Ok(());
    }
    if manners == Manners::Missing {
        return write!(stream, "HTTP/1.1 404 Gone\r\nContent-Length: 0\r\n{close}\r\n");
    }
    if manners == Manners::Silent && i > 0 {
        std::thread::sleep(Duration::from_secs(3600));
    }
    if manners == Manners::DripHeaders && i > 0 {
        write!(stream, "HTTP/1.1 206 Part\r\nX-Slow: ")?;
        return drip(stream);
    }
    let (mut size, mut more) = (data.len(), "");
    match manners {
        Manners::Versions(after, early, late) => more = if i < after { early } else { late },
        Manners::Resized(after, by) if i >= after => size = (size as i64 + by) as usize,
        _ => {}
    }
    if range.is_some_and(|(first, _)| first >= size) {
        return write!(stream, "HTTP/1.1 416 None\r\nContent-Length: 0\r\n{close}\r\n");
    }
    let (Some((first, last)), false) = (range, manners == Manners::NoRanges) else {
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{close}\r\n", data.len())?;
        return stream.write_all(data);
    };
    let last = last.min(data.len() - 1);
    let part = &data[first..=last];
    write!(
        stream,
        "HTTP/1.1 206 Part\r\nContent-Range: bytes {first}-{last}/{size}\r\nContent-Length: {}\r\n\
         {more}{close}\r\n",
        part.len()
    )?;
    if manners == Manners::Drip && i > 0 {
        return drip(stream);
    }
    sent.fetch_add(part.len() as u64, Ordering::SeqCst);
    std::thread::sleep(Duration::from_micros(300));
    stream.write_all(if faulty { &part[..part.len() / 2] } else { part })
}

/// A byte every few milliseconds, until the client has had enough.
fn drip(mut stream: TcpStream) -> std::io::Result<()> {
    loop {
        stream.write_all(b"x")?;
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A noisy recording of 2^20 samples as cf32 behind a header of 128 bytes.
fn recording() -> (Vec<Complex<f32>>, Vec<u8>) {
    let n = 1 << 20;
    let tones = generate::random(&mut Rng::new(1), n, 4);
    let signal = Signal::new(n, tones).noise(0.01, 2).format(Format::F32);
    let Source::C32(x) = signal.stored(Vec::new()) else { panic!() };
    let mut bytes = vec![7u8; 128];
    bytes.extend(x.iter().flat_map(|v| [v.re.to_le_bytes(), v.im.to_le_bytes()].concat()));
    (x, bytes)
}

const SHORT: Duration = Duration::from_millis(1);

#[test]
fn few_bytes_give_the_answer_of_the_file() {
    let (x, bytes) = recording();
    let size = bytes.len() as u64;
    let server = serve(bytes, Manners::Good);
    let remote = Remote::<Complex<f32>>::open(&server.url, 128).unwrap().join(64).threads(4);
    assert_eq!(remote.len(), 1 << 20);
    let problem = Problem::new(1 << 20).sparsity(4).seed(3);
    // As an ordinary transform, and as a sketch that asks for everything at once.
    let plan = Plan::new(problem.clone()).unwrap();
    let found = plan.transform(&remote).unwrap();
    assert_eq!(found.peaks(), plan.transform(&x).unwrap().peaks());
    assert!(found.certificate().is_certified(), "{}", found.certificate());
    let once = remote.fetched();
    assert!(once < size / 50, "{once} of {size} bytes");
    let plan = Plan::new(problem.one_pass()).unwrap();
    let mut sketch = plan.sketch().unwrap();
    sketch.add(0, &remote).unwrap();
    assert_eq!(sketch.finish().unwrap().peaks(), plan.transform(&x).unwrap().peaks());
    let sketched = remote.fetched() - once;
    assert!(sketched < size / 10, "{sketched} of {size} bytes");
    assert_eq!(server.bytes.load(Ordering::SeqCst), remote.fetched());
    assert!(server.together.load(Ordering::SeqCst) > 1, "one request at a time");
    // Fewer, longer requests where the gaps are short.
    let coarse = Remote::<Complex<f32>>::open(&server.url, 128).unwrap().join(1 << 20);
    let mut out = vec![Complex::ZERO; 300];
    let indices: Vec<u64> = (0..300).map(|i| i * 7919 % (1 << 20)).collect();
    coarse.read(&indices, &mut out).unwrap();
    assert!(indices.iter().zip(&out).all(|(&t, v)| x[t as usize].re as f64 == v.re));
    assert!(coarse.object().requests() <= 3, "{}", coarse.object().requests());
}

#[test]
fn other_types_and_whole_ranges() {
    let values: Vec<i16> = (0..5000).map(|t| (t * 37 % 2001) as i16 - 1000).collect();
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let server = serve(bytes, Manners::Good);
    let remote = Remote::<i16>::open(&server.url, 0).unwrap();
    assert!(remote.is_real() && remote.resolution() == 1.0);
    let mut out = vec![Complex::ZERO; 4000];
    remote.read_range(500, &mut out).unwrap();
    assert!(out.iter().zip(&values[500..]).all(|(v, &w)| v.re == f64::from(w) && v.im == 0.0));
    assert_eq!(Remote::<i16>::open(&server.url, 0).unwrap().first(9).unwrap().len(), 9);
    assert!(Remote::<i16>::open(&server.url, 0).unwrap().first(5001).is_err());
    let odd = Remote::<Complex<f64>>::open(&server.url, 1).unwrap_err().to_string();
    assert!(odd.contains("no whole number of samples of 16 bytes"), "{odd}");
    let object = Object::open(&server.url).unwrap();
    assert_eq!(object.size(), 10_000);
    let beyond = object.read(9_990, &mut [0; 20]).unwrap_err().to_string();
    assert!(beyond.contains("9990..10010"), "{beyond}");
}

#[test]
fn faults_are_tried_again_and_then_named() {
    let (x, bytes) = recording();
    let server = serve(bytes.clone(), Manners::Flaky(12));
    let remote = Remote::<Complex<f32>>::open(&server.url, 128).unwrap().tries(9, SHORT).threads(2);
    let plan = Plan::new(Problem::new(1 << 20).sparsity(4)).unwrap();
    assert_eq!(plan.transform(&remote).unwrap().peaks(), plan.transform(&x).unwrap().peaks());

    let server = serve(bytes, Manners::Dying);
    let remote = Remote::<Complex<f32>>::open(&server.url, 128).unwrap().tries(3, SHORT).threads(3);
    let Err(Error::Source(message)) = plan.transform(&remote) else { panic!() };
    assert!(message.contains("503") && message.contains("(3)"), "{message}");
    assert!(message.contains("bytes ") && message.contains(".."), "{message}");
    // A few threads, three tries each, and the one that asked for the size.
    assert!(remote.object().requests() <= 1 + 3 * 3, "{}", remote.object().requests());
}

#[test]
fn servers_that_cannot_help_are_told_apart() {
    let words = |manners| Object::open(&serve(vec![1; 1000], manners).url).unwrap_err().to_string();
    let text = words(Manners::NoRanges);
    assert!(text.contains("does not serve ranges"), "{text}");
    let text = words(Manners::Missing);
    assert!(text.contains("404") && text.contains("(1)"), "{text}");
    let nobody = Object::open("http://127.0.0.1:1/x").unwrap_err().to_string();
    assert!(nobody.contains("127.0.0.1:1/x"), "{nobody}");
    let secure = Object::open("https://127.0.0.1:1/x").unwrap_err().to_string();
    assert!(secure.contains("https://127.0.0.1:1/x"), "{secure}");
    assert!(Object::open("no address").is_err());
}

/// Without a deadline these would go on for a day: a byte every 5 ms for 16 MiB.
#[test]
fn servers_that_hardly_send_anything_are_given_up() {
    let grace = Duration::from_millis(500);
    for manners in [Manners::Drip, Manners::DripHeaders, Manners::Silent] {
        let server = serve(vec![1; 16 << 20], manners);
        let patience = Patience::default().tries(2, SHORT).speed(grace, 1 << 20);
        let object = Object::open_with(&server.url, patience).unwrap();
        let error = object.read(0, &mut vec![0; 16 << 20]).unwrap_err().to_string();
        let word = if manners == Manners::Drip { "too slow" } else { "timeout" };
        assert!(error.contains(word) && error.contains("bytes 0..16777216"), "{error}");
        assert!(object.requests() <= 1 + 2, "{}", object.requests());
        // As a source of samples: the transform ends with that error.
        let remote = Remote::<f32>::open_with(&server.url, 0, patience);
        let mut out = vec![Complex::ZERO; 5000];
        let error = match remote {
            Ok(remote) => remote.read_range(0, &mut out).unwrap_err(),
            // The first request of this server was that of the object above.
            Err(error) => error,
        };
        assert!(matches!(error, Error::Source(_)), "{error}");
    }
}

#[test]
fn a_slow_server_that_goes_on_is_waited_for() {
    // 40 pieces of 100 bytes, far slower than the grace alone allows, but fast enough.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/x.bin", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut line = String::new();
            let mut len = 0;
            while reader.read_line(&mut line).unwrap() > 2 {
                if let Some(range) = line.to_ascii_lowercase().strip_prefix("range: bytes=0-") {
                    len = 1 + range.trim().parse::<usize>().unwrap();
                }
                line.clear();
            }
            let head = format!("HTTP/1.1 206 Part\r\nContent-Range: bytes 0-{}/4000", len - 1);
            write!(stream, "{head}\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n").unwrap();
            for piece in vec![7u8; len].chunks(100) {
                stream.write_all(piece).unwrap();
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    });
    let patience = Patience::default().tries(1, SHORT).speed(Duration::from_millis(500), 100);
    let object = Object::open_with(&url, patience).unwrap();
    let mut out = vec![0; 4000];
    object.read(0, &mut out).unwrap();
    assert!(out.iter().all(|&b| b == 7));
}

#[test]
fn objects_that_change_are_refused() {
    let read = |manners| {
        let server = serve(vec![1; 100_000], manners);
        let object = Object::open(&server.url).unwrap();
        let mut out = [0; 10];
        let reads = (0..20u64).try_for_each(|i| object.read(i * 4000, &mut out));
        reads.map(|()| object.requests()).map_err(|e| e.to_string())
    };
    let changed = |manners, words: &[&str]| {
        let error = read(manners).unwrap_err();
        for word in words {
            assert!(error.contains(word), "'{word}' is missing in: {error}");
        }
        assert!(error.contains("(1)"), "asked for again: {error}");
    };
    let etag = |tag| Manners::Versions(5, "ETag: \"a1\"\r\n", tag);
    changed(etag("ETag: \"b2\"\r\n"), &["has changed", "\"a1\"", "\"b2\"", "bytes 16000..16010"]);
    let late = "Last-Modified: Thu, 19 Nov 2026 03:00:01 GMT\r\n";
    let early = "Last-Modified: Thu, 19 Nov 2026 03:00:00 GMT\r\n";
    changed(Manners::Versions(5, early, late), &["has changed", "03:00:00", "03:00:01"]);
    changed(Manners::Resized(5, 1), &["has changed", "100000 bytes", "100001"]);
    changed(Manners::Resized(5, -70_000), &["has changed", "100000 bytes", "30000"]);
    changed(Manners::Resized(15, -70_000), &["has become shorter"]);
    // A weak ETag does not say that every byte is the same.
    let weak = "ETag: W/\"a1\"\r\nLast-Modified: Thu, 19 Nov 2026 03:00:00 GMT\r\n";
    let weaker = "ETag: W/\"a1\"\r\nLast-Modified: Thu, 19 Nov 2026 03:00:01 GMT\r\n";
    changed(Manners::Versions(5, weak, weaker), &["has changed", "03:00:01"]);
    // What is told by some answers only, or told alike, is no change; nor are two clocks of servers
    // that agree on a strong ETag.
    assert_eq!(read(Manners::Versions(5, "ETag: \"a1\"\r\n", "")), Ok(21));
    assert_eq!(read(Manners::Versions(5, "", late)), Ok(21));
    assert_eq!(read(Manners::Versions(0, weak, weak)), Ok(21));
    let strong = "ETag: \"a1\"\r\nLast-Modified: Thu, 19 Nov 2026 03:00:00 GMT\r\n";
    let other = "ETag: \"a1\"\r\nLast-Modified: Thu, 19 Nov 2026 03:00:01 GMT\r\n";
    assert_eq!(read(Manners::Versions(5, strong, other)), Ok(21));
    let packed = "Content-Encoding: gzip\r\n";
    let error = Object::open(&serve(vec![1; 10], Manners::Versions(0, "", packed)).url);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("gzip") && error.contains("as they are"), "{error}");
    let empty = Object::open(&serve(vec![1; 10], Manners::Resized(0, -10)).url).unwrap_err();
    assert!(empty.to_string().contains("empty"), "{empty}");
}
