//! Whether the checksum of what may be a frame agrees, at a price that does not depend on its length.
//!
//! Behind damage a frame may begin anywhere, and who wrote the payload there may have made it look like
//! heads of long frames all over. To checksum what each of them claims would take hours. So the
//! checksums of all beginnings of the stretch are kept, block by block, each computed once; and that of
//! any part of the stretch follows from two of them.

use std::io;

use crate::format::{Peek, Seed, append};

/// There is a checksum for each so many bytes.
const BLOCK: usize = 512;
/// How much is read at once.
const CHUNK: usize = 64 << 10;

/// Checksums of the bytes from one place on.
#[derive(Debug)]
pub(crate) struct Sums {
    from: u64,
    /// Of so many blocks, counted from 0.
    blocks: Vec<u32>,
    bytes: Vec<u8>,
}

impl Sums {
    /// Those of a stretch that begins there.
    pub(crate) fn new(from: u64) -> Sums {
        Sums {
            from,
            blocks: vec![0],
            bytes: vec![0; CHUNK],
        }
    }

    /// Whether the checksum in a head at `place` agrees with what it claims to be the head of. `read`
    /// reads from a place on until the buffer is full or there is no more: bytes that must not change.
    pub(super) fn agree(
        &mut self,
        place: u64,
        peek: Peek,
        seed: Seed,
        read: &mut dyn FnMut(&mut [u8], u64) -> io::Result<usize>,
    ) -> io::Result<bool> {
        let covered = peek.covered(place);
        let before = self.up_to(covered.start, read)?;
        let behind = self.up_to(covered.end, read)?;
        Ok(peek.agrees(seed, before, behind))
    }

    /// The checksum of all bytes below `place`.
    fn up_to(
        &mut self,
        place: u64,
        read: &mut dyn FnMut(&mut [u8], u64) -> io::Result<usize>,
    ) -> io::Result<u32> {
        let length = usize::try_from(place.saturating_sub(self.from));
        let length = length.map_err(io::Error::other)?;
        let (block, rest) = (length / BLOCK, length % BLOCK);
        while self.blocks.len() <= block {
            let at = (self.blocks.len() - 1) * BLOCK;
            self.fill(CHUNK, at, read)?;
            for block in self.bytes.chunks(BLOCK) {
                let sum = self.blocks.last().copied().unwrap_or_default();
                self.blocks.push(append(sum, block));
            }
        }
        self.fill(rest, block * BLOCK, read)?;
        Ok(append(self.blocks[block], &self.bytes[..rest]))
    }

    /// Reads so many bytes: zeroes where there are no more.
    fn fill(
        &mut self,
        length: usize,
        at: usize,
        read: &mut dyn FnMut(&mut [u8], u64) -> io::Result<usize>,
    ) -> io::Result<()> {
        if length == 0 {
            return Ok(());
        }
        let bytes = &mut self.bytes[..length];
        let done = read(bytes, self.from + at as u64)?.min(length);
        bytes[done..].fill(0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{ALIGN, Flaw, Frame, HEAD, padded};

    fn seed() -> Seed {
        Seed::new(&[7; 16], 1, 2, 3)
    }

    /// A head of a frame of that length, whose checksum is left open.
    fn head(length: u32) -> [u8; HEAD] {
        let mut head = [1; HEAD];
        head[..4].copy_from_slice(&length.to_le_bytes());
        head
    }

    /// Frames lie in a stretch of something else, within blocks and over many of them, and one whose
    /// checksum is another's. Whoever asks about a head, be it one or not, is told what the checksum of all
    /// its bytes says.
    #[test]
    fn it_agrees_where_the_frame_is_sound() {
        let noise = |at: u32| (at.wrapping_mul(at) >> 7) as u8;
        let mut bytes: Vec<u8> = (0..200_000).map(noise).collect();
        let frames = [
            (8, 32),
            (504, 505),
            (6000, 33),
            (65_528, 66_000),
            (131_600, 5000),
            (190_000, 10_000),
            (1024, 4100),
        ];
        for (place, length) in frames {
            bytes[place..place + HEAD].copy_from_slice(&head(length));
            let frame = Frame::decode(&bytes[place..], seed());
            if let Err(Flaw::Checksum { expected, .. }) = frame
                && place != 1024
            {
                bytes[place + 4..place + 8].copy_from_slice(&expected.to_le_bytes());
            }
        }
        let mut sums = Sums::new(0);
        let mut agreed = 0;
        for place in (0..bytes.len() - HEAD).step_by(ALIGN) {
            let Some(peek) = Frame::peek(&bytes[place..]) else {
                continue;
            };
            let fits = padded(peek.length) <= bytes.len() - place;
            let checksum = Frame::decode(&bytes[place..], seed());
            let sound = !matches!(checksum, Err(Flaw::Checksum { .. }));
            let read = &mut |to: &mut [u8], at: u64| {
                let from = &bytes[at as usize..];
                let length = from.len().min(to.len());
                to[..length].copy_from_slice(&from[..length]);
                Ok(length)
            };
            if fits {
                let agree = sums.agree(place as u64, peek, seed(), read).unwrap();
                assert_eq!(agree, sound, "{place}");
                agreed += usize::from(agree);
            }
        }
        assert_eq!(agreed, frames.len() - 1);
    }

    /// A payload of a megabyte is heads of half a megabyte all over: to checksum them would be to read
    /// 16 GiB. What is read is the stretch, and a block for each head.
    #[test]
    fn heads_of_long_frames_all_over_cost_a_block_each() {
        let bytes = head(512 << 10).repeat((1 << 20) / HEAD);
        let mut sums = Sums::new(0);
        let (mut read, mut heads) = (0, 0);
        for place in (0..bytes.len() / 2).step_by(HEAD) {
            let peek = Frame::peek(&bytes[place..]).unwrap();
            let agree = sums.agree(place as u64, peek, seed(), &mut |to, at| {
                let from = &bytes[at as usize..];
                let length = from.len().min(to.len());
                to[..length].copy_from_slice(&from[..length]);
                read += length;
                Ok(length)
            });
            assert!(!agree.unwrap());
            heads += 1;
        }
        assert!(read <= bytes.len() + heads * 2 * BLOCK, "{read}");
    }
}
