//! A short form of the campaign of hostile volumes and requests.

#![allow(dead_code, reason = "what the example has beside the campaign")]

#[path = "../examples/hostile.rs"]
mod hostile;

#[test]
fn no_volume_and_no_request_makes_it_panic_hang_or_grow() {
    let outcomes = hostile::campaign(40, 1).unwrap();
    // Neither all nor none of them are refused.
    assert!((8..40).contains(&outcomes.opened), "{outcomes:?}");
    assert!(outcomes.answered > 1000 && outcomes.closed > 10, "{outcomes:?}");
}
