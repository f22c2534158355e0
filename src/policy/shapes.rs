//! Lists the forms of keys and tokens that are known by their beginning.

/// Shapes of tokens that are known by their beginning. ASCII classes: cheaper, and tokens are ASCII. None must begin a
/// word, as a token may stand behind `\n`, `%3D` or the code of a colour; `sk-` only not behind a vowel, as in `task-`.
pub(super) const SHAPES: &[(&str, &str)] = &[
    ("key", r"(?-u:(?:\b|[0-9A-Zb-df-hj-np-tv-z_])sk-(?:proj-|or-v1-|ant-|sp-)?[A-Za-z0-9_-]{20,200})"),
    ("github-token", r"(?-u:(?:gh[pousr]_[A-Za-z0-9]{30,255}|github_pat_[A-Za-z0-9_]{30,255}))"),
    ("gitlab-token", r"(?-u:glpat-[A-Za-z0-9_-]{20,100})"),
    ("aws-key", r"(?-u:(?:AKIA|ASIA)[A-Z0-9]{16}\b)"),
    ("google-key", r"(?-u:AIza[A-Za-z0-9_-]{35}\b)"),
    ("slack-token", r"(?-u:xox[abprs]-[A-Za-z0-9-]{10,250})"),
    ("npm-token", r"(?-u:npm_[A-Za-z0-9]{36}\b)"),
    ("stripe-key", r"(?-u:[sr]k_live_[A-Za-z0-9]{20,247}\b)"),
    ("sendgrid-key", r"(?-u:SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}\b)"),
    ("hugging-face-token", r"(?-u:hf_[A-Za-z0-9]{34,40}\b)"),
    ("pypi-token", r"(?-u:pypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{50,1000})"),
    ("docker-hub-token", r"(?-u:dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,60})"),
    ("shopify-token", r"(?-u:shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}\b)"),
    ("digitalocean-token", r"(?-u:do[opr]_v1_[a-f0-9]{64}\b)"),
    // The number of the bot is before it; without a literal beginning the whole search would be slower.
    ("telegram-token", r"(?-u::AA[A-Za-z0-9_-]{33}\b)"),
    ("gcp-service-account", r#""private_key_id": ?"(?-u:[a-f0-9]{40})""#),
    ("azure-storage-key", r"(?-u:AccountKey=[A-Za-z0-9+/]{86}==)"),
    ("jwt", r"(?-u:eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,})"),
    // Up to the next five dashes. Comments and diffs have signs before each line; with a bracket in it, it is code that writes or reads keys, unless
    // three lines of a key follow.
    (
        "private-key",
        r"-----BEGIN (?-u:[A-Z ]*)PRIVATE KEY(?: BLOCK)?-----(?:(?:[^(){}-]|-{1,4}[^(){}-])*?-{0,4}-----END (?-u:[A-Z ]*)PRIVATE KEY(?: BLOCK)?-----|[^\n]{0,20}\n(?:[^\n]{0,99}\n){0,6}?(?:[^\n]{0,16}?(?-u:[A-Za-z0-9+/=]{60,80})[^\n]{0,8}\n){3})",
    ),
];

#[cfg(test)]
mod tests {
    use crate::policy::redact::{FoundSecret, Kind, Secrets};

    #[test]
    fn tokens_are_known_by_their_shape_and_their_length() {
        let secrets = Secrets::new(&Default::default(), &[]).unwrap();
        let fill = |text: &str| {
            let mut filled = String::new();
            for piece in text.split('~') {
                let digits = piece.find(|c: char| !c.is_ascii_digit()).unwrap_or(piece.len());
                let (number, rest) =
                    if filled.is_empty() && !text.starts_with('~') { ("", piece) } else { piece.split_at(digits) };
                filled.extend((0..number.parse().unwrap_or(0_usize)).map(|at| char::from(b"a1b2c3d4e5"[at % 10])));
                filled.push_str(rest);
            }
            filled
        };
        // `~20` stands for twenty characters.
        for (kind, shown, not) in [
            ("stripe-key", ["sk_live_~24", "rk_live_~99"], ["sk_test_~24", "sk_live_~10"]),
            ("sendgrid-key", ["SG.~22.~43", "x=SG.~22.~43;"], ["SG.~21.~43", "SG.~22.~10"]),
            ("hugging-face-token", ["hf_~34", "hf_~37"], ["hf_~20", "xhf_~33"]),
            (
                "pypi-token",
                ["pypi-AgEIcHlwaS5vcmc~70", "pypi-AgEIcHlwaS5vcmc~150"],
                ["pypi-~70", "pypi-AgEIcHlwaS5vcmc~20"],
            ),
            ("docker-hub-token", ["dckr_pat_~27", "dckr_oat_~32"], ["dckr_pat_~5", "dckr_xat_~27"]),
            ("shopify-token", ["shpat_~32", "shpss_~32"], ["shpat_~31", "shpxx_~32"]),
            ("digitalocean-token", ["dop_v1_~64", "dor_v1_~64"], ["dop_v1_~60", "dox_v1_~64"]),
            ("telegram-token", ["123456789:AA~33", "bot1234567890:AA~33"], ["123456789:AA~32", "123456789:BB~33"]),
            (
                "gcp-service-account",
                ["\"private_key_id\": \"~40\"", "\"private_key_id\":\"~40\""],
                ["\"private_key_id\": \"~39\"", "\"key_id\": \"~40\""],
            ),
            ("azure-storage-key", ["AccountKey=~86==", "x;AccountKey=~86==;y"], ["AccountKey=~80==", "Key=~86=="]),
        ] {
            for text in shown.map(fill) {
                let found = secrets.all_in(&text);
                assert!(
                    matches!(found[..], [FoundSecret { kind: Kind::Shape(shape), .. }] if shape == kind),
                    "{text}: {found:?}"
                );
            }
            for text in not.map(fill) {
                assert!(secrets.all_in(&text).is_empty(), "{text}");
            }
        }
    }

    #[test]
    fn a_private_key_may_have_brackets_around_its_lines_and_code_about_keys_is_none() {
        let secrets = Secrets::new(&Default::default(), &[]).unwrap();
        let is_key = |text: &str| secrets.all_in(text).iter().any(|found| found.kind == Kind::Shape("private-key"));
        let line = "MIIE".repeat(16);
        for text in [
            format!("-----BEGIN RSA PRIVATE KEY-----\nComment: made by me (x)\n\n{line}\n{line}\n{line}\n"),
            format!("-----BEGIN PRIVATE KEY-----\n  f(\"{line}\"),\n  f(\"{line}\"),\n  f(\"{line}\"),\n"),
            format!("-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{line}\n=abcd\n-----END PGP PRIVATE KEY BLOCK-----\n"),
            format!("-----BEGIN PRIVATE KEY-----\n{line}\n-----END PRIVATE KEY-----\n"),
        ] {
            assert!(is_key(&text), "{text}");
        }
        for text in [
            "let begin = \"-----BEGIN PRIVATE KEY-----\";\nlet body = encode(key);\nlet end = \"-----END PRIVATE KEY-----\";\n",
            &format!("-----BEGIN PUBLIC KEY-----\n{line}\n{line}\n{line}\n-----END PUBLIC KEY-----\n"),
        ] {
            assert!(!is_key(text), "{text}");
        }
    }
}
