//! Counts the write operations of a delivery, so that a test can make each of them fail in turn.

use std::cell::Cell;
use std::io;

/// Counts write operations. In a run it never stops anything.
#[derive(Default)]
pub struct Steps {
    taken: Cell<usize>,
    fault: Option<Fault>,
    /// What happens just before the operations of these numbers.
    meanwhile: Vec<(usize, Box<dyn Fn()>)>,
}

#[derive(Debug, Clone, Copy)]
enum Fault {
    /// This operation fails, later ones work: the disk was full, a directory vanished.
    Once(usize, io::ErrorKind),
    /// This operation and every later one fail, as after a kill.
    From(usize),
    /// The first operation fails, and from the second number on all do: a kill during the rollback.
    OnceAndFrom(usize, usize),
    /// This operation panics, as after a bug.
    Panic(usize),
}

impl Steps {
    /// Makes the operation of this number fail, counted from 0, and no other.
    pub fn failing_at(number: usize) -> Steps {
        Steps::failing_with(number, io::ErrorKind::StorageFull)
    }

    /// Makes the operation of this number fail in this way, counted from 0, and no other.
    pub fn failing_with(number: usize, kind: io::ErrorKind) -> Steps {
        Steps { fault: Some(Fault::Once(number, kind)), ..Steps::default() }
    }

    /// Makes the operation of this number and every later one fail, as if the process had been killed.
    pub fn killed_at(number: usize) -> Steps {
        Steps { fault: Some(Fault::From(number)), ..Steps::default() }
    }

    /// Makes one operation fail, and all from a later number on, like a kill during the rollback.
    pub fn failing_then_killed_at(number: usize, later: usize) -> Steps {
        Steps { fault: Some(Fault::OnceAndFrom(number, later)), ..Steps::default() }
    }

    /// Makes the operation of this number panic, counted from 0.
    pub fn panicking_at(number: usize) -> Steps {
        Steps { fault: Some(Fault::Panic(number)), ..Steps::default() }
    }

    /// Has something happen just before the operation of this number, counted from 0, as well.
    pub fn meanwhile(mut self, number: usize, what: impl Fn() + 'static) -> Steps {
        self.meanwhile.push((number, Box::new(what)));
        self
    }

    /// Returns the number of operations so far.
    pub fn taken(&self) -> usize {
        self.taken.get()
    }

    pub(crate) fn step(&self) -> io::Result<()> {
        let number = self.taken.replace(self.taken.get() + 1);
        self.meanwhile.iter().filter(|(at, _)| *at == number).for_each(|(_, happen)| happen());
        let fails = match self.fault {
            None => None,
            Some(Fault::Once(at, kind)) => (number == at).then_some(kind),
            Some(Fault::OnceAndFrom(at, from)) => {
                (number == at || number >= from).then_some(io::ErrorKind::StorageFull)
            }
            Some(Fault::Panic(at)) if number == at => panic!("made to panic by a test"),
            Some(Fault::Panic(_)) => None,
            Some(Fault::From(at)) => (number >= at).then_some(io::ErrorKind::StorageFull),
        };
        fails.map_or(Ok(()), |kind| Err(io::Error::new(kind, "made to fail by a test")))
    }
}
