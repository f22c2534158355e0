//! Reads the fonts of a PDF: which text the codes of a page mean, and how wide they are.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::object::{Dict, File, Lexer, Object};

/// Codes that a font's own table may map.
const MAPPED: usize = 70_000;

/// Names of glyphs that are not one letter, with what they stand for.
const GLYPHS: &str = "exclam ! quotedbl \" numbersign # dollar $ percent % ampersand & quotesingle ' \
    parenleft ( parenright ) asterisk * plus + comma , hyphen - period . slash / zero 0 one 1 two 2 three 3 four 4 five 5 \
    six 6 seven 7 eight 8 nine 9 colon : semicolon ; less < equal = greater > question ? at @ bracketleft [ backslash \\ \
    bracketright ] asciicircum ^ underscore _ grave ` braceleft { bar | braceright } asciitilde ~ quoteleft ‘ quoteright ’ \
    quotedblleft “ quotedblright ” quotesinglbase ‚ quotedblbase „ endash – emdash — bullet • ellipsis … dagger † \
    daggerdbl ‡ minus − multiply × divide ÷ plusminus ± degree ° section § paragraph ¶ \
    copyright © registered ® trademark ™ Euro € sterling £ yen ¥ cent ¢ guillemotleft « guillemotright » germandbls ß \
    adieresis ä odieresis ö udieresis ü Adieresis Ä Odieresis Ö Udieresis Ü eacute é egrave è ecircumflex ê edieresis ë \
    aacute á agrave à acircumflex â aring å atilde ã ae æ ccedilla ç iacute í igrave ì icircumflex î idieresis ï ntilde ñ \
    oacute ó ograve ò ocircumflex ô otilde õ oslash ø oe œ uacute ú ugrave ù ucircumflex û yacute ý ydieresis ÿ \
    Eacute É Egrave È Aacute Á Agrave À Aring Å AE Æ Ccedilla Ç Ntilde Ñ Oslash Ø OE Œ scaron š Scaron Š zcaron ž Zcaron Ž \
    exclamdown ¡ questiondown ¿ mu µ periodcentered · dotlessi ı arrowright → arrowleft ← lessequal ≤ greaterequal ≥ \
    notequal ≠ alpha α beta β gamma γ delta δ epsilon ε theta θ lambda λ pi π sigma σ phi φ omega ω infinity ∞ summation ∑";

/// A font.
pub(super) struct Font {
    /// Whether each code is two bytes.
    two_bytes: bool,
    mapped: HashMap<u32, String>,
    /// What codes stand for where nothing maps them; for fonts of one byte.
    base: Option<[Option<char>; 256]>,
    widths: HashMap<u32, f64>,
    default_width: f64,
}

impl Font {
    /// A font that nothing is known of.
    pub(super) fn unknown() -> Font {
        Font {
            two_bytes: false,
            mapped: HashMap::new(),
            base: Some(standard()),
            widths: HashMap::new(),
            default_width: 500.0,
        }
    }

    /// Reads a font's dictionary.
    pub(super) fn read(file: &File<'_>, dict: &Dict) -> Font {
        let composite = file.get(dict, b"Subtype").is_some_and(|kind| kind.name() == Some(b"Type0"));
        let mut font = Font { two_bytes: composite, ..Font::unknown() };
        if composite {
            font.base = None;
            font.default_width = 1_000.0;
            if let Some(descendants) = file.get(dict, b"DescendantFonts")
                && let Some(first) = descendants.array().and_then(<[Object]>::first)
                && let Some(descendant) = file.resolve(first)
                && let Some(descendant) = descendant.dict()
            {
                font.read_composite_widths(file, descendant);
            }
        } else {
            font.base = Some(encoding(file, dict));
            font.read_widths(file, dict);
        }
        if let Some(map) = file.get(dict, b"ToUnicode").and_then(|map| file.data(&map)) {
            font.read_map(file, &map);
        }
        font
    }

    fn read_widths(&mut self, file: &File<'_>, dict: &Dict) {
        let first = file.get(dict, b"FirstChar").and_then(|first| first.number()).unwrap_or(0.0) as u32;
        let Some(widths) = file.get(dict, b"Widths") else { return };
        for (code, width) in (first..first.saturating_add(256)).zip(widths.array().unwrap_or_default()) {
            if let Some(width) = file.resolve(width).and_then(|width| width.number()) {
                self.widths.insert(code, width);
            }
        }
    }

    /// Widths of a composite font: `first [w w w]` or `first last w`, by glyph, which is mostly the code.
    fn read_composite_widths(&mut self, file: &File<'_>, dict: &Dict) {
        if let Some(width) = file.get(dict, b"DW").and_then(|width| width.number()) {
            self.default_width = width;
        }
        let Some(list) = file.get(dict, b"W") else { return };
        if !file.budget.step(list.array().map_or(0, <[Object]>::len)) {
            return;
        }
        let mut items = list.array().unwrap_or_default().iter();
        while let (Some(first), Some(second)) = (items.next(), items.next()) {
            let Some(first) = first.number() else { return };
            let Some(second) = file.resolve(second) else { return };
            let first = first as u32;
            if self.widths.len() > MAPPED {
                return;
            }
            match (&*second, second.array()) {
                (_, Some(widths)) => {
                    if !file.budget.step(widths.len()) {
                        return;
                    }
                    let widths = widths.iter().filter_map(Object::number).take(MAPPED);
                    self.widths.extend((first..).zip(widths));
                }
                (Object::Number(last), None) => {
                    let Some(width) = items.next().and_then(Object::number) else { return };
                    let last = (*last as u32).min(first.saturating_add(MAPPED as u32));
                    self.widths.extend((first..=last).map(|code| (code, width)));
                }
                _ => return,
            }
        }
    }

    /// Reads the table of a font that says which text its codes stand for.
    fn read_map(&mut self, file: &File<'_>, map: &[u8]) {
        let mut lexer = Lexer { bytes: map, at: 0, budget: &file.budget };
        let mut operands: Vec<Object> = Vec::new();
        while let Some(object) = lexer.next() {
            let Object::Keyword(word) = object else {
                operands.push(object);
                if operands.len() > 1_000 {
                    self.take(&mut operands, b"");
                }
                continue;
            };
            self.take(&mut operands, &word);
        }
    }

    fn take(&mut self, operands: &mut Vec<Object>, word: &[u8]) {
        let operands = std::mem::take(operands);
        let text = |object: &Object| match object {
            Object::Text(bytes) => Some(bytes.clone()),
            _ => None,
        };
        match word {
            b"endcodespacerange" => {
                let lengths: Vec<usize> = operands.iter().filter_map(|object| text(object).map(|t| t.len())).collect();
                if let Some(longest) = lengths.into_iter().max()
                    && self.base.is_none()
                {
                    self.two_bytes = longest >= 2;
                }
            }
            b"endbfchar" => {
                for pair in operands.chunks(2) {
                    if let [Object::Text(code), Object::Text(means)] = pair {
                        self.map(number(code), utf16(means));
                    }
                }
            }
            b"endbfrange" => {
                for range in operands.chunks(3) {
                    let [Object::Text(first), Object::Text(last), means] = range else { continue };
                    self.range(number(first), number(last), means);
                }
            }
            _ => {}
        }
    }

    /// Maps a range of codes, to the characters from one on or to one of each.
    fn range(&mut self, first: u32, last: u32, means: &Object) {
        match means {
            Object::Text(means) => {
                for (step, code) in (first..=last.min(first.saturating_add(0xffff))).enumerate() {
                    let mut means = means.clone();
                    let end = means.len().saturating_sub(2);
                    let unit = number(&means[end..]).wrapping_add(step as u32) as u16;
                    means.truncate(end);
                    means.extend(unit.to_be_bytes());
                    self.map(code, utf16(&means));
                }
            }
            Object::Array(each) => {
                for (code, means) in (first..=last).zip(each) {
                    if let Object::Text(means) = means {
                        self.map(code, utf16(means));
                    }
                }
            }
            _ => {}
        }
    }

    fn map(&mut self, code: u32, means: String) {
        if self.mapped.len() < MAPPED && means.len() <= 64 {
            self.mapped.insert(code, means);
        }
    }

    /// Passes on each code of a text: its meaning (`None` if unknown), its width in thousandths, and whether it is the
    /// one space at which words are spaced.
    pub(super) fn read_codes(&self, bytes: &[u8], mut each: impl FnMut(Option<&str>, f64, bool)) {
        let mut letter = [0; 4];
        for code in bytes.chunks(if self.two_bytes { 2 } else { 1 }) {
            let code = number(code);
            let width = self.widths.get(&code).copied().unwrap_or(self.default_width);
            let base = || self.base.and_then(|base| *base.get(code as usize)?);
            let is_blank = !self.two_bytes && code == 32;
            match (self.mapped.get(&code), base()) {
                (Some(means), _) => each(Some(means), width, is_blank),
                (None, Some(c)) => each(Some(c.encode_utf8(&mut letter)), width, is_blank),
                (None, None) => each(None, width, is_blank),
            }
        }
    }
}

fn number(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).fold(0, |number, byte| number << 8 | u32::from(*byte))
}

fn utf16(bytes: &[u8]) -> String {
    let units = bytes.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
    char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).filter(|c| *c != '\0').collect()
}

/// The encoding of fonts that name none, where it is not that of Windows.
fn standard() -> [Option<char>; 256] {
    let mut table = of_encoding(encoding_rs::WINDOWS_1252);
    for (code, c) in [
        (0x27, '’'),
        (0x60, '‘'),
        (0xaa, '“'),
        (0xba, '”'),
        (0xae, 'ﬁ'),
        (0xaf, 'ﬂ'),
        (0xb1, '–'),
        (0xb7, '•'),
        (0xd0, '—'),
    ] {
        table[code] = Some(c);
    }
    table
}

fn of_encoding(encoding: &'static encoding_rs::Encoding) -> [Option<char>; 256] {
    let mut table = [None; 256];
    for (code, place) in (0..=255_u8).zip(&mut table) {
        *place = encoding.decode_without_bom_handling(&[code]).0.chars().next().filter(|c| !c.is_control());
    }
    table
}

fn encoding(file: &File<'_>, dict: &Dict) -> [Option<char>; 256] {
    let named = |name: Option<&[u8]>| match name {
        Some(b"WinAnsiEncoding") => of_encoding(encoding_rs::WINDOWS_1252),
        Some(b"MacRomanEncoding") => of_encoding(encoding_rs::MACINTOSH),
        _ => standard(),
    };
    let Some(encoding) = file.get(dict, b"Encoding") else { return standard() };
    let Some(differs) = encoding.dict() else { return named(encoding.name()) };
    let mut table = named(file.get(differs, b"BaseEncoding").as_deref().and_then(Object::name));
    let differences = file.get(differs, b"Differences");
    let mut code = 0_usize;
    for item in differences.as_deref().and_then(Object::array).unwrap_or_default() {
        if !file.budget.step(1) {
            break;
        }
        match item {
            Object::Number(number) => code = *number as usize,
            Object::Name(name) => {
                if let Some(place) = table.get_mut(code) {
                    *place = glyph(name);
                }
                code = code.saturating_add(1);
            }
            _ => {}
        }
    }
    table
}

/// Returns what a glyph's name stands for.
fn glyph(name: &[u8]) -> Option<char> {
    let name = std::str::from_utf8(name).ok()?;
    let name = name.split('.').next().filter(|name| !name.is_empty())?;
    let mut letters = name.chars();
    if let (Some(letter), None) = (letters.next(), letters.next()) {
        return Some(letter);
    }
    for prefix in ["uni", "u"] {
        if let Some(code) = name.strip_prefix(prefix).filter(|code| (4..=6).contains(&code.len()))
            && let Some(c) = u32::from_str_radix(code, 16).ok().and_then(char::from_u32)
        {
            return Some(c);
        }
    }
    let ligature = match name {
        "fi" => Some('ﬁ'),
        "fl" => Some('ﬂ'),
        "ff" => Some('ﬀ'),
        "ffi" => Some('ﬃ'),
        "ffl" => Some('ﬄ'),
        "space" => Some(' '),
        _ => None,
    };
    if ligature.is_some() {
        return ligature;
    }
    static NAMED: LazyLock<HashMap<&str, char>> = LazyLock::new(|| {
        let mut words = GLYPHS.split_ascii_whitespace();
        std::iter::from_fn(|| Some((words.next()?, words.next()?.chars().next()?))).collect()
    });
    NAMED.get(name).copied()
}
