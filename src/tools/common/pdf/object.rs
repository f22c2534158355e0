//! Reads the objects of a PDF leniently, wherever they are in the file, and never more than the budget allows.
//!
//! The file's own table of objects is ignored: every `1 0 obj` counts where it occurs, and the last one of a number
//! wins. So a truncated file gives what is left of it, and a table with circles does no harm.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::io::Read as _;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::LazyLock;

use regex::bytes::Regex;

use super::filters::{ascii85, unpredicted};

/// Objects of a file that count.
const OBJECTS: usize = 500_000;

/// Nesting of arrays and dictionaries.
const DEPTH: usize = 64;

/// A dictionary.
pub(super) type Dict = BTreeMap<Vec<u8>, Object>;

/// An object, or in a page's contents an operator.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Object {
    Null,
    Number(f64),
    Name(Vec<u8>),
    Text(Vec<u8>),
    Array(Vec<Object>),
    Dict(Dict),
    Ref(u32),
    /// A dictionary and where its data begin in the file.
    Stream(Dict, usize),
    Keyword(Vec<u8>),
}

impl Object {
    pub(super) fn number(&self) -> Option<f64> {
        if let Object::Number(number) = self { Some(*number) } else { None }
    }

    pub(super) fn name(&self) -> Option<&[u8]> {
        if let Object::Name(name) = self { Some(name) } else { None }
    }

    pub(super) fn array(&self) -> Option<&[Object]> {
        if let Object::Array(items) = self { Some(items) } else { None }
    }

    pub(super) fn dict(&self) -> Option<&Dict> {
        match self {
            Object::Dict(dict) | Object::Stream(dict, _) => Some(dict),
            _ => None,
        }
    }
}

/// What reading one file may cost. Once it is used up, everything that is left reads as nothing.
#[derive(Debug)]
pub(super) struct Budget {
    bytes: Cell<usize>,
    steps: Cell<usize>,
}

impl Budget {
    pub(super) fn new(bytes: usize, steps: usize) -> Budget {
        Budget { bytes: Cell::new(bytes), steps: Cell::new(steps) }
    }

    /// Counts a step of work; `false` if the budget is used up.
    pub(super) fn step(&self, cost: usize) -> bool {
        let left = self.steps.get();
        self.steps.set(left.saturating_sub(cost));
        left > cost
    }

    /// Tells whether something was left out because it ran out.
    pub(super) fn is_spent(&self) -> bool {
        self.steps.get() == 0 || self.bytes.get() == 0
    }
}

/// Reads objects and operators one after the other.
pub(super) struct Lexer<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
    pub(super) budget: &'a Budget,
}

fn is_space(byte: u8) -> bool {
    matches!(byte, 0 | b'\t' | b'\n' | 0x0c | b'\r' | b' ')
}

fn is_delimiter(byte: u8) -> bool {
    matches!(byte, b'(' | b')' | b'<' | b'>' | b'[' | b']' | b'{' | b'}' | b'/' | b'%')
}

fn hex(byte: u8) -> Option<u8> {
    (byte as char).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

impl Lexer<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Skips an image in the contents: bytes up to a lone `EI`.
    pub(super) fn skip_image(&mut self) {
        let rest = &self.bytes[self.at.min(self.bytes.len())..];
        let end = rest.windows(4).position(|window| {
            window[0].is_ascii_whitespace() && &window[1..3] == b"EI" && window[3].is_ascii_whitespace()
        });
        let skipped = end.map_or(rest.len(), |end| end + 3);
        self.at += skipped;
        self.budget.step(skipped / 16);
    }

    fn skip_space(&mut self) {
        while let Some(byte) = self.peek() {
            match byte {
                b'%' => {
                    while self.peek().is_some_and(|byte| byte != b'\n' && byte != b'\r') {
                        self.at += 1;
                    }
                }
                byte if is_space(byte) => self.at += 1,
                _ => break,
            }
        }
    }

    /// Returns the next object; `None` at the end, or when the budget is used up.
    pub(super) fn next(&mut self) -> Option<Object> {
        self.object(0)
    }

    fn object(&mut self, depth: usize) -> Option<Object> {
        if !self.budget.step(1) || depth > DEPTH {
            return None;
        }
        self.skip_space();
        let byte = self.peek()?;
        Some(match byte {
            b'/' => {
                self.at += 1;
                Object::Name(self.name())
            }
            b'(' => Object::Text(self.text()),
            b'<' if self.bytes.get(self.at + 1) == Some(&b'<') => {
                self.at += 2;
                self.dict(depth)
            }
            b'<' => Object::Text(self.hex_text()),
            b'[' => {
                self.at += 1;
                let mut items = Vec::new();
                loop {
                    self.skip_space();
                    match self.peek() {
                        None => break,
                        Some(b']') => {
                            self.at += 1;
                            break;
                        }
                        Some(_) => items.push(self.object(depth + 1)?),
                    }
                    reference(&mut items);
                }
                Object::Array(items)
            }
            b')' | b'>' | b']' | b'{' | b'}' => {
                self.at += 1;
                Object::Keyword(vec![byte])
            }
            _ => self.word(),
        })
    }

    fn dict(&mut self, depth: usize) -> Object {
        let mut items = Vec::new();
        loop {
            self.skip_space();
            if self.bytes[self.at..].starts_with(b">>") {
                self.at += 2;
                break;
            }
            let Some(item) = self.object(depth + 1) else { break };
            // A dictionary that is never closed ends where something else begins.
            if matches!(&item, Object::Keyword(word) if matches!(&word[..], b"endobj" | b"stream" | b"obj")) {
                break;
            }
            items.push(item);
            reference(&mut items);
        }
        let mut dict = Dict::new();
        let mut items = items.into_iter();
        while let Some(key) = items.next() {
            if let (Object::Name(key), Some(value)) = (key, items.next()) {
                dict.insert(key, value);
            }
        }
        Object::Dict(dict)
    }

    fn name(&mut self) -> Vec<u8> {
        let mut name = Vec::new();
        while let Some(byte) = self.peek().filter(|byte| !is_space(*byte) && !is_delimiter(*byte)) {
            self.at += 1;
            let escaped = match (byte, self.bytes.get(self.at), self.bytes.get(self.at + 1)) {
                (b'#', Some(high), Some(low)) => hex(*high).zip(hex(*low)).map(|(high, low)| high * 16 + low),
                _ => None,
            };
            if escaped.is_some() {
                self.at += 2;
            }
            name.push(escaped.unwrap_or(byte));
        }
        name
    }

    fn text(&mut self) -> Vec<u8> {
        let mut text = Vec::new();
        let mut open = 0;
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                b'(' => {
                    open += 1;
                    if open == 1 {
                        continue;
                    }
                }
                b')' => {
                    open -= 1;
                    if open == 0 {
                        break;
                    }
                }
                b'\\' => {
                    if let Some(byte) = self.escape() {
                        text.push(byte);
                    }
                    continue;
                }
                _ => {}
            }
            text.push(byte);
        }
        text
    }

    fn escape(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(match byte {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'b' => 8,
            b'f' => 0x0c,
            b'\n' => return None,
            b'\r' => {
                self.at += usize::from(self.peek() == Some(b'\n'));
                return None;
            }
            b'0'..=b'7' => {
                let mut code = u32::from(byte - b'0');
                for _ in 0..2 {
                    let Some(digit @ b'0'..=b'7') = self.peek() else { break };
                    code = code * 8 + u32::from(digit - b'0');
                    self.at += 1;
                }
                (code & 0xff) as u8
            }
            other => other,
        })
    }

    fn hex_text(&mut self) -> Vec<u8> {
        self.at += 1;
        let rest = &self.bytes[self.at..];
        let end = rest.iter().position(|byte| *byte == b'>').unwrap_or(rest.len());
        self.at = (self.at + end + 1).min(self.bytes.len());
        from_hex(&rest[..end])
    }

    fn word(&mut self) -> Object {
        let start = self.at;
        while self.peek().is_some_and(|byte| !is_space(byte) && !is_delimiter(byte)) {
            self.at += 1;
        }
        let word = &self.bytes[start..self.at];
        match word {
            b"null" => return Object::Null,
            // A truth value says nothing about text.
            b"true" | b"false" => return Object::Null,
            _ => {}
        }
        let number = std::str::from_utf8(word)
            .ok()
            .filter(|word| word.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.')));
        match number.and_then(|word| word.parse::<f64>().ok()) {
            Some(number) => Object::Number(number),
            None => Object::Keyword(word.to_vec()),
        }
    }
}

fn from_hex(digits: &[u8]) -> Vec<u8> {
    let digits: Vec<u8> = digits.iter().filter_map(|byte| hex(*byte)).collect();
    digits.chunks(2).map(|pair| pair[0] * 16 + pair.get(1).copied().unwrap_or(0)).collect()
}

/// Combines `1 0 R` at the end of a list into one item.
fn reference(items: &mut Vec<Object>) {
    if let [.., Object::Number(number), Object::Number(_), Object::Keyword(word)] = &items[..]
        && word == b"R"
        && (0.0..=f64::from(u32::MAX)).contains(number)
    {
        let number = *number as u32;
        items.truncate(items.len() - 3);
        items.push(Object::Ref(number));
    }
}

/// An object where it was found, or one that was referred to.
pub(super) enum Found<'o> {
    Here(&'o Object),
    There(Rc<Object>),
}

impl Deref for Found<'_> {
    type Target = Object;

    fn deref(&self) -> &Object {
        match self {
            Found::Here(object) => object,
            Found::There(object) => object,
        }
    }
}

/// Where an object is.
#[derive(Debug, Clone)]
enum Where {
    File(usize),
    Packed(Rc<Vec<u8>>, usize),
}

/// A file and where its objects are.
pub(super) struct File<'a> {
    bytes: &'a [u8],
    pub(super) budget: Budget,
    objects: BTreeMap<u32, Where>,
    read: RefCell<HashMap<u32, Rc<Object>>>,
    /// The dictionaries that say where the document begins.
    trailers: Vec<Dict>,
}

static BEGINS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?-u)([0-9]{1,9})[\x00\t\n\x0c\r ]+[0-9]{1,5}[\x00\t\n\x0c\r ]+obj|trailer").expect("a valid pattern")
});

impl<'a> File<'a> {
    /// Finds the objects of a file, those in packed streams too.
    pub(super) fn open(bytes: &'a [u8], budget: Budget) -> File<'a> {
        let read = RefCell::default();
        let mut file = File { bytes, budget, objects: BTreeMap::new(), read, trailers: Vec::new() };
        let mut found: Vec<(u32, usize)> = Vec::new();
        for captures in BEGINS.captures_iter(bytes).take(OBJECTS) {
            let end = captures.get(0).map_or(0, |whole| whole.end());
            let number = captures.get(1).and_then(|digits| std::str::from_utf8(digits.as_bytes()).ok()?.parse().ok());
            match number {
                Some(number) => {
                    file.objects.insert(number, Where::File(end));
                    found.push((number, end));
                }
                None => {
                    if let Some(Object::Dict(dict)) = file.lexer(end).next() {
                        file.trailers.push(dict);
                    }
                }
            }
        }
        // In the order of the file, so that what was added later wins.
        for (number, at) in found {
            let Some(Object::Stream(dict, data)) = file.at(at) else { continue };
            match dict.get(&b"Type"[..]).and_then(Object::name) {
                Some(b"XRef") => file.trailers.push(dict),
                Some(b"ObjStm") if matches!(file.objects.get(&number), Some(Where::File(last)) if *last == at) => {
                    file.unpack(&dict, data, at);
                }
                Some(_) | None => {}
            }
        }
        file.read.borrow_mut().clear();
        file
    }

    fn lexer(&self, at: usize) -> Lexer<'_> {
        Lexer { bytes: self.bytes, at, budget: &self.budget }
    }

    /// Reads what begins after `obj`.
    fn at(&self, at: usize) -> Option<Object> {
        let mut lexer = self.lexer(at);
        let mut objects = vec![lexer.next()?];
        // The value may be a mere reference.
        if let Object::Number(_) = objects[0] {
            let before = lexer.at;
            objects.extend([lexer.next(), lexer.next()].into_iter().flatten());
            reference(&mut objects);
            lexer.at = before;
        }
        let object = objects.swap_remove(0);
        let Object::Dict(dict) = object else { return Some(object) };
        lexer.skip_space();
        if !self.bytes[lexer.at..].starts_with(b"stream") {
            return Some(Object::Dict(dict));
        }
        let mut data = lexer.at + b"stream".len();
        data += usize::from(self.bytes.get(data) == Some(&b'\r'));
        data += usize::from(self.bytes.get(data) == Some(&b'\n'));
        Some(Object::Stream(dict, data.min(self.bytes.len())))
    }

    fn unpack(&mut self, dict: &Dict, data: usize, at: usize) {
        let number = |key: &[u8]| self.get(dict, key).and_then(|object| object.number()).unwrap_or(0.0);
        let (count, first) = (number(b"N") as usize, number(b"First") as usize);
        let Some(content) = self.decoded(dict, data) else { return };
        let content = Rc::new(content);
        let mut places = Vec::new();
        let mut lexer = Lexer { bytes: &content, at: 0, budget: &self.budget };
        for _ in 0..count {
            let (Some(Object::Number(number)), Some(Object::Number(offset))) = (lexer.next(), lexer.next()) else {
                break;
            };
            places.push((number as u32, first.saturating_add(offset as usize)));
        }
        for (number, offset) in places {
            let later = matches!(self.objects.get(&number), Some(Where::File(own)) if *own > at);
            if !later && offset < content.len() {
                self.objects.insert(number, Where::Packed(Rc::clone(&content), offset));
            }
        }
    }

    /// Returns an object by its number, references followed a few times.
    pub(super) fn object(&self, number: u32) -> Option<Rc<Object>> {
        let mut number = number;
        for _ in 0..8 {
            if let Some(known) = self.read.borrow().get(&number) {
                return Some(Rc::clone(known));
            }
            let object = match self.objects.get(&number)? {
                Where::File(at) => self.at(*at)?,
                Where::Packed(content, at) => Lexer { bytes: content, at: *at, budget: &self.budget }.next()?,
            };
            match object {
                Object::Ref(next) => number = next,
                object => {
                    let object = Rc::new(object);
                    self.read.borrow_mut().insert(number, Rc::clone(&object));
                    return Some(object);
                }
            }
        }
        None
    }

    /// Follows a reference.
    pub(super) fn resolve<'o>(&self, object: &'o Object) -> Option<Found<'o>> {
        match object {
            Object::Ref(number) => self.object(*number).map(Found::There),
            object => Some(Found::Here(object)),
        }
    }

    /// Returns an entry of a dictionary, a reference followed.
    pub(super) fn get<'o>(&self, dict: &'o Dict, key: &[u8]) -> Option<Found<'o>> {
        self.resolve(dict.get(key)?)
    }

    /// Tells whether the file is encrypted.
    pub(super) fn is_encrypted(&self) -> bool {
        self.trailers.iter().any(|trailer| trailer.contains_key(&b"Encrypt"[..]))
    }

    /// Returns the document's first dictionary: what the last trailer names, else any catalogue.
    pub(super) fn catalogue(&self) -> Option<Rc<Object>> {
        let is_catalogue = |object: &Rc<Object>| object.dict().is_some_and(|dict| dict.contains_key(&b"Pages"[..]));
        let root = |trailer: &Dict| match trailer.get(&b"Root"[..]) {
            Some(Object::Ref(number)) => self.object(*number).filter(is_catalogue),
            _ => None,
        };
        let named = self.trailers.iter().rev().find_map(root);
        named.or_else(|| self.all_of(b"Catalog").into_iter().next_back())
    }

    /// Returns every object of a type, by number.
    pub(super) fn all_of(&self, kind: &[u8]) -> Vec<Rc<Object>> {
        let is_kind = |object: &Rc<Object>| {
            object.dict().is_some_and(|dict| dict.get(&b"Type"[..]).and_then(Object::name) == Some(kind))
        };
        self.objects.keys().filter_map(|number| self.object(*number)).filter(is_kind).collect()
    }

    /// Returns the data of a stream, decoded; `None` for what holds no text, such as images.
    pub(super) fn data(&self, object: &Object) -> Option<Vec<u8>> {
        if let Object::Stream(dict, data) = object { self.decoded(dict, *data) } else { None }
    }

    fn decoded(&self, dict: &Dict, data: usize) -> Option<Vec<u8>> {
        let length = self.get(dict, b"Length").and_then(|length| length.number()).unwrap_or(-1.0);
        let rest = &self.bytes[data..];
        let stated = (length >= 0.0).then_some(length as usize).filter(|length| {
            let behind = rest.get(*length..).unwrap_or_default();
            behind[..behind.len().min(20)].trim_ascii_start().starts_with(b"endstream")
        });
        let length = match stated {
            Some(length) => length,
            None => {
                // A file with wrong lengths pays for the search.
                let end = rest.windows(9).position(|window| window == b"endstream").unwrap_or(rest.len());
                if !self.budget.step(end / 16) {
                    return None;
                }
                end
            }
        };
        if !self.budget.step(1 + length / 64) {
            return None;
        }
        let mut bytes = rest[..length].to_vec();
        let filters = self.get(dict, b"Filter");
        let filters = filters.as_deref().map(list).unwrap_or_default();
        let parameters = self.get(dict, b"DecodeParms");
        let parameters = parameters.as_deref().map(list).unwrap_or_default();
        for (index, filter) in filters.iter().enumerate().take(4) {
            bytes = match self.resolve(filter)?.name()? {
                b"FlateDecode" | b"Fl" => self.inflated(&bytes)?,
                b"ASCIIHexDecode" | b"AHx" => from_hex(bytes.split(|byte| *byte == b'>').next().unwrap_or_default()),
                b"ASCII85Decode" | b"A85" => ascii85(&bytes),
                _ => return None,
            };
            let parameters = parameters.get(index).and_then(|object| self.resolve(object));
            if let Some(parameters) = parameters.as_deref().and_then(Object::dict) {
                let number = |key: &[u8]| self.get(parameters, key).and_then(|object| object.number());
                if number(b"Predictor").unwrap_or(1.0) >= 10.0 {
                    bytes = unpredicted(&bytes, number(b"Columns").unwrap_or(1.0) as usize)?;
                }
            }
        }
        Some(bytes)
    }

    /// Inflates as much as is there and as the budget has.
    fn inflated(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let room = self.budget.bytes.get();
        let mut inflated = Vec::new();
        // What came before an error counts: files are cut.
        let _ = flate2::read::ZlibDecoder::new(bytes).take(room as u64).read_to_end(&mut inflated);
        self.budget.bytes.set(room - inflated.len());
        (!inflated.is_empty()).then_some(inflated)
    }
}

/// Takes one object as a list of one.
fn list(object: &Object) -> &[Object] {
    match object {
        Object::Null => &[],
        Object::Array(items) => items,
        other => std::slice::from_ref(other),
    }
}
