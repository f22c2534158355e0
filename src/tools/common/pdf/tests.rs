//! Tests documents that are written here object by object, as programs write them and as nobody should.

use std::io::Write as _;

use super::*;

fn deflated(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn stream(dict: &str, data: &[u8]) -> Vec<u8> {
    [format!("<< {dict} /Length {} >>\nstream\n", data.len()).as_bytes(), data, b"\nendstream"].concat()
}

fn packed(contents: &str) -> Vec<u8> {
    stream("/Filter /FlateDecode", &deflated(contents.as_bytes()))
}

/// A file of these objects, numbered from 1; the first is the catalogue.
fn file(objects: &[Vec<u8>]) -> Vec<u8> {
    let mut file = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n".to_vec();
    for (number, object) in (1..).zip(objects) {
        file.extend(format!("{number} 0 obj\n").as_bytes());
        file.extend(object);
        file.extend(b"\nendobj\n");
    }
    file.extend(b"trailer\n<< /Root 1 0 R >>\nstartxref\n0\n%%EOF\n");
    file
}

/// A document of pages with these contents, all in one plain font.
fn pages(contents: &[&str]) -> Vec<u8> {
    let kids: Vec<String> = (0..contents.len()).map(|n| format!("{} 0 R", 4 + 2 * n)).collect();
    let mut objects: Vec<Vec<u8>> = vec![
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        format!(
            "<< /Type /Pages /Kids [{}] /Count {} /Resources << /Font << /F1 3 0 R >> >> >>",
            kids.join(" "),
            kids.len()
        )
        .into_bytes(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>".to_vec(),
    ];
    for (n, contents) in contents.iter().enumerate() {
        objects.push(format!("<< /Type /Page /Parent 2 0 R /Contents {} 0 R >>", 5 + 2 * n).into_bytes());
        objects.push(packed(contents));
    }
    file(&objects)
}

/// A document of one line a page.
pub(crate) fn of_lines(lines: &[&str]) -> Vec<u8> {
    let contents: Vec<String> = lines.iter().map(|line| format!("BT /F1 9 Tf ({line}) Tj ET")).collect();
    let contents: Vec<&str> = contents.iter().map(String::as_str).collect();
    pages(&contents)
}

fn read(bytes: &[u8]) -> Text {
    text(bytes, None, 100_000).unwrap()
}

#[test]
fn words_and_lines_stand_as_on_the_page() {
    let contents = "BT /F1 12 Tf 72 700 Td (Hello, w\\366rld \\(1\\)) Tj 0 -14 Td [(sec) -20 (ond) -400 (line)] TJ \
                    0 -40 Td <54686972 64> Tj T* 14 TL (x) ' ET \
                    q 1 0 0 1 10 0 cm BI /W 1 /H 1 ID \x01(EI\x02 EI Q BT /F1 10 Tf 1 0 0 1 72 600 Tm (end) Tj ET";
    let found = read(&pages(&[contents]));
    assert_eq!((found.total, found.unknown, found.gave_up), (1, 0, false));
    assert_eq!(found.pages, [(1, "Hello, wörld (1)\nsecond line\n\nThirdx\n\nend".replace("Thirdx", "Third\nx"))]);
}

#[test]
fn the_pages_that_are_asked_for_are_read() {
    let bytes = pages(&["BT /F1 9 Tf (one) Tj ET", "BT /F1 9 Tf (two) Tj ET", "BT /F1 9 Tf (three) Tj ET"]);
    let of = |wanted: &str, chars| text(&bytes, Some(&Wanted::parse(wanted).unwrap()), chars).unwrap().pages;
    assert_eq!(of("2", 100), [(2, "two".to_owned())]);
    assert_eq!(of("1,3-", 100), [(1, "one".to_owned()), (3, "three".to_owned())]);
    assert_eq!(of("1-9", 4), [(1, "one".to_owned()), (2, "two".to_owned())]);
    assert_eq!(of("7", 100), []);
    for wrong in ["", "0", "3-1", "a", "1;2", "-3"] {
        assert_eq!(Wanted::parse(wrong), None, "{wrong}");
    }
}

#[test]
fn a_composite_font_is_read_by_its_own_table() {
    let map = "begincmap 1 begincodespacerange <0000> <FFFF> endcodespacerange 1 beginbfchar <0003> <0047> endbfchar \
               2 beginbfrange <0010> <0012> <0061> <0020> <0021> [<00DF> <D83DDE00>] endbfrange endcmap";
    let bytes = file(&[
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_vec(),
        b"<< /Type /Page /Resources << /Font << /F 4 0 R >> >> /Contents [6 0 R 6 0 R] >>".to_vec(),
        b"<< /Type /Font /Subtype /Type0 /Encoding /Identity-H /ToUnicode 5 0 R /DescendantFonts [7 0 R] >>".to_vec(),
        packed(map),
        packed("BT /F 10 Tf 0 0 Td <0003001000110012> Tj <00200021FFFF> Tj ET"),
        b"<< /Type /Font /DW 500 /W [3 [600 600] 16 18 550] >>".to_vec(),
    ]);
    let found = read(&bytes);
    assert_eq!(found.pages[0].1.replace('\n', "|"), "Gabcß😀|Gabcß😀");
    assert_eq!(found.unknown, 2);
}

#[test]
fn packed_objects_forms_and_names_of_glyphs_are_read() {
    let inner = ["<< /Type /Pages /Kids [5 0 R] /Count 1 >>", "<< /Type /Page /Contents 7 0 R /Resources 6 0 R >>"];
    let resources = "<< /Font << /F << /Type /Font /Subtype /Type1 /Encoding << /Differences [1 /A /fi /eacute /uni20AC] >> >> >> /XObject << /X 8 0 R >> >>";
    let head = format!("4 0 5 {} 6 {} ", inner[0].len() + 1, inner[0].len() + inner[1].len() + 2);
    let body = format!("{head}{} {} {resources}", inner[0], inner[1]);
    let data = deflated(body.as_bytes());
    let bytes = file(&[
        b"<< /Type /Catalog /Pages 4 0 R >>".to_vec(),
        stream(&format!("/Type /ObjStm /N 3 /First {} /Filter [/FlateDecode]", head.len()), &data),
        b"null".to_vec(),
        b"4".to_vec(),
        b"5".to_vec(),
        b"6".to_vec(),
        packed("q /X Do Q"),
        stream("/Subtype /Form /Matrix [1 0 0 1 5 5] /Resources 6 0 R", b"BT /F 8 Tf (\\001\\002\\003\\004) Tj ET"),
    ]);
    // What is in the file later than the packed objects would win: take it out.
    let text_of = String::from_utf8_lossy(&bytes).into_owned();
    assert!(text_of.contains("4 0 obj\n4\n"));
    let mut own = bytes.clone();
    for number in ["4", "5", "6"] {
        let from = format!("{number} 0 obj\n{number}\nendobj\n");
        let at = own.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
        own.drain(at..at + from.len());
    }
    assert_eq!(read(&own).pages, [(1, "Aﬁé€".to_owned())]);
}

#[test]
fn a_damaged_file_gives_what_is_left_of_it() {
    let whole = pages(&["BT /F1 9 Tf (one) Tj ET", "BT /F1 9 Tf (two) Tj ET"]);
    for length in 0..whole.len() {
        let _ = text(&whole[..length], None, 100);
    }
    let found = read(&whole[..whole.len() - 60]);
    assert_eq!((found.total, found.pages[0].1.as_str()), (2, "one"));
    assert!(text(b"%PDF-1.4", None, 100).unwrap_err().contains("no page"));
    let encrypted = [&whole[..], b"trailer << /Encrypt 9 0 R >>"].concat();
    assert_eq!(text(&encrypted, None, 100).unwrap_err(), "it is encrypted");
}

#[test]
fn hostile_files_are_bounded() {
    // A circle of pages, and a page that is its own form, twice over.
    let circle = file(&[
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        b"<< /Type /Pages /Kids [2 0 R 3 0 R 3 0 R] >>".to_vec(),
        b"<< /Type /Page /Contents 4 0 R /Resources << /XObject << /X 4 0 R >> >> >>".to_vec(),
        stream("/Subtype /Form", b"BT (a) Tj ET /X Do /X Do"),
    ]);
    let found = within(&circle, None, 100, Budget::new(1 << 20, 50_000)).unwrap();
    assert_eq!((found.total, found.gave_up), (1, true));
    // A megabyte of zeros for each page, of which a kilobyte is in the file.
    let zeros = "\0".repeat(1 << 20);
    let bomb = pages(&[zeros.as_str(); 8]);
    assert!(bomb.len() < 20_000);
    assert!(within(&bomb, None, 100, Budget::new(2 << 20, STEPS)).unwrap().gave_up);
    // References to themselves, nesting without end, lengths that lie.
    for object in ["5 0 R", &"[".repeat(100_000), &"<<".repeat(100_000), "<< /Length 5 0 R >> stream"] {
        let mut bytes = pages(&["BT /F1 9 Tf (one) Tj ET"]);
        bytes.extend(format!("5 0 obj {object} endobj 9 0 obj << /Length 99999999999 >> stream").as_bytes());
        let found = within(&bytes, None, 100, Budget::new(1 << 20, 1_000_000));
        assert!(found.is_ok_and(|found| found.total == 1), "{}", &object[..5]);
    }
}

proptest::proptest! {
    #![proptest_config(crate::properties::tried(200))]
    #[test]
    fn no_bytes_make_it_panic(at in 0_usize..2_000, with in "[ -~\\x00-\\xff]{0,8}", tail in "[<>\\[\\]()/0-9 RobjstreamTdEI%#\\\\]{0,200}") {
        let mut bytes = pages(&["BT /F1 9 Tf 1 2 Td (one) Tj ET q Q"]);
        let at = at % bytes.len();
        bytes.splice(at..at, with.bytes());
        bytes.extend(tail.bytes());
        let _ = within(&bytes, None, 1_000, Budget::new(1 << 20, 200_000));
        let contents = pages(&[&tail]);
        let _ = within(&contents, None, 1_000, Budget::new(1 << 20, 200_000));
    }
}
