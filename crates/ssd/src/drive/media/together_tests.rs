//! Pages that are sensed and programmed together: the exact times of groups.

use units::{EraseBlockId, Ppn};

use super::owners_tests::config;
use super::*;

const US: Picos = 1_000_000;
const COMMAND: Picos = US;
const TRANSFER: Picos = 4096 * US / 40;

/// Two planes of a die, whose word lines hold three chip pages of two pages that are mapped one by
/// one.
fn media() -> Media {
    let mut config = config();
    config.channels = 1;
    config.planes_per_die = 2;
    config.pages_per_erase_block = 24;
    (config.pages_per_read, config.pages_per_program) = (2, 6);
    (config.read_us, config.part_read_us) = (vec![50.0, 60.0, 70.0], vec![30.0]);
    config.program_us = vec![600.0];
    config.multi_plane = true;
    Media::new(&config)
}

fn page(media: &Media, plane: u32, block: u32, place: u32) -> Ppn {
    let layout = media.layout();
    layout.page_at(EraseBlockId(plane * layout.blocks_per_plane + block), place)
}

/// Gives commands together; when each ends, in the order in which they end.
fn ends(media: &mut Media, commands: &[Command]) -> Vec<(u32, Picos)> {
    let from = media.now();
    media.hold();
    commands.iter().for_each(|&command| media.submit(command));
    media.release();
    let (mut ended, mut done) = (Vec::new(), Vec::new());
    while media.under_way() > 0 {
        media.step(&mut done);
        ended.extend(done.drain(..).map(|done| (done.command.page.0, media.now() - from)));
    }
    ended
}

fn program(page: Ppn) -> Command {
    Command::program(page, 4096, Cause::Host, Tag::scheme(0))
}

fn read(page: Ppn) -> Command {
    Command::read(page, 4096, Cause::Host, Tag::scheme(0))
}

#[test]
fn a_word_line_on_each_plane_is_one_program() {
    let mut media = media();
    let commands: Vec<Command> = (0..2)
        .flat_map(|plane| (0..6).map(move |place| (plane, place)))
        .map(|(plane, place)| program(page(&media, plane, 0, place)))
        .collect();
    let ended = ends(&mut media, &commands);
    let whole = 2 * COMMAND + 12 * TRANSFER + 600 * US;
    assert!(ended.iter().all(|&(_, at)| at == whole), "{ended:?}");
    assert_eq!(ended.len(), 12);
    assert_eq!(media.counters().of(FlashOp::Program), 12);
    assert!(media.is_programmed(page(&media, 1, 0, 5)));
    assert!(!media.is_programmed(page(&media, 1, 0, 6)));
}

#[test]
fn another_word_line_is_another_program() {
    let mut media = media();
    let commands: Vec<Command> = (0..12).map(|place| program(page(&media, 0, 0, place))).collect();
    let ended = ends(&mut media, &commands);
    let one = COMMAND + 6 * TRANSFER + 600 * US;
    assert!(ended[..6].iter().all(|&(_, at)| at == one));
    assert!(ended[6..].iter().all(|&(_, at)| at == 2 * one));
}

#[test]
fn planes_out_of_step_are_programmed_one_after_the_other() {
    let mut media = media();
    let first: Vec<Command> = (0..6).map(|place| program(page(&media, 1, 0, place))).collect();
    ends(&mut media, &first);
    let commands: Vec<Command> = (0..6)
        .map(|place| program(page(&media, 0, 0, place)))
        .chain((6..12).map(|place| program(page(&media, 1, 0, place))))
        .collect();
    let ended = ends(&mut media, &commands);
    let one = COMMAND + 6 * TRANSFER + 600 * US;
    assert_eq!((ended[5].1, ended[11].1), (one, 2 * one));
}

#[test]
fn what_is_sensed_together_is_sent_page_by_page() {
    let mut media = media();
    media.preset(EraseBlockId(0), 24);
    let (first, second) = (page(&media, 0, 0, 2), page(&media, 0, 0, 3));
    let ended = ends(&mut media, &[read(first), read(second)]);
    // The second of a word line's chip pages.
    let sensed = COMMAND + 60 * US;
    assert_eq!(ended, [(first.0, sensed + TRANSFER), (second.0, sensed + 2 * TRANSFER)]);
}

#[test]
fn a_part_of_what_is_sensed_may_be_quicker() {
    let mut media = media();
    media.preset(EraseBlockId(0), 24);
    media.preset(EraseBlockId(media.layout().blocks_per_plane), 24);
    let alone = page(&media, 0, 0, 3);
    assert_eq!(ends(&mut media, &[read(alone)]), [(alone.0, COMMAND + 30 * US + TRANSFER)]);
    // One on each plane is still a part of each.
    let other = page(&media, 1, 0, 8);
    let ended = ends(&mut media, &[read(alone), read(other)]);
    assert_eq!(ended[1].1, 2 * COMMAND + 30 * US + 2 * TRANSFER);
}

#[test]
fn chip_pages_of_one_plane_are_sensed_one_after_the_other() {
    let mut media = media();
    media.preset(EraseBlockId(0), 24);
    let (first, second) = (page(&media, 0, 0, 0), page(&media, 0, 0, 2));
    let ended = ends(&mut media, &[read(first), read(second)]);
    assert_eq!(ended[1].1, 2 * (COMMAND + 30 * US + TRANSFER));
}
