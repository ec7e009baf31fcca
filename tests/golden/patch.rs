//! A segment's bytes, taken apart and put together by `docs/format.md` and not by the engine's
//! code: so that a field can hold what no writer writes, under a checksum that agrees.

/// The place of slot A, slot B and the seal.
pub const SLOTS: [usize; 3] = [512, 1024, 1536];
/// Bytes of the fixed part of a frame.
pub const HEAD: usize = 32;

/// The bytes of a segment file.
#[derive(Debug)]
pub struct Segment<'a>(pub &'a mut Vec<u8>);

impl Segment<'_> {
    /// Whether somebody has taken the file over.
    pub fn is_assigned(&self) -> bool {
        self.0.starts_with(b"TIDESEG\0")
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.0[at..at + 4].try_into().unwrap())
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn seed(&self) -> u32 {
        let (store_and_log, number, nonce) = (&self.0[16..40], &self.0[104..108], &self.0[40..48]);
        crc32c::crc32c(&[store_and_log, number, nonce].concat())
    }

    /// Makes the identity's checksum agree with what is there now.
    pub fn fix_identity(&mut self) {
        let sum = crc32c::crc32c_append(crc32c::crc32c(&self.0[..12]), &self.0[16..512]);
        self.put(12, &sum.to_le_bytes());
    }

    /// The same for a slot that is there.
    pub fn fix_slot(&mut self, at: usize) {
        let sum = crc32c::crc32c_append(self.seed(), &self.0[at..at + 4]);
        let sum = crc32c::crc32c_append(sum, &self.0[at + 8..at + 512]);
        self.put(at + 4, &sum.to_le_bytes());
    }

    fn frame_sum(&self, place: usize) -> u32 {
        let end = place + self.length(place);
        let sum = crc32c::crc32c_append(self.seed(), &self.0[place..place + 4]);
        crc32c::crc32c_append(sum, &self.0[place + 8..end])
    }

    /// The same for a frame.
    pub fn fix_frame(&mut self, place: usize) {
        let sum = self.frame_sum(place);
        self.put(place + 4, &sum.to_le_bytes());
    }

    /// The length of the frame at a place.
    pub fn length(&self, place: usize) -> usize {
        self.u32(place) as usize
    }

    /// The places of the frames from the first on, as far as their checksums agree.
    pub fn frames(&self) -> Vec<usize> {
        let (mut frames, mut place) = (Vec::new(), self.u32(88) as usize);
        while place + HEAD <= self.0.len() {
            let length = self.length(place);
            let fits = length >= HEAD && place + length <= self.0.len();
            if !fits || self.u32(place + 4) != self.frame_sum(place) {
                break;
            }
            frames.push(place);
            place += length.next_multiple_of(8);
        }
        frames
    }

    /// The payload of a journal's frame, which has nothing else behind its head.
    pub fn payload(&self, place: usize) -> &[u8] {
        &self.0[place + HEAD..place + self.length(place)]
    }

    /// The offset of a frame.
    pub fn offset(&self, place: usize) -> u64 {
        let base = u64::from_le_bytes(self.0[48..56].try_into().unwrap());
        base + u64::from(self.u32(place + 8))
    }

    /// Puts a frame with this payload behind the last one, by the same owner; its place.
    pub fn append(&mut self, payload: &[u8]) -> usize {
        let last = *self.frames().last().unwrap();
        let place = last + self.length(last).next_multiple_of(8);
        let delta = self.u32(last + 8) + 1;
        let head = self.0[last..last + HEAD].to_vec();
        self.put(place, &head);
        let length = u32::try_from(HEAD + payload.len()).unwrap();
        self.put(place, &length.to_le_bytes());
        self.put(place + 8, &delta.to_le_bytes());
        // The one before was durable, and no batch.
        self.put(place + 12, &0_u32.to_le_bytes());
        self.put(place + 30, &[0]);
        self.put(place + HEAD, payload);
        self.fix_frame(place);
        place
    }
}
