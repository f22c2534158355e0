//! Extracts the text of a PDF, page by page: enough for a model to read a document, with bounds on time and memory.
//!
//! Existing crates inflate without a limit, follow circles or include a rendering engine. Not supported: images (a scan
//! has no text here), encrypted files, LZW, and the order of columns.

mod filters;
mod font;
mod object;

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;
use std::rc::Rc;

use font::Font;
use object::{Budget, Dict, File, Lexer, Object};

/// Bytes that are inflated for one file.
const INFLATED: usize = 64 << 20;

/// Maximum objects and operators that are read of one file: a few seconds of work.
const STEPS: usize = 10_000_000;

/// Pages that are counted.
const PAGES: usize = 10_000;

/// Levels of the tree of pages, and of forms within forms.
const DEPTH: usize = 32;

/// Saved states of a page.
const SAVED: usize = 256;

/// Characters of one page.
const CHARS: usize = 200_000;

/// What was found in a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Text {
    /// How many pages it has.
    pub total: usize,
    /// The pages that were asked for, up to the one with which `chars` were reached, by number from 1.
    pub pages: Vec<(usize, String)>,
    /// Characters of which the file does not say what they are.
    pub unknown: usize,
    /// Whether the file asked for more work than it gets.
    pub gave_up: bool,
}

/// Pages by number: `3`, `1-5`, `10-`, and several of these with commas between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted(Vec<RangeInclusive<usize>>);

impl Wanted {
    /// Reads what a call says.
    pub fn parse(text: &str) -> Option<Wanted> {
        let number = |text: &str| text.trim().parse::<usize>().ok().filter(|number| *number > 0);
        let range = |part: &str| match part.split_once('-') {
            None => number(part).map(|page| page..=page),
            Some((first, last)) if last.trim().is_empty() => number(first).map(|first| first..=usize::MAX),
            Some((first, last)) => {
                number(first).zip(number(last)).filter(|(first, last)| first <= last).map(|(first, last)| first..=last)
            }
        };
        text.split(',').map(range).collect::<Option<Vec<_>>>().map(Wanted)
    }

    /// Tells whether a page is among them.
    pub fn has(&self, page: usize) -> bool {
        self.0.iter().any(|range| range.contains(&page))
    }
}

/// Reads the wanted pages, all if none are named, up to this many characters. `Err` says why there is no text.
pub fn text(bytes: &[u8], wanted: Option<&Wanted>, chars: usize) -> Result<Text, String> {
    within(bytes, wanted, chars, Budget::new(INFLATED, STEPS))
}

fn within(bytes: &[u8], wanted: Option<&Wanted>, chars: usize, budget: Budget) -> Result<Text, String> {
    let file = File::open(bytes, budget);
    if file.is_encrypted() {
        return Err("it is encrypted".into());
    }
    let mut pages = Vec::new();
    if let Some(catalogue) = file.catalogue()
        && let Some(Object::Ref(root)) = catalogue.dict().and_then(|dict| dict.get(&b"Pages"[..]))
    {
        collect(&file, *root, None, &mut HashSet::new(), 0, &mut pages);
    }
    if pages.is_empty() {
        // The tree of pages is broken: every object that says it is a page counts.
        let of_page = |page: Rc<Object>| Page { resources: Some(Rc::clone(&page)), page };
        pages = file.all_of(b"Page").into_iter().take(PAGES).map(of_page).collect();
    }
    let total = pages.len();
    if total == 0 {
        return Err("no page was found in it; the file may be damaged".into());
    }
    let mut found = Text { total, pages: Vec::new(), unknown: 0, gave_up: false };
    let mut shown = 0;
    let nothing = Dict::new();
    let mut fonts = HashMap::new();
    for (number, page) in (1..).zip(&pages) {
        if wanted.is_some_and(|wanted| !wanted.has(number)) {
            continue;
        }
        if shown >= chars || file.budget.is_spent() {
            break;
        }
        let mut writer = Writer { file: &file, fonts: &mut fonts, text: String::new(), unknown: 0, last: None };
        let holder = page.resources.as_deref().and_then(Object::dict);
        let resources = holder.and_then(|holder| file.get(holder, b"Resources"));
        let resources = resources.as_deref().and_then(Object::dict).unwrap_or(&nothing);
        let Some(dict) = page.page.dict() else { continue };
        writer.contents(&contents(&file, dict), resources, &State::default(), 0);
        let text = tidy(&writer.text);
        found.unknown += writer.unknown;
        shown += text.chars().count();
        found.pages.push((number, text));
    }
    found.gave_up = file.budget.is_spent();
    Ok(found)
}

/// A page, and what has its resources: itself, or a node above it.
struct Page {
    page: Rc<Object>,
    resources: Option<Rc<Object>>,
}

/// Collects the pages below a node. A node counts once, so that a circle ends.
fn collect(
    file: &File<'_>,
    node: u32,
    above: Option<&Rc<Object>>,
    seen: &mut HashSet<u32>,
    depth: usize,
    pages: &mut Vec<Page>,
) {
    if !seen.insert(node) || depth > DEPTH || pages.len() >= PAGES {
        return;
    }
    let Some(object) = file.object(node) else { return };
    let Some(dict) = object.dict() else { return };
    let resources = if dict.contains_key(&b"Resources"[..]) { Some(&object) } else { above };
    match file.get(dict, b"Kids") {
        Some(kids) => {
            for kid in kids.array().unwrap_or_default() {
                if let Object::Ref(kid) = kid {
                    collect(file, *kid, resources, seen, depth + 1, pages);
                }
            }
        }
        None => pages.push(Page { resources: resources.cloned(), page: Rc::clone(&object) }),
    }
}

fn contents(file: &File<'_>, page: &Dict) -> Vec<u8> {
    let Some(contents) = file.get(page, b"Contents") else { return Vec::new() };
    match contents.array() {
        None => file.data(&contents).unwrap_or_default(),
        Some(parts) => {
            let parts =
                parts.iter().take(1_000).filter_map(|part| file.resolve(part)).filter_map(|part| file.data(&part));
            parts.fold(Vec::new(), |mut whole, part| {
                whole.extend(part);
                whole.push(b'\n');
                whole
            })
        }
    }
}

/// Removes spaces at the ends of lines, and all but one of consecutive empty lines.
fn tidy(text: &str) -> String {
    let mut tidy = String::with_capacity(text.len());
    let mut empty = true;
    for line in text.lines().map(str::trim_end) {
        if line.is_empty() && empty {
            continue;
        }
        empty = line.is_empty();
        tidy.push_str(line);
        tidy.push('\n');
    }
    tidy.truncate(tidy.trim_end().len());
    tidy
}

/// How coordinates are turned: `[a b c d e f]`.
type Matrix = [f64; 6];

const IDENTITY: Matrix = [1.0, 0.0, 0.0, 1.0, 0.0, 0.0];

/// Does the first, then the second.
fn times(first: Matrix, then: Matrix) -> Matrix {
    let [a, b, c, d, e, f] = first;
    let [g, h, i, j, k, l] = then;
    [a * g + b * i, a * h + b * j, c * g + d * i, c * h + d * j, e * g + f * i + k, e * h + f * j + l]
}

/// What a page's operators set.
#[derive(Clone)]
struct State {
    place: Matrix,
    text: Matrix,
    line: Matrix,
    font: Option<Rc<Font>>,
    size: f64,
    leading: f64,
    letter_gap: f64,
    word_gap: f64,
}

impl Default for State {
    fn default() -> State {
        State {
            place: IDENTITY,
            text: IDENTITY,
            line: IDENTITY,
            font: None,
            size: 1.0,
            leading: 0.0,
            letter_gap: 0.0,
            word_gap: 0.0,
        }
    }
}

impl State {
    fn move_line(&mut self, x: f64, y: f64) {
        self.line = times([1.0, 0.0, 0.0, 1.0, x, y], self.line);
        self.text = self.line;
    }
}

/// Writes down the text of a page as its operators show it.
struct Writer<'a, 'f> {
    file: &'a File<'f>,
    fonts: &'a mut HashMap<u32, Rc<Font>>,
    text: String,
    unknown: usize,
    /// Where the last letter ended, and how tall it was.
    last: Option<(f64, f64, f64)>,
}

impl Writer<'_, '_> {
    fn contents(&mut self, bytes: &[u8], resources: &Dict, begin: &State, depth: usize) {
        let file = self.file;
        let mut lexer = Lexer { bytes, at: 0, budget: &file.budget };
        let mut state = begin.clone();
        let mut saved: Vec<State> = Vec::new();
        let mut operands: Vec<Object> = Vec::new();
        while let Some(object) = lexer.next() {
            let Object::Keyword(operator) = object else {
                // No operator takes more than a few.
                if operands.len() < 64 {
                    operands.push(object);
                }
                continue;
            };
            let number = |index: usize| operands.get(index).and_then(Object::number).unwrap_or(0.0);
            let matrix = || [number(0), number(1), number(2), number(3), number(4), number(5)];
            match &operator[..] {
                b"q" if saved.len() < SAVED => saved.push(state.clone()),
                b"Q" => state = saved.pop().unwrap_or(state),
                b"cm" => state.place = times(matrix(), state.place),
                b"BT" => (state.text, state.line) = (IDENTITY, IDENTITY),
                b"Tf" => {
                    if let Some(name) = operands.first().and_then(Object::name) {
                        state.font = self.font(resources, name);
                    }
                    state.size = number(1);
                }
                b"TL" => state.leading = number(0),
                b"Tc" => state.letter_gap = number(0),
                b"Tw" => state.word_gap = number(0),
                b"Td" => state.move_line(number(0), number(1)),
                b"TD" => {
                    state.leading = -number(1);
                    state.move_line(number(0), number(1));
                }
                b"Tm" => (state.text, state.line) = (matrix(), matrix()),
                b"T*" => state.move_line(0.0, -state.leading),
                b"Tj" => self.show(operands.first(), &mut state),
                b"'" => {
                    state.move_line(0.0, -state.leading);
                    self.show(operands.first(), &mut state);
                }
                b"\"" => {
                    (state.word_gap, state.letter_gap) = (number(0), number(1));
                    state.move_line(0.0, -state.leading);
                    self.show(operands.get(2), &mut state);
                }
                b"TJ" => self.show_all(operands.first().and_then(Object::array).unwrap_or_default(), &mut state),
                b"Do" if depth < DEPTH => self.form(operands.first(), resources, &state, depth),
                // An image in the contents: bytes up to a lone `EI`.
                b"ID" => lexer.skip_image(),
                _ => {}
            }
            operands.clear();
            if self.text.len() > CHARS * 4 {
                return;
            }
        }
    }

    /// Shows texts, with the gaps between them.
    fn show_all(&mut self, items: &[Object], state: &mut State) {
        for item in items {
            match item {
                Object::Number(back) => {
                    let shift = -back / 1_000.0 * state.size;
                    state.text = times([1.0, 0.0, 0.0, 1.0, shift, 0.0], state.text);
                }
                other => self.show(Some(other), state),
            }
        }
    }

    fn font(&mut self, resources: &Dict, name: &[u8]) -> Option<Rc<Font>> {
        let fonts = self.file.get(resources, b"Font")?;
        let entry = fonts.dict()?.get(name)?;
        let read = |file: &File<'_>| {
            let object = file.resolve(entry)?;
            Some(Rc::new(Font::read(file, object.dict()?)))
        };
        match entry {
            Object::Ref(number) => match self.fonts.get(number) {
                Some(font) => Some(Rc::clone(font)),
                None => {
                    let font = read(self.file)?;
                    self.fonts.insert(*number, Rc::clone(&font));
                    Some(font)
                }
            },
            // Read anew at each use, and paid for.
            _ => self.file.budget.step(1_000).then(|| read(self.file)).flatten(),
        }
    }

    /// Writes a form that the page shows, with its own fonts.
    fn form(&mut self, name: Option<&Object>, resources: &Dict, state: &State, depth: usize) {
        let Some(name) = name.and_then(Object::name) else { return };
        let forms = self.file.get(resources, b"XObject");
        let Some(entry) = forms.as_deref().and_then(Object::dict).and_then(|forms| forms.get(name)) else { return };
        let Some(form) = self.file.resolve(entry) else { return };
        let Some(dict) = form.dict() else { return };
        if self.file.get(dict, b"Subtype").is_none_or(|kind| kind.name() != Some(b"Form")) {
            return;
        }
        let Some(bytes) = self.file.data(&form) else { return };
        let own = self.file.get(dict, b"Resources");
        let own = own.as_deref().and_then(Object::dict).unwrap_or(resources);
        let mut begin = state.clone();
        if let Some(matrix) = self.file.get(dict, b"Matrix")
            && let Some(numbers) = matrix.array()
        {
            let mut own = IDENTITY;
            for (place, number) in own.iter_mut().zip(numbers) {
                *place = number.number().unwrap_or(*place);
            }
            begin.place = times(own, begin.place);
        }
        self.contents(&bytes, own, &begin, depth + 1);
    }

    fn show(&mut self, text: Option<&Object>, state: &mut State) {
        let Some(Object::Text(bytes)) = text else { return };
        if !self.file.budget.step(bytes.len()) {
            return;
        }
        let font = state.font.get_or_insert_with(|| Rc::new(Font::unknown()));
        let font = Rc::clone(font);
        font.read_codes(bytes, |means, width, is_blank| {
            if self.text.len() > CHARS * 4 {
                return;
            }
            let at = times(state.text, state.place);
            let height = (at[2].hypot(at[3]) * state.size).abs();
            self.separate(at[4], at[5], height);
            match means {
                Some(means) => {
                    self.text.push_str(means);
                }
                None => self.unknown += 1,
            }
            let gap = state.letter_gap + if is_blank { state.word_gap } else { 0.0 };
            state.text = times([1.0, 0.0, 0.0, 1.0, width / 1_000.0 * state.size + gap, 0.0], state.text);
            let end = times(state.text, state.place);
            self.last = Some((end[4], end[5], height));
        });
    }

    /// Writes a space or a line end where the page has a gap.
    fn separate(&mut self, x: f64, y: f64, height: f64) {
        let Some((last_x, last_y, last_height)) = self.last else { return };
        let tall = height.max(last_height).max(0.1);
        let down = (y - last_y).abs();
        if down > tall * 0.5 {
            self.text.push_str(if down > tall * 2.2 { "\n\n" } else { "\n" });
        } else if x < last_x - tall * 2.0 {
            self.text.push('\n');
        } else if x > last_x + tall * 0.15 && !self.text.ends_with([' ', '\n']) {
            self.text.push(' ');
        }
    }
}

#[cfg(test)]
pub mod tests;
