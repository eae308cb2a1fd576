//! Tests of the oracle: what it lets pass, and what it does not.

use super::*;

const A: u64 = 1;
const B: u64 = 2;

fn value(number: u64) -> Value {
    Value::of_write(number)
}

/// One sector that holds write 1.
struct One(Oracle);

impl One {
    fn new() -> Self {
        Self(Oracle::new(&[value(A)]))
    }

    fn send(&mut self, id: u32, op: IoOp, number: u64) {
        let sectors = if op == IoOp::Flush { 0..0 } else { 0..1 };
        self.0.sent(id, op, sectors, false, value(number));
    }

    fn done(&mut self, id: u32) {
        self.0.done(id, &[]).unwrap();
    }

    fn reads(&mut self, found: Value) -> bool {
        self.send(99, IoOp::Read, A);
        self.0.done(99, &[found]).is_ok()
    }

    fn survives(&self) -> Vec<bool> {
        [Value::ZEROS, value(1), value(2), value(3)]
            .iter()
            .map(|value| self.0.judge_cut(&[*value]).is_ok())
            .collect()
    }
}

#[test]
fn what_is_acknowledged_is_read_and_what_is_flushed_survives() {
    let mut one = One::new();
    one.send(1, IoOp::Write, B);
    assert_eq!(one.survives(), [false, true, true, false], "under way");
    one.done(1);
    assert!(!one.reads(value(A)) && one.0.pending() == 0 && one.reads(value(B)));
    assert_eq!(one.survives(), [false, true, true, false], "acknowledged");
    one.send(2, IoOp::Flush, A);
    one.send(3, IoOp::Write, 3);
    one.done(3);
    one.done(2);
    assert_eq!(
        one.survives(),
        [false, false, true, true],
        "flushed, and another that the flush did not cover"
    );
}

#[test]
fn a_flush_covers_only_what_was_acknowledged_before_it_came() {
    let mut one = One::new();
    one.send(1, IoOp::Write, B);
    one.send(2, IoOp::Flush, A);
    one.done(1);
    one.done(2);
    assert_eq!(one.survives(), [false, true, true, false]);
}

#[test]
fn of_two_at_once_either_holds_until_one_is_read() {
    let mut one = One::new();
    one.send(1, IoOp::Write, B);
    one.send(2, IoOp::Write, 3);
    one.done(1);
    one.done(2);
    let mut other = one.0.clone();
    assert!(
        one.reads(value(B)) && !one.reads(value(3)) && one.reads(value(B)),
        "what was read stays"
    );
    other.sent(9, IoOp::Flush, 0..0, false, value(A));
    other.done(9, &[]).unwrap();
    assert!(
        other.judge_cut(&[value(B)]).is_ok()
            && other.judge_cut(&[value(3)]).is_ok()
            && other.judge_cut(&[value(A)]).is_err()
    );
    one.send(3, IoOp::Flush, A);
    one.done(3);
    assert_eq!(one.survives(), [false, false, true, false], "what was read and flushed");
}

#[test]
fn what_was_trimmed_is_zeros_or_what_it_held_since_it_was_durable_until_it_is_written() {
    let mut one = One::new();
    one.send(1, IoOp::Write, B);
    one.done(1);
    one.send(2, IoOp::Trim, A);
    one.done(2);
    one.send(3, IoOp::Flush, A);
    one.done(3);
    assert_eq!(one.survives(), [true, true, true, false]);
    assert!(one.reads(Value::ZEROS) && one.reads(value(A)) && one.reads(value(B)));
    one.send(4, IoOp::Write, 3);
    one.done(4);
    assert!(!one.reads(Value::ZEROS) && !one.reads(value(A)) && one.reads(value(3)));
    assert_eq!(one.survives(), [true; 4]);
    one.send(5, IoOp::Flush, A);
    one.done(5);
    assert_eq!(one.survives(), [false, false, false, true]);
}

#[test]
fn what_recovery_gave_is_durable() {
    let mut one = One::new();
    one.send(1, IoOp::Write, B);
    one.done(1);
    one.0.cut(&[value(B)]).unwrap();
    assert_eq!(one.survives(), [false, false, true, false]);
    one.send(1, IoOp::Write, 3);
    one.done(1);
    assert_eq!(one.survives(), [false, false, true, true]);
    assert!(
        one.0.judge_again(&[value(B)], &[value(3)]).is_err(),
        "a second recovery that gives a later write"
    );
    assert!(one.0.judge_again(&[value(3)], &[value(3)]).is_ok());
}

#[test]
fn a_trimmed_sector_stays_loose_after_a_cut() {
    let mut one = One::new();
    one.send(1, IoOp::Trim, A);
    one.done(1);
    one.send(2, IoOp::Write, B);
    assert!(one.0.judge_again(&[Value::ZEROS], &[value(A)]).is_ok());
    assert!(
        one.0.judge_again(&[Value::ZEROS], &[value(B)]).is_err(),
        "the write was lost, and comes back"
    );
    assert!(one.0.judge_again(&[value(B)], &[value(A)]).is_err());
    one.0.cut(&[Value::ZEROS]).unwrap();
    assert_eq!(one.survives(), [true, true, false, false]);
    assert!(one.reads(value(A)) && one.reads(Value::ZEROS));
}

#[test]
fn a_write_that_failed_may_come_or_not() {
    let mut one = One::new();
    one.send(1, IoOp::Write, B);
    one.0.failed(1).unwrap();
    one.send(2, IoOp::Flush, A);
    one.done(2);
    assert_eq!(one.survives(), [false, true, true, false]);
    assert!(one.reads(value(A)) && one.reads(value(B)));
}

#[test]
fn nothing_is_replied_to_twice() {
    let mut one = One::new();
    one.send(1, IoOp::Write, B);
    one.done(1);
    assert!(one.0.done(1, &[]).is_err());
}

/// Tells which values may survive a cut of a sector that held write 1, got write 2 and then perhaps
/// 3, after a kill that left `left`.
fn after_kill(left: u64, is_flushed: bool) -> Vec<bool> {
    let mut one = One::new();
    one.send(1, IoOp::Write, B);
    one.done(1);
    one.send(2, IoOp::Write, 3);
    one.0.kill(&[value(left)]).unwrap();
    assert_eq!(
        [A, B, 3].map(|number| one.reads(value(number))),
        [A, B, 3].map(|number| number == left),
        "what is left is read"
    );
    if is_flushed {
        one.send(4, IoOp::Flush, A);
        one.done(4);
    }
    one.survives()
}

#[test]
fn what_a_kill_left_is_durable_when_it_is_flushed_and_what_it_took_does_not_come_back() {
    assert_eq!(after_kill(A, false), [false, true, false, false]);
    assert_eq!(after_kill(B, false), [false, true, true, false]);
    assert_eq!(after_kill(3, false), [false, true, true, true]);
    assert_eq!(after_kill(B, true), [false, false, true, false]);
    assert_eq!(after_kill(3, true), [false, false, false, true]);
    let mut one = One::new();
    one.send(1, IoOp::Write, B);
    assert!(
        one.0.judge_cut_after_kill(&[value(B)], &[value(A)]).is_ok()
            && one.0.judge_cut_after_kill(&[value(A)], &[value(B)]).is_err()
    );
}
