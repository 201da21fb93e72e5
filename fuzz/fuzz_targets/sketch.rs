//! Damaged sketches, their checksums repaired, are refused in words or are sketches in every way; little
//! makes little work, which the limits of time and memory of `cargo xtask fuzz` see to.
#![no_main]

use sparse::{Error, Sketch};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut bytes = b"SFFTSKCH\x01\0\0\0".to_vec();
    bytes.extend(data.get(12..data.len().saturating_sub(4)).unwrap_or_default());
    let sum = crc32fast::hash(&bytes);
    bytes.extend(sum.to_le_bytes());
    let sketch = match Sketch::from_bytes(&bytes) {
        Ok(sketch) => sketch,
        Err(refusal) => return in_words(&refusal),
    };
    let stored = sketch.to_bytes();
    let mut again = Sketch::from_bytes(&stored).expect("what a sketch wrote");
    assert_eq!(again.to_bytes(), stored);
    assert_eq!((again.seen(), again.kept()), (sketch.seen(), sketch.kept()));
    if sketch.seen() > 0 {
        in_words(&again.merge_bytes(&stored).expect_err("all of it was seen twice"));
    }
    match sketch.finish() {
        Ok(spectrum) => assert!(spectrum.peaks().iter().all(|p| p.index < spectrum.n())),
        Err(refusal) => in_words(&refusal),
    }
});

fn in_words(refusal: &Error) {
    let words = refusal.to_string();
    assert!(words.len() > 20 && !words.contains('\n'), "not one sentence: {words:?}");
}
