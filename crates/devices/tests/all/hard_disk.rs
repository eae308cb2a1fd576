//! A hard disk behind the same interface as a drive: in virtual time, and on the wall clock.

use block::{BlockDevice, Command, Completion, Data};
use devices::{Access, Opening, open, open_emulated};
use units::{IoOp, Nanos, Progress};

fn run(device: &mut dyn BlockDevice, command: Command) -> Completion {
    let mut completed = Vec::new();
    device.submit(command);
    device.wait(Nanos::MAX, &mut completed).unwrap();
    completed.remove(0)
}

#[test]
fn it_is_opened_by_its_name_and_brings_what_was_written() {
    let opening = Opening { holds_data: true, ..Opening::new("hard_disk", Access::Write) };
    let mut disk = open(&opening).unwrap();
    assert_eq!(disk.info().limits.capacity_bytes, 250_000_000_000);
    assert!(disk.info().is_virtual && !disk.info().has_trim);
    run(&mut *disk, Command::write(1, 1 << 30, Data::copy_of(&[7; 4096])));
    let read = run(&mut *disk, Command::new(2, IoOp::Read, 1 << 30, 4096));
    assert_eq!(read.reply.outcome.unwrap().joined().unwrap(), vec![7; 4096]);
    let far = run(&mut *disk, Command::new(3, IoOp::Read, 200_000_000_000 / 4096 * 4096, 4096));
    assert!(far.completed_at - far.submitted_at > 5_000_000, "the arm takes its time");
}

#[test]
fn it_is_emulated_on_the_wall_clock_as_large_as_is_wanted() {
    let emulated = |parameters: &str| {
        let spec = format!("emulated(profile=hard_disk({parameters}),size=64Mi)");
        let opening = Opening { holds_data: true, ..Opening::new(&spec, Access::DestroyData) };
        open_emulated(&opening, &Progress::default())
    };
    let mut disk = emulated("rpm=15000,seek_ms=4,full_seek_ms=8").unwrap();
    assert_eq!(disk.info().limits.capacity_bytes, 64 << 20);
    run(&mut disk, Command::write(1, 4096, Data::copy_of(&[9; 4096])));
    run(&mut disk, Command::new(2, IoOp::Flush, 0, 0));
    let read = run(&mut disk, Command::new(3, IoOp::Read, 4096, 4096));
    assert_eq!(read.reply.outcome.unwrap().joined().unwrap(), vec![9; 4096]);
    let error = emulated("capacity=32Mi").err().unwrap().to_string();
    assert!(error.contains("cannot be made larger"), "{error}");
    let error = emulated("speed=9").err().unwrap().to_string();
    assert!(error.contains("no parameter `speed`"), "{error}");
}
