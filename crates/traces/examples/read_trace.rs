//! Reads a trace and says what is in it and how fast it was read: `read_trace FILE [FORMAT]`. With
//! a third argument it converts instead: `read_trace FILE FORMAT TO`, where FORMAT may be `auto`;
//! if TO is `pages:BYTES`, it loads the page operations with that limit of memory and plays them
//! once.

use std::path::Path;
use std::time::Instant;

use registry::Spec;
use traces::pages::{LoadOptions, load};
use traces::{BATCH_REQUESTS, OpenOptions, convert, open};
use units::{IoOp, Lpn, PageOp, Progress};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let path = args.first().ok_or("usage: read_trace FILE [FORMAT [TO]]")?;
    let format =
        args.get(1).filter(|name| *name != "auto").map(|name| Spec::parse(name)).transpose()?;
    let options = OpenOptions { format, skip_bad: 0 };
    let start = Instant::now();
    if let Some(limit) = args.get(2).and_then(|to| to.strip_prefix("pages:")) {
        return load_pages(Path::new(path), options, limit.parse()?);
    }
    if let Some(to) = args.get(2) {
        let done = convert(Path::new(path), &options, Path::new(to), None, &Progress::default())?;
        let seconds = start.elapsed().as_secs_f64();
        println!("{done:#?}\n{:.2} M requests/s", done.written.requests as f64 / seconds / 1e6);
        return Ok(());
    }
    let mut trace = open(Path::new(path), &options)?;
    let (mut batch, mut counts, mut bytes, mut last) = (Vec::new(), [0u64; 4], [0u64; 4], 0);
    while trace.read_batch(&mut batch, BATCH_REQUESTS)? > 0 {
        for request in &batch {
            counts[request.op as usize] += 1;
            bytes[request.op as usize] += u64::from(request.length);
            last = request.time_ns.max(last);
        }
        batch.clear();
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("{path}: {} {:?}", trace.format().info.name, trace.facts());
    for op in IoOp::ALL {
        println!("  {:5} {:9} {:14} bytes", op.name(), counts[op as usize], bytes[op as usize]);
    }
    let total: u64 = counts.iter().sum();
    println!(
        "  duration {:.6} s; {total} requests at {:.2} M/s",
        last as f64 / 1e9,
        total as f64 / seconds / 1e6
    );
    Ok(())
}

fn load_pages(
    path: &Path,
    options: OpenOptions,
    memory_limit_bytes: u64,
) -> Result<(), Box<dyn std::error::Error>> {
    let start = Instant::now();
    let options =
        LoadOptions { format: options.format, memory_limit_bytes, ..LoadOptions::default() };
    let loaded = load(path, &options, &Progress::default())?;
    let (loading, start) = (start.elapsed().as_secs_f64(), Instant::now());
    let mut source = loaded.source();
    let (mut buffer, mut total) = (vec![PageOp::write(Lpn(0)); 4096], 0);
    loop {
        let count = source.fill(&mut buffer).map_err(|e| e.to_string())?;
        total += count as u64;
        if count == 0 {
            break;
        }
    }
    let playing = start.elapsed().as_secs_f64();
    let millions = |count: u64, seconds: f64| count as f64 / seconds / 1e6;
    println!(
        "{loaded:?}, in memory: {}\n  {} requests loaded at {:.2} M/s; {total} page operations \
         played at {:.2} M/s",
        loaded.is_in_memory(),
        loaded.requests,
        millions(loaded.requests, loading),
        millions(total, playing)
    );
    Ok(())
}
