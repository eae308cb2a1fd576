//! The bytes of a device in memory, which can be rolled back.

/// Sectors in memory. While a journal is kept, everything that is written can be undone.
#[derive(Clone, Debug, Default)]
pub struct Media {
    sector_bytes: usize,
    bytes: Vec<u8>,
    /// Sectors that were overwritten, in order; what they held is in `saved`, one behind the other.
    journal: Option<Vec<u32>>,
    saved: Vec<u8>,
}

impl Media {
    /// Makes media of zeros.
    #[must_use]
    pub fn new(sector_bytes: u32, sectors: usize) -> Self {
        let sector_bytes = sector_bytes as usize;
        Self {
            sector_bytes,
            bytes: vec![0; sectors * sector_bytes],
            journal: None,
            saved: Vec::new(),
        }
    }

    /// Gives the number of sectors.
    #[must_use]
    pub fn sectors(&self) -> usize {
        self.bytes.len() / self.sector_bytes
    }

    /// Gives the content of a sector.
    #[must_use]
    pub fn sector(&self, number: usize) -> &[u8] {
        &self.bytes[number * self.sector_bytes..(number + 1) * self.sector_bytes]
    }

    /// Gives all bytes, to be changed by hand: not while a journal is kept.
    ///
    /// # Panics
    /// If one is.
    pub fn raw(&mut self) -> &mut Vec<u8> {
        assert!(self.journal.is_none(), "what is changed by hand cannot be undone");
        &mut self.bytes
    }

    /// Overwrites a sector.
    pub fn write(&mut self, number: usize, from: &[u8]) {
        let range = number * self.sector_bytes..(number + 1) * self.sector_bytes;
        if let Some(journal) = &mut self.journal {
            journal.push(number as u32);
            self.saved.extend_from_slice(&self.bytes[range.clone()]);
        }
        self.bytes[range].copy_from_slice(from);
    }

    /// Keeps a journal from now on, so that everything can be undone.
    pub fn keep_journal(&mut self) {
        self.journal = Some(Vec::new());
        self.saved.clear();
    }

    /// Undoes what was written since the journal was begun, and ends it.
    pub fn roll_back(&mut self) {
        for number in self.journal.take().unwrap_or_default().into_iter().rev() {
            let at = number as usize * self.sector_bytes;
            let saved = self.saved.len() - self.sector_bytes;
            self.bytes[at..at + self.sector_bytes].copy_from_slice(&self.saved[saved..]);
            self.saved.truncate(saved);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_undone_back_to_the_first_version() {
        let mut media = Media::new(512, 4);
        media.write(2, &[1; 512]);
        let before = media.bytes.clone();
        media.keep_journal();
        for value in 2..9 {
            media.write(value as usize % 4, &[value; 512]);
        }
        media.roll_back();
        assert_eq!(media.bytes, before);
    }
}
