//! The binary form of numbers, strings and lists.

/// A writer that appends to its bytes.
pub(in crate::catalog) struct Writer(pub(in crate::catalog) Vec<u8>);

impl Writer {
    pub(in crate::catalog) fn u32(&mut self, v: u32) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }

    pub(in crate::catalog) fn u64(&mut self, v: u64) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }

    pub(in crate::catalog) fn flag(&mut self, v: bool) {
        self.0.push(u8::from(v));
    }

    pub(in crate::catalog) fn text(&mut self, s: &str) {
        self.u32(s.len() as u32);
        self.0.extend_from_slice(s.as_bytes());
    }

    pub(in crate::catalog) fn list(&mut self, numbers: impl ExactSizeIterator<Item = u32>) {
        self.u32(numbers.len() as u32);
        numbers.for_each(|number| self.u32(number));
    }

    pub(in crate::catalog) fn optional(&mut self, s: Option<&str>) {
        self.flag(s.is_some());
        if let Some(s) = s {
            self.text(s);
        }
    }
}

/// A reader of the remaining bytes. Its functions return `None` if the bytes do not contain the
/// requested value.
pub(in crate::catalog) struct Reader<'a>(pub(in crate::catalog) &'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.0.split_at_checked(N)?;
        self.0 = tail;
        head.try_into().ok()
    }

    pub(in crate::catalog) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|b| b[0])
    }

    pub(in crate::catalog) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(in crate::catalog) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(in crate::catalog) fn flag(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub(in crate::catalog) fn text(&mut self) -> Option<String> {
        let length = self.u32()? as usize;
        let (head, tail) = self.0.split_at_checked(length)?;
        self.0 = tail;
        Some(std::str::from_utf8(head).ok()?.to_owned())
    }

    pub(in crate::catalog) fn list(&mut self) -> Option<Vec<u32>> {
        (0..self.u32()?).map(|_| self.u32()).collect()
    }

    pub(in crate::catalog) fn positions(&mut self) -> Option<Vec<usize>> {
        let list = self.list()?;
        Some(list.into_iter().map(|position| position as usize).collect())
    }

    pub(in crate::catalog) fn optional(&mut self) -> Option<Option<String>> {
        match self.flag()? {
            true => self.text().map(Some),
            false => Some(None),
        }
    }
}
