//! `plot`, `waterfall` and `report`: right axes, whole files, a page that works in a browser.

mod common;

use common::*;
use std::path::Path;

fn recording(dir: &Path) -> String {
    let path = dir.join("x.sigmf-meta").to_str().unwrap().to_owned();
    let made = run([
        "gen",
        "-n",
        "64Ki",
        "--rate",
        "2M",
        "--center",
        "100M",
        "--noise",
        "-40",
        "--bin",
        "1000:-6",
        "--bin",
        "40000:-20",
        "--bin",
        "65000:-30",
        "-o",
        &path,
    ]);
    assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
    path
}

/// Values of an attribute in the elements of a class, with the class's other attributes.
fn elements<'a>(svg: &'a str, class: &str) -> Vec<&'a str> {
    svg.lines().filter(|l| l.contains(&format!("class=\"{class}\""))).collect()
}

fn attribute(element: &str, name: &str) -> f64 {
    let start = element.find(&format!(" {name}=\"")).unwrap_or_else(|| panic!("{name}: {element}"));
    let rest = &element[start + name.len() + 3..];
    rest[..rest.find('"').unwrap()].parse().unwrap()
}

/// The straight line through the ticks of an axis: pixels to values.
fn axis(svg: &str, class: &str, pixel: &str, shift: f64) -> impl Fn(f64) -> f64 {
    let ticks: Vec<(f64, f64)> = elements(svg, class)
        .iter()
        .map(|e| (attribute(e, pixel) - shift, attribute(e, "data-value")))
        .collect();
    assert!(ticks.len() >= 3, "{class}: {ticks:?}");
    let (a, b) = (ticks[0], ticks[ticks.len() - 1]);
    let slope = (b.1 - a.1) / (b.0 - a.0);
    for t in &ticks {
        let here = a.1 + slope * (t.0 - a.0);
        assert!((here - t.1).abs() < 1e-3 * (b.1 - a.1).abs(), "{class} is not straight");
    }
    move |p| a.1 + slope * (p - a.0)
}

#[test]
fn stems_stand_where_the_axes_say() {
    let dir = tempfile::tempdir().unwrap();
    let path = recording(dir.path());
    for theme in [&[][..], &["--dark"]] {
        let out = dir.path().join("p.svg");
        let done = sparsefft().args(["plot", &path, "-o"]).arg(&out).args(theme).output().unwrap();
        assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
        let svg = std::fs::read_to_string(&out).unwrap();
        let x = axis(&svg, "x-tick", "x", 0.0);
        // Tick labels sit 4 pixels below their line.
        let y = axis(&svg, "y-tick", "y", 4.0);
        let peaks = elements(&svg, "peak");
        assert_eq!(peaks.len(), 3, "{svg}");
        for (index, level) in [(1000.0, -6.0), (40000.0, -20.0), (65000.0, -30.0)] {
            let stem = peaks.iter().find(|e| attribute(e, "data-index") == index).unwrap();
            let cycles = if index < 32768.0 { index } else { index - 65536.0 } / 65536.0;
            let error = x(attribute(stem, "x1")) - (100e6 + 2e6 * cycles);
            assert!(error.abs() < 2000.0, "bin {index} is {error} Hz off");
            let error = y(attribute(stem, "y2")) - level;
            assert!(error.abs() < 0.5, "bin {index} is {error} dB off");
        }
        let floor = attribute(elements(&svg, "floor")[0], "data-level");
        // σ is -40 dB per sample, √n = 48 dB.
        assert!((floor + 40.0 + 48.16).abs() < 2.0, "{floor}");
        assert_eq!(elements(&svg, "threshold").len(), 1);
        let label =
            elements(&svg, "label").into_iter().find(|e| attribute(e, "data-index") == 1000.0);
        assert!(label.unwrap().contains("100.0305"), "{label:?}");
    }
}

#[test]
fn real_signals_have_a_one_sided_axis() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.wav");
    let path = path.to_str().unwrap();
    run(["gen", "-n", "4096", "--real", "--bin", "500", "--rate", "48k", "-o", path]);
    let out = dir.path().join("p.svg");
    run(["plot", path, "-k", "2", "-o", out.to_str().unwrap()]);
    let svg = std::fs::read_to_string(&out).unwrap();
    let ticks: Vec<f64> =
        elements(&svg, "x-tick").iter().map(|e| attribute(e, "data-value")).collect();
    assert!(ticks.iter().all(|t| (0.0..=24_000.0).contains(t)), "{ticks:?}");
    assert_eq!(elements(&svg, "peak").len(), 1);
}

/// Width and height of a PNG file that ends as it should.
fn png_size(path: &Path) -> (u32, u32) {
    let bytes = std::fs::read(path).unwrap();
    assert!(bytes.starts_with(b"\x89PNG\r\n\x1a\n") && bytes.ends_with(b"IEND\xaeB`\x82"));
    let side = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    (side(16), side(20))
}

#[test]
fn png_pictures_have_their_size() {
    let dir = tempfile::tempdir().unwrap();
    let path = recording(dir.path());
    let out = dir.path().join("p.png");
    let to = out.to_str().unwrap();
    assert_eq!(run(["plot", &path, "-o", to, "--size", "640x360"]).status.code(), Some(0));
    assert_eq!(png_size(&out), (640, 360));
    let done = run(["waterfall", &path, "-o", to, "--width", "1024", "--size", "500x400"]);
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    assert_eq!(png_size(&out), (500, 400));
    refused(&run(["plot", &path, "-o", dir.path().join("p.jpg").to_str().unwrap()]), &[".svg"]);
    refused(&run(["plot", &path, "-o", to, "--size", "10"]), &["WIDTHxHEIGHT"]);
}

#[test]
fn the_waterfall_follows_a_drift() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.cf32");
    let path = path.to_str().unwrap();
    run([
        "gen",
        "-n",
        "1Mi",
        "--rate",
        "1M",
        "--tone",
        "-200k:-10",
        "--chirp",
        "100k:300k:-20",
        "--noise",
        "-30",
        "-o",
        path,
    ]);
    let out = dir.path().join("w.svg");
    let done = run([
        "waterfall",
        path,
        "--rate",
        "1M",
        "--width",
        "2048",
        "--json",
        "-o",
        out.to_str().unwrap(),
    ]);
    let v = json(&done);
    let tracks = v["tracks"].as_array().unwrap();
    assert_eq!(tracks.len(), 2, "{v}");
    let number = |i: usize, key: &str| tracks[i][key].as_f64().unwrap();
    assert!((number(0, "from") + 200e3).abs() < 500.0 && (number(0, "to") + 200e3).abs() < 500.0);
    assert!((number(1, "from") - 100e3).abs() < 1500.0, "{v}");
    assert!((number(1, "to") - 300e3).abs() < 1500.0, "{v}");
    assert!((number(1, "end") - number(1, "start") - 1.048).abs() < 0.05);
    let svg = std::fs::read_to_string(&out).unwrap();
    assert_eq!(elements(&svg, "track").len(), 2);
}

/// Blocks that share half of their samples: neither the axis nor the tracks are stretched.
#[test]
fn the_time_axis_is_that_of_the_recording() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.cf32");
    let path = path.to_str().unwrap();
    let chirp = ["--chirp", "-200k:200k", "--noise", "-40", "--rate", "4M"];
    run([&["gen", "-n", "16000", "-o", path][..], &chirp].concat());
    for (width, rate) in
        [("1000", Some(4e6)), ("2000", Some(4e6)), ("8000", Some(4e6)), ("2000", None)]
    {
        let out = dir.path().join("w.svg");
        let mut command = sparsefft();
        command.args(["waterfall", path, "--width", width, "--json", "-o"]).arg(&out);
        if rate.is_some() {
            command.args(["--rate", "4M"]);
        }
        let v = json(&command.output().unwrap());
        let svg = std::fs::read_to_string(&out).unwrap();
        let y = axis(&svg, "y-tick", "y", 4.0);
        // Labels of the lower axis hang 18 pixels below it.
        let bottom = attribute(elements(&svg, "x-tick")[0], "y") - 18.0;
        let length = 16000.0 / rate.unwrap_or(1.0);
        assert!((y(bottom) / length - 1.0).abs() < 1e-3, "{width}: {} of {length}", y(bottom));
        if width == "8000" {
            continue; // four blocks are no track
        }
        // In the middle of each block the chirp is where its track passes.
        let x = axis(&svg, "x-tick", "x", 0.0);
        let at = |time: f64| (-0.05 + 0.1 * time / length) * rate.unwrap_or(1.0);
        let track = elements(&svg, "track")[0];
        let points = track.split('"').nth(1).unwrap();
        for point in points.split(' ') {
            let (px, py) = point.split_once(',').unwrap();
            let (f, t) = (x(px.parse().unwrap()), y(py.parse().unwrap()));
            let wrong = (f - at(t)).abs() / rate.unwrap_or(1.0);
            assert!(wrong < 1e-3, "{width}: {f} at {t}, not {}", at(t));
        }
        let first = &v["tracks"][0];
        for (time, frequency) in [("start", "from"), ("end", "to")] {
            let (t, f) = (first[time].as_f64().unwrap(), first[frequency].as_f64().unwrap());
            assert!((f - at(t)).abs() / rate.unwrap_or(1.0) < 1e-4, "{first}");
        }
    }
}

#[test]
fn the_report_is_one_small_page_without_links() {
    let dir = tempfile::tempdir().unwrap();
    let path = recording(dir.path());
    let out = dir.path().join("r.html");
    let done = run(["report", &path, "-o", out.to_str().unwrap()]);
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    let html = std::fs::read_to_string(&out).unwrap();
    assert!(html.len() < 300_000, "{} bytes", html.len());
    for outside in ["http:", "https:", "src=", "@import"] {
        let found = html.replace("http://www.w3.org/2000/svg", "").contains(outside);
        assert!(!found, "the page refers to {outside}");
    }
    assert!(!html.contains("{{"), "a placeholder is left");
}

/// Clicks and wheels, then writes what the page did into its body.
const PROBE: &str = r##"<script>
const errors = [];
window.addEventListener("error", e => errors.push(e.message));
window.addEventListener("securitypolicyviolation", e => errors.push("policy " + e.violatedDirective));
window.addEventListener("load", () => {
  const result = {}, canvas = document.getElementById("plot");
  const width = () => canvas.dataset.high - canvas.dataset.low;
  const first = column => document.querySelector("#table tbody tr").children[column].textContent;
  const heads = () => document.querySelectorAll("#table th button");
  result.rows = document.querySelectorAll("#table tbody tr").length;
  result.whole = width();
  canvas.dispatchEvent(new WheelEvent("wheel", { deltaY: -100, clientX: 600, clientY: 500, cancelable: true }));
  result.wheel = width();
  document.getElementById("in").click();
  result.button = width();
  canvas.dispatchEvent(new MouseEvent("dblclick"));
  result.reset = width();
  result.strongest = first(0);
  heads()[0].click(); result.lowest = first(0);
  heads()[0].click(); result.highest = first(0);
  result.insets = document.querySelectorAll("#insets figure").length;
  result.difference = Math.max(...data.insets.map(i => i.difference));
  result.card = document.querySelectorAll("#card div").length;
  result.verdict = document.getElementById("verdict").textContent;
  result.csv = decodeURIComponent(document.getElementById("csv").href).split("\n").length;
  const g = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  result.drawn = g.some(v => v !== 0);
  result.errors = errors;
  document.body.innerHTML = "";
  const pre = document.createElement("pre");
  pre.textContent = "PROBE" + JSON.stringify(result) + "PROBE";
  document.body.append(pre);
});
</script>"##;

#[test]
fn the_report_works_in_a_browser() {
    // `cargo xtask test` installs a browser and names it; a plain `cargo test` may lack one.
    let named = std::env::var_os("SPARSEFFT_CHROMIUM");
    let program = named.clone().unwrap_or_else(|| "chromium".into());
    let dir = tempfile::tempdir().unwrap();
    let path = recording(dir.path());
    let page = dir.path().join("r.html");
    assert_eq!(run(["report", &path, "-o", page.to_str().unwrap()]).status.code(), Some(0));
    let html = std::fs::read_to_string(&page).unwrap();
    std::fs::write(&page, html.replacen("<head>", &format!("<head>{PROBE}"), 1)).unwrap();
    let output = std::process::Command::new(&program)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1200,1600"])
        .arg("--host-resolver-rules=MAP * ~NOTFOUND")
        .arg(format!("--user-data-dir={}", dir.path().join("profile").display()))
        .args(["--virtual-time-budget=5000", "--dump-dom"])
        .arg(format!("file://{}", page.display()))
        .output();
    let output = match output {
        Err(e) if named.is_none() => {
            eprintln!("skipped, there is no chromium here: {e}");
            return;
        }
        other => other.unwrap(),
    };
    let dom = stdout(&output);
    let result = dom.rsplit("PROBE").nth(1).unwrap_or_else(|| panic!("{dom}{}", stderr(&output)));
    let v: serde_json::Value = serde_json::from_str(&result.replace("&gt;", ">")).unwrap();
    assert_eq!(v["errors"], serde_json::json!([]), "{v}");
    assert_eq!((&v["rows"], &v["insets"], &v["csv"]), (&3.into(), &3.into(), &5.into()), "{v}");
    let width = |key: &str| v[key].as_f64().unwrap();
    assert!((width("whole") - 2e6).abs() < 1.0, "{v}");
    assert!((width("wheel") / 2e6 - 0.7).abs() < 1e-6, "{v}");
    assert!((width("button") / 2e6 - 0.35).abs() < 1e-6, "{v}");
    assert!((width("reset") - 2e6).abs() < 1.0, "{v}");
    assert_eq!((&v["strongest"], &v["lowest"]), (&"1000".into(), &"1000".into()), "{v}");
    assert_eq!(v["highest"], "65000", "{v}");
    assert!(width("difference") < 0.05, "{v}");
    assert!(v["card"].as_u64().unwrap() > 10 && v["drawn"] == true, "{v}");
    assert!(["certified", "dense"].iter().any(|s| v["verdict"].as_str().unwrap().starts_with(s)));
}
