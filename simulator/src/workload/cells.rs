//! Steps over objects that always exist: registers, lists, large objects, pages.

use fencepost_txn::{Addr, Strength};

use super::step::{Halt, Step};
use crate::history::{Object, ReadVersion};
use crate::lists::{self, Contents};
use crate::world::{LARGE_EACH, LARGE_WORDS, LIST_WORDS, SECTION_WORDS, SECTIONS, World};

/// Returns a register as an object of the history.
pub const fn register(at: usize) -> Object {
    Object("register", at as u64)
}

/// Returns a list as an object of the history.
pub const fn list(at: usize) -> Object {
    Object("list", at as u64)
}

/// Returns a large object as an object of the history.
pub const fn large(at: usize) -> Object {
    Object("large object", at as u64)
}

/// Returns a section of a page as an object of the history.
pub const fn section(page: usize, at: usize) -> Object {
    Object("section", (page * SECTIONS + at) as u64)
}

impl Step<'_> {
    /// Reads a few registers, and overwrites some of them, including unread ones.
    pub async fn registers(&mut self) -> Result<(), Halt> {
        for _ in 0..1 + self.below(4) {
            let at = self.one_of(self.world.registers.len());
            let addr = self.world.registers[at];
            let writes = self.writes() && self.below(2) == 0;
            if writes && self.below(6) == 0 {
                self.tx.intend(addr, Strength::Update).await?;
            }
            if !writes || self.below(4) > 0 {
                self.read_cell(register(at), addr, World::register_words(at))
                    .await?;
            }
            if writes {
                self.pause().await;
                let words = World::register_words(at);
                match self.below(8) {
                    0 => self.rewrite_cell(register(at), addr, words).await?,
                    _ => self.write_cell(register(at), addr, words).await?,
                }
            }
        }
        Ok(())
    }

    /// Reads two registers and overwrites one: two concurrent transactions of this kind show write
    /// skew.
    pub async fn skew(&mut self) -> Result<(), Halt> {
        let pair = [0, 1];
        for at in pair {
            let addr = self.world.registers[at];
            self.read_cell(register(at), addr, World::register_words(at))
                .await?;
            self.pause().await;
        }
        if self.writes() {
            let at = pair[self.one_of(2)];
            let addr = self.world.registers[at];
            self.write_cell(register(at), addr, World::register_words(at))
                .await?;
        }
        Ok(())
    }

    /// Overwrites many large objects, mostly those of one machine: more than fit a log at once.
    pub async fn large(&mut self) -> Result<(), Halt> {
        let theirs = self.one_of(self.world.large.len() / LARGE_EACH);
        let machine = if self.below(4) == 0 {
            theirs
        } else {
            self.machine
        };
        let count = 1 + self.one_of(LARGE_EACH);
        for at in (machine * LARGE_EACH..).take(count) {
            let addr = self.world.large[at];
            if self.writes() {
                self.write_cell(large(at), addr, LARGE_WORDS).await?;
            } else {
                self.read_cell(large(at), addr, LARGE_WORDS).await?;
            }
        }
        Ok(())
    }

    /// Reads all large objects of a machine, more than are validated one by one, and overwrites a
    /// register.
    pub async fn read_large_objects(&mut self) -> Result<(), Halt> {
        let machine = self.one_of(self.world.large.len() / LARGE_EACH);
        for at in (machine * LARGE_EACH..).take(LARGE_EACH) {
            let addr = self.world.large[at];
            self.read_cell(large(at), addr, LARGE_WORDS).await?;
        }
        if self.writes() {
            self.pause().await;
            let at = self.one_of(self.world.registers.len());
            let addr = self.world.registers[at];
            self.write_cell(register(at), addr, World::register_words(at))
                .await?;
        }
        Ok(())
    }

    /// Changes some sections of a page, with or without reading all of them.
    pub async fn page(&mut self) -> Result<(), Halt> {
        let page = self.one_of(self.world.pages.len());
        if !self.writes() || self.below(2) == 0 {
            self.read_page(page).await?;
        }
        if self.writes() {
            let id = self.id();
            for _ in 0..1 + self.below(2) {
                self.pause().await;
                if self.below(8) == 0 {
                    // Replicas receive a version without changes.
                    self.tx.update(self.world.pages[page], |_| {}).await?;
                    self.attempt.borrow_mut().rewrote();
                    continue;
                }
                let at = self.one_of(SECTIONS);
                let words = at * SECTION_WORDS..(at + 1) * SECTION_WORDS;
                let change = |image: &mut [u64]| image[words].fill(id);
                self.tx.update(self.world.pages[page], change).await?;
                self.wrote(section(page, at), true, None)?;
            }
        }
        Ok(())
    }

    async fn read_page(&mut self, page: usize) -> Result<(), Halt> {
        let object = Object("page", page as u64);
        let words = self.words(object, self.world.pages[page]).await?;
        let sections = words.chunks_exact(SECTION_WORDS).take(SECTIONS);
        for (at, words) in sections.enumerate() {
            if words.iter().any(|word| *word != words[0]) {
                return Err(format!("{} is torn: {words:?}", section(page, at)).into());
            }
            self.saw(section(page, at), ReadVersion::By(words[0]))?;
        }
        Ok(())
    }

    /// Reads a list, and may append to it.
    pub async fn list(&mut self) -> Result<(), Halt> {
        let at = self.one_of(self.world.lists.len());
        self.read_list(at).await?;
        Ok(())
    }

    async fn read_list(&mut self, at: usize) -> Result<(), Halt> {
        let addr = self.world.lists[at];
        let words = self.words(list(at), addr).await?;
        let length = words[0] as usize;
        let numbers = words.get(1..=length).unwrap_or_default();
        if numbers.len() != length {
            return Err(format!("{} has {length} words", list(at)).into());
        }
        let mut numbers = numbers.to_vec();
        let saw = ReadVersion::By(numbers.last().copied().unwrap_or(0));
        let owns = self.attempt.borrow().owns(list(at));
        self.saw(list(at), saw)?;
        if !owns {
            self.attempt.borrow_mut().lists.push(Contents {
                list: list(at),
                numbers: numbers.clone(),
            });
            if self.writes() && self.below(4) > 0 {
                self.pause().await;
                lists::append(&mut numbers, self.id());
                let mut words = vec![numbers.len() as u64];
                words.extend(&numbers);
                words.resize(LIST_WORDS, 0);
                self.tx.write(addr, &words).await?;
                self.wrote(list(at), true, None)?;
            }
        }
        Ok(())
    }

    /// Reads all registers, large objects, pages and lists.
    pub async fn all_cells(&mut self) -> Result<(), Halt> {
        for (at, addr) in self.world.registers.iter().enumerate() {
            self.read_cell(register(at), *addr, World::register_words(at))
                .await?;
        }
        for (at, addr) in self.world.large.iter().enumerate() {
            self.read_cell(large(at), *addr, LARGE_WORDS).await?;
        }
        for at in 0..self.world.lists.len() {
            self.read_list(at).await?;
        }
        for page in 0..self.world.pages.len() {
            self.read_page(page).await?;
        }
        Ok(())
    }

    /// Returns all words of an object that always exists.
    pub async fn words(&mut self, object: Object, addr: Addr) -> Result<Vec<u64>, Halt> {
        let mut words = Vec::new();
        match self.tx.read(addr, &mut words).await? {
            true => Ok(words),
            false => Err(format!("{object} is not there").into()),
        }
    }

    /// Reads an object whose words are all the number of its writer.
    pub async fn read_cell(
        &mut self,
        object: Object,
        addr: Addr,
        count: usize,
    ) -> Result<(), Halt> {
        let words = self.words(object, addr).await?;
        let writer = words[0];
        if words[..count].iter().any(|word| *word != writer) {
            return Err(format!("{object} is torn: {:?}", &words[..count]).into());
        }
        self.saw(object, ReadVersion::By(writer))
    }

    /// Overwrites an object with its present content.
    async fn rewrite_cell(&mut self, object: Object, addr: Addr, count: usize) -> Result<(), Halt> {
        self.read_cell(object, addr, count).await?;
        let words = self.words(object, addr).await?;
        self.tx.write(addr, &words).await?;
        self.attempt.borrow_mut().rewrote();
        Ok(())
    }

    /// Writes the transaction's number to all words of an object.
    async fn write_cell(&mut self, object: Object, addr: Addr, count: usize) -> Result<(), Halt> {
        let words = vec![self.id(); count];
        self.tx.write(addr, &words).await?;
        self.wrote(object, true, None)
    }
}
